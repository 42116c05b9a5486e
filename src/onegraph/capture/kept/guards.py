"""Guards as rows, and back. What a guard compares with is made of what the call has there, if that is as it was."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import torch

from onegraph import _C
from onegraph.base.codec import Unkept
from onegraph.base.events import Location
from onegraph.capture.guards.guard import Guard
from onegraph.capture.guards.source import Const, Item, Source, TypeOf, base_of, written
from onegraph.capture.guards.texts import anything
from onegraph.capture.heap.class_facts import as_defined
from onegraph.capture.heap.namespaces import AsBound
from onegraph.capture.kept.checks import check_called
from onegraph.capture.kept.contents import class_shape, content
from onegraph.capture.kept.rows import Places, Reader, Row, Stale, Writer, checked
from onegraph.capture.pyobject.contents import DELETED
from onegraph.capture.pyobject.weakly_known import referred


def places_of(guards: list[Guard]) -> Places:
    """Where the objects are found that guards know by identity, or as a class."""
    known: dict[int, Source] = {}
    wrappers: dict[int, Any] = {}
    admitted = {guard.source for guard in guards if guard.kind in ("type", "tensor")}
    looked_into = set()
    for guard in guards:
        if guard.kind == "is" and not leads_through(guard.source, guard.arg):
            known.setdefault(id(guard.arg), guard.source)
            if guard.source in admitted and type(guard.arg) is not FunctionType:
                looked_into.add(id(guard.arg))
            if type(guard.arg) in (_C.Region, _C.disabled):
                wrappers[id(guard.arg.__wrapped__)] = guard.arg
        elif guard.kind == "type":
            known.setdefault(id(guard.arg), TypeOf(guard.source))
    return Places(known, frozenset(looked_into), wrappers)


def leads_through(source: Source | None, value: Any) -> bool:
    """Whether a path has the object itself in it, as its root or a key: it is not found on that."""
    while source is not None:
        part = source.key if isinstance(source, Item) else source.held if isinstance(source, Const) else None
        if referred(part) is value:
            return True
        source = base_of(source)
    return False


def write_guard(writer: Writer, guard: Guard) -> Row:
    """A guard over the numbers of rows."""
    source, where = writer.add(guard.source), writer.add(guard.location)
    return [guard.kind, source, where, *_WRITERS.get(guard.kind, _plain)(writer, guard)]


def read_guards(reader: Reader, rows: list[Row]) -> list[Guard]:
    """The guards, for the call of the reader.

    Raises:
        Stale: one of them does not hold for it.
    """
    return [_read(reader, *row) for row in rows]


def _read(reader: Reader, kind: str, source: int, where: int, *fields: Any) -> Guard:
    place, location = reader.values[source], reader.values[where]
    if not isinstance(place, Source) or not isinstance(location, Location | None):
        raise ValueError("a guard is on a source")
    arg = _READERS.get(kind, _arg)(reader, place, *fields)
    if not _CHECKS[kind](arg):
        raise ValueError(f"a guard of kind {kind} has no such argument")
    return Guard(place, kind, arg, location)


# ---- writing ---------------------------------------------------------------------------------------------------------


def _plain(writer: Writer, guard: Guard) -> Row:
    return [writer.add(guard.arg)]


def _object(writer: Writer, guard: Guard) -> Row:
    """An object by its name, or as what is found where the guard looks."""
    if type(guard.arg) is CodeType:
        return [writer.at(guard.source, guard.arg)]
    try:
        return [writer.add(guard.arg)]
    except Unkept:
        return [writer.at(guard.source, guard.arg)]


def _class(writer: Writer, guard: Guard) -> Row:
    try:
        return [writer.add(guard.arg)]
    except Unkept:
        return [writer.at(TypeOf(guard.source), guard.arg)]


def _tensor(writer: Writer, guard: Guard) -> Row:
    return [writer.add(guard.arg.type), writer.add(guard.arg.parts)]


def _memory(writer: Writer, guard: Guard) -> Row:
    others, memory = guard.arg
    return writer.add_all((others, memory.written, memory.varying, memory.meetings))


def _fact_of_class(writer: Writer, guard: Guard) -> Row:
    cls = guard.source.value  # type: ignore[union-attr]  # of a constant source
    return [class_shape(cls)]


def _fact_of_names(writer: Writer, guard: Guard) -> Row:
    return [part for name, value in guard.arg.names.items() for part in (name, content(value))]


_WRITERS = {
    "is": _object,
    "equal": _object,
    "type": _class,
    "tensor": _tensor,
    "memory": _memory,
    "class": _fact_of_class,
    "names": _fact_of_names,
}

# ---- reading ---------------------------------------------------------------------------------------------------------


def _arg(reader: Reader, place: Source, arg: int) -> Any:
    return reader.values[arg]


def _spec(reader: Reader, place: Source, cls: int, parts: int) -> Any:
    tensor, wanted = reader.value_at(place), reader.values[parts]
    alike = reader.specs.get((cls, parts))
    if alike is not None and alike.matches(tensor):  # most of a model's tensors are like another one
        return alike
    (_, sizes, strides), _ = wanted
    if type(tensor) is not reader.values[cls] or not isinstance(tensor, torch.Tensor):
        raise Stale(f"`{written(place)}` was a {reader.values[cls].__name__}, is a {type(tensor).__name__}")
    try:
        spec = _C.TensorSpec(tensor, sizes, strides)
    except ValueError as error:
        raise Stale(str(error)) from None
    if spec.parts != wanted:
        raise Stale(f"`{written(place)}` {_difference(wanted, tensor)}")
    reader.specs[cls, parts] = spec
    return spec


def _difference(wanted: Any, tensor: torch.Tensor) -> str:
    (facts, sizes, _), _ = wanted
    if facts[0] != tensor.dtype:
        return f"was {facts[0]}, is {tensor.dtype}"
    if len(sizes) != tensor.dim() or any(
        size not in (None, now) for size, now in zip(sizes, tensor.shape, strict=True)
    ):
        return f"had size {anything(sizes)}, has {anything(tensor.shape)}"
    return "is another tensor"


def _in_memory(reader: Reader, place: Source, *fields: int) -> Any:
    others, written, varying, meetings = reader.all(fields)
    tensors = tuple(reader.value_at(source) for source in (place, *others))
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        raise Stale("inputs are no tensors")
    memory = _C.Memory(tensors, written, varying)
    if memory.meetings != meetings:
        raise Stale("inputs lie otherwise in memory")
    return others, memory


def _defined(reader: Reader, place: Any, shape: str) -> Any:
    cls = place.value
    if not isinstance(cls, type):
        raise ValueError("there is no class")
    if class_shape(cls) != shape:
        raise Stale(f"the class {cls.__qualname__} is another")
    return as_defined(cls)


def _bound(reader: Reader, place: Any, *parts: str) -> AsBound:
    names = dict(zip(parts[::2], parts[1::2], strict=True))
    namespace = reader.value_at(place)
    found = {name: namespace.get(name, DELETED) for name in names}
    for name, wanted in names.items():
        checked(found[name], wanted, name)
    return AsBound(place.module, found)


_READERS: dict[str, Any] = {"tensor": _spec, "memory": _in_memory, "class": _defined, "names": _bound}


def _is_called(arg: Any) -> bool:
    check_called(arg)
    return True


def _are_sources(arg: Any) -> bool:
    return type(arg) is tuple and all(isinstance(each, Source) for each in arg)


def _is_anything(arg: Any) -> bool:
    return True


#: What the argument of a guard is. (C looks at some of it, too.)
_CHECKS: dict[str, Callable[[Any], bool]] = {
    "type": lambda arg: isinstance(arg, type),
    "is": _is_anything,
    "equal": _is_anything,
    "length": lambda arg: type(arg) is int,
    "keys": lambda arg: type(arg) is tuple,
    "has": _is_anything,
    "lacks": _is_anything,
    "lacks_attr": lambda arg: type(arg) is str,
    "tensor": _is_anything,
    "same": lambda arg: isinstance(arg, Source),
    "different": _are_sources,
    "check": _is_called,
    "together": lambda arg: type(arg) is tuple and len(arg) == 2 and _are_sources(arg[0]) and _is_called(arg[1]),
    "memory": _is_anything,
    "class": _is_anything,
    "names": _is_anything,
}
