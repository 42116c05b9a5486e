"""All process-wide state that PyTorch and Python have around a call, and what becomes of it in compiled code.

One row for each: a page of the documentation is written from them, and tests hold each row to what it says.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch._C import _functorch
from torch.autograd import forward_ad
from torch.fx import _symbolic_trace
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext


class Treatment(enum.Enum):
    """What becomes of a state in compiled code."""

    COMPARED = "guarded"  #: compared before each call
    ASKED = "guarded where asked"  #: compared in code that has asked for it while it was traced
    NODE = "a node"  #: changed by the graph, or behind it, where the program changes it
    EAGER = "runs eagerly"  #: while it is there, the whole call runs as it is written
    IRRELEVANT = "irrelevant"  #: to what compiled code computes, or read by what computes it at each call


@dataclass(frozen=True, slots=True)
class State:
    """A state of the process or the thread, as its users know it, and how it is treated."""

    name: str
    setters: tuple[str, ...]
    treatment: Treatment
    why: str
    #: Of a state that is compared: its name in `_C.GlobalState`.
    compared: tuple[str, ...] = ()
    #: Of a state in which calls run eagerly: whether it is there.
    is_there: Callable[[], bool] | None = None


def has_unknown_function_modes() -> bool:
    return any(type(mode) is not DeviceContext for mode in _get_current_function_mode_stack())


def has_dispatch_modes() -> bool:
    return torch._C._len_torch_dispatch_stack() > 0


def has_forward_level() -> bool:
    return forward_ad._current_level >= 0


def has_transforms() -> bool:
    return _functorch.maybe_current_level() is not None


def is_traced_by_fx() -> bool:
    return _symbolic_trace._is_fx_tracing_flag  # the function that tells warns


COMPARED, ASKED, NODE, EAGER, IRRELEVANT = Treatment

STATES: tuple[State, ...] = (
    State(
        "function modes of the program",
        ("torch.overrides.TorchFunctionMode",),
        EAGER,
        "they see, and may change, each call of a torch function",
        is_there=has_unknown_function_modes,
    ),
    State(
        "dispatch modes",
        ("torch.utils._python_dispatch.TorchDispatchMode", "torch.utils.flop_counter.FlopCounterMode", "make_fx"),
        EAGER,
        "they see, and may change, each operator that runs",
        is_there=has_dispatch_modes,
    ),
    State(
        "tracing by TorchScript",
        ("torch.jit.trace",),
        EAGER,
        "it records the operators that run",
        is_there=torch._C._is_tracing,
    ),
    State(
        "symbolic tracing by FX",
        ("torch.fx.symbolic_trace",),
        EAGER,
        "it runs the program on stand-ins for tensors",
        is_there=is_traced_by_fx,
    ),
    State(
        "function transforms",
        ("torch.func.vmap", "torch.func.grad", "torch.func.jvp", "torch.func.functionalize"),
        EAGER,
        "tensors are levels of others; a transform that compiled code itself calls is a part of its graph",
        is_there=has_transforms,
    ),
    State(
        "forward-mode differentiation",
        ("torch.autograd.forward_ad.dual_level",),
        EAGER,
        "operators carry tangents along",
        compared=("forward_level",),
        is_there=has_forward_level,
    ),
)


def eager_state() -> State | None:
    """The state because of which a call that starts now runs as it is written, if there is one."""
    for state in STATES:
        if state.is_there is not None and state.is_there():
            return state
    return None
