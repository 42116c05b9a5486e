"""`DTensor`: what it says of itself, how it is made of local tensors, and how it goes from one placement to another.

The functions that do so are nodes of the graph. What they compute and communicate is seen where it becomes functional.
"""

from __future__ import annotations

import inspect
import pkgutil
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh

from onegraph.base.dataclass import dataclass
from onegraph.capture.breaks import COMMUNICATION, GraphBreak
from onegraph.capture.calls.registry import LATE_ROWS, policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.guards.source import Attr, Const, Source
from onegraph.capture.heap.type_rules import Rebuilding, admit_opaque, rule_for
from onegraph.capture.heap.types.constants import Values
from onegraph.capture.heap.world import World
from onegraph.torchlib.private import PLACEMENTS, DisableTorchFunction
from onegraph.torchlib.wrappers import is_wrapper

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
MODULE = "torch.distributed.tensor"
#: The placements of torch itself, as their module names them. Others may have a state.
NAMES = frozenset({"Shard", "Replicate", "Partial", "_StridedShard"})


def is_placement(cls: type) -> bool:
    return cls.__module__ == f"{MODULE}.placement_types" and cls.__name__ in NAMES


@rule_for(*PLACEMENTS)
class Placements(Values):
    """`Shard(0)` and the others: an equal one is as good, and is made again as a constant."""

    admits_subclasses = True

    def admit(self, world: World, real: Any, source: Source, guarded: bool) -> Any:
        if not is_placement(type(real)):
            return admit_opaque(world, real, source, guarded)
        if guarded:
            world.guard(source, "type", type(real))
        return super().admit(world, real, source, guarded)

    def rebuild(self, rebuild: Rebuilding, value: Any) -> str:
        return rebuild.const(value)


def make_placement(cls: type, tracer: Tracing, args: Args, kwargs: Kwargs) -> Any:
    args, kwargs = tracer.numbers.concrete_deep((args, kwargs), "placement")
    return tracer.world.keep(cls(*args, **kwargs))


@dataclass(frozen=True, slots=True, eq=False)
class OfTensor:
    """A function of one tensor with all else that it is given, as the target of a node."""

    function: Callable[..., torch.Tensor]
    given: Kwargs

    @property
    def __name__(self) -> str:
        return self.function.__name__

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        return self.function(tensor, **self.given)


def call(function: Callable[..., Any], tracer: Tracing, args: Args, kwargs: Kwargs) -> torch.Tensor:
    """Make a sharded tensor of a local one, a local one of it, or one with other placements.

    Raises:
        GraphBreak: what is given is no such tensor, or more is said in words that a graph has not.
    """
    tensor, *_ = parameters = inspect.signature(function).parameters
    given = dict(zip(parameters, args, strict=False)) | kwargs
    value = given.pop(tensor, None)
    given = {name: tracer.numbers.concrete_deep(tracer.world.realize_deep(v), "size") for name, v in given.items()}
    given.pop("async_op", None)  # the graph waits where it uses the result
    known = isinstance(value, torch.Tensor) and is_wrapper(value) == (tensor == "self")
    if not known or len(args) > len(parameters) or given.get("run_check") or not all(map(is_known, given.values())):
        raise GraphBreak(COMMUNICATION, name=f"DTensor.{function.__name__}")
    value = tracer.recorder.as_traced(value)
    target = OfTensor(function, given)
    with DisableTorchFunction():
        made = target(value)
    tracer.recorder.record(target, (value,), {}, made)
    return made


def is_known(value: Any) -> bool:
    """Whether a node may be given this beside a tensor."""
    if isinstance(value, tuple | list):
        return all(map(is_known, value))
    return value is None or isinstance(value, bool | int | torch.dtype | DeviceMesh) or is_placement(type(value))


def said(name: str, tracer: Tracing, args: Args, kwargs: Kwargs) -> Any:
    """The placements of a sharded tensor, or its mesh, which are guarded with it."""
    (tensor,) = args
    real = tracer.world.real(tensor)
    if real is not tensor:
        source = Attr(tracer.world.origin[id(tensor)], name)
        return tracer.world.admit(getattr(real, name), source, guarded=name != "placements")
    found = getattr(tensor, name)
    return tracer.world.admit(found, Const(id(found), name, found), guarded=False)


def fill() -> None:
    tensors: Any = pkgutil.resolve_name(f"{MODULE}:DTensor")
    for function in (tensors.from_local, tensors.to_local, tensors.redistribute, tensors.full_tensor):
        policy(function)(partial(call, function))
    for name in ("placements", "device_mesh"):
        policy(getattr(tensors, name).fget)(partial(said, name))
    for name in NAMES:
        cls = getattr(sys.modules[f"{MODULE}.placement_types"], name)
        policy(cls)(partial(make_placement, cls))


if MODULE in sys.modules:
    fill()
else:
    LATE_ROWS[MODULE] = fill
