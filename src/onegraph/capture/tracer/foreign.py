"""torch's own escape hatches, honoured inside of compiled code: libraries use them.

Nothing of torch's compiler is imported. Its functions are recognised by module and by the qualified name of their code
(which a decorator cannot change), and marked functions by the attributes that it leaves on them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

from onegraph import _C
from onegraph.capture.directives import handlers as policy
from onegraph.capture.directives import hatches, stance, treatment, triton
from onegraph.capture.directives.foreign import (
    CONFIG_MANAGER,
    DECORATORS,
    ERROR_MANAGER,
    EVAL_FRAME,
    LOCAL,
    enter_config_patch,
    enter_error_on_graph_break,
    known_by_identity,
    leave_config_patch,
    leave_error_on_graph_break,
)
from onegraph.capture.interp.functions import NOTHING_KNOWN, Mark, Row
from onegraph.capture.interp.rests import Rest
from onegraph.capture.policy.torch import flexible_attention
from onegraph.capture.tracer.comptime import MARKS_OF, call_while_tracing

EXTERNAL = "torch._dynamo.external_utils"
COMPTIME = "torch._dynamo.comptime"
MODULES_MADE = "torch._dynamo.mutation_guard"


def spelled(ours: Any) -> Mark:
    """A function of torch that is the same as one of ours."""
    return lambda tracer, rest, function, args, kwargs: tracer.call(ours, args, kwargs, rest)


def call_polyfill(tracer: Any, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `torch.compiler.substitute_in_graph` has made of a Python function."""
    return tracer.call(function.__torch_dynamo_polyfill__, args, kwargs, rest)


