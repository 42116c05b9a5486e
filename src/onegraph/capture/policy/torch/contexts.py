"""Contexts of torch that are state of the thread: where a graph ends they are left, and entered again behind it.

Autocast decides what operators compute, so its ends are nodes of the graph. A device is an argument of what is recorded
in its context. Other native contexts of torch decide who sees the operators that run: they break the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import MethodDescriptorType
from typing import Any

import torch
from torch.amp import autocast_mode
from torch.overrides import TorchFunctionMode

from onegraph.base.dataclass import dataclass
from onegraph.capture import breaks as b
from onegraph.capture.breaks import GraphBreak
from onegraph.capture.breaks.hints import public_name
from onegraph.capture.calls.registry import breaks, policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.policy.torch.questions import DEVICE_CONTEXTS, answer, current_device
from onegraph.torchlib import private
from onegraph.torchlib.private import (
    NATIVE,
    DeviceContext,
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    count_function_modes,
    has_function_modes,
)
from onegraph.torchlib.state import accelerator_kind, enter_inference, exit_inference, function_modes

autocast = autocast_mode.autocast
inference_mode = torch.inference_mode
STREAMS = (torch.cuda.StreamContext, torch.xpu.StreamContext, torch.mtia.StreamContext)
Calls = list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class OpenContext:
    """A context that the program has entered, the functions that enter and leave it, and its node if it has one."""

    manager: Any
    enter: Callable[..., Any]
    leave: Callable[..., Any]
    node: torch.fx.Node | None = None
    #: What is left in the place of the manager, if it is something else.
    opened: OpenedInference | None = None


class OpenedInference:
    """Inference mode as the trace has entered it. It is left once: nothing else puts back what was before."""

    def __init__(self, enabled: bool) -> None:
        self.entered = private.enter_inference(enabled)

    def leave(self, *raised: object) -> None:
        entered, self.entered = self.entered, None
        if entered is not None:
            private.exit_inference(entered)


@dataclass(frozen=True, slots=True)
class ChosenDevice:
    """A default device that the program has chosen, and the mode above the recorder that stands for it."""

    device: Any
    mode: DeviceContext


@policy(autocast.__enter__)
def enter_autocast(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    mode = tracer.world.realize(args[0])
    if mode._enabled:
        answer(torch.get_autocast_dtype, tracer, (mode.device,), {})  # the type of one that is given none
    values = (mode.device, mode.fast_dtype, mode._enabled, mode._cache_enabled)
    node = tracer.recorder.graph.call_function(private.enter_autocast, values)
    tracer.open_contexts.append(OpenContext(mode, autocast.__enter__, autocast.__exit__, node))
    with DisableTorchFunction():
        return autocast.__enter__(mode)


@policy(private.enter_autocast)
def open_autocast(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    mode = tracer.call(private.UnmanagedAutocast, args, kwargs)
    tracer.call(autocast.__enter__, (mode,), {})
    return mode


@policy(private.exit_autocast)
def close_autocast(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tracer.call(autocast.__exit__, (*args, None, None, None), kwargs)


@policy(torch.device.__enter__)
def enter_device(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    (device,) = args
    tracer.open_contexts.append(OpenContext(device, torch.device.__enter__, torch.device.__exit__))
    return torch.device.__enter__(device)


@policy(DisableTorchFunctionSubclass.__enter__)
def enter_plain(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Within, tensors of subclasses are what they are without their class. Modes are asked still."""
    (context,) = args
    kind = DisableTorchFunctionSubclass
    tracer.open_contexts.append(OpenContext(context, kind.__enter__, kind.__exit__))
    return kind.__enter__(context)


