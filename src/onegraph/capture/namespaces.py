"""The globals of modules over the shadow world: read once, written at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onegraph.capture.shadows import DELETED, Namespace
from onegraph.capture.source import Globals, Item


class Namespaces:
    """The part of the world that holds globals. `library` tells of a module's name whether it is a library's."""

    admit: Callable[..., Any]
    guard: Callable[..., None]
    keep: Callable[[Any], Any]

    def __init__(self, library: Callable[[str], bool]) -> None:
        super().__init__()
        self.namespaces: dict[int, Namespace] = {}
        self._library = library

    def namespace(self, real: dict[str, Any]) -> Namespace:
        if id(real) not in self.namespaces:
            module = str(real.get("__name__", "?"))
            source = Globals(id(real), module, real)
            self.namespaces[id(real)] = Namespace(real, source, not self._library(module))
            self.keep(real)
        return self.namespaces[id(real)]

    def read_global(self, real: dict[str, Any], builtins: dict[str, Any], name: str) -> Any:
        """The value of a global or builtin name; raises KeyError."""
        space = self.namespace(real)
        if name in space.written:
            if space.written[name] is DELETED:
                raise KeyError(name)
            return space.written[name]
        if name in space.read:
            return space.read[name]
        if name in real:
            value = self.admit(real[name], Item(space.source, name), space.guarded)
        else:
            value = builtins[name]
            if space.guarded:
                self.guard(space.source, "lacks", name)
        space.read[name] = value
        return value

    def write_global(self, real: dict[str, Any], name: str, value: Any) -> None:
        self.namespace(real).written[name] = value