def unwrapped_kernel(
    tracer: Any, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """`torch.library.wrap_triton(kernel)`: in compiled code every kernel is known."""
    return args[0]


def call_first(tracer: Any, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The body of a `torch.compiler.nested_compile_region` is a part of this graph."""
    body, *others = args
    return tracer.call(body, tuple(others), kwargs, rest)


def call_compiled(tracer: Any, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `torch.compile` has made of a function: the function is a part of this graph."""
    return tracer.call(function._torchdynamo_orig_callable, args, kwargs, rest)


#: Why torch's compiler disables parts of torch's own optimizers when it is first used. That is no wish of the program.
OPTIMIZER_LIMITS = re.compile(r"optimizer <class 'torch\.optim\..*> \w+ not supported|don't trace into fused optimizer")


def call_disabled(tracer: Any, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `torch.compiler.disable` has made of a function."""
    if OPTIMIZER_LIMITS.fullmatch(getattr(function, "_torchdynamo_disable_msg", None) or ""):
        return tracer.call(function._torchdynamo_orig_callable, args, kwargs, rest)
    return policy.run_eagerly(tracer, rest, function, args, kwargs)


def call_module(tracer: Any, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `torch.compile` or `disable` has made of a module."""
    if type(tracer.world.real(function).dynamo_ctx).__name__ == "DisableContext":
        return policy.run_eagerly(tracer, rest, type(function), args, kwargs)
    return tracer.call(tracer.getattr(function, "_orig_mod"), args, kwargs, rest)


def pass_over(tracer: Any, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """What torch's compiler notes for itself is no part of the program.

    Once it has run, it keeps a table of all modules that are made, which is another one in each call.
    """


#: (module, qualified name of the code or class) -> what a call of the function, or of an instance, means.
SPELLINGS: dict[tuple[str, str], Mark] = {
    (DECORATORS, "graph_break"): policy.break_graph,
    (DECORATORS, "step_unsupported"): policy.break_graph,
    (DECORATORS, "skip_frame"): policy.skip_caller,
    (DECORATORS, "error_on_graph_break"): spelled(hatches.error_on_graph_break),
    (DECORATORS, f"{ERROR_MANAGER}.__enter__"): spelled(enter_error_on_graph_break),
    (DECORATORS, f"{ERROR_MANAGER}.__exit__"): spelled(leave_error_on_graph_break),
    (DECORATORS, "disable_nested_graph_breaks"): spelled(hatches.disable_nested_graph_breaks),
    (DECORATORS, f"{CONFIG_MANAGER}.__enter__"): spelled(enter_config_patch),
    (DECORATORS, f"{CONFIG_MANAGER}.__exit__"): spelled(leave_config_patch),
    (DECORATORS, "disable"): spelled(hatches.disable),
    ("torch.compiler", "disable"): spelled(hatches.disable),
    (DECORATORS, f"nonstrict_trace.{LOCAL}.wrapped"): policy.trace_nonstrictly,
    (DECORATORS, f"leaf_function.{LOCAL}.inner"): policy.run_eagerly,
    (DECORATORS, f"substitute_in_graph.{LOCAL}.wrapper.{LOCAL}.wrapped"): call_polyfill,
    **dict.fromkeys(triton.LAUNCHERS, triton.launch),
    ("torch._library.triton", "wrap_triton"): unwrapped_kernel,
    ("torch._higher_order_ops.invoke_subgraph", "invoke_subgraph_placeholder"): call_first,
    (flexible_attention.MODULE, "flex_attention"): flexible_attention.attend,
    (flexible_attention.MODULE, "create_mask"): flexible_attention.make_mask,
    ("torch.fx.experimental.symbolic_shapes", "has_free_unbacked_symbols"): flexible_attention.has_no_symbols,
    ("torch.compiler", "set_stance"): policy.forbidden,
    (EVAL_FRAME, "_set_stance"): policy.forbidden,
    (DECORATORS, "run"): spelled(stance.run),
    (DECORATORS, "skip"): spelled(hatches.skip),
    (DECORATORS, "nonstrict_trace"): spelled(treatment.nonstrict_trace),
    (DECORATORS, "forbid_in_graph"): spelled(treatment.forbid_in_graph),
    (DECORATORS, f"_disallow_in_graph_helper.{LOCAL}.inner"): spelled(treatment.disallow_in_graph),
    (DECORATORS, "disallow_in_graph"): spelled(treatment.disallow_in_graph),
    **{
        (module, ours.__name__): spelled(ours)
        for module in (DECORATORS, "torch.compiler")
        for ours in (treatment.allow_in_graph, treatment.assume_constant_result, treatment.substitute_in_graph)
    },
    (EVAL_FRAME, f"DisableContext.__call__.{LOCAL}._fn"): call_disabled,
    (EVAL_FRAME, f"_TorchDynamoContext.__call__.{LOCAL}.compile_wrapper"): call_compiled,
    (EVAL_FRAME, "OptimizedModule"): call_module,
    (EXTERNAL, f"get_nonrecursive_disable_wrapper.{LOCAL}.nonrecursive_disable_wrapper"): policy.run_eagerly,
    ("torch._compile", f"_disable_dynamo.{LOCAL}.inner"): policy.run_eagerly,
    (COMPTIME, "_Comptime"): call_while_tracing,
    **{(COMPTIME, f"_Comptime.{name}"): mark for name, mark in MARKS_OF.items()},
    **{(MODULES_MADE, f"{tracker}.tag"): pass_over for tracker in ("GenerationTracker", "_GenerationTracker")},
}


_NAMED = {names: Row(mark=mark, by_name=True) for names, mark in SPELLINGS.items()}

#: Attributes that torch's decorators leave on a function of the user.
ATTRIBUTES: dict[str, Row] = {
    "_dynamo_marked_constant": Row(mark=policy.call_for_constant, by_name=True),
    "_dynamo_forbidden": Row(mark=policy.forbidden, by_name=True),
    "_torchdynamo_disable": Row(mark=policy.run_eagerly, by_name=True),
}


def foreign_row(function: FunctionType) -> Row:
    """What torch's decorators say of a call of this function, if anything."""
    module = function.__globals__.get("__name__")
    if type(module) is str and module.startswith(("torch.", "triton.")):
        found = _NAMED.get((module, function.__code__.co_qualname))
        if found is not None:
            return found
    for name, row in ATTRIBUTES.items():
        if getattr(function, name, False) and getattr(function, "_torchdynamo_wrapper_id", id(function)) == id(
            function
        ):
            return row
    return NOTHING_KNOWN


def foreign_rows() -> dict[int, Row]:
    """The functions that torch's compiler knows by identity."""
    return {identity: TABLES[table] for identity, table in known_by_identity().items()}


TABLES: dict[str, Row] = {
    "_allowed_callable_ids": Row(mark=policy.call_opaque),
    "_disallowed_callable_ids": Row(mark=policy.disallowed),
    "_nonstrict_trace_callable_ids": Row(mark=policy.trace_nonstrictly),
}


def foreign_polyfill(function: Any) -> Any:
    """The user's Python function that torch's compiler looks at in the place of a native one, or None."""
    module = sys.modules.get("torch._dynamo.variables.functions")
    try:
        found = module.PolyfilledFunctionVariable._get_polyfill_handlers().get(function) if module else None
    except TypeError:  # not hashable
        found = None
    polyfill = getattr(found, "__torch_dynamo_polyfill__", None)
    return None if polyfill is None or (polyfill.__module__ or "").startswith("torch.") else polyfill


def foreign_class_mark(cls: type) -> Mark | None:
    """What a call of an instance of a class of torch's compiler means, if it is known."""
    return SPELLINGS.get((cls.__module__, cls.__qualname__))


# ---- settings of the process -----------------------------------------------------------------------------------------


def error_on_graph_break() -> bool | None:
    """What our own context managers have said; if nothing, what torch's have."""
    ours = _C.exchange_setting("error_on_graph_break")
    if ours is not None:
        return ours
    module = sys.modules.get("torch._dynamo.utils")
    return bool(getattr(module, "_error_on_graph_break", False)) or None


def captures_scalars() -> bool:
    """Whether torch's configuration says that numbers in tensors become symbolic."""
    return bool(getattr(sys.modules.get("torch._dynamo.config"), "capture_scalar_outputs", False))


SETTINGS: dict[str, Callable[[], bool | None]] = {
    "error_on_graph_break": error_on_graph_break,
    "nested_graph_breaks": lambda: _C.exchange_setting("nested_graph_breaks"),
}
