"""What a program asks of torch about the state of the process: answered, and guarded.

What asks another process is not among it. What changes the state breaks the graph. What chooses among the kernels of
attention (`torch.nn.attention.sdpa_kernel`) does not: it becomes nodes of the graph, like the ends of autocast.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
import torch.distributed as dist

from onegraph.capture import breaks as b
from onegraph.capture.breaks import GraphBreak
from onegraph.capture.breaks.hints import public_name
from onegraph.capture.calls.registry import SETS, breaks, policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.guards.predicates import Predicate
from onegraph.capture.guards.source import Const
from onegraph.capture.interp.rests import Rest
from onegraph.torchlib import private
from onegraph.torchlib.attention import sdpa_kernel, traced_sdpa_kernel
from onegraph.torchlib.private import profiler_enabled
from onegraph.torchlib.settings import (
    DETERMINISTIC,
    PLAIN_SETTINGS,
    Setting,
    autocast_dtype_setting,
    autocast_setting,
    choose_precision,
    precision_setting,
    tell_precision,
)
from onegraph.torchlib.state import AUTOCAST_DEVICES, accelerator, accelerator_kind, current_index, untraced


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
    """Ask for real: the state of the process decides, or what the program itself has set.

    Raises:
        GraphBreak: the program has set something else that may decide, too.
    """
    asked = partial(question, *args, **kwargs)
    with untraced():
        found = asked()
    told = [setting for setting in tracer.settings_of_torch if is_told(setting, question, args)]
    if told or is_in_autocast(tracer, question, args):
        return found
    if (question, args) in tracer.told_of_torch:
        return found
    if TELLS_PRECISION.search(question.__name__) and any(
        TELLS_PRECISION.search(setting.ask.__name__) for setting in tracer.settings_of_torch
    ):
        raise GraphBreak(b.STATE_CHANGE, name=public_name(question))
    tracer.told_of_torch.add((question, args))
    source = Const(id(question), public_name(question), question)
    tracer.world.guard(source, "check", Answers(asked, found))
    return found


def is_told(setting: Setting, question: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """Whether a question is one for a setting."""
    if setting.choose is torch.set_autocast_dtype:
        return bool(device_of(question, args) == setting.about[0])
    return args == setting.about and (question is setting.ask or PUBLIC_QUESTIONS.get(question) is setting.ask)


def is_in_autocast(tracer: Tracing, question: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """Whether the program asks for the type of an autocast that it has itself entered."""
    device = device_of(question, args)
    return device is not None and any(is_autocast(context.manager, device) for context in tracer.open_contexts)


def device_of(question: Callable[..., Any], args: tuple[Any, ...]) -> str | None:
    """The kind of device of which a question asks for the type of autocast."""
    named = ASKS_AUTOCAST.fullmatch(question.__name__)
    return None if named is None else KINDS_OF_DEVICES.get(named[1], named[1]) if named[1] else args[0]


def is_autocast(manager: Any, device: str) -> bool:
    return isinstance(manager, torch.autocast) and bool(manager.device == device)


def change(tracer: Tracing, setting: Setting, value: Any) -> None:
    """Set it for the trace, and by a node for the graph; the trace puts it back at its end."""
    value = tracer.numbers.concrete_deep(tracer.world.realize_deep(value), "a setting")
    if setting not in tracer.settings_of_torch:
        with untraced():
            before = setting.value()
        if not setting.compared:
            before = answer(setting.ask, tracer, setting.about, {})
    else:
        before = tracer.settings_of_torch[setting]
    with private.DisableTorchFunction():  # a mode that is entered and left would put back what is set in it
        setting.put(value)
    tracer.settings_of_torch[setting] = before
    tracer.recorder.graph.call_function(setting.choose, (*setting.about, value))


def put_back(tracer: Tracing) -> list[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """Put back with the graph what the program has changed; the calls that change it again behind the graph."""
    changed: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
    for setting, before in tracer.settings_of_torch.items():
        now = setting.value()
        if now != before:
            changed.append((setting.choose, (*setting.about, now), {}))
    for setting, before in reversed(tracer.settings_of_torch.items()):
        if setting.value() != before:
            tracer.recorder.graph.call_function(setting.choose, (*setting.about, before))
            setting.put(before)
    return changed


def end(tracer: Tracing) -> None:
    """Put back for the process what the trace has changed."""
    for setting, before in reversed(tracer.settings_of_torch.items()):
        if setting.value() != before:
            setting.put(before)


def ask_device(question: Any, tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What is given by name is what would be given by its place: each takes one argument."""
    in_another = any(type(open.manager) in DEVICE_CONTEXTS for open in tracer.open_contexts)
    if in_another and question.__name__ in OF_CURRENT_DEVICE:
        raise GraphBreak(b.DEVICE_WORK, name=public_name(question))
    given = tracer.numbers.concrete_deep(tracer.world.realize_deep((*args, *kwargs.values())), "a device")
    return answer(question, tracer, given, {})


