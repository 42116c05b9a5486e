"""Values of a capture as rows, and back: each row is one value, over the numbers of rows before it.

    0  ["int", 3]              3
    1  ["Arg", 0, "x"]         Arg(0, "x")
    2  ["tuple", 0, 1]         (3, Arg(0, "x"))

Equal values are one row, so paths share their beginnings. Objects of the program are rows that say where they are found
and what they were (`contents`): a reader looks there, in the process and for the call that it reads for.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from onegraph import _C
from onegraph.base.codec import Unkept
from onegraph.base.dataclass import dataclass
from onegraph.base.late import late_module
from onegraph.capture.calls.libraries import is_library
from onegraph.capture.captured import GRAPH, FrameStart
from onegraph.capture.guards.predicates import Portable
from onegraph.capture.guards.recompiling import MISSING, value_in
from onegraph.capture.guards.source import Const, Globals, Source, Through, base_of, describe
from onegraph.capture.kept.checks import check_called, import_own, made_class, portable_class, weigh
from onegraph.capture.kept.codes import Codes, Owner
from onegraph.capture.kept.contents import NATIVE, content
from onegraph.capture.pyobject.contents import DELETED
from onegraph.capture.pyobject.exact_types import dict_of
from onegraph.capture.pyobject.layout import instance_dict
from onegraph.capture.pyobject.weakly_known import Known, referred
from onegraph.capture.symbolic.shape_policy import History
from onegraph.ir.index import Call, Index, Symbol
from onegraph.torchlib.kept_graphs import OF_TORCH
from onegraph.torchlib.object_names import name_of, named

if TYPE_CHECKING:
    from onegraph.capture.interp.tracebacks import StandIn, stands_for
    from onegraph.capture.resume.resume_function import function_of
else:
    StandIn = late_module("onegraph.capture.interp.tracebacks").StandIn
    stands_for = late_module("onegraph.capture.interp.tracebacks").stands_for
    function_of = late_module("onegraph.capture.resume.resume_function").function_of

Row = list[Any]
OWN = "onegraph."
WRAPPING = (FunctionType, _C.Region, _C.disabled)


class Stale(Exception):
    """What was kept is of another program than this one, or of another call: the message says what differs."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where objects are found again, by their identity: `known` are those of guards, `looked_into` those among them of
    which the capture has assumed nothing without a guard, and `wrappers` what is around functions."""

    known: dict[int, Source]
    looked_into: frozenset[int]
    wrappers: dict[int, Any]


class Writer:
    """Makes the rows; `home` are the globals of the frame."""

    def __init__(self, codes: Codes, places: Places, home: dict[str, Any]) -> None:
        self.codes, self.places, self.home = codes, places, home
        self.rows: list[Row] = []
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._known: dict[int, int] = {}
        self._held: list[Any] = []

    def add(self, value: Any) -> int:
        """The number of the row of a value.

        Raises:
            Unkept: it has no form as rows.
        """
        known = self._known.get(id(value))
        if known is None:
            known = self.put(*_write(self, value))
            self._known[id(value)] = known
            self._held.append(value)
        return known

    def put(self, *row: Any) -> int:
        number = self._numbers.get(row)
        if number is None:
            number = self._numbers[row] = len(self.rows)
            self.rows.append(list(row))
        return number

    def add_all(self, values: Iterable[Any]) -> list[int]:
        return [self.add(value) for value in values]

    def mapping(self, value: Mapping[str, Any]) -> int:
        """The row of a dict that a reader makes anew: nobody knows it by its identity."""
        return self.put("dict", *[part for item in value.items() for part in self.add_all(item)])

    def at(self, source: Source, value: Any) -> int:
        """The row of an object that is found at a source."""
        place = self.add(source)
        looked_into = id(value) in self.places.looked_into
        row = ["found", place] if looked_into else ["at", place, content(value)]
        number = self._known[id(value)] = self.put(*row)
        self._held.append(value)
        return number


class Reader:
    """Makes the values again, for a call of a function; `history` is what is known of its sizes."""

    def __init__(self, rows: Sequence[Row], codes: Codes, start: FrameStart, history: History) -> None:
        self.codes, self.function, self.call, self.history = codes, start.function, start.values, history
        self.values: list[Any] = []
        self.found: dict[int, Source] = {}  # the objects that are what is there, by their identity
        self.specs: dict[tuple[int, int], _C.TensorSpec] = {}  # by the rows of their classes and parts
        self._read: dict[int, Any] = {}  # what the call has at a source, by the identity of that
        weights: list[int] = []
        for tag, *fields in rows:
            self.values.append(_READERS[tag](self, *fields))
            weigh(weights, tag, fields)

    def all(self, numbers: Iterable[int]) -> list[Any]:
        return [self.values[number] for number in numbers]

    def value_at(self, source: Source) -> Any:
        """What the call has at a source of a row, which is read once: nothing changes meanwhile."""
        if not isinstance(source, Source):
            raise ValueError("an object is found at a source")
        if id(source) not in self._read:
            owner = None if (base := base_of(source)) is None else self.value_at(base)
            self._read[id(source)] = value_in(owner, source, self.function, self.call)
        return self._read[id(source)]


def checked(value: Any, wanted: str, what: Any) -> Any:
    """The object, if it is what it was.

    Raises:
        Stale: it is not.
    """
    try:
        now = "nothing" if value is MISSING else content(value)
    except Unkept as why:
        now = str(why)
    if now != wanted:
        raise Stale(f"{what} was {wanted}, is {now}")
    return value


def check_named(module: str, path: str, wanted: str) -> None:
    """Import a module, and compare what it has at a path with what that was.

    Raises:
        Stale: it is another, or not there.
    """
    try:
        import_module(module)
        found = named(module, path)
    except (LookupError, ImportError) as error:
        raise Stale(str(error)) from None
    if wanted:
        checked(found, wanted, f"{module}.{path}")


# ---- writing ---------------------------------------------------------------------------------------------------------


def _write(writer: Writer, value: Any) -> Row:
    """The row of a value."""
    kind = type(value)
    if kind is float:
        return ["float", value.hex()]
    if (maker := _WRITERS.get(kind)) is not None:
        return maker(writer, value)
    if kind in OF_TORCH:
        return ["torch", kind.__name__, OF_TORCH[kind].name(value)]
    if kind is Globals or kind is Const:
        return _source_row(writer, value)
    if value is GRAPH:
        return ["graph"]
    if value is DELETED:
        return ["deleted"]
    own = str(kind.__module__).startswith(OWN)
    if own and isinstance(value, Portable):
        state = vars_of(value.portable()).items()
        parts = [(name, writer.mapping(held) if type(held) is dict else writer.add(held)) for name, held in state]
        return ["object", _class_path(kind), *[part for name, held in parts for part in (writer.add(name), held)]]
    if own and dataclasses.is_dataclass(kind):
        fields = [getattr(value, field.name) for field in dataclasses.fields(kind) if field.init]
        return ["made", _class_path(kind), *writer.add_all(fields)]
    return _object_row(writer, value)


def _source_row(writer: Writer, source: Any) -> Row:
    if type(source) is Globals:
        return ["globals", source.module, writer.add(source.namespace)]
    held = source.held
    value = referred(held)
    return ["const", source.text, writer.add(value)]


def _object_row(writer: Writer, value: Any) -> Row:
    """An object of the program or of a library."""
    if type(value) is dict:
        return _dict_row(writer, value)
    if type(value) is FunctionType and writer.codes.is_resuming(value):
        return ["resuming", writer.add(value.__code__), writer.add(value.__globals__)]
    name = name_of(value)
    if name is not None:
        wanted = "" if isinstance(value, type | ModuleType) or name[0].startswith(OWN) else content(value)
        return ["named", *name, wanted]
    if type(value) in NATIVE:
        owner, name = getattr(value, "__objclass__", None), value.__name__
        if isinstance(owner, type) and dict_of(owner).get(name) is value:
            return ["member", writer.add(owner), name]
    place = writer.places.known.get(id(value))
    if id(value) in writer.places.looked_into:
        return ["found", writer.add(place)]
    if place is not None:
        return ["at", writer.add(place), content(value)]
    wrapper = writer.places.wrappers.get(id(value)) or wrapper_of(value)
    if wrapper is not None:
        return ["wrapped", writer.add(wrapper), content(value)]
    named_so = getattr(value, "__qualname__", "")
    raise Unkept(f"an object of type {type(value).__qualname__} without a name: {named_so}")


def wrapper_of(value: Any) -> Any:
    """What a decorator has put into the place of a function, if it says so (`functools.wraps`)."""
    if type(value) is not FunctionType or "<locals>" in value.__qualname__:
        return None
    outer: Any = None
    with suppress(LookupError):
        outer = named(value.__module__, value.__qualname__)
    while type(outer) in WRAPPING:
        inner = vars(outer).get("__wrapped__")
        if inner is value:
            return outer
        outer = inner
    return None


def _dict_row(writer: Writer, value: dict[Any, Any]) -> Row:
    if value is writer.home:
        return ["home"]
    if value is sys.modules:
        return ["modules"]
    for name in (dict.get(value, "__name__"), getattr(dict.get(value, "__spec__"), "name", None)):
        if type(name) is str and instance_dict(sys.modules.get(name)) is value:
            return ["namespace", name]
    place = writer.places.known.get(id(value))
    if place is None:
        raise Unkept("a dict that belongs to no module")
    return ["at", writer.add(place), ""]


def _partial_row(writer: Writer, value: functools.partial[Any]) -> Row:
    """One that was made to ask, or to be called, with what it holds; those of the program have an identity."""
    if not is_library(str(getattr(value.func, "__module__", None))):
        return _object_row(writer, value)
    return ["partial", *writer.add_all((value.func, value.args)), writer.mapping(value.keywords)]


def _code_row(writer: Writer, code: CodeType) -> Row:
    found = writer.codes.find(code)
    if found is None:
        resumed = writer.codes.resumed(code)
        if resumed is not None:
            return ["resume", *writer.add_all(resumed)]
        raise Unkept(f"the code of {code.co_qualname}, which has no place")
    owner, path = found
    return ["code", writer.add(owner), *path]


def _known_row(writer: Writer, known: Known) -> Row:
    value = known()
    if value is None:
        raise Unkept("an object that has died")
    return ["known", writer.add(value)]


def _frame_row(writer: Writer, frame: FrameType) -> Row:
    """A frame object that stands for an interpreted frame. Lines count from the first one of its function."""
    made = stands_for(frame, writer.codes.all())
    if made is None:
        raise Unkept(f"a frame of {frame.f_code.co_qualname}")
    position = moved(made.position, -made.code.co_firstlineno)
    return ["frame", *writer.add_all((made.code, position, made.namespace, made.bound))]


def moved(position: Any, lines: int) -> Any:
    """A position so many lines further down."""
    if position is None:
        return None
    line, end, *columns = position
    return (line + lines, None if end is None else end + lines, *columns)


def _disabled_row(writer: Writer, value: Any) -> Row:
    if value.code is not None:
        return _object_row(writer, value)
    return ["disabled", writer.add(value.__wrapped__)]


def vars_of(value: Any) -> dict[str, Any]:
    """The attributes of an object of this package."""
    if hasattr(value, "__dict__"):
        return dict(vars(value))
    return {name: getattr(value, name) for name in type(value).__slots__}


def _class_path(cls: type) -> str:
    if "<locals>" in cls.__qualname__:
        raise Unkept(f"an object of {cls.__qualname__}")
    return f"{cls.__module__}:{cls.__qualname__}"


_WRITERS: dict[type, Callable[[Writer, Any], Row]] = {
    type(None): lambda writer, value: ["none"],
    bool: lambda writer, value: ["bool", value],
    int: lambda writer, value: ["int", value],
    str: lambda writer, value: ["str", value],
    complex: lambda writer, value: ["complex", value.real.hex(), value.imag.hex()],
    bytes: lambda writer, value: ["bytes", base64.b64encode(value).decode()],
    tuple: lambda writer, value: ["tuple", *writer.add_all(value)],
    frozenset: lambda writer, value: ["frozenset", *sorted(writer.add_all(value))],
    slice: lambda writer, value: ["slice", *writer.add_all((value.start, value.stop, value.step))],
    CodeType: _code_row,
    FrameType: _frame_row,
    Known: _known_row,
    _C.disabled: _disabled_row,
    functools.partial: _partial_row,
    History: lambda writer, value: ["history"],
    Index: lambda writer, value: ["index", writer.add(value.terms)],
    Symbol: lambda writer, value: ["symbol", value.name, writer.add(value.extent), value.signed],
    Call: lambda writer, value: ["operation", value.op, *writer.add_all((value.a, value.b))],
    Owner: lambda writer, value: ["owner", value.kind, writer.add(value.function)],
}  # fmt: skip

# ---- reading ---------------------------------------------------------------------------------------------------------


def _made(reader: Reader, path: str, *fields: int) -> Any:
    cls, checks = made_class(path)
    values = reader.all(fields)
    for (name, is_right), value in zip(checks, values, strict=True):
        if not is_right(value):
            raise ValueError(f"{cls.__qualname__} has no such {name}")
    made = cls(*values)
    if cls is Through:
        check_called(made.function)
    return made


def _object(reader: Reader, path: str, *parts: int) -> Any:
    made = object.__new__(portable_class(path))
    values = reader.all(parts)
    for name, value in zip(values[::2], values[1::2], strict=True):
        object.__setattr__(made, name, value)
    check_called(made)
    return made


def _named(reader: Reader, module: str, path: str, wanted: str) -> Any:
    import_own(module)
    try:
        found = named(module, path)
    except LookupError as error:
        raise Stale(str(error)) from None
    return checked(found, wanted, f"{module}.{path}") if wanted else found


def _namespace(reader: Reader, module: str) -> Any:
    try:
        return vars(named(module, ""))
    except LookupError as error:
        raise Stale(str(error)) from None


def _wrapped(reader: Reader, wrapper: int, wanted: str) -> Any:
    outer = reader.values[wrapper]
    inner = vars(outer).get("__wrapped__", MISSING) if type(outer) in WRAPPING else MISSING
    return checked(inner, wanted, f"what {getattr(outer, '__qualname__', outer)} is around")


def _found(reader: Reader, place: int) -> Any:
    source = reader.values[place]
    found = reader.value_at(source)
    if found is MISSING:
        raise Stale(f"{describe(source)} is not there")
    other = reader.found.setdefault(id(found), source)
    if other is not source:
        raise Stale(f"{describe(other)} and {describe(source)} are one object now")
    return found


def _at(reader: Reader, place: int, wanted: str) -> Any:
    source = reader.values[place]
    found = reader.value_at(source)
    if wanted:
        return checked(found, wanted, describe(source))
    if type(found) is not dict:
        raise Stale(f"{describe(source)} is no dict")
    return found


def _member(reader: Reader, owner: int, name: str) -> Any:
    cls = reader.values[owner]
    if name not in dict_of(cls):
        raise Stale(f"{cls.__qualname__} has no {name}")
    return dict_of(cls)[name]


def _const(reader: Reader, text: str, value: int) -> Const:
    held = reader.values[value]
    return Const(id(held), text, held)


def _globals(reader: Reader, module: str, namespace: int) -> Globals:
    real = reader.values[namespace]
    return Globals(id(real), module, real)


def _dict(reader: Reader, *parts: int) -> dict[Any, Any]:
    values = reader.all(parts)
    return dict(zip(values[::2], values[1::2], strict=True))


def _partial(reader: Reader, function: int, args: int, keywords: int) -> Any:
    values = reader.values
    return functools.partial(values[function], *values[args], **values[keywords])


def _frame(reader: Reader, *fields: int) -> FrameType:
    code, position, namespace, bound = reader.all(fields)
    return StandIn(code, moved(position, code.co_firstlineno), namespace, bound).frame()


def _owner(reader: Reader, kind: str, function: int) -> Owner:
    found = reader.values[function]
    if found is not None and type(found) is not FunctionType:
        raise ValueError("code is that of a function")
    return Owner(kind, found)


def _torch(reader: Reader, kind: str, name: str) -> Any:
    return _TORCH[kind](name)


_TORCH = {kind.__name__: each.find for kind, each in OF_TORCH.items()}
_READERS: dict[str, Callable[..., Any]] = {
    "none": lambda reader: None,
    "bool": lambda reader, value: bool(value),
    "int": lambda reader, value: int(value),
    "str": lambda reader, value: str(value),
    "float": lambda reader, text: float.fromhex(text),
    "complex": lambda reader, real, imaginary: complex(float.fromhex(real), float.fromhex(imaginary)),
    "bytes": lambda reader, text: base64.b64decode(text, validate=True),
    "tuple": lambda reader, *items: tuple(reader.all(items)),
    "frozenset": lambda reader, *items: frozenset(reader.all(items)),
    "slice": lambda reader, *items: slice(*reader.all(items)),
    "dict": _dict,
    "torch": _torch,
    "graph": lambda reader: GRAPH,
    "deleted": lambda reader: DELETED,
    "modules": lambda reader: sys.modules,
    "home": lambda reader: reader.function.__globals__,
    "namespace": _namespace,
    "globals": _globals,
    "const": _const,
    "named": _named,
    "member": _member,
    "at": _at,
    "found": _found,
    "wrapped": _wrapped,
    "made": _made,
    "object": _object,
    "known": lambda reader, value: Known(reader.values[value]),
    "disabled": lambda reader, value: _C.disabled(reader.values[value]),
    "partial": _partial,
    "frame": _frame,
    "history": lambda reader: reader.history,
    "index": lambda reader, terms: Index(reader.values[terms]),
    "symbol": lambda reader, name, extent, signed: Symbol(name, reader.values[extent], signed),
    "operation": lambda reader, operation, a, b: Call(operation, reader.values[a], reader.values[b]),
    "owner": _owner,
    "code": lambda reader, owner, *path: reader.codes.code_at(reader.values[owner], path),
    "resuming": lambda reader, code, namespace: function_of(reader.values[code], reader.values[namespace]),
    "resume": lambda reader, *fields: reader.codes.resume_code(*reader.all(fields)),
}
