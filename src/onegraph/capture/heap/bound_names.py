"""What is guarded of the names of a library: functions, classes and modules may be replaced (`torch.sin = ...`).

Libraries are not guarded name by name, which would cost a check for each in each call. While nobody changes a module,
the guard on all of its names is one comparison of the version of its dict.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from onegraph.capture.guards.guard import Guard
from onegraph.capture.heap.namespaces import Namespace
from onegraph.capture.pyobject.contents import DELETED

SHOWN = 3


class AsBound:
    """Whether a namespace has the same objects under some names."""

    __slots__ = ("module", "names")

    def __init__(self, space: Namespace) -> None:
        self.module = space.source.module
        # (A module that fills its names as they are asked has done so while it was traced.)
        self.names = {name: space.real.get(name, DELETED) for name in space.bound}

    def __call__(self, namespace: dict[str, Any]) -> bool:
        return all(namespace.get(name, DELETED) is value for name, value in self.names.items())

    def __str__(self) -> str:
        names = list(self.names)
        more = f" and {len(names) - SHOWN} more names" if len(names) > SHOWN else ""
        same = "are what they were" if len(names) > 1 else "is what it was"
        return f"{', '.join(names[:SHOWN])}{more} of {self.module} {same}"


def guards_of_names(namespaces: Iterable[Namespace]) -> list[Guard]:
    """A guard for each library module in which a trace has found code by its name."""
    return [Guard(space.source, "names", AsBound(space)) for space in namespaces if space.bound]
