"""What the parts of the machine ask of each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from onegraph.capture.bytecode.frame import Frame
from onegraph.capture.interp.lookup import ClassLookup

Operation = Callable[..., Any]
T = TypeVar("T")


class NativeCall(Protocol):
    """Runs native code that may call methods of the program's objects."""

    def __call__(self, function: Callable[..., T], *args: Any) -> T: ...


class Part:
    """A part of the machine. Operations are Python's own, by their names there; the tracer overrides them."""

    type_lookup: ClassLookup
    frames: list[Frame]
    natively: NativeCall
    native_instruction: Operation

    call: Operation
    call_special: Operation
    bind_special: Operation
    make_frame: Operation
    run_frame: Operation
    traceback_of: Operation

    getattr: Operation
    generic_getattr: Operation
    getitem: Operation
    setitem: Operation
    delitem: Operation
    iter: Operation
    load_cell: Operation
    _take: Operation
