"""What communicates, as operators of the graph.

Functional collectives are called as they are. Those that write to their arguments are what they do: functional ones,
whose results are waited for and copied. Where the program waits itself (`async_op=True`), the graph waits where it uses
the result: when that was written before is nothing that the program may know.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from onegraph.capture.breaks import COMMUNICATION, GraphBreak
from onegraph.capture.breaks.hints import public_name
from onegraph.capture.calls.registry import LATE_ROWS, breaks, policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.heap.type_rules import Rebuilding, TypeRule, rule_for
from onegraph.capture.policy.distributed.groups import group_of
from onegraph.torchlib import collectives
from onegraph.torchlib.collectives import NotFollowed
from onegraph.torchlib.histories import is_recorded
from onegraph.torchlib.private import FUNCTIONAL_COLLECTIVES, is_functorch_wrapped_tensor
from onegraph.torchlib.wrappers import is_wrapper

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
#: Functions that make new tensors, and wait for them where they are used; and what they were called before.
FUNCTIONAL = """all_reduce all_reduce_coalesced broadcast all_to_all_single all_to_all_single_autograd permute_tensor
    all_gather_single all_gather_single_autograd all_gather_single_coalesced
    reduce_scatter_single reduce_scatter_single_autograd reduce_scatter_single_coalesced
    all_gather_tensor all_gather_tensor_autograd all_gather_into_tensor_coalesced
    reduce_scatter_tensor reduce_scatter_tensor_autograd reduce_scatter_tensor_coalesced wait_tensor""".split()
#: The functions that write to their arguments, and the arguments that they have, beside those that all have.
WRITING: dict[str, tuple[str, ...]] = {
    "all_reduce": ("tensor", "op"),
    "all_gather": ("tensor_list", "tensor"),
    "all_gather_into_tensor": ("output_tensor", "input_tensor"),
    "reduce_scatter_tensor": ("output", "input", "op"),
    "all_to_all_single": ("output", "input", "output_split_sizes", "input_split_sizes"),
}
#: Other names of these.
RENAMED = {
    "all_gather_single": "all_gather_into_tensor",
    "reduce_scatter_single": "reduce_scatter_tensor",
}


class Waited(dist.Work):
    """What a program is given of a collective that it waits for itself."""

    def __init__(self, function: str) -> None:
        super().__init__()
        self.function = function

    def wait(self, timeout: Any = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


def _unknown(name: str) -> Callable[..., None]:
    """A method of which only the collective itself knows what it gives."""

    def method(self: Waited, *args: Any, **kwargs: Any) -> None: ...

    method.__module__, method.__qualname__ = "torch.distributed", f"Work.{name}"
    breaks(COMMUNICATION, method)
    return method


for _name in dir(dist.Work):
    if not _name.startswith("__") and _name not in vars(Waited):
        setattr(Waited, _name, _unknown(_name))


def functional(function: Callable[..., Any], tracer: Tracing, args: Args, kwargs: Kwargs) -> Any:
    """Call a functional collective."""
    name = public_name(function)
    given = inspect.signature(function).bind(*args, **kwargs).arguments
    if given.pop("tag", ""):
        raise GraphBreak(COMMUNICATION, name=name)
    if "group" in given:
        given["group"] = group_of(tracer, given["group"], name)
    current = getattr(collectives.functional(), collectives.current(function.__name__))
    return tracer.run_native(current, (), given)


def fill() -> None:
    module = sys.modules[FUNCTIONAL_COLLECTIVES]
    for name in FUNCTIONAL:
        if (function := getattr(module, name, None)) is not None:
            policy(function)(partial(functional, function))


if FUNCTIONAL_COLLECTIVES in sys.modules:
    fill()
else:
    LATE_ROWS[FUNCTIONAL_COLLECTIVES] = fill


def bound(function: Callable[..., Any], args: Args, kwargs: Kwargs) -> dict[str, Any]:
    """All arguments of a call by their names."""
    call = inspect.signature(function).bind(*args, **kwargs)
    call.apply_defaults()
    return call.arguments


def issued(
    tracer: Tracing, function: Callable[..., Any], collective: Callable[..., None], values: Args, is_async: Any
) -> Waited | None:
    """Make the operators of a collective that writes to its arguments, and what the program waits for.

    Raises:
        GraphBreak: they do not cover it, or autograd would warn that it knows nothing of it.
    """
    name = public_name(function)
    values = tracer.world.realize_deep(values)
    try:
        for value in values:
            for each in value if isinstance(value, list) else [value]:
                check_plain(each)
        collective(*values)
    except NotFollowed as refused:
        raise GraphBreak(COMMUNICATION, name=f"{name} {refused}") from None
    if not tracer.truth(is_async):
        return None
    work = Waited(f"{name} with async_op=True, whose work leaves the graph")
    tracer.note_birth(work)
    return work


def check_plain(value: Any) -> None:
    """Raise NotFollowed for a tensor that is another one in disguise, or of which autograd would warn."""
    if not isinstance(value, torch.Tensor):
        return
    if is_functorch_wrapped_tensor(value) or is_wrapper(value):
        raise NotFollowed("of a tensor that wraps another one")
    if torch.is_grad_enabled() and is_recorded(value):
        raise NotFollowed("of a tensor that gradients are recorded for, of which autograd knows nothing")


def writing(
    function: Callable[..., Any], collective: Callable[..., None], names: Args, tracer: Tracing, args: Args, kw: Kwargs
) -> Waited | None:
    given = bound(function, args, kw)
    group = group_of(tracer, given["group"], public_name(function))
    return issued(tracer, function, collective, (*(given[name] for name in names), group), given["async_op"])


for _name, _names in WRITING.items():
    for _spelling in (_name, *(new for new, old in RENAMED.items() if old == _name)):
        if (_function := getattr(dist, _spelling, None)) is not None:
            policy(_function)(partial(writing, _function, getattr(collectives, _name), _names))


@policy(dist.broadcast)
def broadcast(tracer: Tracing, args: Args, kwargs: Kwargs) -> Waited | None:
    given = bound(dist.broadcast, args, kwargs)
    group = group_of(tracer, given["group"], "broadcast")
    source, place = (tracer.numbers.concrete_deep(given.get(key), "rank") for key in ("src", "group_src"))
    if (source is None) == (place is None):
        raise GraphBreak(COMMUNICATION, name="broadcast")
    if place is None:
        ranks = dist.get_process_group_ranks(group)
        if source not in ranks:
            raise GraphBreak(COMMUNICATION, name="broadcast")
        place = ranks.index(source)
    return issued(tracer, dist.broadcast, collectives.broadcast, (given["tensor"], place, group), given["async_op"])


@policy(dist.barrier)
def barrier(tracer: Tracing, args: Args, kwargs: Kwargs) -> Waited | None:
    given = bound(dist.barrier, args, kwargs)
    if given["device_ids"] is not None or given.get("timeout") is not None:
        raise GraphBreak(COMMUNICATION, name="barrier")
    group = group_of(tracer, given["group"], "barrier")
    return issued(tracer, dist.barrier, collectives.barrier, (group,), given["async_op"])


@rule_for(Waited)
class Works(TypeRule):
    def rebuild(self, rebuild: Rebuilding, value: Waited) -> str:
        """Whoever gets it waits for the collective: it is called where it is written."""
        raise GraphBreak(COMMUNICATION, name=value.function)
