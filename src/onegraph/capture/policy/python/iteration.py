"""Functions over iterables: the items come from the tracer, and so do the comparisons and the keys."""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import operator
from collections.abc import Iterator
from typing import Any

import torch

from onegraph.capture.breaks import DATA_DEPENDENT_ORDER, OUTSIDE_ITERATOR, GraphBreak
from onegraph.capture.bytecode.refusals import refusal
from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.heap.tensor_texts import refuse_marked
from onegraph.capture.heap.type_rules import Rebuilding, TypeRule, rule_for
from onegraph.capture.interp.rests import extreme_rest, ordering_rest, reducing_rest
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.pyobject.native_iterators import REDUCED
from onegraph.capture.symbolic.arithmetic import NUMBERS


def items_of(tracer: Tracing, obj: Any, refusal: str) -> Iterator[Any]:
    """The items of an argument; native code has words of its own for one that cannot be iterated over."""
    with contextlib.suppress(TypeError):
        return tracer.drawn(tracer.iter(obj))
    raise TypeError(refusal)


@policy(functools.reduce)
def reduce_(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    items = items_of(tracer, args[1], "reduce() arg 2 must support iteration")
    if len(args) > 2:
        total = args[2]
    else:
        total = next(items, reduce_)
        if total is reduce_:
            raise TypeError("reduce() of empty iterable with no initial value")
    known = type(args[1]) in (list, tuple)
    for index, item in enumerate(items, 1 if len(args) > 2 else 2):
        rest = reducing_rest(args[0], args[1], index) if known else None
        total = tracer.call(args[0], (total, item), {}, rest)
    return total


def _extreme(function: Any, symbol: str) -> None:
    @policy(function)
    def extreme(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Each item is compared before the next one is drawn, but for numbers, which nobody sees compared."""
        key, known = kwargs.get("key"), args if len(args) > 1 else args[0]
        all_items = list(known) if type(known) in (list, tuple) else None
        items: list[Any] = []
        keys: list[Any] = []
        best, compared = 0, 1

        def compare() -> None:
            nonlocal best, compared
            while compared < len(keys):
                if ordered(tracer, function.__name__, symbol, keys[compared], keys[best]):
                    best = compared
                compared += 1

        for item in tracer.iterate(known):
            items.append(item)
            rest = None if key is None or all_items is None else extreme_rest(function, key, all_items, keys[:], best)
            keys.append(item if key is None else tracer.call(key, (item,), {}, rest))
            if not isinstance(keys[-1], NUMBERS):
                compare()
        if not items and "default" in kwargs:
            return kwargs["default"]
        if not items:
            raise ValueError(f"{function.__name__}() arg is an empty sequence")
        if key is None and len(items) > 1 and tracer.numbers.is_symbolic(*items):
            return tracer.numbers.computed(function, *items)
        compare()
        return items[best]


_extreme(min, "<")
_extreme(max, ">")


class StandIn:
    """An iterator of ours in the place of a native one, whose kind it has for the program."""

    kind: type

    def __iter__(self) -> StandIn:
        return self

    def __next__(self) -> Any:
        raise NotImplementedError

    def copied(self) -> StandIn:
        """What `copy.copy` gives. (Native code asks for `__copy__`, which the native iterators have not.)"""
        raise hidden(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise hidden(self)

    def __repr__(self) -> str:
        raise hidden(self)


def hidden(iterator: StandIn) -> GraphBreak:
    """The graph break of native code that looks for the state of an iterator."""
    return GraphBreak(OUTSIDE_ITERATOR, what=f"a {qualified(iterator.kind)}")


def qualified(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


class Calling(StandIn):
    """An iterator that calls a function of the program: what it stands for would not come back to the tracer."""

    def __init__(self, tracer: Tracing, function: Any, iterators: list[Any]) -> None:
        self.tracer = tracer
        self.function = function
        self.iterators = iterators

    def copied(self) -> Calling:
        return type(self)(self.tracer, self.function, self.iterators)


class Mapped(Calling):
    kind = map

    def __next__(self) -> Any:
        items = []
        for iterator in self.iterators:
            items.append(self.tracer.next(iterator))
        return self.tracer.call(self.function, tuple(items), {})


class Filtered(Calling):
    kind = filter

    def __next__(self) -> Any:
        while True:
            item = self.tracer.next(self.iterators[0])
            if self.tracer.truth(item if self.function is None else self.tracer.call(self.function, (item,), {})):
                return item


@rule_for(Mapped, Filtered)
class CallingRule(TypeRule):
    def rebuild(self, rebuild: Rebuilding, value: Calling) -> str:
        parts = rebuild.values((value.function, *value.iterators))
        return rebuild.assign(f"{rebuild.const(value.kind)}({parts})")


@policy(map)
def map_(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) < 2 or kwargs:
        return map(*args, **kwargs)  # raises
    return Mapped(tracer, args[0], [tracer.iter(iterable) for iterable in args[1:]])


@policy(filter)
def filter_(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) != 2 or kwargs:
        return filter(*args, **kwargs)  # raises
    return Filtered(tracer, args[0], [tracer.iter(args[1])])


class Calls:
    """A function of the program that native code calls: the call comes back to the tracer.

    Native code may compare what it is given.
    """

    __slots__ = ("function", "tracer")

    def __init__(self, tracer: Tracing, function: Any) -> None:
        self.tracer = tracer
        self.function = function

    def __call__(self, *args: Any) -> Any:
        return self.tracer.world.filled(self.tracer.call(self.function, args, {}))


class Asks(Calls):
    """A predicate of the program that native code calls."""

    __slots__ = ()

    def __call__(self, *args: Any) -> bool:
        return bool(self.tracer.truth(super().__call__(*args)))


@rule_for(Calls)
class CallsRule(TypeRule):
    def rebuild(self, rebuild: Rebuilding, value: Calls) -> str:
        return rebuild.value(value.function)


#: Iterators that call a function of the program -> which argument it is, its name if any, and what stands for it.
CALLING: dict[type, tuple[int, str | None, type[Calls]]] = {
    type(iter(int, 0)): (0, None, Calls),
    itertools.accumulate: (1, "func", Calls),
    itertools.dropwhile: (0, None, Asks),
    itertools.filterfalse: (0, None, Asks),
    itertools.groupby: (1, "key", Calls),
    itertools.starmap: (0, None, Calls),
    itertools.takewhile: (0, None, Asks),
}


def _over(kind: Any, index: int, name: str | None, calls: type[Calls]) -> None:
    """Such an iterator calls what stands for the function, and says of itself that it calls the function."""

    @policy(kind)
    def make(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) > index and args[index] is not None:
            args = (*args[:index], calls(tracer, args[index]), *args[index + 1 :])
        elif name is not None and kwargs.get(name) is not None:
            kwargs = {**kwargs, name: calls(tracer, kwargs[name])}
        return tracer.run_native(kind, args, kwargs)

    if kind not in REDUCED:
        return

    @policy(kind.__reduce__)
    def reduce(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        function, made_of, *state = tracer.run_native(kind.__reduce__, args, kwargs)
        return function, tuple(part.function if isinstance(part, Calls) else part for part in made_of), *state


for _kind, _function in CALLING.items():
    _over(_kind, *_function)


@policy(iter)
def iter_(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) == 1 and not kwargs:
        return tracer.iter(args[0])
    if len(args) != 2 or kwargs or not callable(args[0]):
        return iter(*args, **kwargs)
    return tracer.run_native(iter, (Calls(tracer, args[0]), tracer.world.filled(args[1])), kwargs)


@policy(object.__reduce_ex__)
def reduce_ex(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    value, *protocol = args
    if isinstance(value, tuple(CALLING)) and isinstance(value, REDUCED):
        return tracer.call(tracer.getattr(value, "__reduce__"), (), {})
    return tracer.run_native(object.__reduce_ex__.__get__(tracer.world.realize(value)), tuple(protocol), kwargs)


@policy(collections._count_elements)  # type: ignore[attr-defined]
def count_elements(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    counts, items = args
    count = collections._count_elements  # type: ignore[attr-defined]
    tracer.run_native(count, (counts, list(tracer.iterate(items))), kwargs)


@policy(sorted)
def sorted_(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    iterator = tracer.iter(args[0])
    tracer.ask_length(args[0])
    items = list(tracer.drawn(iterator))
    return sort(tracer, items, kwargs)


def ordered(tracer: Tracing, name: str, symbol: str, a: Any, b: Any) -> bool:
    """Whether a comparison holds; of tensors, it is not known."""
    answer = tracer.compare(symbol, a, b)
    if isinstance(answer, torch.Tensor):
        raise GraphBreak(DATA_DEPENDENT_ORDER, name=name)
    return bool(tracer.truth(answer))


#: Types whose comparison with themselves and each other is native.
PLAIN = (int, float, str)


#: Whether anything may be given as `reverse`.
ASKS_TRUTH = not refusal(functools.partial(list.sort, [], reverse=""))


def reversed_by(tracer: Tracing, reverse: Any) -> Any:
    """Whether a list is sorted in reverse, which is asked once: of a number or, from Python 3.12 on, of anything."""
    if not (ASKS_TRUTH or isinstance(reverse, bool | torch.SymBool)):
        reverse = tracer.call(operator.index, (reverse,), {})
        list.sort([], reverse=reverse)  # refuses what is too large
    return tracer.truth(reverse)


def ranks(tracer: Tracing) -> Any:
    """The class of keys that the tracer compares."""

    def compared(a: Any, b: Any) -> int:
        refuse_marked(a, b)
        known = type(a) in PLAIN and type(b) in PLAIN
        return -1 if (a < b if known else ordered(tracer, "sort", "<", a, b)) else 0

    return functools.cmp_to_key(compared)


@policy(list.sort)
def list_sort(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """In its place, natively: the keys and the comparisons see the list empty, and must not write to it."""
    items, key = tracer.world.realize(args[0]), kwargs.get("key")
    reverse = reversed_by(tracer, kwargs.get("reverse", False))
    if key is None and all(type(item) in PLAIN for item in items):
        refuse_marked(*items)
        return list.sort(items, reverse=reverse)
    rank = ranks(tracer)
    list.sort(items, key=rank if key is None else lambda item: rank(tracer.call(key, (item,), {})), reverse=reverse)


def sort(tracer: Tracing, items: list[Any], kwargs: dict[str, Any]) -> list[Any]:
    key = kwargs.get("key")
    reverse, keys = reversed_by(tracer, kwargs.get("reverse", False)), items if key is None else []
    for item in items if key is not None else ():
        keys.append(tracer.call(key, (item,), {}, ordering_rest(key, items, list(keys), reverse)))
    refuse_marked(*keys)
    plain = all(type(each) in PLAIN for each in keys)
    rank = (lambda each: each) if plain else ranks(tracer)
    keyed = sorted(zip(keys, items, strict=True), key=lambda entry: rank(entry[0]), reverse=reverse)
    return [item for _, item in keyed]
