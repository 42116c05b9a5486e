"""What every stage is given besides its program: the configuration, the event stream, and the frame it works for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from onegraph.base.config import Config
from onegraph.base.events import Event, Events, Location


@dataclass(frozen=True, slots=True)
class Context:
    """Passed as `cx`. Nothing else is ambient."""

    config: Config = field(default_factory=Config)
    events: Events = field(default_factory=Events)
    frame: Location | None = None

    def emit(self, event: Event) -> None:
        self.events.emit(event)

    def for_frame(self, frame: Location) -> Context:
        """The same context, for work on this frame: stages stamp their events with `cx.frame`."""
        return replace(self, frame=frame)
