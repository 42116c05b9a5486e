"""What is guarded of a class as a whole: its bases, its names, its methods and other descriptors.

A trace asks a class for many things, most of which it does not have: `__bool__`, `__getattr__`, a property that hides
an attribute. So a class is compared as a whole. Plain values in it may change: those that a trace reads have guards of
their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from onegraph.capture.guards.guard import Guard
from onegraph.capture.guards.source import Const
from onegraph.capture.pyobject.exact_types import defines, dict_of, isinstance, mro_of, once_for_each_class
from onegraph.capture.pyobject.weakly_known import WRAPPERS, Known, names_of, parts_of, weakrefs_of
from onegraph.torchlib.private import FakeTensor

if TYPE_CHECKING:
    from onegraph.capture.heap.world import World

#: What classes get when they are asked for it, or copied.
IMMUTABLE_TYPE = 1 << 8
#: Where the annotations of a class may be, and what says them (`__annotations__` alone until Python 3.13).
ANNOTATIONS = ("__annotations__", "__annotations_cache__")
MADE_LATER = frozenset({*ANNOTATIONS, "__annotate_func__", "__slotnames__"})
DATA = "a value"


class AsDefined:
    """Whether a class is as it was. The class and what it holds are not kept alive."""

    __slots__ = ("bases", "names")

    def __init__(self, cls: type) -> None:
        self.bases = tuple(Known(base) for base in mro_of(cls)[1:])
        self.names = {name: fact(name, value) for name, value in dict_of(cls).items() if name not in MADE_LATER}

    def __call__(self, cls: type) -> bool:
        return self.difference(cls) is None

    def difference(self, cls: type) -> str | None:
        """What is different in the class, or None."""
        bases = mro_of(cls)[1:]
        if tuple(map(id, bases)) != tuple(id(known()) for known in self.bases):
            return "its bases are others"
        now = dict_of(cls)
        for name, known in self.names.items():
            if name not in now:
                return f"`{name}` is gone"
            if not is_as_known(known, name, now[name]):
                return f"`{name}` is another"
        return next((f"`{name}` is new" for name in now if name not in self.names and name not in MADE_LATER), None)


#: Traces share what they remember of a class, as long as it does not change.
as_defined = once_for_each_class(AsDefined)


def fact(name: str, value: Any) -> Any:
    """What is remembered of a value in a class, without keeping it alive."""
    kind = type(value)
    if kind in WRAPPERS:
        return kind, *(None if part is None else known_part(part) for part in parts_of(value))
    if value is None:
        return None
    return known_part(value) if counts(name, value) else DATA


def known_part(value: Any) -> Any:
    return Known(value) if weakrefs_of(type(value)) else type(value)


def counts(name: str, value: Any) -> bool:
    """Whether a value in a class does more than to be there: it binds itself, or is a special method."""
    kind = type(value)
    if kind is FunctionType or any(defines(kind, method) for method in ("__get__", "__set__", "__delete__")):
        return True
    return name.startswith("__") and name.endswith("__") and defines(kind, "__call__")


def is_as_known(known: Any, name: str, value: Any) -> bool:
    kind = type(value)
    if type(known) is tuple:
        return kind is known[0] and all(map(is_known_part, known[1:], parts_of(value)))
    if known is None or known is DATA:
        return fact(name, value) is known
    return is_known_part(known, value)


def is_known_part(known: Any, value: Any) -> bool:
    if type(known) is Known:
        return known() is value
    return value is None if known is None else type(value) is known


def guards_of_classes(world: World, looked_at: Iterable[type]) -> list[Guard]:
    """A guard for each class that a trace has looked at or knows, for its bases and its metaclass."""
    known = (guard.arg for guard in world.guards if guard.kind in ("is", "type") and isinstance(guard.arg, type))
    seen: dict[int, type] = {}
    for cls in (torch.Tensor, *looked_at, *known):
        seen.update((id(base), base) for base in (*mro_of(cls), *mro_of(type(cls))))
    outside = (cls for cls in seen.values() if id(cls) not in world.made_classes and cls is not FakeTensor)
    return [
        Guard(Const(id(cls), names[1], cls), "class", as_defined(cls))
        for cls in outside
        if (names := names_of(cls)) is not None and not cls.__flags__ & IMMUTABLE_TYPE
    ]
