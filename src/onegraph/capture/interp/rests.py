"""What is left of an instruction when a method that it has called returns: `bool(x)` checks what `__bool__` gives.

A rest is data, so that an instruction can be finished in other code than that which began it: behind a graph break in
the method. Where there is more to do than to take the result, it is the text of a function of the result, which the
machine calls as well; or of one that catches what the call raises, or keeps nothing: there `inner()` is the call.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any

from onegraph.base.dataclass import dataclass
from onegraph.capture.bytecode.frame import NULL, Frame
from onegraph.capture.interp.lookup import type_name
from onegraph.capture.pyobject.exact_types import defines, isinstance

#: An instruction, or a native function with the number of arguments that it is called with.
Place = str | tuple[Callable[..., Any], int]
#: By place a function to finish it, or None for the result as it is.
Finish = Mapping[Place, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """How the instruction is finished, and the arguments of the function that does it."""

    finish: Finish
    values: tuple[Any, ...] = ()


class EXHAUSTED:
    """What the rest of FOR_ITER gives at the end of the loop."""


#: The argument of the instruction.
ARGUMENT: Any = None


def inner() -> Any:
    """Stands for the call; it is the first thing that a rest does. (Loops over iterators break behind a break.)"""
    raise NotImplementedError


def finish_of(rest: Rest, frame: Frame) -> FunctionType | str | None:
    """How `rest` finishes the instruction that runs in `frame`; the reason if it is not one of its own."""
    instr = frame.bytecode.instrs[frame.ip]
    finish: FunctionType | None
    if instr.op in rest.finish:
        finish = rest.finish[instr.op]
        return finish
    if instr.op in ("CALL", "CALL_KW"):
        count = instr.arg if instr.op == "CALL" else instr.arg[0]
        first, second = frame.stack[len(frame.stack) - count - 2 :][:2]
        for place, finish in rest.finish.items():
            if type(place) is tuple and place[1] == count:
                if (first is place[0] and second is NULL) or (second is place[0] and first is NULL):
                    return finish
    return "it is a part of another instruction"


def attribute_or(fallback: Any, obj: Any, name: str) -> Any:
    try:
        return inner()
    except AttributeError:
        pass
    return fallback(obj, name)


def truth(result: Any) -> bool:
    if type(result) is not bool:
        raise TypeError(f"__bool__ should return bool, returned {type_name(type(result))}")
    return result


def length(result: Any) -> int:
    result = operator.index(result)
    if result < 0:
        raise ValueError("__len__() should return >= 0")
    return len(range(result))


def truth_of_length(result: Any) -> bool:
    result = operator.index(result)
    if result < 0:
        raise ValueError("__len__() should return >= 0")
    return len(range(result)) != 0


def text(result: Any, name: str) -> str:
    if not isinstance(result, str):
        raise TypeError(f"{name} returned non-string (type {type_name(type(result))})")
    return result


def formatted(result: Any) -> str:
    if not isinstance(result, str):
        raise TypeError(f"__format__ must return a str, not {type_name(type(result))}")
    return result


def operated(result: Any, tries: tuple[tuple[Any, Any, Any], ...], message: str, same: bool | None) -> Any:
    """Of an operator or a comparison; where nothing answers, it is whether the objects are the same or an error."""
    while result is NotImplemented and tries:
        method, receiver, argument = tries[0]
        tries = tries[1:]
        result = method(receiver, argument)
    if result is not NotImplemented:
        return result
    if same is None:
        raise TypeError(message)
    return same


def unequal(result: Any, tries: tuple[tuple[Any, Any, Any], ...], same: bool) -> Any:
    """Of `!=` by `__eq__`."""
    if result is not NotImplemented:
        return not result
    while result is NotImplemented and tries:
        method, receiver, argument = tries[0]
        tries = tries[1:]
        result = method(receiver, argument)
    return same if result is NotImplemented else result


def contained(result: Any) -> bool:
    return True if result else False


def found(item: Any, refusal: str) -> bool:
    """Of the iterator of what has no `__contains__`; the `refusal` is what is said if it is none."""
    result: Any = None
    is_refused = False
    try:
        result = inner()
    except TypeError:
        is_refused = True
    if is_refused or not hasattr(type(result), "__next__"):
        raise TypeError(refusal)
    while True:
        try:
            candidate = next(result)
        except StopIteration:
            break
        if candidate is item or candidate == item:
            return True
    return False


class Answering:
    """An object with this hash, which `hash` refuses if it is no number."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __hash__(self) -> Any:
        return self.answer


def hashed(result: Any) -> int:
    return result if type(result) is int and 0 <= result <= sys.maxsize else hash(Answering(result))


def reduced(total: Any, function: Any, items: Any, index: int) -> Any:
    while index < len(items):
        item = items[index]
        index += 1
        total = function(total, item)
    return total


