"""Which modules are those of libraries that the tracer knows."""

from __future__ import annotations

import sys

from onegraph.torchlib.private import NATIVE

#: Packages whose modules' globals and functions are a library's own: used without guards. (The environment is in `os`.)
LIBRARIES = frozenset({"torch", "onegraph", "numpy"}) | frozenset(sys.stdlib_module_names) - {"__main__", "test", "os"}


def is_library(module: str) -> bool:
    """Whether a module belongs to Python or torch, whose own constants are not guarded."""
    return module.partition(".")[0] in LIBRARIES


#: Enumerations of torch's native code: their members have equals, but nothing that changes.
NATIVE_ENUMS = tuple(
    kind for kind in vars(NATIVE).values() if isinstance(kind, type) and isinstance(vars(kind).get("__entries"), dict)
)
