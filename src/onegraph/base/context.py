"""What every stage is given besides its program: the configuration, the event stream, and the frame it works for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import Protocol

from onegraph.base.config import Config
from onegraph.base.dataclass import dataclass
from onegraph.base.events import Event, Events, Location


class Store(Protocol):
    """Where entries are found by their names: a folder of the cache on disk, or a file of a program."""

    def load(self, key: str) -> bytes | None: ...
    def store(self, key: str, content: bytes) -> bool: ...


@dataclass(slots=True)
class Made:
    """What a backend has compiled, as data, to be kept on disk beside the capture.

    `parts` are compiled graphs in the order in which they were made, until they are put together to the `whole`; an
    empty one cannot be kept. `renew` is given a whole that has grown later. Where there is no whole, `why` says so.
    """

    parts: list[bytes] = field(default_factory=list)
    whole: bytes | None = None
    renew: Callable[[bytes], object] | None = None
    why: str = "the backend does not say what it has compiled"


@dataclass(frozen=True, slots=True)
class Context:
    """Passed as `cx`. Nothing else is ambient.

    Where what is compiled is to be kept on disk, a backend puts it into `made`; one that knows nothing of that puts
    nothing there. `code` is where the code of kernels is, where that is not the cache on disk.
    """

    config: Config = field(default_factory=Config)
    events: Events = field(default_factory=Events)
    frame: Location | None = None
    made: Made | None = None
    code: Store | None = None

    def emit(self, event: Event) -> None:
        self.events.emit(event)

    def keeping(self) -> Context:
        """The same context, with an empty place for what is to be kept."""
        return replace(self, made=Made())

    def for_frame(self, frame: Location) -> Context:
        """The same context, for work on this frame: stages stamp their events with `cx.frame`."""
        return replace(self, frame=frame)
