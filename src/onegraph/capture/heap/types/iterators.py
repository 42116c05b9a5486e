"""Native iterators that the trace has made: made again over the same container, at the same place.

One from outside tells nothing of its state: it is opaque here, and drawn from in `onegraph.capture.residual.iterators`.
"""

from __future__ import annotations

import gc
import operator
from collections.abc import Callable
from types import GeneratorType
from typing import Any

from onegraph.capture.breaks import CANNOT_REBUILD, GraphBreak
from onegraph.capture.calls import registry
from onegraph.capture.heap.type_rules import Rebuilding, TypeRule, rule_for
from onegraph.capture.heap.types.objects import with_attributes
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.pyobject.iterator_positions import EMPTY, ITERATORS, write_position

#: Iterators over dicts, their views and sets -> what makes one over the same container.
VIEW_ITERATORS: dict[type, Callable[[Any], Any]] = {
    type(over({})): over
    for over in (
        iter,
        lambda d: iter(d.values()),
        lambda d: iter(d.items()),
        reversed,
        lambda d: reversed(d.values()),
        lambda d: reversed(d.items()),
    )
} | {type(iter(set())): iter}


@rule_for(*set(registry.ITERATORS) - {*ITERATORS, *VIEW_ITERATORS, GeneratorType})
class Opaque(TypeRule):
    """One that does not tell what is left of it cannot be made again."""


@rule_for(*ITERATORS)
class Iterators(TypeRule):
    def rebuild(self, rebuild: Rebuilding, value: Any) -> str:
        cls = type(value)
        kind: Any = next(kind for kind in cls.__mro__ if kind in ITERATORS)
        function, args, *state = kind.__reduce__(value)
        if cls is not kind:  # calling it would run the program's own `__new__` and `__init__`
            return rebuild_subclass(rebuild, value, kind, args, state)
        if cls in EMPTY and function is iter and not state and len(args) == 1:  # at its end it reduces to another type
            return rebuild.assign(f"{rebuild.const(ended)}({rebuild.const(type(value))})")
        name = rebuild.assign(f"{rebuild.const(function)}({rebuild.values(args)})")
        if state and state[0] is not None:
            write_position(rebuild, name, value, state[0])
        return name


@rule_for(*VIEW_ITERATORS)
class ViewIterators(TypeRule):
    """An iterator over a dict, a view of one or a set: one that has gone as far over the same container."""

    def rebuild(self, rebuild: Rebuilding, value: Any) -> str:
        left = operator.length_hint(value)
        held = [item for item in gc.get_referents(value) if isinstance(item, dict | set | frozenset)]
        if held and isinstance(held[0], set | frozenset) and list(set(list(held[0]))) != list(held[0]):
            raise GraphBreak(CANNOT_REBUILD, what="iterator over a set whose order depends on its past")
        if not held:  # it has come to its end
            return rebuild.assign(f"{rebuild.const(iter)}({rebuild.const(())})")
        try:
            value.__reduce__()
        except RuntimeError as error:
            raise GraphBreak(CANNOT_REBUILD, what=f"iterator that fails: {error}") from None
        over, container = rebuild.const(VIEW_ITERATORS[type(value)]), rebuild.value(held[0])
        rebuild.settle(held[0])
        return rebuild.assign(f"{rebuild.const(advanced)}({over}({container}), {left})")


def rebuild_subclass(rebuild: Rebuilding, value: Any, kind: type, args: Any, state: list[Any]) -> str:
    cls = rebuild.value(type(value))
    name = rebuild.assign(f"{rebuild.const(kind)}.__new__({cls}, {rebuild.values(args)})")
    with_attributes(rebuild, value, name)
    if state and state[0] is not None:
        rebuild.late.append(f"{rebuild.const(kind)}.__setstate__({name}, {rebuild.value(state[0])})")
    return name


def ended(kind: type) -> Any:
    """An iterator of this type that has come to its end."""
    iterator = EMPTY[kind]()
    while next(iterator, ended) is not ended:
        pass
    return iterator


def advanced(iterator: Any, left: int) -> Any:
    """The iterator with so many items left."""
    while operator.length_hint(iterator) > left:
        next(iterator)
    return iterator
