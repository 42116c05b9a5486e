"""What the tracer does at calls of marked functions: the handlers behind `onegraph.capture.directives.hatches`."""

from __future__ import annotations

import enum
import sys
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, MethodType, ModuleType
from typing import Any, Protocol

import torch

from onegraph import _C
from onegraph.capture.breaks import (
    ABOUT_COMPILER,
    CAPTURED_TENSOR,
    DISABLED,
    DISALLOWED,
    FORBIDDEN,
    FORCED,
    LOCAL_FUNCTION,
    NOT_A_TREE,
    NOT_CONSTANT,
    SKIPPED,
    STATE_CHANGE,
    UNSEEN,
    GraphBreak,
)
from onegraph.capture.breaks.operator_reasons import first_line, function_name, refused_after
from onegraph.capture.bytecode.frame import Abort
from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.directives.optimizers import runs_optimizer
from onegraph.capture.guards.source import Const
from onegraph.capture.interp.functions import row_of
from onegraph.capture.interp.rests import Rest
from onegraph.capture.pyobject.contents import ATOMS, cell_value
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.pyobject.layout import instance_dict
from onegraph.capture.pyobject.native_members import FUNC_OF, wrapped_part
from onegraph.torchlib.aten import OpOverload, OpOverloadPacket
from onegraph.torchlib.fake import DATA_DEPENDENT_ERRORS, UNSUPPORTED_ERRORS, FakeTensor
from onegraph.torchlib.private import DisableTorchFunction
from onegraph.torchlib.pytree import leaves_of, map_leaves_of
from onegraph.torchlib.state import untraced


def name_of(function: Any) -> str:
    """A function's name as the user knows it."""
    qualified = getattr(function, "__qualname__", None) or ""
    if isinstance(function, OpOverload | OpOverloadPacket):
        return f"torch.ops.{function}"
    if isinstance(function, BuiltinFunctionType | MethodDescriptorType) or qualified.startswith("_VariableFunctions"):
        return function_name(function)
    if isinstance(function, partial):
        return f"a partial of {name_of(FUNC_OF(function))}"
    return qualified or getattr(function, "__name__", None) or f"a {type(function).__qualname__}"


