"""The globals of modules, and data of classes, over the shadow world: read once, written at the end.

A program may also ask for them as a dict (`vars(module)`, `function.__globals__`). Then they are the shadow of that
dict, and names are read and written in it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import field
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from onegraph.base.dataclass import dataclass
from onegraph.capture.guards.guard import Guard
from onegraph.capture.guards.source import Globals, Item, Source
from onegraph.capture.pyobject.contents import DELETED
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.pyobject.layout import instance_dict

if TYPE_CHECKING:
    from onegraph.capture.heap.type_rules import Record

#: What a library consists of.
CODE = (ModuleType, FunctionType, BuiltinFunctionType, type)


@dataclass(slots=True)
class Namespace:
    """The globals of a module as the trace sees them: what was read, and what was written.

    That of a class has what was written to it.
    """

    real: Any
    source: Source
    guarded: bool
    read: dict[str, Any] = field(default_factory=dict)
    written: dict[str, Any] = field(default_factory=dict)
    #: What a library has under the names that the trace has looked up in it (DELETED: nothing), as far as it is code.
    bound: dict[str, Any] = field(default_factory=dict)
    owner: type | None = None

    def differs(self, name: str) -> bool:
        """Whether a written name is not what it was, as far as the trace knows that."""
        is_own = self.owner is None or name in self.real
        return not is_own or name not in self.read or self.read[name] is not self.written[name]


def is_of_module(namespace: dict[Any, Any]) -> bool:
    """Whether a dict is that of a module, which holds it as long as the process has the module."""
    name = dict.get(namespace, "__name__")
    return type(name) is str and instance_dict(sys.modules.get(name)) is namespace


def note_bound(space: Namespace, name: str) -> None:
    """Note what a library has under a name, if that is code or nothing: its data are its own business."""
    found = space.real.get(name, DELETED)
    if found is DELETED or is_code(found):
        space.bound[name] = found


def is_code(value: Any) -> bool:
    return isinstance(value, CODE)


class Namespaces:
    """The part of the world that holds globals. `library` tells of a module's name whether it is a library's."""

    admit: Callable[..., Any]
    guard: Callable[..., None]
    keep: Callable[[Any], Any]
    lookup: Callable[..., Any]
    present: Callable[..., bool]
    touch: Callable[[Any], None]
    shadow_of: dict[int, Any]
    real_of: dict[int, Any]
    records: dict[int, Record]
    origin: dict[int, Source]

    def __init__(self, library: Callable[[str], bool]) -> None:
        super().__init__()
        self.namespaces: dict[int, Namespace] = {}
        #: (identity of a class, name) -> what the trace has read there.
        self.class_values: dict[tuple[int, str], Any] = {}
        self._library = library

    def namespace(self, real: dict[str, Any]) -> Namespace:
        """The globals that this dict holds, or the one that it is the shadow of."""
        real = self.real_of.get(id(real), real)
        if id(real) not in self.namespaces:
            module = str(real.get("__name__", "?"))
            source = Globals(id(real), module, real)
            self.namespaces[id(real)] = Namespace(real, source, not self._library(module))
            self.keep(real)
            if id(real) in self.shadow_of:
                self.guard(self.origin[id(self.shadow_of[id(real)])], "is", real)
        return self.namespaces[id(real)]

    def written_in_class(self, cls: type, name: str) -> bool:
        space = self.namespaces.get(id(cls))
        return space is not None and name in space.written

    def write_to_class(self, cls: type, source: Source, name: str, value: Any) -> None:
        """Note what an attribute of a class is from here on."""
        if id(cls) not in self.namespaces:
            self.namespaces[id(cls)] = Namespace(cls.__dict__, source, True, owner=cls)
            self.keep(cls)
        space = self.namespaces[id(cls)]
        if (id(cls), name) in self.class_values:
            space.read[name] = self.class_values[id(cls), name]
        space.written[name] = value

    def namespace_dict(self, real: dict[str, Any]) -> dict[str, Any]:
        """The globals as a dict of the program."""
        space = self.namespace(real)
        shadow: dict[str, Any] = self.admit(space.real, space.source)
        return shadow

    def known_namespace(self, real: dict[Any, Any]) -> Namespace | None:
        """The globals that a dict holds, if it is that of a module, or functions of the trace have it."""
        return self.namespace(real) if id(real) in self.namespaces or is_of_module(real) else None

    def go_on_as(self, entry: Record) -> None:
        """From here on the shadow of the dict is what the program has seen of the globals, and what it has written."""
        space = self.namespaces.get(id(entry.real))
        if space is None:
            return
        for name, value in space.read.items():
            entry.snapshot[name] = value
            dict.__setitem__(entry.shadow, name, value)
        dict.update(entry.shadow, space.written)
        space.read.clear()
        space.written.clear()

    def read_global(self, real: dict[str, Any], builtins: dict[str, Any] | None, name: str) -> Any:
        """The value of a global or builtin name; raises KeyError."""
        try:
            return self._own_global(real, name)
        except KeyError:
            if builtins is None:
                raise
        if id(builtins) in self.shadow_of:
            return self._own_global(builtins, name)
        note_bound(self.namespace(builtins), name)
        return builtins[name]

    def _own_global(self, real: dict[str, Any], name: str) -> Any:
        space = self.namespace(real)
        shadow = self.shadow_of.get(id(space.real))
        if shadow is not None and (name in shadow or name in self.records[id(shadow)].original_keys()):
            return self.lookup(shadow, name)
        if name in space.written:
            return space.written[name]
        if name in space.read:
            return space.read[name]
        if not space.guarded:
            note_bound(space, name)
        if name not in space.real:
            if space.guarded:
                self.guard(space.source, "lacks", name)
            raise KeyError(name)
        found = space.real[name]
        guarded = space.guarded or not is_code(found) or self._is_given(found)
        value = space.read[name] = self.admit(found, Item(space.source, name), guarded)
        return value

    def _is_given(self, found: Any) -> bool:
        """Whether a module of a library has a function of the program, which may be given other code."""
        return isinstance(found, FunctionType) and not self._library(found.__module__ or "")

    def write_global(self, real: dict[str, Any], name: str, value: Any) -> None:
        space = self.namespace(real)
        shadow = self.shadow_of.get(id(space.real))
        if shadow is None:
            space.written[name] = value
        else:
            self.touch(shadow)
            dict.__setitem__(shadow, name, value)

    def delete_global(self, real: dict[str, Any], name: str) -> None:
        """Delete a global; raises KeyError. (One that is bound again stands behind the others.)"""
        shadow = self.namespace_dict(real)
        self.lookup(shadow, name)
        self.present(shadow, name)
        self.touch(shadow)
        dict.__delitem__(shadow, name)


#: How many names a guard of names shows.
SHOWN = 3


class AsBound:
    """Whether a namespace has the same objects under some names.

    Functions, classes and modules of a library may be replaced (`torch.sin = ...`). It is not guarded name by name, a
    check for each in each call: while nobody changes a module, the guard on all of its names is one comparison of the
    version of its dict.
    """

    __slots__ = ("module", "names")

    def __init__(self, module: str, names: dict[str, Any]) -> None:
        self.module = module
        self.names = names

    def __call__(self, namespace: dict[str, Any]) -> bool:
        return all(namespace.get(name, DELETED) is value for name, value in self.names.items())

    def __str__(self) -> str:
        names = list(self.names)
        more = f" and {len(names) - SHOWN} more names" if len(names) > SHOWN else ""
        same = "are what they were" if len(names) > 1 else "is what it was"
        return f"{', '.join(names[:SHOWN])}{more} of {self.module} {same}"


def guards_of_names(namespaces: Iterable[Namespace]) -> list[Guard]:
    """A guard for each library module in which a trace has found code by its name."""
    # (A module that fills its names as they are asked has done so while it was traced.)
    found = ((space, {name: space.real.get(name, DELETED) for name in space.bound}) for space in namespaces)
    return [
        Guard(space.source, "names", AsBound(str(dict.get(space.real, "__name__", "?")), names))
        for space, names in found
        if names
    ]
