"""What a capture assumes of the world, until its graph is compiled: a backend that asks for sizes adds to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from onegraph.base.dataclass import dataclass
from onegraph.capture.graph.late_guards import Backwards
from onegraph.capture.guards.guard import Guard, GuardSet, ShapeCondition
from onegraph.capture.guards.program import GuardProgram, assemble
from onegraph.capture.guards.source import Source

if TYPE_CHECKING:
    from onegraph.capture.symbolic.shapes import Symbols


@dataclass(frozen=True, slots=True)
class Conditions:
    """What is assumed of sizes and numbers: how many of them are symbols; which they are and what holds of them."""

    each: tuple[ShapeCondition, ...]
    symbols: int
    text: str


@dataclass(frozen=True, slots=True)
class Assumptions:
    """`state` is of the process, `facts` are of classes and names; `conditions` are those on sizes, as they are now.

    `backwards` are the backward passes of the program, which ask again when they run. `symbols` are those of the trace.
    """

    guards: GuardSet
    facts: tuple[Guard, ...]
    state: Any
    conditions: Callable[[], Conditions]
    backwards: Backwards
    frame_globals: dict[str, Any]
    symbols: Symbols | None = None

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
        return assemble(guards, self.conditions().each, self.state, self.frame_globals, facts)

    def texts(self) -> Iterator[str]:
        """Each as the condition that a person would write."""
        yield "the state of the process is as it was"
        yield from map(str, self.facts)
        yield from map(str, self.guards)
        yield from (condition.text for condition in self.conditions().each)
