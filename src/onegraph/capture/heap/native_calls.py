"""What kind of native function is about to be called, and what it would see of its arguments."""

from __future__ import annotations

import collections
import functools
import io
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from onegraph.capture.breaks import UNTRACEABLE_OPERATOR, GraphBreak
from onegraph.capture.breaks.hints import refuse_outside_class, refused_native
from onegraph.capture.calls.libraries import is_library
from onegraph.capture.calls.registry import MODULES, refusal_of
from onegraph.capture.interp.functions import NOTHING_KNOWN, Depth, row_for, row_of
from onegraph.capture.pyobject.contents import ATOMS
from onegraph.capture.pyobject.exact_types import defined, defines, isinstance, mro_of, plain
from onegraph.capture.pyobject.native_iterators import FORWARD, OVER_TABLES
from onegraph.capture.pyobject.native_members import FUNC_OF
from onegraph.torchlib.private import ScriptFunction, ScriptMethod

T = TypeVar("T")
NATIVE_FUNCTIONS = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
)
#: The methods that say which number an object is.
NUMBERS = ("__index__", "__int__", "__float__", "__complex__")
#: What torch asks a sequence for its items.
ITEMS = ("__iter__", "__getitem__", "__len__")
SCRIPTED_TYPES = (ScriptFunction, ScriptMethod)

for _class in (
    *ATOMS, torch.SymInt, torch.SymFloat, torch.SymBool, range, slice, *FORWARD, *OVER_TABLES, type(reversed([])),
    types.GeneratorType,  # which the interpreter runs
):  # fmt: skip
    row_for(_class).quiet = True
for _class in (collections.defaultdict, functools._lru_cache_wrapper):
    row_for(_class).calls_given = True
for _function in (iter, reversed, zip, list, tuple, slice, operator.concat, operator.iconcat):
    row_for(_function).hands_on = True


def taken(native: Callable[[Any], T], name: str, owner: type, result: Any) -> T:
    """What a native function makes of what the method `name` of a class has given: it may refuse it, or convert it."""
    asked = type(owner.__name__, (), {name: lambda self: result})
    return native(asked())


def refuse_tensor_like(value: Any) -> None:
    """Break the graph where torch would ask the program which number an object is, or for its items."""
    match plain(value):
        case tuple() | list():
            refuse_asked(type(value), ITEMS)
            for item in value:
                refuse_tensor_like(item)
        case dict():
            for item in value.values():
                refuse_tensor_like(item)
        case torch.Tensor():
            pass
        case _ if type(value) not in ATOMS and not is_library(type(value).__module__ or ""):
            if not defines(type(value), "__torch_function__"):
                refuse_asked(type(value), NUMBERS)


def refuse_asked(cls: type, methods: Sequence[str]) -> None:
    """Break the graph if any of these is a method in Python, which torch would call out of our sight."""
    if any(isinstance(defined(cls, name), types.FunctionType) for name in methods):
        raise GraphBreak(UNTRACEABLE_OPERATOR, name="an operator", error=f"its argument is a {cls}")


def is_buffer(cls: type) -> bool:
    """Whether a class is that of a file in memory, whose finalizer only closes it."""
    return cls in (io.StringIO, io.BytesIO)


def keeps_texts(function: Any) -> bool:
    """Whether a native function only keeps the strings that it is given."""
    return isinstance(kept_by(function), list | dict | set) or (
        isinstance(function, type) and issubclass(function, BaseException)
    )


def takes_symbols(function: Any) -> bool:
    """Whether symbolic numbers may stay what they are among the arguments of a native function, at any depth."""
    keeps = keeps_texts(function) and not isinstance(kept_by(function), dict | set)
    return is_torch(function) or row_of(function).hands_on or keeps


def kept_by(function: Any) -> Any:
    """The container of a method that keeps what it is given."""
    return function if isinstance(function, type) else getattr(function, "__self__", function)


def bound_to(function: Any) -> Any:
    """What a native function is bound to, if anything. A class is not asked."""
    return None if isinstance(function, type) else getattr(function, "__self__", None)


def run_among(names: dict[str, Any], hook: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call native code in a frame with these globals: a class takes the name of its module from them."""
    return types.FunctionType(_hooked.__code__, names)(hook, function, args, kwargs)


def _hooked(hook: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with hook:
        return function(*args, **kwargs)


def is_torch(function: Any) -> bool:
    """Whether a native function belongs to torch: what it calls is torch's own business, and is recorded."""
    module = getattr(function, "__module__", None)
    if module is None:  # of a method; a class is not asked for more, which might run code of its own
        module = getattr(getattr(function, "__objclass__", None), "__module__", "")
    named = isinstance(module, str) and module.partition(".")[0] == "torch"
    owner = bound_to(function)
    of_tensors = isinstance(owner, types.GetSetDescriptorType) and issubclass(torch.Tensor, owner.__objclass__)
    return named or of_tensors or isinstance(owner, torch.Tensor)


def receiver_of(function: Any) -> Any:
    """The object that a native function is a method of. (pybind11 binds its functions to records that are none.)"""
    owner = bound_to(function)
    if isinstance(owner, types.ModuleType) and type(function) is not types.MethodWrapperType:  # one of its functions
        return None
    if not (isinstance(owner, type) or defines(type(owner), function.__name__)):
        return None
    return owner


def depth_of(function: Any) -> Depth:
    """How far a native function looks into its arguments; of a bound one, the descriptor is in the table."""
    known = row_of(function).depth
    receiver = bound_to(function)
    if known is None and receiver is not None and not isinstance(receiver, types.ModuleType | type):
        known = row_of(defined(type(receiver), function.__name__)).depth
    return known or "deep"


def refuse_calls(function: Any, given: Sequence[Any], refuse_opaque: Callable[[Any], None]) -> None:
    """Break the graph where a native function may call one that breaks it. Most classes only keep what they get."""
    if isinstance(function, operator.methodcaller) and given and isinstance(given[0], types.ModuleType):
        raise refused_native(function, "operator", "methodcaller")
    if not isinstance(function, type) or any(row_of(base).calls_given for base in mro_of(function)):
        for value in given:
            refuse_called(value, refuse_opaque)


def refuse_called(value: Any, refuse_opaque: Callable[[Any], None]) -> None:
    """Break the graph where native code is given what breaks it when it is called: it calls that out of our sight."""
    refuse = row_of(value).refuse
    match plain(value):
        case functools.partial():
            refuse_called(FUNC_OF(value), refuse_opaque)
        case types.FunctionType():
            refuse = refuse or refusal_of(value)
        case type():
            refuse_outside_class(value, is_library)
        case types.BuiltinFunctionType() | types.MethodWrapperType():
            receiver = receiver_of(value)
            refuse = refuse or row_of(defined(type(receiver), value.__name__)).refuse
            refuse_opaque(receiver)
            if refuse is None and receiver is None:
                refuse_unknown(value)
    if refuse is not None:
        refuse()


def refuse_unknown(function: Any) -> None:
    """Break the graph at a native function of a module that may do anything."""
    module = getattr(function, "__module__", None) or ""
    known = module in MODULES or module.partition(".")[0] == "torch"
    if not known and row_of(function) is NOTHING_KNOWN:
        raise refused_native(function, module, function.__name__)
