"""How much a program of guards can hold."""

from __future__ import annotations

from onegraph.capture.breaks import LONG_TRACE, GraphBreak
from onegraph.capture.guards.guard import GuardSet
from onegraph.capture.guards.source import Source, base_of

#: How many values it can load.
REGISTERS = 65_000


def refuse_too_many(guards: GuardSet) -> None:
    """Break the graph where a program could not hold all that its guards read."""
    if len(guards) < REGISTERS // 16:  # each reads a few objects that no other one reads
        return
    read: set[Source] = set()
    for guard in guards:
        source: Source | None = guard.source
        while source is not None and source not in read:
            read.add(source)
            source = base_of(source)
    if len(read) > REGISTERS:
        raise GraphBreak(LONG_TRACE, what=f"guards on more than {REGISTERS} objects")
