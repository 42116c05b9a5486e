"""Errors of the interpreter itself are not the program's: its handlers would go the wrong way if they saw one."""

from __future__ import annotations

import dis
from types import ModuleType, TracebackType
from typing import Any

from onegraph.capture.bytecode.frame import Abort
from onegraph.capture.pyobject.native_members import TRACEBACK_OF

_OWN = "onegraph."


class Defect(Abort):
    """The interpreter has failed; its error is the `__cause__`."""


def is_defect(error: BaseException) -> bool:
    """Whether an object or a module of onegraph lacks an attribute or a name that onegraph asked for."""
    if not isinstance(error, AttributeError | NameError) or (entry := TRACEBACK_OF(error)) is None:
        return False
    return _looked_up(entry) and (isinstance(error, NameError) or _is_own(error.obj))


def _is_own(owner: Any) -> bool:
    """Modules and objects of onegraph; what holds values of the program has the program's classes."""
    if type(owner) is ModuleType:
        return owner.__name__.startswith(_OWN)
    home = type.__dict__["__dict__"].__get__(type(owner)).get("__module__")
    return type(home) is str and home.startswith(_OWN)


def _looked_up(entry: TracebackType) -> bool:
    """Whether the innermost entry is in code of onegraph, and not at a `raise` of it, which is the program's error."""
    while entry.tb_next is not None:
        entry = entry.tb_next
    frame = entry.tb_frame
    opcode = frame.f_code.co_code[entry.tb_lasti]
    return str(frame.f_globals.get("__name__")).startswith(_OWN) and dis.opname[opcode].startswith("LOAD_")
