"""Which state a call can reach: its arguments, what its function is bound to, closes over and names.

The walk goes through objects of the program. Into functions it goes for their variables, where they are not of the
standard library, of torch or installed packages: those keep what they know to themselves.
"""

from __future__ import annotations

import functools
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType

import torch

from onegraph.base.dataclass import dataclass
from onegraph.tools.verification import holders
from onegraph.tools.verification.holders import Contents, Holder
from onegraph.torchlib.wrappers import flattened, is_wrapper

#: Values that hold nothing, and never change.
ATOMS = (bool, int, float, complex, str, bytes, type(None), range, slice, torch.dtype, torch.device, torch.Size)
#: Modules of which objects are not looked into.
CLOSED = frozenset(sys.stdlib_module_names) - {"__main__", "collections", "types"} | {"onegraph", "numpy"}
#: Where torch has objects with a state of the program's; others of its objects are not looked into.
OPEN = ("torch.nn.", "torch.optim.", "torch.amp.", "torch.distributions.")
DOTTED = ("_parameters", "_buffers", "_modules")
INSTALLED = ("site-packages", "dist-packages")


@dataclass(frozen=True, slots=True)
class Found:
    """One holder of state, and how the program reaches it."""

    path: str
    target: object
    holder: Holder


def reach(roots: Iterable[tuple[str, object]]) -> list[Found]:
    """All holders that can be reached from these values, the nearest first."""
    found: list[Found] = []
    waiting = deque(roots)
    seen: set[int] = set()
    variables: dict[int, set[str]] = {}
    while waiting:
        path, value = waiting.popleft()
        if isinstance(value, ATOMS) or id(value) in seen:
            continue
        seen.add(id(value))
        named = globals_of(value, variables) if isinstance(value, FunctionType) else []
        for holder, at in [*holders_of(path, value), *named]:
            if isinstance(holder, holders.Entries):
                seen.add(id(holder.target))
            found.append(Found(at, value, holder))
            if not isinstance(holder, holders.Settable):  # whose contents are made when one asks
                waiting.extend((at + end, held) for end, held in holder.contents())
    return found


def holders_of(path: str, value: object) -> Iterator[tuple[Holder, str]]:
    """What holds the state of one value, each with its path."""
    settable = holders.settable(value)
    if settable is not None:
        yield settable, path
        return
    match value:
        case torch.Tensor():
            yield holders.TensorFacts(value), path
            if is_wrapper(value):  # its other attributes are what it keeps about them
                parts = flattened(value)[0]
                yield holders.Fixed(tuple((f".{name}", getattr(value, name)) for name in parts)), path
            else:
                yield holders.Entries(vars(value), is_named=True), path
        case dict():
            yield holders.Entries(value), path
        case list() | deque():
            yield holders.Sequence(value), path
        case tuple() | frozenset():
            yield holders.Fixed(holders.named_parts("", value)), path
        case set():
            yield holders.Members(value), path
        case MethodType():
            yield holders.Fixed((("", value.__self__), ("", value.__func__))), path
        case functools.partial():
            yield holders.Fixed((("", value.func), (".args", value.args), (".keywords", value.keywords))), path
        case FunctionType():
            yield from of_function(path, value)
        case type():
            yield from of_class(value)
    if not isinstance(value, torch.Tensor | FunctionType | MethodType | BuiltinFunctionType | type | ModuleType):
        yield from of_instance(path, value)


def of_function(path: str, function: FunctionType) -> Iterator[tuple[Holder, str]]:
    """The variables around a function, its defaults and its attributes."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield holders.Cell(cell), name
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    yield holders.Fixed(tuple((f"a default of {function.__name__}", value) for value in defaults)), ""
    if is_program(function):
        yield holders.Entries(vars(function), is_named=True), path or function.__name__


def globals_of(function: FunctionType, known: dict[int, set[str]]) -> list[tuple[Holder, str]]:
    """The global variables that a function of the program names, without those that others have named before."""
    if not is_program(function):
        return []
    names = known.setdefault(id(function.__globals__), set())
    new = tuple(sorted({name for name in names_of(function.__code__) if name in function.__globals__} - names))
    names.update(new)
    return [(holders.Variables(function.__globals__, new), "")] if new else []


def names_of(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from names_of(inner)


def of_class(cls: type) -> Iterator[tuple[Holder, str]]:
    """The data of a class of the program, and what its methods reach."""
    if not is_program(cls):
        return
    held: Contents = [(name, value) for name, value in vars(cls).items() if not name.startswith("__")]
    functions = [function for _, value in held for function in functions_in(value)]
    init = vars(cls).get("__call__")
    functions += [init] if isinstance(init, FunctionType) else []
    data = tuple(name for name, value in held if not functions_in(value))
    yield holders.ClassAttributes(cls, data), cls.__name__
    yield holders.Fixed(tuple(("", function) for function in functions)), ""
    yield holders.Fixed(tuple(("", base) for base in cls.__bases__)), ""


def functions_in(value: object) -> list[FunctionType]:
    """A function, or those behind a property, a static method or a class method."""
    match value:
        case staticmethod() | classmethod():
            value = value.__func__
        case property():
            return [each for each in (value.fget, value.fset, value.fdel) if isinstance(each, FunctionType)]
    return [value] if isinstance(value, FunctionType) else []


def of_instance(path: str, value: object) -> Iterator[tuple[Holder, str]]:
    """The attributes of an object, and its class."""
    cls = type(value)
    held = getattr(value, "__dict__", None)
    if isinstance(held, dict) and "__wrapped__" in held:  # what is compiled, or cached
        yield holders.Fixed((("", held["__wrapped__"]),)), ""
    if is_closed(cls) and not isinstance(value, torch.nn.Module):
        return
    if isinstance(held, dict):
        if not isinstance(value, torch.fx.GraphModule):  # which has its graph beside its state
            yield holders.Entries(held, is_named=True), path
        if isinstance(value, torch.nn.Module):
            for name in DOTTED:
                if isinstance(held.get(name), dict):
                    yield holders.Entries(held[name], is_named=True), path
    if not isinstance(value, tuple) and (names := holders.slots_of(value)):
        yield holders.Slots(value, names), path
    yield holders.Fixed((("", cls),)), ""


def is_closed(cls: type) -> bool:
    """Whether objects of a class are not looked into: what they hold is not the program's."""
    name = cls.__module__ if isinstance(cls.__module__, str) else ""
    return root_of(name) in CLOSED or root_of(name) == "torch" and not name.startswith(OPEN)


def root_of(module: object) -> str:
    return module.partition(".")[0] if isinstance(module, str) else ""


def is_program(value: FunctionType | type) -> bool:
    """Whether a function or class is of the program, and not of a library."""
    if root_of(value.__module__) in CLOSED | {"torch", "builtins"}:
        return False
    if isinstance(value, FunctionType):
        filename: object = value.__code__.co_filename
    else:
        filename = getattr(sys.modules.get(value.__module__), "__file__", "")
    return not (isinstance(filename, str) and any(f"/{part}/" in filename for part in INSTALLED))


def named_arguments(names: Iterable[str], args: Iterable[object], kwargs: Mapping[str, object]) -> Contents:
    """The arguments of a call by the names of its parameters; those without a name by their number."""
    listed = list(names)
    found: Contents = []
    for number, value in enumerate(args):
        found.append((listed[number] if number < len(listed) else f"args[{number}]", value))
    return [*found, *kwargs.items()]