def break_graph(
    tracer: Tracing, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """`graph_break(msg)`. Where torch asks for one in its optimizers, it has its own compiler in mind."""
    if runs_optimizer(tracer):
        return None
    message = args[0] if args else kwargs.get("msg", "")
    raise GraphBreak(FORCED, why=f": {message}" if isinstance(message, str) and message else "")


def skip_caller(
    tracer: Tracing, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """`skip_frame(msg)`"""
    message = args[0] if args else kwargs.get("msg", "")
    raise GraphBreak(SKIPPED, why=f": {message}" if isinstance(message, str) and message else "")


def run_eagerly(
    tracer: Tracing | None, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """A function that was disabled."""
    why = getattr(function, "reason", None) or getattr(function, "_torchdynamo_disable_msg", None)
    raise GraphBreak(DISABLED, name=name_of(function), why=f": {why}" if isinstance(why, str) else "")


def run_beside(
    tracer: Tracing | None, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """A function of the compiler itself."""
    raise GraphBreak(ABOUT_COMPILER, name=name_of(function))


def disable_while_tracing(
    tracer: Tracing, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """A function is wrapped at once; what is done to a class or a module stays, so that breaks the graph."""
    if isinstance(args[0] if args else kwargs.get("fn"), type | torch.nn.Module):
        raise GraphBreak(STATE_CHANGE, name="disable")
    return tracer.world.keep(function(*args, **kwargs))


def say_compiling(
    tracer: Tracing, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    """`is_compiling()`"""
    function(*args, **kwargs)  # which raises for arguments
    return True


def say_nothing(
    tracer: Tracing, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """A function that does nothing."""
    function(*args, **kwargs)


def refuse_to_trace(function: Any) -> None:
    """A disabled function, called by native code that runs while tracing."""
    run_eagerly(None, None, function, (), {})


def disallowed(tracer: Tracing, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    raise GraphBreak(DISALLOWED, name=name_of(function))


def forbidden(tracer: Tracing, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    raise GraphBreak(FORBIDDEN, name=name_of(function))


def call_natively(
    tracer: Tracing, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """A function that marks other functions: it is called while tracing as it would be when the program runs."""
    for value in (*args, *kwargs.values()):
        if id(value) in tracer.world.made_functions and holds_values(tracer, value):
            raise GraphBreak(LOCAL_FUNCTION, name=name_of(function), function=name_of(value))
    return tracer.world.keep(function(*args, **kwargs))


def holds_values(tracer: Tracing, function: FunctionType, around: frozenset[FunctionType] = frozenset()) -> bool:
    """Whether a function that the trace has made keeps tensors, symbols or shadows of it: in its cells or defaults, in
    objects there, or in those of functions there. Those `around` it are looked at already."""
    held = [cell_value(cell) for cell in function.__closure__ or ()]
    held += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    contents = [*held, *leaves_of(held)]
    if tracer.numbers.holds_symbols(held):
        return True
    objects = [value for value in contents if not isinstance(value, torch.Tensor | FunctionType | ModuleType | type)]
    contents += [member for value in objects for member in (instance_dict(value) or {}).values()]
    if any(isinstance(value, torch.Tensor) or id(value) in tracer.world.records for value in contents):
        return True
    around |= {function}
    made = [value for value in contents if id(value) in tracer.world.made_functions and value not in around]
    return any(holds_values(tracer, value, around) for value in made)


def call_opaque(
    tracer: Tracing, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """`allow_in_graph`: one node that calls the function. What it calls is seen where the graph becomes functional."""
    keep_identity(tracer, function)
    for value in (*args, *kwargs.values()):
        tracer.world.realize_deep(value)
    try:
        with DisableTorchFunction():
            result = function(*args, **kwargs)
    except (*DATA_DEPENDENT_ERRORS, *UNSUPPORTED_ERRORS) as error:
        raise refused_after(function, args, error) from None
    except RuntimeError as error:
        if "is not a fake of this trace" not in str(error):
            raise
        raise GraphBreak(CAPTURED_TENSOR, name=name_of(function), error=first_line(error)) from None
    check_tree(function, "returns", result)
    tracer.recorder.record(printable(function), args, kwargs, result)
    return result


def printable(function: Any) -> Any:
    """The function as the target of a node: FX asks for its name, and takes torch's for members of torch's modules."""
    name = (getattr(function, "__qualname__", None) or "").partition(".")
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    of_torch = (getattr(function, "__module__", None) or "").partition(".")[0] == "torch"
    if getattr(module, name[0], None) is function or (hasattr(function, "__name__") and not of_torch):
        return function

    def opaque(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return opaque


def trace_nonstrictly(
    tracer: Tracing, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """`nonstrict_trace`: the function itself runs over the tensors of the trace; the recorder sees what it does."""
    keep_identity(tracer, function)
    for value in (*args, *kwargs.values()):
        tracer.world.realize_deep(value, opaque=True)
    check_tree(function, "is given", (args, kwargs))
    result = function.__wrapped__(*args, **kwargs)
    check_tree(function, "returns", result)
    for leaf in leaves_of(result):
        if isinstance(leaf, FakeTensor) and id(leaf) not in tracer.recorder.nodes:
            raise GraphBreak(UNSEEN, name=name_of(function.__wrapped__))
    return map_leaves_of(tracer.recorder.as_traced, result)


def check_tree(function: Any, what: str, value: Any) -> None:
    for leaf in leaves_of(value):
        if not isinstance(leaf, LEAVES):
            kind = f"{type(leaf).__module__}.{type(leaf).__qualname__}"
            raise GraphBreak(NOT_A_TREE, name=name_of(function), what=what, kind=kind)


#: What the leaves of the arguments and results of functions in the graph may be.
LEAVES = (
    torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool, torch.nn.Module, torch.dtype, torch.device, torch.layout,
    torch.memory_format, torch.Generator, enum.Enum, slice, *ATOMS,
)  # fmt: skip


def keep_identity(tracer: Tracing, function: Any) -> None:
    """Guard which function it is: one that may be made anew is otherwise known by its code only."""
    tracer.world.unkept = f"what {name_of(function)} does, whose code was not followed"
    source = tracer.world.origin.get(id(function))
    if isinstance(function, FunctionType) and source is not None:
        if tracer.is_guarded_function(function):
            tracer.world.guard(source, "is", function)


def call_for_constant(
    tracer: Tracing, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """`assume_constant_result`: the function is called for real, now, and its result is used as it is."""
    tracer.world.unkept = f"what {name_of(function)} has given, which is assumed to be constant"
    real_args = tuple(real_argument(tracer, function, value) for value in args)
    real_kwargs = {name: real_argument(tracer, function, value) for name, value in kwargs.items()}
    if not isinstance(function, FunctionType | BuiltinFunctionType) and next(tracer.world.changed(), None) is not None:
        raise GraphBreak(NOT_CONSTANT, name=name_of(function), what="objects while compiled code has changed some")
    receiver = getattr(function, "__self__", None)
    bound = isinstance(function, BuiltinFunctionType) and not isinstance(receiver, ModuleType | type | None)
    if bound and row_of(function).mark is None:  # the mark is on the method of the class
        function = getattr(real_argument(tracer, function, receiver), function.__name__)
    with untraced():
        result = function(*real_args, **real_kwargs)
    return tracer.world.admit(result, Const(id(result), f"{name_of(function)}(...)", result), guarded=False)


def real_argument(tracer: Tracing, function: Any, value: Any) -> Any:
    """The object that the program would pass."""
    if type(value) in ATOMS or isinstance(value, type | FunctionType | torch.dtype | torch.device):
        return value
    if isinstance(value, tuple | list) and not tracer.world.is_outside(value):
        return type(value)(real_argument(tracer, function, item) for item in value)
    if not tracer.world.is_outside(value):
        kind = "tensor" if isinstance(value, torch.Tensor) else type(value).__qualname__
        raise GraphBreak(NOT_CONSTANT, name=name_of(function), what=f"a {kind} made here")
    if next(tracer.world.changed(), None) is not None:
        raise GraphBreak(NOT_CONSTANT, name=name_of(function), what="objects while compiled code has changed some")
    return tracer.world.real(value)


def call_region(
    tracer: Tracing, rest: Rest | None, compiled: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What is compiled on its own is a part of this graph; if it must be one graph, breaks in it are errors."""
    region = getattr(compiled, "onegraph_region", None)
    outer, tracer.fullgraph = tracer.fullgraph, tracer.fullgraph or (region is not None and region.fullgraph)
    try:
        result = tracer.call(function, args, kwargs, rest)
    except Abort:  # what held where the trace ends is asked afterwards
        raise
    except BaseException:
        tracer.fullgraph = outer
        raise
    tracer.fullgraph = outer
    return result


class Strict(Protocol):
    """What says whether a graph may break."""

    fullgraph: bool
    settings: dict[str, bool | None]


def is_strict(tracer: Strict) -> bool:
    """Whether a graph break here is an error."""
    return tracer.fullgraph or tracer.settings["error_on_graph_break"] is True


def exchange_setting(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | None:
    """While tracing, the settings of the thread are those of the tracer; the compiled program sets them at its end."""
    name, *value = args
    previous = tracer.settings[name]
    if value:
        tracer.settings[name] = value[0]
    return previous


policy(_C.exchange_setting)(exchange_setting)


def find_disabled(found: Any) -> Any:
    """The disabled function that a class attribute is, or None."""
    function = found.__func__ if isinstance(found, MethodType) else found
    function = wrapped_part(found, "__func__") if isinstance(found, staticmethod) else function
    return function if isinstance(function, _C.disabled) else None
