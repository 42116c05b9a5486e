"""Holders of state: objects that a call may write to, what they hold, and how they are put back.

A holder lists its contents by the end of their path (`.weight`, `[0]`), and saves them: what `save` returns puts them
back. It is shallow; what is held is a holder of its own. The memory of tensors is saved by storage, see `snapshot.py`.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import CellType, MemberDescriptorType
from typing import Any, Protocol

import numpy
import torch

from onegraph.base.dataclass import dataclass

Contents = list[tuple[str, object]]
Restore = Callable[[], None]


class Holder(Protocol):
    """Something that a call may write to."""

    def contents(self) -> Contents: ...
    def save(self) -> Restore: ...


def replace_entries(target: dict[Any, Any], entries: Mapping[Any, Any]) -> None:
    """Make a dictionary hold these entries, in this order; one that does is not touched."""
    now = [(key, id(value)) for key, value in target.items()]
    if now != [(key, id(value)) for key, value in entries.items()]:
        target.clear()
        target.update(entries)


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list or a deque."""

    target: list[object] | deque[object]

    def contents(self) -> Contents:
        return [(f"[{number}]", value) for number, value in enumerate(self.target)]

    def save(self) -> Restore:
        before = list(self.target)

        def restore() -> None:
            if list(map(id, self.target)) != list(map(id, before)):
                self.target.clear()
                self.target.extend(before)

        return restore


@dataclass(frozen=True, slots=True)
class Fixed:
    """A tuple, a frozenset, the parts of a method or a partial: they hold others, and cannot be written to."""

    parts: tuple[tuple[str, object], ...]

    def contents(self) -> Contents:
        return list(self.parts)

    def save(self) -> Restore:
        return lambda: None


@dataclass(frozen=True, slots=True)
class Entries:
    """A dictionary; `is_named` if its keys are written like attributes."""

    target: dict[Any, Any]
    is_named: bool = False

    def contents(self) -> Contents:
        items = list(self.target.items())
        return [(f".{key}" if self.is_named else f"[{label(key)}]", value) for key, value in items]

    def save(self) -> Restore:
        before = dict(self.target)
        return lambda: replace_entries(self.target, before)


def label(key: object) -> str:
    return repr(key) if isinstance(key, str | bytes | int | float | bool | tuple | None) else type(key).__name__


@dataclass(frozen=True, slots=True)
class Members:
    """A set."""

    target: set[object]

    def contents(self) -> Contents:
        return [(f"{{{label(value)}}}", value) for value in self.target]

    def save(self) -> Restore:
        before = set(self.target)

        def restore() -> None:
            if self.target != before:
                self.target.clear()
                self.target.update(before)

        return restore


@dataclass(frozen=True, slots=True)
class Slots:
    """The attributes of an object that lie in slots of its class, and not in a dictionary."""

    target: object
    names: tuple[str, ...]

    def contents(self) -> Contents:
        return [(f".{name}", getattr(self.target, name)) for name in self.names if hasattr(self.target, name)]

    def save(self) -> Restore:
        before = {name: getattr(self.target, name) for name in self.names if hasattr(self.target, name)}

        def restore() -> None:
            for name in self.names:
                if name in before:
                    object.__setattr__(self.target, name, before[name])
                elif hasattr(self.target, name):
                    object.__delattr__(self.target, name)

        return restore


def slots_of(target: object) -> tuple[str, ...]:
    """The names of the slots of an object of a class of Python."""
    members = ((name, value) for cls in type(target).__mro__ for name, value in vars(cls).items())
    return tuple(dict.fromkeys(name for name, value in members if isinstance(value, MemberDescriptorType)))


@dataclass(frozen=True, slots=True)
class Variables:
    """The global variables that functions name, of one module."""

    target: dict[str, object]
    names: tuple[str, ...]

    def contents(self) -> Contents:
        return [(name, self.target[name]) for name in self.names if name in self.target]

    def save(self) -> Restore:
        before = {name: self.target[name] for name in self.names if name in self.target}

        def restore() -> None:
            for name in self.names:
                if name in before:
                    self.target[name] = before[name]
                else:
                    self.target.pop(name, None)

        return restore


@dataclass(frozen=True, slots=True)
class Cell:
    """A variable of a function around."""

    target: CellType

    def contents(self) -> Contents:
        with suppress(ValueError):  # it may be empty
            return [("", self.target.cell_contents)]
        return []

    def save(self) -> Restore:
        before = self.contents()

        def restore() -> None:
            if before:
                self.target.cell_contents = before[0][1]
            elif self.contents():
                del self.target.cell_contents

        return restore


@dataclass(frozen=True, slots=True)
class ClassAttributes:
    """The data in a class of the program."""

    target: type
    names: tuple[str, ...]

    def contents(self) -> Contents:
        held = vars(self.target)
        return [(f".{name}", held[name]) for name in self.names if name in held]

    def save(self) -> Restore:
        before = {name: vars(self.target)[name] for name in self.names}

        def restore() -> None:
            for name, value in before.items():
                if vars(self.target).get(name) is not value:
                    setattr(self.target, name, value)

        return restore


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """What a tensor has besides its elements: the memory that it is a view of, whether it is trained, its gradient."""

    target: torch.Tensor

    def contents(self) -> Contents:
        return [(".grad", self.target.grad)] if self.target.is_leaf and self.target.grad is not None else []

    def save(self) -> Restore:
        target, data = self.target, self.target.detach()
        trained, grad = target.requires_grad, target.grad if target.is_leaf else None

        def restore() -> None:
            if not is_view_of_same(target, data):
                target.data = data
            if target.is_leaf:
                if target.requires_grad != trained:
                    target.requires_grad_(trained)
                if target.grad is not grad:
                    target.grad = grad

        return restore


def is_view_of_same(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether both are the same elements of the same memory. Tensors without memory of their own are not compared."""
    if left.layout is not torch.strided or left.shape != right.shape or left.dtype != right.dtype:
        return left.layout is not torch.strided
    if left.stride() != right.stride():
        return False
    with suppress(RuntimeError, NotImplementedError):
        return left.data_ptr() == right.data_ptr()
    return True


@dataclass(frozen=True, slots=True)
class Settable:
    """What has its state as one value: generators of random numbers, arrays, arrays of bytes."""

    get: Callable[[], object]
    put: Callable[[object], object]

    def contents(self) -> Contents:
        return [(" (its state)", self.get())]

    def save(self) -> Restore:
        before = self.get()
        return lambda: void(self.put(before))


def void(_: object) -> None:
    """A statement in the place of an expression."""


def settable(target: object) -> Settable | None:
    """The holder of an object whose state is one value, if it is one."""
    match target:
        case torch.Generator():
            return Settable(target.get_state, target.set_state)  # type: ignore[arg-type]
        case random.Random():
            return Settable(target.getstate, target.setstate)  # type: ignore[arg-type]
        case numpy.random.Generator():
            bits = target.bit_generator
            return Settable(lambda: bits.state, lambda state: setattr(bits, "state", state))
        case numpy.ndarray() if target.flags.writeable and not target.dtype.hasobject:
            return Settable(target.copy, lambda values: numpy.copyto(target, values))  # type: ignore[arg-type]
        case bytearray():
            return Settable(lambda: bytes(target), lambda values: target.__setitem__(slice(None), values))  # type: ignore[call-overload]
    return None


def named_parts(prefix: str, values: Iterable[object]) -> tuple[tuple[str, object], ...]:
    return tuple((f"{prefix}[{number}]", value) for number, value in enumerate(values))
