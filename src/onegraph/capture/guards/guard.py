"""Guards: what a compiled frame assumes of the world.

A guard is a fact about the value at a source, with the user's line that made the trace depend on it. What assembles
them into a program is `onegraph.capture.guards.program`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

import torch

from onegraph import _C
from onegraph.base.events import Location
from onegraph.capture.guards.predicates import Predicate
from onegraph.capture.guards.source import (
    Globals,
    Source,
    written,
)
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.pyobject.value_text import short
from onegraph.capture.pyobject.weakly_known import Named

Kind = Literal[
    "is",
    "type",
    "equal",
    "length",
    "keys",
    "same",
    "different",
    "tensor",
    "has",
    "lacks",
    "lacks_attr",
    "check",
    "together",
    "memory",
    "class",
    "names",
]


@dataclass(frozen=True, slots=True)
class Guard:
    """One fact: `kind` of the value at `source` against `arg`: a constant, or for "same" another source.

    Of the kind "different", `arg` is the sources of values of which it is none; of the kind "together", it is the
    other sources, and a predicate of all the values, as nested pairs; of the kind "memory", the other sources, and how
    all the tensors lie to each other. Of the kind "class", the class is as `heap.class_facts.AsDefined` says; of the
    kind "names", the names of a module as `heap.bound_names.AsBound` does.
    """

    source: Source
    kind: Kind
    arg: Any
    location: Location | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return guard_text(self)


def guard_text(guard: Guard) -> str:
    """The guard as the condition that a person would write."""
    what, arg = written(guard.source), guard.arg
    match guard.kind:
        case "type":
            return f"type({what}) is {type_text(arg)}"
        case "is":
            return f"{what} is {short(arg)}"
        case "equal":
            return f"{what} == {short(arg)}"
        case "length":
            return f"len({what}) == {arg}"
        case "keys":
            return f"list({what}) == {short(list(arg))}"
        case "same":
            return f"{what} is {written(arg)}"
        case "different":
            return f"{what} is {others_text(arg)}"
        case "tensor":
            return f"{what} is {tensor_text(arg)}"
        case "has" | "lacks" if isinstance(guard.source, Globals):
            return f"{arg} is {'a' if guard.kind == 'has' else 'no'} global of {guard.source.module}"
        case "has":
            return f"{short(arg)} in {what}"
        case "lacks":
            return f"{short(arg)} not in {what}"
        case "lacks_attr":
            return f"not hasattr({what}, {arg!r})"
        case "check":
            return arg.text(what) if isinstance(arg, Predicate) else f"{what} satisfies {getattr(arg, '__name__', arg)}"
        case "together":
            others, predicate = arg
            return predicate.text(what, *map(written, others))
        case "memory":
            others, memory = arg
            return memory_text(memory, [what, *map(written, others)])
        case "class":
            return f"the class {what} is as it was"
        case "names":
            return str(arg)
        case _:
            assert_never(guard.kind)


def others_text(others: Sequence[Source]) -> str:
    """What a value is not: one other value, or none of several."""
    if len(others) == 1:
        return f"not {written(others[0])}"
    shown = ", ".join(map(written, others[:SHOWN]))
    return f"none of {shown}{f' and {len(others) - SHOWN} others' if len(others) > SHOWN else ''}"


def tensor_text(spec: _C.TensorSpec) -> str:
    """What a tensor has to be, in a line; None for a size or stride that may be any."""
    kind = "tensor" if spec.type is torch.Tensor else spec.type.__name__
    sizes, strides = (anything(numbers) for numbers in (spec.sizes, spec.strides or ()))
    grad = " that requires grad" if spec.requires_grad else ""
    layout = f" and strides {strides}" if spec.strides else ""
    return f"a {spec.dtype.removeprefix('torch.')} {kind} on {spec.device} of size {sizes}{layout}{grad}"


def memory_text(memory: _C.Memory, names: Sequence[str]) -> str:
    """Which of the tensors with these names overlap."""
    written_to = " and ".join(names[index] for index in memory.written)
    meetings = ", ".join(f"{names[a]} with {names[b]}" for a, b in memory.meetings)
    return f"{written_to} in memory: {f'{meetings}, as before' if meetings else 'apart from other inputs'}"


def anything(numbers: Sequence[int | None]) -> str:
    return "[" + ", ".join("any" if number is None else str(number) for number in numbers) + "]"


def type_text(cls: type | Named) -> str:
    if isinstance(cls, Named):
        return cls.text
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


#: How many values a text names of those that another one is not.
SHOWN = 3
#: Kinds of which one value may have several, with different arguments.
SEVERAL = frozenset({"same", "different", "lacks", "has", "lacks_attr", "check", "together"})


class GuardSet:
    """The guards of one trace, in the order in which they were found, without repetition."""

    def __init__(self) -> None:
        self._guards: dict[object, Guard] = {}

    def add(self, guard: Guard) -> None:
        key = (guard.source, guard.kind, guard.arg if guard.kind in SEVERAL else None)
        self._guards.setdefault(key, guard)

    def __iter__(self):
        return iter(self._guards.values())

    def __len__(self) -> int:
        return len(self._guards)


@dataclass(frozen=True, slots=True)
class ShapeCondition:
    """A condition over integers, as postfix steps for the integer registers: see `onegraph.capture.symbolic.shapes`."""

    steps: tuple[tuple[Any, ...], ...]
    text: str
    location: Location | None = None
