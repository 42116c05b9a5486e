"""Functions of Python's library that are called as they are: what they do, they do to what the trace has made."""

from __future__ import annotations

import _statistics
import collections
import dataclasses
import enum
import functools
import io
import json
import sys
import threading
import types
from typing import Any

from onegraph.capture import breaks as b
from onegraph.capture.breaks import GraphBreak
from onegraph.capture.breaks.operator_reasons import contains_tensor
from onegraph.capture.calls.registry import native, policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.guards.source import Const
from onegraph.capture.heap.tensor_texts import holds_marked
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.pyobject.layout import instance_dict
from onegraph.torchlib.state import untraced

native("deep", str.maketrans, bytes.maketrans, bytearray.maketrans, _statistics._normal_dist_inv_cdf)


@policy(functools.partial)
def partial(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A partial function of one that never had attributes takes what that has, and the function that it is of."""
    inner = args[0] if args else None
    real = tracer.world.real_of.get(id(inner))
    if isinstance(real, functools.partial):
        is_plain = instance_dict(real) is None
        tracer.world.guard(tracer.world.origin[id(inner)], "check", has_no_dict if is_plain else has_dict)
    return tracer.call_type_natively(functools.partial, args, kwargs)


def has_no_dict(value: Any) -> bool:
    return instance_dict(value) is None


def has_dict(value: Any) -> bool:
    return not has_no_dict(value)


# ---- classes ---------------------------------------------------------------------------------------------------------


def made_class(tracer: Tracing, cls: Any) -> Any:
    """Note that the trace has made a class, and the functions in it."""
    tracer.world.made_classes[id(cls)] = tracer.world.keep(cls)
    for found in vars(cls).values():
        value = found.__func__ if type(found) in (staticmethod, classmethod) else found
        if isinstance(value, types.FunctionType) and is_of_class(tracer, value, cls):
            tracer.world.made_functions[id(value)] = tracer.world.keep(value)
    return cls


def is_of_class(tracer: Tracing, function: types.FunctionType, cls: type) -> bool:
    """Whether a function was made with a class: in its module, from a text, or with variables of the maker."""
    home = function.__globals__.get("__name__")
    made = home == cls.__module__ or home not in sys.modules
    return made or bool(function.__closure__) and not tracer.world.is_outside(function)


@policy(collections.namedtuple)
def namedtuple(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    args = tuple(tracer.world.realize_deep(value) for value in args)
    module = tracer.frames[-1].globals.get("__name__", "__main__")
    with untraced():
        return made_class(tracer, collections.namedtuple(*args, **{"module": module, **kwargs}))


def _decorator(function: Any) -> None:
    """A function that adds methods to a class: it may do so to classes of the trace."""

    @policy(function)
    def decorate(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not tracer.was_made(args[0]):
            raise GraphBreak(b.CLASS_WRITE, what=f"methods of {getattr(args[0], '__qualname__', args[0])}")
        with untraced():
            return made_class(tracer, function(*args, **kwargs))


_decorator(dataclasses._process_class)  # type: ignore[attr-defined]
_decorator(functools.total_ordering)


def same_function(a: Any, b: Any) -> bool:
    """Whether two methods are of one function."""
    return a.__func__ is b.__func__


@policy(enum.EnumType.__call__)
def look_up(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Flags make members for combinations when they are asked for, and remember them."""
    cls, *values = args
    plain = issubclass(cls, enum.Flag) and same_function(cls._missing_, enum.Flag._missing_)
    if not plain or tracer.was_made(cls) or len(values) != 1 or kwargs or not isinstance(values[0], int):
        return tracer.interpret(enum.EnumType.__call__, args, kwargs)
    with untraced():
        member = cls(*values)
    return tracer.world.admit(member, Const(id(member), repr(member), member), guarded=False)


@policy(enum.Flag.__invert__)
def invert(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Members remember what they are the inverse of: that is the class's own business."""
    with untraced():
        member = ~args[0]
    return tracer.world.admit(member, Const(id(member), repr(member), member), guarded=False)


# ---- threads ---------------------------------------------------------------------------------------------------------

#: Modules that ask which objects and threads are the same, and keep the answer to themselves.
ASKING = frozenset({"copy", "dataclasses", "reprlib", "pprint"})


def asks_for_itself(tracer: Tracing) -> bool:
    return bool(tracer.frames) and tracer.frames[-1].globals.get("__name__") in ASKING


@policy(threading.get_ident)
def get_ident(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    if not asks_for_itself(tracer):
        raise GraphBreak(b.PROCESS_IDENTITY, name="threading.get_ident", what="threading.get_ident")
    return threading.get_ident()


# ---- texts -----------------------------------------------------------------------------------------------------------


def _encoder(function: Any) -> None:
    @policy(function)
    def encode(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        options = {name: tracer.world.realize_deep(option) for name, option in kwargs.items()}
        values = [*map(tracer.world.realize_deep, args), *options.values()]
        if any(map(callable, options.values())) or contains_tensor(values) or holds_marked(values):
            return tracer.interpret(function, args, kwargs)
        with untraced():
            return function(*(tracer.numbers.concrete_deep(value, "text") for value in args), **options)


_encoder(json.dumps)
_encoder(json.loads)


@policy(print)
def print_(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Printing into a buffer that the trace has made is writing to it."""
    file = kwargs.get("file")
    if not isinstance(file, io.StringIO) or tracer.world.is_outside(file):
        raise GraphBreak(b.PRINT, name="print", what="print")
    write = tracer.getattr(file, "write")
    for index, value in enumerate(args):
        if index:
            tracer.call(write, (separator(kwargs, "sep", " "),), {})
        tracer.call(write, (tracer.convert(value, "str"),), {})
    tracer.call(write, (separator(kwargs, "end", "\n"),), {})


def separator(kwargs: dict[str, Any], name: str, default: str) -> Any:
    return default if kwargs.get(name) is None else kwargs[name]
