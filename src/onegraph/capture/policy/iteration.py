"""Functions over iterables: the items come from the tracer, and so do the comparisons and the keys."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import torch

from onegraph.capture.breaks import DATA_DEPENDENT_ORDER, GraphBreak
from onegraph.capture.policy.registry import policy
from onegraph.capture.recipes import recipe


@policy(sum)
def sum_(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    total = kwargs.get("start", args[1] if len(args) > 1 else 0)
    for item in tracer.iterate(args[0]):
        total = tracer.binary("+", total, item)
    return total


@policy(functools.reduce)
def reduce_(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    items = tracer.iterate(args[1])
    if len(args) > 2:
        total = args[2]
    else:
        total = next(items, reduce_)
        if total is reduce_:
            raise TypeError("reduce() of empty iterable with no initial value")
    for item in items:
        total = tracer.call(args[0], (total, item), {})
    return total


def _extreme(function: Any, symbol: str) -> None:
    @policy(function)
    def extreme(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        items = list(tracer.iterate(args[0])) if len(args) == 1 else list(args)
        if not items and "default" in kwargs:
            return kwargs["default"]
        if not items:
            raise ValueError(f"{function.__name__}() arg is an empty sequence")
        key = kwargs.get("key")
        keyed = [item if key is None else tracer.call(key, (item,), {}) for item in items]
        best = 0
        for index in range(1, len(items)):
            if ordered(tracer, function.__name__, symbol, keyed[index], keyed[best]):
                best = index
        return items[best]


_extreme(min, "<")
_extreme(max, ">")


class StandIn:
    """An iterator that calls the program's functions: what it stands for would not come back to the tracer."""

    __slots__ = ("function", "iterators", "tracer")
    kind: type

    def __init__(self, tracer: Any, function: Any, iterables: Any) -> None:
        self.tracer = tracer
        self.function = function
        self.iterators = [tracer.iter(iterable) for iterable in iterables]

    def __iter__(self) -> StandIn:
        return self

    def __next__(self) -> Any:
        raise NotImplementedError


class Mapped(StandIn):
    __slots__ = ()
    kind = map

    def __next__(self) -> Any:
        items = []
        for iterator in self.iterators:
            items.append(self.tracer.next(iterator))
        return self.tracer.call(self.function, tuple(items), {})


class Filtered(StandIn):
    __slots__ = ()
    kind = filter

    def __next__(self) -> Any:
        while True:
            item = self.tracer.next(self.iterators[0])
            if self.tracer.truth(item if self.function is None else self.tracer.call(self.function, (item,), {})):
                return item


@recipe(Mapped, Filtered)
def rebuild_stand_in(rebuild: Any, value: StandIn) -> str:
    parts = rebuild.values((value.function, *value.iterators))
    return rebuild.assign(f"{rebuild.const(value.kind)}({parts})")


@policy(map)
def map_(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) < 2 or kwargs:
        return map(*args, **kwargs)  # raises
    return Mapped(tracer, args[0], args[1:])


@policy(filter)
def filter_(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) != 2 or kwargs:
        return filter(*args, **kwargs)  # raises
    return Filtered(tracer, args[0], args[1:])


@policy(any)
def any_(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return any(tracer.truth(item) for item in tracer.iterate(args[0]))


@policy(all)
def all_(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return all(tracer.truth(item) for item in tracer.iterate(args[0]))


@policy(sorted)
def sorted_(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    items = list(tracer.iterate(args[0]))
    return sort(tracer, items, kwargs)


def ordered(tracer: Any, name: str, symbol: str, a: Any, b: Any) -> bool:
    """Whether a comparison holds; of tensors, it is not known."""
    answer = tracer.compare(symbol, a, b)
    if isinstance(answer, torch.Tensor):
        raise GraphBreak(DATA_DEPENDENT_ORDER, name=name)
    return bool(tracer.truth(answer))


@policy(list.sort)
def list_sort(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    container = tracer.world.realize(args[0])
    container[:] = sort(tracer, list(container), kwargs)


def sort(tracer: Any, items: list[Any], kwargs: dict[str, Any]) -> list[Any]:
    key = kwargs.get("key")
    less = functools.cmp_to_key(lambda a, b: -1 if ordered(tracer, "sort", "<", a[0], b[0]) else 0)
    keyed = [(item if key is None else tracer.call(key, (item,), {}), item) for item in items]
    reverse = kwargs.get("reverse", False)
    if not isinstance(reverse, bool):
        list.sort([], reverse=reverse)  # refuses what is no number
        reverse = tracer.truth(reverse)
    if all(type(entry[0]) in (int, float, str) for entry in keyed):
        keyed.sort(key=operator.itemgetter(0), reverse=reverse)
    else:
        keyed.sort(key=less, reverse=reverse)
    return [item for _, item in keyed]


@policy(math.prod)
def prod(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    total = kwargs.get("start", 1)
    for item in tracer.iterate(args[0]):
        total = tracer.binary("*", total, item)
    return total
