"""What the program has drawn from iterators from outside, in order: the real ones are drawn from behind the graph."""

from __future__ import annotations

from typing import Any, Protocol

from onegraph.base.dataclass import dataclass
from onegraph.capture.guards.source import Source


class Drawn(Protocol):
    """The stand-in of an iterator from outside."""

    real: Any
    source: Source
    #: Whether it is over a container, and draws from nothing else.
    plain: bool

    def watched(self) -> tuple[Source, Any] | None:
        """The container that it has read, which the program may change elsewhere."""


@dataclass(slots=True)
class Draw:
    iterator: Drawn
    count: int


class Draws:
    """The draws of one trace. What an iterator draws from others, its real one will draw too."""

    def __init__(self) -> None:
        self.iterators: list[Drawn] = []
        self.made: list[Draw] = []
        self.inside = 0

    def note(self, iterator: Drawn) -> None:
        """One item was drawn, or the end was met."""
        if self.inside:
            return
        for draw in reversed(self.made):
            if draw.iterator is iterator:
                draw.count += 1
                return
            if not (iterator.plain and draw.iterator.plain):  # the order matters
                break
        self.made.append(Draw(iterator, 1))

    def has_drawn(self, iterator: Drawn) -> bool:
        return any(draw.iterator is iterator for draw in self.made)


def counted(iterator: Any) -> Any:
    """What an iterator that counts says of itself: what makes it, with the number that it has come to."""
    return iterator.__reduce__()


def draw(iterator: Any, count: int) -> None:
    """Draw from the real iterator as often as the program has drawn; it may have met the end."""
    for _ in range(count):
        next(iterator, None)
