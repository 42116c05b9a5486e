"""One cell in twin worlds."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from onegraph.base import events as ev
from onegraph.compile import EVENTS
from tests.fuzz.product.cells import Cell
from tests.fuzz.twin import NAME, Measured, Unfit, Way, compare


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a cell: `kind` is "same", "differs", "again" (compiled again though nothing changed) or "unfit"."""

    kind: str
    text: str = ""
    #: What differences of probably one cause share.
    cause: str = ""
    skipped: bool = False


def judge(cell: Cell, way: Way) -> Verdict:
    """Run the cell's program in both worlds, and watch whether one that stays is compiled in the first call only."""
    again: list[str] = []

    def watch(event: Any) -> None:
        if isinstance(event, ev.FrameStarted | ev.Recompiled) and vars(sys.modules[NAME])["STEP"][0] > 0:
            again.append(getattr(event, "reason", "") or "a frame is compiled")

    measured = Measured()
    stop = EVENTS.subscribe(watch)
    try:
        found = compare(cell.program(), way, measured)
    except Unfit as unfit:
        return Verdict("unfit", str(unfit))
    finally:
        stop()
    if found is not None:
        return Verdict("differs", found.text, found.kind)
    if again and cell.stays() and not (measured.skipped or measured.breaks):
        return Verdict("again", again[0], again[0])
    return Verdict("same", skipped=measured.skipped > 0)


def way_of(number: int) -> Way:
    """How the cell of this number is compiled: what happens to its containers does not depend on the backend."""
    return Way("aot_eager" if number % 40 == 20 else "eager")
