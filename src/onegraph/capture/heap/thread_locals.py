"""What a `threading.local` holds: its names for this thread are a dict, which other calls find by the object.

A class derived from it may prepare each thread in its `__init__`, which runs where the object is first looked at in a
thread, here or by a guard. A class that answers for itself is opaque.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from onegraph.capture.breaks.hints import refused_object
from onegraph.capture.guards.source import Through
from onegraph.capture.heap.world import World
from onegraph.capture.interp.attributes import comes_first
from onegraph.capture.interp.lookup import Entry, find_in_class
from onegraph.capture.pyobject.exact_types import defined, defines, is_data_descriptor

#: How a class reads and writes attributes, unless it answers for itself.
READ, WRITTEN, DELETED = (
    vars(threading.local)[name] for name in ("__getattribute__", "__setattr__", "__delattr__")
)  # fmt: skip


class Tracing(Protocol):
    """What is asked of the tracer."""

    world: World

    def type_lookup(self, cls: type, name: str) -> Any: ...
    def bound(self, found: Entry, obj: Any) -> Any: ...
    def write_generic(self, obj: Any, name: str, *value: Any) -> None: ...

    @property
    def _write_name(self) -> Callable[..., None]: ...


def is_thread_local(obj: Any) -> bool:
    """Whether an object holds other names in each thread, and nothing of its class decides how they are found."""
    cls = type(obj)
    if not issubclass(cls, threading.local):
        return False
    return (
        defined(cls, "__getattribute__") is READ
        and defined(cls, "__setattr__") is WRITTEN
        and defined(cls, "__delattr__") is DELETED
        and not defines(cls, "__getattr__")
    )


def of_this_thread(obj: threading.local) -> dict[str, Any]:
    """What an object holds for the thread that asks."""
    names: dict[str, Any] = READ(obj, "__dict__")
    return names


def names_of_thread(world: World, obj: threading.local) -> dict[str, Any]:
    """The shadow of what an object holds for this thread."""
    names: dict[str, Any] = world.admit(of_this_thread(obj), Through(world.origin[id(obj)], of_this_thread))
    return names


def read_of_thread(tracer: Tracing, obj: threading.local, name: str) -> Any:
    """`obj.name`"""
    cls = type(obj)
    names = names_of_thread(tracer.world, obj)
    if name == "__dict__":
        return names
    if name == "__class__":
        return cls
    found = None if defines(threading.local, name) else find_in_class(cls, name)
    if found is not None and comes_first(found.value):
        return tracer.bound(found, obj)
    try:
        return tracer.world.lookup(names, name)
    except KeyError:
        if defines(threading.local, name):
            raise refused_object(obj) from None
    if found is not None:
        return tracer.bound(found, obj)
    tracer.type_lookup(cls, name)
    shown = "_thread._local" if cls is threading.local else cls.__name__
    raise AttributeError(f"'{shown}' object has no attribute '{name}'", name=name, obj=obj)


def write_of_thread(tracer: Tracing, obj: threading.local, name: str, *value: Any) -> None:
    """`obj.name = value`, or without a value `del obj.name`."""
    if defines(threading.local, name):
        raise refused_object(obj)
    cls = type(obj)
    found = find_in_class(cls, name)
    if found is not None and is_data_descriptor(found.value):
        return tracer.write_generic(obj, name, *value)
    alike = threading.local() if cls is threading.local else type(cls.__name__, (), {})()
    tracer._write_name(names_of_thread(tracer.world, obj), alike, name, *value)
