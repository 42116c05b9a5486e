"""Why a function, an object or an operator that is not captured breaks the graph: the reason with the hint that fits.

A module that is named here is the reason of all functions and objects in it; the longest name counts.
"""

from __future__ import annotations

import array
import contextvars
import functools
import io
import linecache
import random
import threading
import types
from collections.abc import Callable, Mapping
from typing import Any

import torch

from onegraph.capture import breaks as b
from onegraph.capture.breaks import GraphBreak, Reason
from onegraph.capture.breaks.reason import named
from onegraph.capture.bytecode.frame import Frame
from onegraph.capture.pyobject.exact_types import defines, isinstance, once_for_each_class

#: What makes contexts for devices, which have rows of their own.
DESCRIBING = """torch.cuda.amp torch.cuda.stream torch.cuda.StreamContext torch.cuda.device torch.cuda.device_of
torch.cuda._utils torch.xpu.stream torch.xpu.StreamContext torch.xpu.device torch.xpu.device_of
torch.xpu._utils torch.mtia.stream torch.mtia.StreamContext torch.mtia.device
torch.mtia._utils torch.accelerator.device_index"""
#: Modules of torch whose Python functions work on real tensors and the state of the process.
TORCH_MODULES: dict[str, Reason | None] = {
    **named(b.COMMUNICATION, "torch.distributed"),
    "torch.distributed.algorithms._checkpoint": None,  # a module around a checkpoint
    "torch.distributed.tensor.parallel.style": None,  # hooks of modules that call functions of sharded tensors
    "torch.distributed.tensor._api.distribute_module": None,
    **named(b.DATA_LOADING, "torch.utils.data"),
    **named(b.PROCESS, "torch.multiprocessing"),
    **named(b.PROFILER, "torch.profiler torch.autograd.profiler"),
    **named(b.RANDOM_STATE, "torch.random torch.cuda.random torch.xpu.random"),
    **named(b.DEVICE_WORK, "torch.cuda torch.xpu torch.mps torch.mtia torch.accelerator"),
    **dict.fromkeys(DESCRIBING.split()),
}
#: Modules of Python whose functions talk to other threads, processes and machines, and whose objects may change at any
#: time.
OUTSIDE_MODULES = {
    **named(b.THREADS, "threading _threading_local queue concurrent sched"),
    **named(b.ASYNCHRONOUS, "asyncio"),
    **named(b.PROCESS, "multiprocessing subprocess"),
    **named(
        b.NETWORK,
        "socket selectors ssl http urllib.request urllib.error urllib.robotparser socketserver ftplib smtplib",
    ),
    **named(b.DATABASE, "sqlite3 shelve dbm"),
    **named(b.FILE_SYSTEM, "tempfile shutil"),
    **named(b.SIGNALS, "signal"),
    **named(b.INTERPRETER_STATE, "faulthandler tracemalloc"),
}
#: Modules whose Python functions would break in each of their steps.
OUTSIDE = {**OUTSIDE_MODULES, **named(b.PYTHON_RANDOM, "random")}
#: Native modules.
NATIVE_MODULES = {
    **OUTSIDE_MODULES,
    **named(b.THREADS, "_thread _queue"),
    **named(b.FILE_SYSTEM, "posix io _io"),
    **named(b.NETWORK, "_socket _ssl select"),
    **named(b.DATABASE, "_sqlite3 _dbm _gdbm"),
    **named(b.SIGNALS, "_signal"),
    **named(b.CLOCK, "time"),
    **named(b.PYTHON_RANDOM, "random _random"),
    **named(b.NUMPY, "numpy"),
    **named(b.NUMPY_RANDOM, "numpy.random"),
    **named(b.FOREIGN_LIBRARY, "_ctypes ctypes"),
    **named(b.PICKLING, "_pickle"),
    **named(b.GARBAGE_COLLECTOR, "gc"),
    **named(b.INTERPRETER_STATE, "sys _tracemalloc"),
    **named(b.EXIT_HANDLER, "atexit"),
    **named(b.CONTEXT_VARIABLE, "_contextvars"),
}


def public_name(function: Any) -> str:
    """The name of a function as a program writes it, as far as can be told."""
    name = getattr(function, "__qualname__", repr(function)).replace("TensorBase.", "Tensor.")
    module = getattr(function, "__module__", None) or ""
    if module in ("", "builtins", "_io") or module.startswith("torch."):
        return name
    return f"{module}.{name}".replace("posix.", "os.")


def longest(table: Mapping[str, Reason | None], module: str) -> Reason | None:
    """The entry of the module or of the nearest package above it."""
    while module:
        if module in table:
            return table[module]
        module = module.rpartition(".")[0]
    return None


# ---- functions -------------------------------------------------------------------------------------------------------


def reason_of_function(function: types.FunctionType) -> Reason | None:
    """Why a Python function must run for real, or None if it is traced."""
    module = function.__globals__.get("__name__") or ""
    if module.startswith("torch."):  # torch wraps some functions to hide them from its own compiler
        inner = getattr(function, "__wrapped__", function)
        module = getattr(inner, "__globals__", function.__globals__).get("__name__") or ""
        return _reason_in_torch(module, function.__qualname__)
    return _reason_outside(module)


@functools.cache
def _reason_in_torch(module: str, function: str) -> Reason | None:
    return longest(TORCH_MODULES if module.startswith("torch.") else OUTSIDE, f"{module}.{function}")


