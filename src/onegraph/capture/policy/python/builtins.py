"""Python's builtin functions over the shadow world."""

from __future__ import annotations

import builtins
import collections
import contextlib
import datetime
import functools
import inspect
import itertools
import logging
import os
import pdb
import re
import sys
import threading
import time
import types
import typing
import weakref
from collections.abc import Callable
from typing import Any

import torch

from onegraph.capture import breaks as b
from onegraph.capture.breaks import GraphBreak
from onegraph.capture.breaks.hints import refused_method
from onegraph.capture.calls.libraries import is_library
from onegraph.capture.calls.registry import breaks, native, policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.guards.process_facts import limit_now
from onegraph.capture.guards.source import NOWHERE, Through
from onegraph.capture.heap.native_calls import refuse_called, taken
from onegraph.capture.heap.world import ADDRESSES
from onegraph.capture.interp import substitutes
from onegraph.capture.interp.rests import HASHED, Rest
from onegraph.capture.policy.python.iteration import items_of
from onegraph.capture.policy.python.library import asks_for_itself
from onegraph.capture.pyobject.contents import ATOMS
from onegraph.capture.pyobject.exact_types import defined, defines, isinstance
from onegraph.torchlib.arrays.array import Array

native("identity", object.__new__, object.__init__, dict.__new__, list.__new__, set.__new__, Exception.__new__)
native("identity", callable, contextlib.nullcontext)
native(
    "level",
    builtins.iter,
    builtins.reversed,
    builtins.enumerate,
    builtins.zip,
    builtins.list,
    builtins.tuple,
)
native("pairs", builtins.dict, dict.update)
native("level", builtins.set, builtins.frozenset, itertools.chain, itertools.islice)
native("identity", list.insert, list.pop, list.clear, list.reverse, list.copy)
native("identity", dict.keys, dict.values, dict.items, dict.pop, dict.setdefault, dict.clear, dict.copy)


