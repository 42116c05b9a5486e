"""Accelerators: which device is the current one is a number in the graph, what programs ask of devices is guarded.

Streams, events, and waiting for a device break the graph: they order the work of a device, which operators of a graph
know nothing of. A graph runs on the stream that is the current one when it is called.
"""

from __future__ import annotations

from functools import partial
from types import MethodDescriptorType
from typing import Any

import torch

from onegraph.capture import breaks as b
from onegraph.capture.breaks import GraphBreak
from onegraph.capture.breaks.hints import public_name
from onegraph.capture.calls.registry import breaks, policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.policy.torch.contexts import OpenContext, leave_context
from onegraph.capture.policy.torch.questions import answer
from onegraph.torchlib.devices import ASKED, ASKED_OF_ONE, INDICES, accelerator, accelerator_kind, current_index

#: What depends on the current device.
OF_CURRENT = frozenset({"is_bf16_supported", "is_tf32_supported"})
#: Contexts in which another device is the current one.
CONTEXTS: list[Any] = [
    getattr(home, name)
    for home, names in {
        torch.cuda: "device _DeviceGuard",
        torch.xpu: "device _DeviceGuard",
        torch.mtia: "device",
    }.items()
    for name in names.split()
]
CONTEXTS += [accelerator.device_index] if hasattr(accelerator, "device_index") else []
STREAMS: list[Any] = [torch.cuda.StreamContext, torch.xpu.StreamContext, torch.mtia.StreamContext]


def ask(question: Any, tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What is given by name is what would be given by its place: each takes one argument."""
    if question.__name__ in OF_CURRENT and any(type(open.manager) in CONTEXTS for open in tracer.open_contexts):
        raise GraphBreak(b.DEVICE_WORK, name=public_name(question))
    given = tracer.numbers.concrete_deep(tracer.world.realize_deep((*args, *kwargs.values())), "a device")
    return answer(question, tracer, given, {})


def ask_of_one(question: Any, tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    is_current = all(value is None for value in (*args, *kwargs.values())) and accelerator_kind() is not None
    return ask(question, tracer, (current(tracer),) if is_current else args, {} if is_current else kwargs)


def ask_index(question: Any, tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return ask(question, tracer, args, kwargs) if accelerator_kind() is None else current(tracer)


def current(tracer: Tracing) -> int:
    """The index of the current device. That it is this one when the call begins is guarded."""
    return int(answer(current_index, tracer, (), {}))


for _questions, _ask in ((ASKED, ask), (ASKED_OF_ONE, ask_of_one), (INDICES, ask_index)):
    for _question in _questions:
        policy(_question)(partial(_ask, _question))


@policy(*(kind.__enter__ for kind in CONTEXTS))
def enter_index(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Within, devices that are named without a number have another one."""
    manager = tracer.world.realize(args[0])
    if accelerator_kind() is not None:
        current(tracer)
    kind = type(manager)
    tracer.open_contexts.append(OpenContext(args[0], kind.__enter__, kind.__exit__))
    return kind.__enter__(manager)


policy(*(kind.__exit__ for kind in CONTEXTS))(leave_context)


@policy(*(kind.__enter__ for kind in STREAMS))
def enter_stream(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Without a stream there is nothing to enter."""
    if tracer.getattr(args[0], "stream") is not None:
        raise GraphBreak(b.DEVICE_WORK, name=public_name(type(args[0])))


@policy(*(kind.__exit__ for kind in STREAMS))
def leave_stream(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    enter_stream(tracer, args[:1], {})


for _class in (torch.Stream, torch.Event):
    breaks(b.DEVICE_WORK, _class, *(each for each in vars(_class).values() if isinstance(each, MethodDescriptorType)))
