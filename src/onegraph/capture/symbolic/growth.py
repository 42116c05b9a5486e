"""Sizes that the program changes itself: a key-value cache is longer at the end of a call, and at the next one so."""

from __future__ import annotations

from collections.abc import Iterator
from types import CellType
from typing import Any

from onegraph.capture.heap.type_rules import Record
from onegraph.capture.heap.world import World
from onegraph.capture.pyobject.contents import ATOMS, cell_value
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.symbolic.shape_policy import ShapePolicy
from onegraph.torchlib.fake import FakeTensor
from onegraph.torchlib.private import DisableTorchFunction


class Grown(Exception):
    """The trace has found what is to be traced otherwise: sizes that change, taken for constants, for one."""


def refuse_grown(world: World, shapes: ShapePolicy) -> None:
    """Raise `Grown` where a tensor from outside is replaced by one of another size: that gets a symbol now."""
    with DisableTorchFunction():  # else the recorder would take our own looking at sizes for the program's
        found = [
            shapes.will_change(world.origin[id(before)], tuple(before.shape), tuple(now.shape))
            for before, now in replaced(world)
        ]
    if any(found):
        raise Grown


def replaced(world: World) -> Iterator[tuple[FakeTensor, FakeTensor]]:
    """The tensors from outside in whose places the program leaves others, with these."""
    for entry in world.changed():
        for before, now in contents(entry):
            if before is not now and isinstance(before, FakeTensor) and isinstance(now, FakeTensor):
                if world.is_outside(before):
                    yield before, now


def contents(entry: Record) -> Iterator[tuple[Any, Any]]:
    """What was read of a container, with what is there now."""
    match entry.shadow:
        case dict() as shadow:
            # Other keys may be tensors, or be compared by code of the program.
            atoms = [key for key in entry.snapshot if type(key) in ATOMS]
            yield from ((entry.snapshot[key], dict.get(shadow, key)) for key in atoms)
        case list() as shadow:
            yield from zip(entry.snapshot, list.__iter__(shadow), strict=False)
        case CellType() as shadow:
            yield entry.snapshot[0], cell_value(shadow)