@policy(set.pop)
def set_pop(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Which of its elements a set gives is decided by its past, which one from outside does not tell."""
    if tracer.world.is_outside(args[0]) and len(args[0]) > 1:
        raise GraphBreak(b.SET_ORDER)
    return args[0].pop()


native("level", list.extend, set.add, set.discard, set.remove, set.clear, set.copy)
breaks(b.LOGGING, logging.getLogger, logging.basicConfig, logging.debug, logging.info, logging.warning, logging.error)
breaks(b.LOGGING, logging.log, logging.critical, logging.exception)
breaks(b.INPUT, input)
breaks(b.FILE_SYSTEM, open)
breaks(b.CODE_COMPILATION, compile)
breaks(b.DEBUGGER, breakpoint, pdb.set_trace)
breaks(b.PROCESS, os.system)
breaks(b.MODULE_WRITE, types.ModuleType.__init__)
breaks(b.EXIT, sys.exit, os._exit)
breaks(b.SAVE_LOAD, torch.save, torch.load)
breaks(b.CLOCK, time.time, time.perf_counter, time.monotonic, time.process_time, time.time_ns)
breaks(b.CLOCK, time.perf_counter_ns, time.monotonic_ns, vars(datetime.datetime)["now"])
breaks(b.CLOCK, vars(datetime.datetime)["utcnow"], vars(datetime.date)["today"])
breaks(b.SLEEP, time.sleep)
breaks(b.ENTROPY, os.urandom)
breaks(b.PROCESS_IDENTITY, os.getpid, threading.get_native_id)
breaks(b.FRAME_ACCESS, globals, locals)
breaks(b.DYNAMIC_CODE, exec, eval)


@policy(builtins.__build_class__, passing=True)
def build_class(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any], rest: Rest | None) -> Any:
    return tracer.build_class(args, kwargs, rest)


@policy(os.fspath)
def fspath(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    (path,) = args
    if isinstance(path, str | bytes) or not defines(type(path), "__fspath__"):
        return os.fspath(path)
    return tracer.call(tracer.getattr(path, "__fspath__"), (), {})


@policy(type)
def type_(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) == 1 and not kwargs:
        return tracer.type_of(args[0])
    return tracer.call_type_natively(type, args, kwargs)


@policy(id)
def id_(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    if not asks_for_itself(tracer) or tracer.world.is_outside(tracer.frames[-1].locals.get("memo")):
        return identity(tracer, args[0], id)
    number = id(tracer.world.real(args[0]))
    if type(args[0]) not in ATOMS:
        tracer.world.identities.add(number)
    return number


def identity(tracer: Tracing, value: Any, number: Callable[[Any], int]) -> int:
    """The number that `id` or `hash` gives the real object. That of an object of the trace must not outlive it."""
    real = tracer.world.real(value)
    if not is_library(str(tracer.frames[-1].globals.get("__name__"))):  # Python's own look for what they have seen
        tracer.world.unkept = ADDRESSES
    if tracer.world.is_outside(value):
        tracer.world.guard(tracer.world.origin[id(value)], "is", real)
    elif type(value) not in ATOMS:
        tracer.world.identities.add(number(real))
    return number(real)


@policy(hash)
def hash_(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    value = tracer.numbers.concrete(args[0], "hash")
    method = defined(type(value), "__hash__")
    if isinstance(value, torch.Tensor):
        return identity(tracer, value, id)
    if isinstance(method, types.FunctionType):
        result = tracer.numbers.concrete(tracer.call(method, (value,), {}, HASHED), "hash")
        known = type(result) is int and -1 < result <= sys.maxsize
        return result if known else taken(hash, "__hash__", type(value), result)
    tracer.world.note_order(value)
    if method is object.__hash__:
        return identity(tracer, value, hash)
    return tracer.run_native(hash, (value,), kwargs)


def attribute_name(name: Any) -> str:
    """The name that is asked for, which native code wants to be a string."""
    if not isinstance(name, str):
        object.__getattribute__(None, name)  # which raises
    text: str = name
    return text


@policy(*{object.__setattr__, type.__setattr__, types.ModuleType.__setattr__})  # some are the same from Python 3.13 on
def object_setattr(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    owner, name, value = args
    tracer.write_generic(owner, attribute_name(name), value)


@policy(BaseException.with_traceback)
def with_traceback(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    error, traceback = args
    tracer.write_generic(error, "__traceback__", traceback)
    return error


@policy(*{object.__delattr__, type.__delattr__, types.ModuleType.__delattr__})
def object_delattr(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    owner, name = args
    tracer.write_generic(owner, attribute_name(name))


@policy(object.__getattribute__, types.ModuleType.__getattribute__)
def object_getattribute(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    owner, name = args
    if isinstance(owner, type | types.ModuleType | types.FunctionType):  # which have names of their own
        raise refused_method(object, "__getattribute__")
    return tracer.generic_getattr(owner, attribute_name(name))


@policy(type.__getattribute__)
def type_getattribute(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    cls, name = args
    return tracer.type_getattr(cls, attribute_name(name))


@policy(vars)
def vars_(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not args:
        raise GraphBreak(b.FRAME_ACCESS, name="vars")
    try:
        return tracer.getattr(args[0], "__dict__")
    except AttributeError:
        raise TypeError("vars() argument must have __dict__ attribute") from None


@policy(dir)
def dir_(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not args:
        raise GraphBreak(b.FRAME_ACCESS, name="dir")
    if isinstance(args[0], torch.Tensor):  # the fake has names of its own
        raise GraphBreak(b.TENSOR_MEMORY, what="dir")
    if type(args[0]) is types.ModuleType:  # their names with those that the program has written
        names = tracer.getattr(args[0], "__dict__")
        if not tracer.contains("__dir__", names):
            return tracer.call(sorted, (names,), {})
    if type(args[0]) is types.FunctionType:
        names = tracer.call(list, (tracer.getattr(args[0], "__dict__"),), {})
        return sorted({*dir(types.FunctionType), *names})
    return tracer.run_native(dir, args, kwargs)


@policy(next)
def next_(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return tracer.next(args[0])
    except StopIteration:
        if len(args) > 1:
            return args[1]
        raise


def kind_of(dtype: torch.dtype) -> type | None:
    """The type of the numbers that `Tensor.item` takes out of tensors without breaking the graph."""
    if dtype.is_floating_point:
        return float
    return None if dtype.is_complex or dtype is torch.bool else int


def _number(kind: Any) -> None:
    @policy(kind)
    def convert(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) == 1 and isinstance(args[0], Array) and not args[0].tensor.dim():
            args = (args[0].tensor,)
        if len(args) == 1 and isinstance(args[0], torch.Tensor):
            if kind is kind_of(args[0].dtype):
                with tracer.recorder.alone():
                    return tracer.recorder.handles.without(args[0]).item()
            raise GraphBreak(b.TENSOR_TO_NUMBER, what=f"{kind.__name__}(tensor)")
        if len(args) == 1 and not kwargs and tracer.type_of(args[0]) is kind:
            return args[0]
        if len(args) == 1 and not kwargs and tracer.numbers.is_symbolic(*args) and kind is not complex:
            return tracer.numbers.computed(torch.sym_float if kind is float else kind, *args)
        args = tracer.numbers.concrete_deep(args, f"{kind.__name__}()")
        if kind is complex and args and isinstance(args[0], str):  # a text is read as such, whatever its class
            return tracer.run_native(complex, args, kwargs)
        return tracer.call_native_or_method(kind, f"__{kind.__name__}__", args, kwargs)


for _kind in (int, float, complex):
    _number(_kind)


@policy(list.append)
def list_append(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Nothing of the list is looked at: one that a loop fills is not read at each step."""
    tracer.world.refuse_opaque(args[0])
    tracer.world.touch(args[0])
    list.append(*args, **kwargs)


@policy(dict.get)
def dict_get(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    container, key, *default = args
    try:
        return tracer.world.lookup(container, tracer.numbers.concrete_deep(key, "hash"))
    except KeyError:
        return default[0] if default else None


@policy(dict.setdefault)
def dict_setdefault(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    container, key, *default = args
    key = tracer.numbers.concrete_deep(key, "hash")
    if tracer.world.runs_code(tracer.world.settled(key)):
        return tracer.run_native(dict.setdefault, (tracer.world.realize(container), key, *default), kwargs)
    try:
        return tracer.world.lookup(container, key)
    except KeyError:
        tracer.world.added(key, container)
        return dict.setdefault(container, key, *default)


@policy(dict.pop)
def dict_pop(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Where a key was is told by all of them: the program may put it back."""
    container, key, *default = args
    key = tracer.numbers.concrete_deep(key, "hash")
    if tracer.world.runs_code(tracer.world.settled(key)):
        return tracer.run_native(dict.pop, (tracer.world.realize(container), key, *default), kwargs)
    try:
        tracer.world.lookup(container, key)
    except KeyError:
        return dict.pop(container, key, *default)
    tracer.world.length_matters(container)
    return dict.pop(container, key)


@policy(dict.popitem)
def dict_popitem(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    container = tracer.world.realize(args[0])
    item = dict.popitem(container)
    entry = tracer.world.records.get(id(container))
    if entry is not None:
        entry.popped.append(item[0])
    return item


@policy(dict.__getitem__)
def dict_getitem(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    container, key = args
    if defines(type(container), "__missing__") and not tracer.contains(key, container):
        return tracer.call(tracer.getattr(container, "__missing__"), (key,), {})
    return tracer.world.lookup(container, tracer.numbers.concrete_deep(key, "hash"))


@policy(collections.defaultdict.__missing__)
def missing(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    refuse_called(args[0].default_factory, tracer.world.refuse_opaque)
    return tracer.run_native(collections.defaultdict.__missing__, args, kwargs)


@policy(dict.__contains__)
def dict_contains(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    found: bool = tracer.world.present(args[0], tracer.numbers.concrete_deep(args[1], "hash"))
    return found


@policy(functools.cached_property.__get__)
def cached_property(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Its lock keeps out other threads, which a trace has not."""
    prop, owner = args[:2]
    attributes = None if owner is None else tracer.world.attributes(owner)
    name = tracer.getattr(prop, "attrname")
    if attributes is None or name is None:  # nothing can be kept
        return tracer.interpret(functools.cached_property.__get__, args, kwargs)
    try:
        return tracer.world.lookup(attributes, name)
    except KeyError:
        pass
    value = attributes[name] = tracer.call(tracer.getattr(prop, "func"), (owner,), {})
    return value


@policy(str.__mod__)
def modulo(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    text: str = tracer.binary("%", *args)
    return text


@policy(ascii)
def ascii_(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return tracer.convert(args[0], "ascii")


@policy(str.join)
def join(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return str.join(args[0], list(items_of(tracer, args[1], "can only join an iterable")))


native(
    "identity",
    inspect.signature,
    inspect.isfunction,
    inspect.isclass,
    inspect.ismethod,
    inspect.getfullargspec,
    inspect.unwrap,
)
native("deep", re.match, re.search, re.sub, re.split, re.compile, re.fullmatch, re.findall)
native("identity", typing.get_type_hints, typing.cast)


@policy(sys._getframe)
def getframe(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A frame of the trace; what called the traced function may be another in each call."""
    if any(type(depth) is not int or depth >= len(tracer.frames) for depth in args):
        raise GraphBreak(b.FRAME_ACCESS, name="sys._getframe")
    return substitutes.getframe(tracer, args, kwargs)


@policy(weakref.ref)
def weak_reference(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    refuse_callback(args)
    return tracer.run_native(weakref.ref, args, kwargs)


@policy(weakref.proxy)
def weak_proxy(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    refuse_callback(args)
    return tracer.note_birth(tracer.run_native(weakref.proxy, args, kwargs))


#: Whose callbacks keep weak containers in order: those of the trace keep its own.
KEEPING_ORDER = ("weakref", "_weakrefset")


def refuse_callback(args: tuple[Any, ...]) -> None:
    """It would be called for what stands for an object in the trace."""
    callback = args[1] if len(args) > 1 else None
    if callback is not None and not (type(callback) is types.FunctionType and callback.__module__ in KEEPING_ORDER):
        raise GraphBreak(b.UNKNOWN_NATIVE, name="weakref.ref with a callback")


@policy(sys.getrecursionlimit)
def recursion_limit(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return tracer.world.admit(sys.getrecursionlimit(), Through(NOWHERE, limit_now))
