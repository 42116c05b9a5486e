"""What a capture assumes of the world, until its graph is compiled: a backend that asks for sizes adds to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from onegraph.capture.graph.late_guards import Backwards
from onegraph.capture.guards.guard import Guard, GuardSet
from onegraph.capture.guards.program import GuardProgram, assemble
from onegraph.capture.guards.source import Source
from onegraph.capture.symbolic.shapes import Symbols, size_text


@dataclass(frozen=True, slots=True)
class Assumptions:
    """`state` is of the process, `facts` are of classes and names; `symbols` has the conditions on sizes and numbers.

    `backwards` are the backward passes of the program, which ask again when they run.
    """

    guards: GuardSet
    facts: tuple[Guard, ...]
    state: Any
    symbols: Symbols
    backwards: Backwards
    frame_globals: dict[str, Any]

    def add(self, source: Source, kind: str, arg: Any) -> None:
        """Assume what the compilation of the graph has asked for."""
        self.guards.add(Guard(source, kind, arg))

    def assembled(self, choose: Callable[[list[Guard]], set[int]] | None = None) -> GuardProgram:
        """The program that checks them all, or those whose identities `choose` gives."""
        self.backwards.guard(self.guards, self.facts)
        guards, facts = self.guards, self.facts
        if choose is not None:
            kept = choose([*facts, *guards])
            facts = tuple(fact for fact in facts if id(fact) in kept)
            guards = guards.only(kept)
        return assemble(guards, self.symbols.conditions(None), self.state, self.frame_globals, facts)

    def sizes_text(self) -> str:
        """The symbols of sizes, where they are found, and their conditions."""
        hints = self.symbols.sizes.hints
        places = self.symbols.places.items()
        found = [f"{symbol} is {size_text(place.source, place.dim)}, now {hints[symbol]}" for symbol, place in places]
        return "\n".join([*found, *(condition.text for condition in self.symbols.conditions(None))])

    def texts(self) -> Iterator[str]:
        """Each as the condition that a person would write."""
        yield "the state of the process is as it was"
        yield from map(str, self.facts)
        yield from map(str, self.guards)
        yield from (condition.text for condition in self.symbols.conditions(None))
