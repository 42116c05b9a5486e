"""What a program asks of torch about the state of the process: answered, and guarded.

What asks another process is not among it. What changes the state breaks the graph. What chooses among the kernels of
attention (`torch.nn.attention.sdpa_kernel`) does not: it becomes nodes of the graph, like the ends of autocast.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from types import BuiltinFunctionType
from typing import Any

import torch
import torch.distributed as dist

from onegraph.capture import breaks as b
from onegraph.capture.breaks.hints import public_name
from onegraph.capture.calls.registry import SETS, breaks, policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.guards.predicates import Predicate
from onegraph.capture.guards.source import Const
from onegraph.capture.interp.rests import Rest
from onegraph.torchlib import private
from onegraph.torchlib.attention import ATTENTION_CHOICES, sdpa_kernel, traced_sdpa_kernel
from onegraph.torchlib.private import profiler_enabled
from onegraph.torchlib.state import untraced


class Answers(Predicate):
    """A question has this answer still."""

    def __init__(self, ask: Callable[[], Any], answer: Any) -> None:
        self.ask = ask
        self.answer = answer

    def __call__(self, _: object) -> bool:
        return bool(self.ask() == self.answer)

    def text(self, *what: str) -> str:
        return f"{what[0]}() == {self.answer!r}"


def answer(question: Callable[..., Any], tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Ask for real: the state of the process decides, or what the program itself has set."""
    asked = partial(question, *args, **kwargs)
    with untraced():
        found = asked()
    if question in tracer.settings_of_torch or is_in_autocast(tracer, question, args):
        return found
    source = Const(id(question), public_name(question), question)
    tracer.world.guard(source, "check", Answers(asked, found))
    return found


def is_in_autocast(tracer: Tracing, question: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """Whether the program asks for the type of an autocast that it has itself entered."""
    named = ASKS_AUTOCAST.fullmatch(question.__name__)
    device = None if named is None else KINDS_OF_DEVICES.get(named[1], named[1]) if named[1] else args[0]
    return device is not None and any(is_autocast(context.manager, device) for context in tracer.open_contexts)


def is_autocast(manager: Any, device: str) -> bool:
    return isinstance(manager, torch.autocast) and bool(manager.device == device)


def change(setter: Callable[..., Any], tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Set it for the trace, and by a node for the graph; the trace puts it back at its end."""
    question = ATTENTION_CHOICES[setter]
    args = tuple(tracer.numbers.concrete_deep(tracer.world.realize_deep(value), "a setting") for value in args)
    before = answer(question, tracer, (), {})
    tracer.settings_of_torch.setdefault(question, (setter, before))
    tracer.recorder.graph.call_function(setter, args, kwargs)
    with untraced():
        return setter(*args, **kwargs)


def put_back(tracer: Tracing) -> list[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """Put back with the graph what the program has changed; the calls that change it again behind the graph."""
    changed: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
    for question, (setter, before) in tracer.settings_of_torch.items():
        now = question()
        if now != before:
            changed.append((setter, (now,), {}))
            tracer.recorder.graph.call_function(setter, (before,))
            setter(before)
    return changed


#: Of torch.distributed, without arguments.
DISTRIBUTED = (
    "is_available",
    "is_initialized",
    "is_torchelastic_launched",
    "is_mpi_available",
    "is_nccl_available",
    "is_gloo_available",
)
#: Native functions that tell what is set, as far as it is not guarded in each trace.
TELLS = re.compile(
    r"_?(get|is)_(\w+_(threads|precision|benchmark|deterministic|tf32|reduction|accumulation|backend|order|cache_enabled"
    r"|sdp_enabled|nan_enabled|memory)|autocast\w*_dtype|warnAlways|qengine"
    r"|(anomaly|mkldnn|cudnn|nnpack|multithreading|view_replay|fwd_grad)_enabled)"
)
ASKS_AUTOCAST = re.compile(r"get_autocast_(?:(\w+)_)?dtype")
#: What the functions for single kinds of devices call them.
KINDS_OF_DEVICES = {"gpu": "cuda"}
NATIVE = {name: value for name, value in vars(private.NATIVE).items() if isinstance(value, BuiltinFunctionType)}
SETTERS: list[Callable[..., Any]] = [function for name, function in NATIVE.items() if SETS.fullmatch(name)]
SETTERS += [torch.set_printoptions, torch.set_warn_always, torch.set_deterministic_debug_mode]
QUESTIONS: list[Callable[..., Any]] = [function for name, function in NATIVE.items() if TELLS.fullmatch(name)]
QUESTIONS += [torch.is_warn_always_enabled, torch.get_float32_matmul_precision, torch.get_deterministic_debug_mode]
QUESTIONS += [profiler_enabled]
QUESTIONS += [question for question in ATTENTION_CHOICES.values() if question not in QUESTIONS]
QUESTIONS += [getattr(dist, name) for name in DISTRIBUTED if hasattr(dist, name)]
for _question in QUESTIONS:
    policy(_question)(partial(answer, _question))
breaks(b.STATE_CHANGE, *(setter for setter in SETTERS if setter not in ATTENTION_CHOICES))
for _setter in ATTENTION_CHOICES:
    policy(_setter)(partial(change, _setter))
if traced_sdpa_kernel is not sdpa_kernel:

    @policy(sdpa_kernel, passing=True)
    def choose_kernels(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any], rest: Rest | None) -> Any:
        return tracer.call(traced_sdpa_kernel, args, kwargs, rest)
