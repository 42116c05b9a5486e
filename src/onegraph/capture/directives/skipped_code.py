"""Which frames are not captured: library code, whose own calls into user code are captured in turn."""

from __future__ import annotations

import builtins
import os.path
import sysconfig
from functools import cache
from types import BuiltinFunctionType, CodeType, FunctionType

import numpy
import torch

_TORCH = os.path.dirname(torch.__file__) + os.sep
#: The folder of this package.
OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_STANDARD = sysconfig.get_paths()["stdlib"] + os.sep
#: What is installed there, and CPython's own tests, which are programs like any other.
_PROGRAMS = tuple(os.path.join(_STANDARD, name) + os.sep for name in ("site-packages", "dist-packages", "test"))
_NUMPY = os.path.dirname(numpy.__file__) + os.sep
_TRITON = os.path.join(os.sep + "site-packages", "triton", "")
#: Files of torch whose functions are parts of the user's model, not machinery.
_MODEL_PARTS = frozenset(
    os.path.join(_TORCH, "nn", "modules", f"{name}.py")
    for name in """container linear rnn transformer activation normalization conv dropout pooling sparse batchnorm loss
    padding pixelshuffle upsampling fold flatten distance adaptive channelshuffle instancenorm""".split()
) | {os.path.join(_TORCH, "distributed", "algorithms", "_checkpoint", "checkpoint_wrapper.py")}


_NAMES = vars(builtins)
#: What onegraph and torch themselves are written with.
_BUILTINS = frozenset(name for name, value in _NAMES.items() if isinstance(value, type | BuiltinFunctionType))
#: Functions that a tracer calls with everything: what a program puts in their place for a while need not take it.
_RELIED_ON = tuple((name, _NAMES[name]) for name in "getattr hasattr hash id isinstance iter len next type".split())


def has_builtins() -> bool:
    """Whether Python's builtin functions and classes are there: a program may delete or replace them for a while."""
    return _BUILTINS <= _NAMES.keys() and all(_NAMES[name] is value for name, value in _RELIED_ON)


@cache
def skip_reason(filename: str) -> str | None:
    """Why frames of this file are left alone, or None."""
    if filename.startswith(OWN):
        return "it is a part of onegraph"
    if filename.startswith(_TORCH):
        return None if filename in _MODEL_PARTS else "it is a part of torch"
    if filename.startswith(_NUMPY):
        return "it is a part of NumPy"
    if _TRITON in filename:
        return "it is a part of Triton"
    if filename.startswith("<frozen") or (filename.startswith(_STANDARD) and not filename.startswith(_PROGRAMS)):
        return "it is a part of Python's library"
    return None


#: What runs beside a program, although it is called in it: nothing that it calls is looked at.
BESIDE: set[CodeType] = set()


#: What torch calls in the place of functions, another one each time: such frames would be compiled once for each.
PROTOCOLS = frozenset({"__torch_function__", "__torch_dispatch__"})


def is_skipped(code: CodeType) -> str | None:
    """Why the frames of this code are left alone, or None."""
    return skip_reason(code.co_filename)


def is_written_for_library(function: FunctionType, code: CodeType) -> bool:
    """Whether code without a file, such as the methods of data classes, is a library's."""
    module = function.__globals__.get("__name__") if code.co_filename == "<string>" else None
    return type(module) is str and module.partition(".")[0] in ("torch", "onegraph")


#: Modules of the tracer itself: no program can reach what they hold.
_MACHINERY = frozenset(
    f"onegraph.capture.{name}"
    for name in """bytecode.instruction bytecode.frame interp.machine heap.world graph.record policy.python.iteration
    residual.iterators tracer.frames tracer.trace tracer.tracer""".split()
)


def is_machinery(module: object) -> bool:
    """Whether a module is a part of the tracer itself: to trace it is a defect of ours."""
    return type(module) is str and module in _MACHINERY
