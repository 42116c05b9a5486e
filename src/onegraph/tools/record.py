"""Keep the events of one call, with their texts made on the spot (a program may be changed after it was announced)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from onegraph.base.dataclass import dataclass
from onegraph.base.events import Event, Events, text_of


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event and the text that it carried."""

    event: Event
    text: str


@contextmanager
def recording(events: Events, kinds: Iterable[type[Event]] | None = None) -> Iterator[list[Recorded]]:
    """The events emitted within, in order; only of these kinds if they are given (texts of others are not made)."""
    wanted = tuple(kinds) if kinds is not None else (Event,)
    seen: list[Recorded] = []

    def keep(event: Event) -> None:
        if isinstance(event, wanted):
            seen.append(Recorded(event, text_of(getattr(event, "text", ""))))

    unsubscribe: Callable[[], None] = events.subscribe(keep)
    try:
        yield seen
    finally:
        unsubscribe()
