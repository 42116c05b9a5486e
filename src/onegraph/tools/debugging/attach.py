"""Lets the debug directory and the structured trace hear of events."""

from __future__ import annotations

from onegraph.base.events import Events
from onegraph.tools.debugging.debug_dir import DebugDir
from onegraph.tools.debugging.trace import Trace
from onegraph.tools.debugging.writing import Careful


def attach_files(events: Events) -> None:
    """Subscribe both: each version's own configuration says whether they write anything of it."""
    events.subscribe(Careful("the debug directory", DebugDir().note).note)
    events.subscribe(Careful("the structured trace", Trace().note).note)
