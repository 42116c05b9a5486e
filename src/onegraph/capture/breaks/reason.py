"""What one kind of graph break is, and the exception that carries one to the translator."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from onegraph.base.dataclass import dataclass
from onegraph.capture.bytecode.frame import Abort


@dataclass(frozen=True, slots=True)
class Reason:
    """One kind of graph break: an entry of the catalogue."""

    theme: str
    code: str
    #: A format string over the facts given where the break is raised.
    summary: str
    explanation: str
    #: What removes the break; each hint is applied to a program by a test.
    hints: tuple[str, ...] = ()
    #: Whether what breaks must run in its own frame, so that the call of that frame runs eagerly.
    whole_frame: bool = False
    #: Whether it is an error also where graph breaks are not.
    fatal: bool = False


class GraphBreak(Abort):
    """Raised where tracing cannot go on. The user's `except` clauses do not see it.

    `born` is an earlier step that the graph has to end at, a frame's serial number and its step: where a value was made
    that cannot be made again, or the end of the first turn of a loop.
    """

    born: tuple[int, int] | None = None

    def __init__(self, reason: Reason, **facts: object) -> None:
        self.reason = reason
        self.summary = reason.summary.format(**facts)
        super().__init__(self.summary)


class Unready(Abort):
    """Raised where a call completes what it goes through: it runs as it was written, and the next one is traced."""


CATALOGUE: dict[str, Reason] = {}


def named(reason: Reason, names: str) -> dict[str, Reason]:
    """The rows of a table for these names, which have one reason."""
    return dict.fromkeys(names.split(), reason)


Define = Callable[..., Reason]


def theme(title: str) -> Define:
    """The function that defines the reasons of one theme: `define(code, summary, explanation, *hints)`."""
    return partial(_reason, title)


def _reason(
    title: str,
    code: str,
    summary: str,
    explanation: str,
    *hints: str,
    whole_frame: bool = False,
    fatal: bool = False,
) -> Reason:
    made = Reason(title, code, summary, explanation, hints, whole_frame, fatal)
    known = CATALOGUE.setdefault(code, made)  # by an import that was interrupted
    assert known == made, f"two reasons have the code {code}"
    return known
