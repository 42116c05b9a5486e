"""Which variables keep their values behind a graph break though nothing reads them again.

In eager mode a value lives as long as its variable. Where the program sees the end of it, or of what it holds, it must
live so long in compiled code too: a generator that waits in a `try`, an object with a finalizer or with weak references
to it. A list, an object or a generator that the program can still reach may come to hold one.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from types import FunctionType, ModuleType, TracebackType
from typing import Any

import torch

from onegraph.capture.bytecode.flow import live_names
from onegraph.capture.drops import SEARCHED, referents
from onegraph.capture.interp.frame import Frame
from onegraph.capture.kinds import isinstance
from onegraph.capture.suspended import waiting_in
from onegraph.capture.unread import Unread, as_it_is
from onegraph.capture.world import World

#: The flag of types whose objects can hold others.
HAVE_GC = 1 << 14
#: Objects that hold too much to matter, or nothing that the program sees dying.
_CLOSED = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool, type, ModuleType)


class Lifetimes:
    """Tells which values live as long as their variables; `reaches` are those that the program has in another way."""

    def __init__(self, world: World, reaches: Callable[[Any], bool]) -> None:
        self.world = world
        self.reaches = reaches

    def keeps(self, value: Any) -> bool:
        """Whether a variable that is not read again goes on holding the value.

        Such a value costs nothing: it is from outside, made behind the graph anyway, or its end is seen. (Torch has
        references of its own class to tensors.)
        """
        real = value.value if type(value) is Unread else self.world.real(value)
        if isinstance(real, torch.Tensor):
            return any(type(reference) is weakref.ref for reference in weakref.getweakrefs(real))
        if type(value) is Unread:
            return can_hold(real)
        if can_hold(value) and (self.world.is_outside(value) or self.reaches(value)):
            return True
        return next(waiting_in(value, later=True, is_watched=self.world.is_watched), None) is not None


class Reached:
    """What the frames of a trace reach, but for the variables that they do not read again."""

    def __init__(self, frames: Sequence[Frame], written: Iterable[Any]) -> None:
        self.frames = frames
        self.written = written

    def __call__(self, value: Any) -> bool:
        return id(value) in self._identities

    @cached_property
    def _identities(self) -> set[int]:
        todo = [*self.written]
        for frame in self.frames:
            live = live_names(frame.bytecode)[frame.ip]
            todo += [as_it_is(frame.locals, name) for name in frame.locals if name in live]
            todo += [*frame.stack, *frame.cells.values(), frame.handled]
        seen = set[int]()
        while todo and len(seen) < SEARCHED:
            value = todo.pop()
            # (What a traceback holds is not changed; and it cannot be made again without its exception.)
            if id(value) not in seen and can_hold(value) and type(value) is not TracebackType:
                seen.add(id(value))
                todo += referents(value)
        return seen


def can_hold(value: Any) -> bool:
    """Whether a value can hold others, now or later."""
    kind = type(value)
    if issubclass(kind, FunctionType):
        return value.__closure__ is not None
    return kind.__flags__ & HAVE_GC != 0 and not issubclass(kind, _CLOSED)
