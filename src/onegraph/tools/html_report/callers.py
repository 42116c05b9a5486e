"""Where a program calls what is compiled."""

from __future__ import annotations

from traceback import walk_stack

from onegraph.base.events import Location
from onegraph.capture.calls.libraries import is_library

INSTALLED = ("site-packages", "dist-packages")


def caller_of(place: Location) -> Location | None:
    """The line that is being run outside of the function that begins at `place`, or None.

    It is the program's own line where there is one, and not that of an installed package which the program calls.
    Events come in the thread that emits them, so that the stack is that of the call.
    """
    nearest: Location | None = None
    for frame, line in walk_stack(None):
        code, module = frame.f_code, frame.f_globals.get("__name__")
        is_callee = (code.co_filename, code.co_firstlineno) == (place.filename, place.line)
        if isinstance(module, str) and not is_library(module) and not is_callee:
            found = Location(code.co_filename, line, code.co_name)
            if INSTALLED[0] not in code.co_filename and INSTALLED[1] not in code.co_filename:
                return found
            nearest = nearest or found
    return nearest
