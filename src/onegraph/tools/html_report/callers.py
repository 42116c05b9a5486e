"""Where a program calls what is compiled."""

from __future__ import annotations

from traceback import walk_stack

from onegraph.base.events import Location
from onegraph.capture.calls.libraries import is_library


def caller_of(place: Location) -> Location | None:
    """The line of the program that is being run, outside of the function that begins at `place`, or None.

    Events come in the thread that emits them, so that the stack is that of the call.
    """
    for frame, line in walk_stack(None):
        code, module = frame.f_code, frame.f_globals.get("__name__")
        is_callee = (code.co_filename, code.co_firstlineno) == (place.filename, place.line)
        if isinstance(module, str) and not is_library(module) and not is_callee:
            return Location(code.co_filename, line, code.co_name)
    return None