@policy(TorchFunctionMode.__enter__)
def enter_mode(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A mode of the program sees the functions that the program calls, and is interpreted."""
    (mode,) = args
    modes = tracer.recorder.modes
    modes.append(mode)
    leave = partial(leave_mode, modes)
    tracer.open_contexts.append(OpenContext(mode, TorchFunctionMode.__enter__, leave))
    return mode


def leave_mode(modes: list[Any], mode: Any, *raised: Any) -> None:
    modes.remove(mode)


@policy(inference_mode.__enter__)
def enter_inference_mode(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """By a node: what is made within is told from other tensors, and gradients are recorded outside of it only."""
    manager = args[0]
    enabled = tracer.getattr(manager, "mode")
    node = tracer.recorder.graph.call_function(enter_inference, (enabled,))
    opened = OpenedInference(enabled)
    tracer.open_contexts.append(OpenContext(manager, inference_mode.__enter__, OpenedInference.leave, node, opened))


@policy(*(kind.__enter__ for kind in DEVICE_CONTEXTS))
def enter_index(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Within, devices that are named without a number have another one."""
    manager = tracer.world.realize(args[0])
    if accelerator_kind() is not None:
        current_device(tracer)
    kind = type(manager)
    tracer.open_contexts.append(OpenContext(args[0], kind.__enter__, kind.__exit__))
    return kind.__enter__(manager)


@policy(*(kind.__enter__ for kind in STREAMS))
def enter_stream(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Without a stream there is nothing to enter. A stream orders work, of which graphs know nothing."""
    if tracer.getattr(args[0], "stream") is not None:
        raise GraphBreak(b.DEVICE_WORK, name=public_name(type(args[0])))


@policy(*(kind.__exit__ for kind in STREAMS))
def leave_stream(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    enter_stream(tracer, args[:1], {})


LEAVING = (
    *(autocast, torch.device, inference_mode, DisableTorchFunctionSubclass, TorchFunctionMode),
    *DEVICE_CONTEXTS,
)


@policy(*(context.__exit__ for context in LEAVING))
def leave_context(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    manager, *raised = args
    if not tracer.open_contexts or tracer.open_contexts[-1].manager is not manager:
        raise GraphBreak(b.FOREIGN_CONTEXT, what=f"a {type(manager).__name__}")
    return left(tracer, tracer.open_contexts.pop(), raised)


def left(tracer: Tracing, context: OpenContext, raised: list[Any]) -> Any:
    if context.node is not None:
        leave = private.exit_autocast if context.opened is None else exit_inference
        tracer.recorder.graph.call_function(leave, (context.node,))
    if context.node is None:
        return context.leave(context.manager, *raised)
    with DisableTorchFunction():
        return context.leave(context.manager if context.opened is None else context.opened, *raised)


def leave_inference(tracer: Tracing) -> None:
    """Leave the inference modes that a trace has not come to leave."""
    for context in reversed(tracer.open_contexts):
        if context.opened is not None:
            context.opened.leave()


def leave_open_contexts(tracer: Tracing) -> Calls:
    """Leave the open contexts with the graph; the calls that enter them again behind it."""
    for context in reversed(tracer.open_contexts):
        left(tracer, context, [None, None, None])
    return [(context.enter, (context.manager,), {}) for context in tracer.open_contexts]


@policy(torch.set_default_device)
def set_default_device(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """What is recorded from here on is given the device, and the residual code sets it for the rest of the process.

    Within `with torch.device(...)`, whose device goes before this one, it breaks the graph.
    """
    chosen, modes = tracer.chosen_device, function_modes()
    if kwargs or len(args) != 1 or modes[-1] is not (tracer.recorder if chosen is None else chosen.mode):
        raise GraphBreak(b.DEFAULT_DEVICE, name="torch.set_default_device")
    if chosen is None and answer(private.devices_around, tracer, (), {}):
        raise GraphBreak(b.DEFAULT_DEVICE, name="torch.set_default_device")
    mode = DeviceContext("cpu" if args[0] is None else args[0])  # without one, the processor goes before one below
    if chosen is not None:
        private.pop_function_mode()
    private.push_function_mode(mode)
    private.set_default_device(None if args[0] is None else mode.device)
    tracer.chosen_device = ChosenDevice(args[0], mode)


def device_left(tracer: Tracing) -> Calls:
    """The call that leaves the default device as the program has left it."""
    chosen = tracer.chosen_device
    return [] if chosen is None else [(torch.set_default_device, (chosen.device,), {})]


@policy(count_function_modes)
def count_modes(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """The recorder is no mode of the program."""
    return len(tracer.recorder.modes) + sum(mode is not tracer.recorder for mode in function_modes())


@policy(has_function_modes)
def has_modes(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return count_modes(tracer, (), {}) > 0


for _class in (torch.Stream, torch.Event):
    breaks(b.DEVICE_WORK, _class, *(each for each in vars(_class).values() if isinstance(each, MethodDescriptorType)))
#: One goes below other modes, where the recorder does not see what it does; the other takes the fakes' mode away.
breaks(b.TORCH_CONTEXT, DeviceContext.__enter__, DeviceContext.__exit__, private.disable_current_modes)
ELSEWHERE = (torch.device, DisableTorchFunctionSubclass, torch.Stream)
for _context in vars(NATIVE).values():
    if isinstance(_context, type) and _context not in ELSEWHERE and hasattr(_context, "__enter__"):
        breaks(b.TORCH_CONTEXT, _context.__enter__, _context.__exit__)  # type: ignore[attr-defined]