def ask_one_device(question: Any, tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    is_current = all(value is None for value in (*args, *kwargs.values())) and accelerator_kind() is not None
    return ask_device(question, tracer, (current_device(tracer),) if is_current else args, {} if is_current else kwargs)


def ask_device_index(question: Any, tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return ask_device(question, tracer, args, kwargs) if accelerator_kind() is None else current_device(tracer)


def current_device(tracer: Tracing) -> int:
    """The index of the current device. That it is this one when the call begins is guarded."""
    return int(answer(current_index, tracer, (), {}))


def sets(choose: Callable[..., Any], setting: Setting) -> None:
    @policy(choose)
    def set_to(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if kwargs or len(args) != 1:
            raise GraphBreak(b.STATE_CHANGE, name=public_name(choose))
        change(tracer, setting, args[0])


def _functions(table: dict[Any, str]) -> list[Callable[..., Any]]:
    found = [getattr(home, name, None) for home, names in table.items() for name in names.split()]
    return [each for each in found if isinstance(each, FunctionType)]


#: What programs ask of the devices of the process.
ASKED_OF_DEVICES = _functions(
    {
        torch.cuda: "is_available device_count is_initialized is_bf16_supported is_tf32_supported get_arch_list",
        torch.xpu: "is_available device_count is_initialized is_bf16_supported",
        torch.mps: "is_available device_count",
        torch.mtia: "is_available device_count is_initialized",
        accelerator: "is_available device_count current_accelerator",
    }
)
#: What they ask of one device: of the current one, if they do not say which.
ASKED_OF_ONE_DEVICE = _functions(
    {
        torch.cuda: "get_device_capability get_device_name get_device_properties",
        torch.xpu: "get_device_capability get_device_name get_device_properties",
    }
)
#: Which device is the current one.
DEVICE_INDICES = _functions(
    {
        torch.cuda: "current_device",
        torch.xpu: "current_device",
        torch.mtia: "current_device",
        accelerator: "current_device_index current_device_idx",
    }
)
#: Those that depend on the current device.
OF_CURRENT_DEVICE = frozenset({"is_bf16_supported", "is_tf32_supported"})
#: Contexts in which another device is the current one.
DEVICE_CONTEXTS: tuple[Any, ...] = (
    torch.cuda.device,
    torch.xpu.device,
    torch.mtia.device,
    accelerator.device_index,
)
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
SETTERS += [torch.set_printoptions, torch.set_warn_always, torch.set_default_tensor_type]
QUESTIONS: list[Callable[..., Any]] = [function for name, function in NATIVE.items() if TELLS.fullmatch(name)]
#: Python functions that run natively, and the native ones that they ask.
PUBLIC_QUESTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.get_float32_matmul_precision: private.get_matmul_precision
}
#: Settings that have a part in each other.
TELLS_PRECISION = re.compile(r"precision|tf32")
QUESTIONS += [torch.is_warn_always_enabled, *PUBLIC_QUESTIONS, profiler_enabled, tell_precision]
ASKED = [setting.ask for setting in PLAIN_SETTINGS.values() if not setting.compared]
QUESTIONS += [question for question in ASKED if question not in QUESTIONS]
QUESTIONS += [*ASKED_OF_DEVICES, *ASKED_OF_ONE_DEVICE, *DEVICE_INDICES]
QUESTIONS += [getattr(dist, name) for name in DISTRIBUTED if hasattr(dist, name)]
_DEVICES = ((ASKED_OF_DEVICES, ask_device), (ASKED_OF_ONE_DEVICE, ask_one_device), (DEVICE_INDICES, ask_device_index))
_OF_DEVICES = {question: ask for questions, ask in _DEVICES for question in questions}
for _question in QUESTIONS:
    policy(_question)(partial(_OF_DEVICES.get(_question, answer), _question))
#: The setters whose changes are nodes of the graph.
FOLLOWED = (
    *PLAIN_SETTINGS, choose_precision, private.set_deterministic, torch.set_autocast_enabled, torch.set_autocast_dtype,
)  # fmt: skip
breaks(b.STATE_CHANGE, *(setter for setter in SETTERS if setter not in FOLLOWED))
for _setter, _setting in PLAIN_SETTINGS.items():
    sets(_setter, _setting)


@policy(choose_precision)
def set_precision(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if kwargs or len(args) != 3:
        raise GraphBreak(b.STATE_CHANGE, name="torch.backends.fp32_precision")
    change(tracer, precision_setting(*args[:2]), args[2])


@policy(private.set_deterministic)
def set_deterministic(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if len(args) != 1 or kwargs.keys() - {"warn_only"}:
        raise GraphBreak(b.STATE_CHANGE, name="torch.use_deterministic_algorithms")
    change(tracer, DETERMINISTIC, (args[0], kwargs.get("warn_only", False)))


@policy(torch.use_deterministic_algorithms)
def use_deterministic_algorithms(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Without the setting of the stock compiler that it sets, too."""
    set_deterministic(tracer, args, kwargs)


def _sets_autocast(choose: Callable[..., Any], setting_of: Callable[[str], Setting]) -> None:
    @policy(choose)
    def set_to(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """In an autocast that the program has entered it breaks the graph: its end puts back what was before."""
        device = args[0] if len(args) == 2 and not kwargs else None
        if device not in AUTOCAST_DEVICES or any(is_autocast(open.manager, device) for open in tracer.open_contexts):
            raise GraphBreak(b.STATE_CHANGE, name=public_name(choose))
        change(tracer, setting_of(device), args[1])


_sets_autocast(torch.set_autocast_enabled, autocast_setting)
_sets_autocast(torch.set_autocast_dtype, autocast_dtype_setting)
if traced_sdpa_kernel is not sdpa_kernel:

    @policy(sdpa_kernel, passing=True)
    def choose_kernels(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any], rest: Rest | None) -> Any:
        return tracer.call(traced_sdpa_kernel, args, kwargs, rest)