def ordered(result: Any, key: Any, items: list[Any], keys: list[Any], reverse: Any) -> list[Any]:
    keys = [*keys, result]
    while len(keys) < len(items):
        keys.append(key(items[len(keys)]))
    order = sorted(range(len(items)), key=keys.__getitem__, reverse=reverse)
    return list(map(items.__getitem__, order))


def extreme(result: Any, goes_before: Any, key: Any, items: list[Any], keys: list[Any], best: int) -> Any:
    """Each key is compared with that of the `best` item before the next one is asked for."""
    keys = [*keys, result]
    while True:
        if len(keys) > 1 and goes_before(keys[-1], keys[best]):
            best = len(keys) - 1
        if len(keys) == len(items):
            return items[best]
        keys.append(key(items[len(keys)]))


def iterator(result: Any) -> Any:
    if not defines(type(result), "__next__"):
        raise TypeError(f"iter() returned non-iterator of type '{type_name(type(result))}'")
    return result


def unpacked(result: Any) -> Iterator[Any]:
    """Of UNPACK_SEQUENCE, which then unpacks an iterator: no more items are taken than it looks at.

    Of a list it would tell how long that is.
    """
    if not defines(type(result), "__next__"):
        raise TypeError(f"iter() returned non-iterator of type '{type_name(type(result))}'")
    items: list[Any] = []
    while len(items) <= ARGUMENT:
        try:
            item = next(result)
        except StopIteration:
            break
        items.append(item)
    return iter(items)


def unpacked_on(items: list[Any], result: Any) -> Iterator[Any]:
    try:
        item = inner()
    except StopIteration:
        return iter(items)
    items.append(item)
    while len(items) <= ARGUMENT:
        try:
            item = next(result)
        except StopIteration:
            break
        items.append(item)
    return iter(items)


def indexed(result: Any, container: Any) -> Any:
    if not isinstance(result, int):
        raise TypeError(f"__index__ returned non-int (type {type_name(type(result))})")
    return container[result]


def item_or_end() -> Any:
    try:
        return inner()
    except StopIteration:
        pass
    return EXHAUSTED


def entered(leave: Any) -> tuple[Any, Any]:
    """The result stays in no variable: it may be dropped at once."""
    return inner(), leave


def constructed(made: Any, cls: type, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    initialize = type(made).__init__
    if issubclass(type(made), cls) and initialize is not object.__init__:  # which does nothing behind such a `__new__`
        result = initialize(made, *args, **keywords)
        if result is not None:
            raise TypeError(f"__init__() should return None, not '{type_name(type(result))}'")
    return made


def initialized(result: Any, made: Any) -> Any:
    if result is not None:
        raise TypeError(f"__init__() should return None, not '{type_name(type(result))}'")
    return made


def built(cell: Any, meta: Any, name: str, bases: Any, given: Any, namespace: Any, keywords: dict[str, Any]) -> Any:
    if bases is not given:
        namespace["__orig_bases__"] = given
    cls = meta(name, bases, namespace, **keywords)
    if cell is None or not isinstance(cls, type):
        return cls
    found, is_empty = None, False
    try:
        found = cell.cell_contents
    except ValueError:
        is_empty = True
    if is_empty:
        raise RuntimeError(
            f"__class__ not set defining {name!r} as {cls!r}. Was __classcell__ propagated to type.__new__?"
        )
    if found is not cls:
        raise TypeError(f"__class__ set to {found!r} defining {name!r} as {cls!r}")
    return cls


#: The call of a call instruction.
CALLED = Rest({"CALL": None, "CALL_KW": None, "CALL_FUNCTION_EX": None})
ATTRIBUTE = Rest(dict.fromkeys(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "LOAD_SUPER_METHOD", (getattr, 2))))
WRITTEN_ATTRIBUTE = Rest(dict.fromkeys(("STORE_ATTR", "DELETE_ATTR")))
ITEM = Rest(dict.fromkeys(("BINARY_SUBSCR", "LOAD_NAME")))
WRITTEN_ITEM = Rest(dict.fromkeys(("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_NAME", "DELETE_NAME")))
UNARY = Rest(dict.fromkeys(("UNARY_NEGATIVE", "UNARY_INVERT")))
TRUTH = Rest({"TO_BOOL": truth, (bool, 1): truth})
TRUTH_OF_LENGTH = Rest({"TO_BOOL": truth_of_length, (bool, 1): truth_of_length})
LENGTH = Rest({"GET_LEN": length, (len, 1): length})
FORMATTED = Rest(dict.fromkeys(("FORMAT_SIMPLE", "FORMAT_WITH_SPEC", (format, 1), (format, 2)), formatted))
CONTAINED = Rest({"CONTAINS_OP": contained})
ITERATOR = Rest({"GET_ITER": iterator, (iter, 1): iterator, "UNPACK_SEQUENCE": unpacked})
HASHED = Rest({(hash, 1): hashed})
NEXT = Rest({"FOR_ITER": item_or_end, (next, 1): None})
LEFT = Rest({"WITH_EXCEPT_START": None})

