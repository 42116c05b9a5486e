"""Native functions that depend on the frame that calls them, or whose work may run Python code: done by the machine.

An open set: one `@substitute` per function. No `from __future__` here: `compile`, called from this file, would take it
for the program's.
"""

import __future__

import builtins
import inspect
import operator
import sys
from typing import Any

from onegraph.base.dataclass import dataclass
from onegraph.capture.bytecode.frame import NULL, Frame
from onegraph.capture.interp.functions import substitute
from onegraph.capture.pyobject.exact_types import isinstance


@substitute(builtins.__build_class__)
def build_class(machine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return machine.build_class(args, kwargs)


@substitute(super)
def super_(machine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return super(*(args or machine.super_arguments()), **kwargs)


@substitute(getattr)
def getattr_(machine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if kwargs or not 2 <= len(args) <= 3 or not isinstance(args[1], str):
        return getattr(*args, **kwargs)
    if len(args) == 2:
        return machine.getattr(*args)
    try:
        return machine.getattr(*args[:2])
    except AttributeError:
        return args[2]


@substitute(hasattr)
def hasattr_(machine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if kwargs or len(args) != 2 or not isinstance(args[1], str):
        return hasattr(*args, **kwargs)
    try:
        machine.getattr(*args)
    except AttributeError:
        return False
    return True


def _of_names(function: Any, primitive: str, count: int, of_classes: bool | None = None) -> None:
    """A function of an object, a name, and what there is more; of classes only, or of everything else."""

    @substitute(function)
    def call(machine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        fits = not kwargs and len(args) == count and isinstance(args[1], str)
        if not fits or of_classes is (not issubclass(type(args[0]), type)):
            return function(*args, **kwargs)
        return getattr(machine, primitive)(*args)


_of_names(setattr, "setattr", 3)
_of_names(delattr, "delattr", 2)
for _cls, _reading in ((object, "generic_getattr"), (type, "type_getattr")):
    _of_names(_cls.__getattribute__, _reading, 2, _cls is type)
    _of_names(_cls.__setattr__, "write_generic", 3, _cls is type)
    _of_names(_cls.__delattr__, "write_generic", 2, _cls is type)


@substitute(next)
def next_(machine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if kwargs or not 1 <= len(args) <= 2 or machine.type_lookup(type(args[0]), "__next__") is NULL:
        return next(*args, **kwargs)
    if len(args) == 1:
        return machine.next(args[0])
    try:
        return machine.next(args[0])
    except StopIteration:
        return args[1]


def _of_one(function: Any, primitive: str, *more: Any) -> None:
    """A function of one argument that is a primitive of the machine."""

    @substitute(function)
    def call(machine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return getattr(machine, primitive)(*args, *more) if len(args) == 1 and not kwargs else function(*args, **kwargs)


_of_one(len, "length")
_of_one(iter, "iter")
_of_one(bool, "truth")
_of_one(operator.truth, "truth")
_of_one(str, "convert", "str")
_of_one(repr, "convert", "repr")


@substitute(format)
def format_(machine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if kwargs or not 1 <= len(args) <= 2:
        return format(*args, **kwargs)
    return machine.format(args[0], args[1] if len(args) == 2 else "")


# What looks at the frame that calls it.


def frame_names(frame: Frame) -> Any:
    """`locals()`: the namespace itself, or a snapshot of a function's variables."""
    if frame.namespace is not None:
        return frame.namespace
    values = dict(frame.locals)
    for name, cell in frame.cells.items():
        try:
            values[name] = cell.cell_contents
        except ValueError:
            continue
    return values


@substitute(locals)
def locals_(machine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return frame_names(machine.frames[-1]) if not (args or kwargs) else locals(*args, **kwargs)


@substitute(globals)
def globals_(machine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return machine.frames[-1].globals if not (args or kwargs) else globals(*args, **kwargs)


@substitute(vars)
def vars_(machine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return vars(*args, **kwargs) if args or kwargs else frame_names(machine.frames[-1])


@substitute(dir)
def dir_(machine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return dir(*args, **kwargs) if args or kwargs else sorted(frame_names(machine.frames[-1]))


_FUTURES = 0
for _feature in __future__.all_feature_names:
    _FUTURES |= getattr(__future__, _feature).compiler_flag


def _evaluator(function: Any, mode: str) -> None:
    @substitute(function)
    def run(machine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not 1 <= len(args) <= 3:
            return function(*args, **kwargs)
        frame = machine.frames[-1]
        source, rest = args[0], list(args[1:])
        if isinstance(source, str):
            text = source.lstrip(" \t") if mode == "eval" else source
            source = compile(text, "<string>", mode, _futures(frame), True)
        if "globals" not in kwargs and not (rest and rest[0] is not None):
            own = rest[1] if len(rest) == 2 and rest[1] is not None else frame_names(frame)
            rest = [frame.globals, own] if "locals" not in kwargs else [frame.globals]
        return function(source, *rest, **kwargs)


def _futures(frame: Frame) -> int:
    return frame.bytecode.code.co_flags & _FUTURES


_evaluator(eval, "eval")
_evaluator(exec, "exec")


@substitute(compile)
def compile_(machine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The statements of the program's own `from __future__` hold in what it compiles."""
    bound = inspect.signature(compile).bind(*args, **kwargs)
    if not bound.arguments.get("dont_inherit"):
        bound.arguments["flags"] = operator.index(bound.arguments.get("flags", 0)) | _futures(machine.frames[-1])
        bound.arguments["dont_inherit"] = True
    return compile(*bound.args, **bound.kwargs)


@substitute(sys.exc_info)
def exc_info(machine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    handled = machine.handled_exception()
    return (None, None, None) if handled is None else (type(handled), handled, machine.traceback_of(handled))


@substitute(sys.exception)
def exception(machine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return machine.handled_exception()


@dataclass(frozen=True, slots=True)
class FrameView:
    """What `sys._getframe` gives of an interpreted frame."""

    f_code: Any
    f_globals: dict[str, Any]
    f_locals: Any
    f_builtins: dict[str, Any]
    f_lineno: int | None
    f_lasti: int
    f_back: Any


def view(machine: Any, depth: int = 0) -> Any:
    """The frame `depth` calls up, as the program may look at it; outside of interpreted frames, the real one."""
    if depth >= len(machine.frames):
        return sys._getframe()
    frame = machine.frames[-1 - depth]
    position = frame.position
    return FrameView(
        frame.bytecode.code,
        frame.globals,
        frame_names(frame),
        frame.builtins,
        position[0] if position else None,
        frame.bytecode.instrs[frame.ip].offset,
        view(machine, depth + 1) if depth + 1 < len(machine.frames) else None,
    )


@substitute(sys._getframe)
def getframe(machine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return view(machine, *args)


def _module_name(machine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    depth = args[0] if args else kwargs.get("depth", 0)
    return machine.frames[-1 - depth].globals.get("__name__") if depth < len(machine.frames) else None


if hasattr(sys, "_getframemodulename"):
    substitute(sys._getframemodulename)(_module_name)