@functools.cache
def _reason_outside(module: str) -> Reason | None:
    return longest(OUTSIDE, module)


def refused_native(function: Any, module: str, name: str) -> GraphBreak:
    """The graph break of a native function without a policy."""
    home = getattr(function, "__module__", None) or module
    known = longest(NATIVE_MODULES, home)
    if known is b.NUMPY_RANDOM or known is b.NUMPY:
        name = getattr(function, "__name__", name)
    full = f"{home}.{name}".replace("posix.", "os.") if home and home != "builtins" else name
    return GraphBreak(known or b.UNKNOWN_NATIVE, name=full, what=f"call of {full}", why="it is not known")


def refuse_outside_class(cls: type, is_library: Callable[[str], bool]) -> None:
    """Break the graph where making an instance of a native class acts on the world outside, or may do so."""
    if issubclass(cls, torch.Generator):
        raise GraphBreak(b.GENERATOR_MADE)
    for name in ("__new__", "__init__") if not issubclass(cls, io.BytesIO | io.StringIO) else ():
        home = home_of_method(cls, name)
        known = longest(NATIVE_MODULES, home)
        if known is not None and known not in (b.NUMPY, b.NUMPY_RANDOM):
            raise refused_native(cls, cls.__module__, cls.__qualname__)
        if known is None and not is_library(home):
            raise GraphBreak(b.UNKNOWN_NATIVE_CLASS, name=f"{cls.__module__}.{cls.__qualname__}")


def home_of_method(cls: type, name: str) -> str:
    """The module of the class that a native method of a class belongs to; of a Python one, that of this package."""
    owner = next(kind for kind in cls.__mro__ if name in kind.__dict__)
    method = owner.__dict__[name]
    if isinstance(method, types.FunctionType | staticmethod | classmethod):
        return __name__
    native = getattr(method, "__objclass__", getattr(method, "__self__", owner))
    return (native if isinstance(native, type) else owner).__module__ or ""


def refused_method(owner: type, name: str) -> GraphBreak:
    """The graph break of a native method of a type without a policy."""
    known = longest(NATIVE_MODULES, owner.__module__)
    full = f"{owner.__qualname__}.{name}"
    return GraphBreak(known or b.UNKNOWN_NATIVE, name=full, what=f"call of {full}", why="it is not known")


# ---- objects ---------------------------------------------------------------------------------------------------------


#: Classes whose objects, and those of classes that are derived from them, have a reason of their own.
OBJECTS: dict[type, Reason] = {
    random.Random: b.PYTHON_RANDOM,
    torch.Generator: b.GENERATOR_ARGUMENT,
    types.GeneratorType: b.OUTSIDE_GENERATOR,
    io.IOBase.mro()[1]: b.OPEN_FILE,  # the native one
    contextvars.ContextVar: b.CONTEXT_VARIABLE,
    type(threading.Lock()): b.LOCK,
    type(threading.RLock()): b.LOCK,
    bytearray: b.BUFFER,
    memoryview: b.BUFFER,
    array.array: b.BUFFER,
}
#: Modules of native objects.
OBJECT_MODULES = {**OUTSIDE_MODULES, **named(b.NUMPY_ARRAY, "numpy"), **named(b.NUMPY_RANDOM, "numpy.random")}


@once_for_each_class
def _reason_of_class(cls: type) -> Reason:
    own = next((OBJECTS[kind] for kind in cls.__mro__ if kind in OBJECTS), None)
    if own is None and defines(cls, "__next__") and cls.__module__ in ("builtins", "itertools", "_collections"):
        own = b.OUTSIDE_ITERATOR
    if own is None and defines(cls, "__del__"):
        own = b.FINALIZER
    return own or longest(OBJECT_MODULES, cls.__module__) or b.OPAQUE_OBJECT


def refused_object(value: Any) -> GraphBreak:
    """The graph break of a use of a native object from outside."""
    cls = type(value)
    full = f"{cls.__module__}.{cls.__qualname__}".removeprefix("builtins.")
    name = value.name if isinstance(value, contextvars.ContextVar) else full
    return GraphBreak(_reason_of_class(cls), name=name, what=f"a {full}", why=f"it is a {full} that no tensor is like")


def reason_of_write(owner: Any) -> Reason:
    """Why an attribute of a class, a module or a function cannot be written."""
    if isinstance(owner, type):
        return b.CLASS_WRITE
    return b.MODULE_WRITE if isinstance(owner, types.ModuleType) else b.FUNCTION_WRITE


# ---- truth -----------------------------------------------------------------------------------------------------------


def reason_of_truth(frame: Frame) -> Reason:
    """Why the program asks for the truth of a tensor, as the instruction, its neighbours and its line tell."""
    instrs = frame.bytecode.instrs
    here = instrs[frame.ip]
    if here.op != "TO_BOOL":
        return b.DATA_DEPENDENT_TRUTH
    following = instrs[frame.ip + 1]
    if following.op == "UNARY_NOT" or (frame.ip and instrs[frame.ip - 1].op == "COPY"):
        return b.DATA_DEPENDENT_LOGIC
    line = frame.position[0] if frame.position else None
    source = linecache.getline(frame.bytecode.code.co_filename, line).strip() if line else ""
    return b.DATA_DEPENDENT_LOOP if source.startswith(("while ", "while(")) else b.DATA_DEPENDENT_BRANCH