_ATTRIBUTE_OR: Finish = dict.fromkeys(("LOAD_ATTR", "LOAD_METHOD", (getattr, 2)), attribute_or)
_TEXTS: dict[str, Finish] = {
    "str": dict.fromkeys(("CONVERT_VALUE", "FORMAT_SIMPLE", (str, 1)), text),
    "repr": dict.fromkeys(("CONVERT_VALUE", (repr, 1)), text),
}
_OPERATED: Finish = {"BINARY_OP": operated, "COMPARE_OP": operated}
_UNEQUAL: Finish = {"COMPARE_OP": unequal}
_ENTERED: Finish = {"BEFORE_WITH": entered}
_UNPACKED_ON: Finish = {"UNPACK_SEQUENCE": unpacked_on}
_CONSTRUCTED: Finish = dict.fromkeys(CALLED.finish, constructed)
_FOUND: Finish = {"CONTAINS_OP": found}
_REDUCED: Finish = {(functools.reduce, 2): reduced, (functools.reduce, 3): reduced}
_ORDERED: Finish = {(sorted, 2): ordered, (sorted, 3): ordered}
_EXTREME: Mapping[Any, Finish] = {
    function: {(function, count): extreme for count in range(2, 8)} for function in (min, max)
}
_INDEXED: Finish = {"BINARY_SUBSCR": indexed}
_INITIALIZED: Finish = dict.fromkeys(CALLED.finish, initialized)
_BUILT: Finish = dict.fromkeys(CALLED.finish, built)


def attribute_rest(fallback: Any, obj: Any, name: str) -> Rest:
    """Of reading an attribute whose failure asks `__getattr__`, the fallback."""
    return Rest(_ATTRIBUTE_OR, (fallback, obj, name))


def text_rest(name: str, kind: str) -> Rest | None:
    """Of making a text by the method `name`."""
    return Rest(_TEXTS[kind], (name,)) if kind in _TEXTS else None


def binary_rest(tries: Iterable[tuple[Any, Any, Any]], message: str) -> Rest:
    """Of an operator: what else is tried, and the error if nothing answers."""
    return Rest(_OPERATED, (tuple(tries), message, None))


def compare_rest(op: str, by_equality: bool, a: Any, b: Any, tries: Iterable[Any], message: str) -> Rest:
    """Of a comparison; `by_equality` if `__eq__` is asked for `!=`."""
    same = (a is b) is (op == "==") if op in ("==", "!=") else None
    return Rest(_UNEQUAL, (tuple(tries), same)) if by_equality else Rest(_OPERATED, (tuple(tries), message, same))


def unpacking_rest(items: list[Any], iterator: Any) -> Rest:
    """Of the next item that is unpacked, behind these."""
    return Rest(_UNPACKED_ON, (items, iterator))


def finding_rest(item: Any, refusal: str) -> Rest:
    """Of looking for an item among those of an iterator; the `refusal` is what is said if it is none."""
    return Rest(_FOUND, (item, refusal))


def reducing_rest(function: Any, items: Any, index: int) -> Rest:
    """Of `functools.reduce` over a list or a tuple, behind the call for the item before this one."""
    return Rest(_REDUCED, (function, items, index))


def ordering_rest(key: Any, items: list[Any], keys: list[Any], reverse: Any) -> Rest:
    """Of `sorted`, behind the call that gives the key of the next item."""
    return Rest(_ORDERED, (key, items, keys, reverse))


def extreme_rest(function: Any, key: Any, items: list[Any], keys: list[Any], best: int) -> Rest:
    """The same of `min` or `max`, of which the item of this number is the best so far."""
    return Rest(_EXTREME[function], (operator.lt if function is min else operator.gt, key, items, keys, best))


def indexing_rest(container: Any) -> Rest:
    """Of reading the item of a sequence whose index says what number it is."""
    return Rest(_INDEXED, (container,))


def entering_rest(leave: Any) -> Rest:
    """Of entering a context, which `leave` leaves."""
    return Rest(_ENTERED, (leave,))


def built_rest(meta: Any, name: str, bases: Any, given: Any, namespace: Any, keywords: dict[str, Any]) -> Rest:
    """Of a class statement whose body runs; `given` are its bases as they are written."""
    return Rest(_BUILT, (meta, name, bases, given, namespace, keywords))


def constructing_rest(cls: type, args: tuple[Any, ...], keywords: dict[str, Any]) -> Rest:
    """Of the call of a class whose `__new__` is called."""
    return Rest(_CONSTRUCTED, (cls, args, keywords))


def made_rest(made: Any) -> Rest:
    """Of the call of a class whose `__init__` is called."""
    return Rest(_INITIALIZED, (made,))
