"""`copy.copy` and `copy.deepcopy`: the module's own code is interpreted; iterators and tensors are copied here."""

from __future__ import annotations

import copy
import copyreg
from typing import Any

import torch

from onegraph.capture.breaks import TENSOR_COPY, GraphBreak
from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.guards.source import DictOf
from onegraph.capture.interp.rests import Rest
from onegraph.capture.policy.python.iteration import StandIn
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.torchlib.private import DisableTorchFunction
from onegraph.torchlib.state import untraced


@policy(copy.copy, passing=True)
def copy_(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any], rest: Rest | None) -> Any:
    value = args[0] if args else None
    if isinstance(value, StandIn):
        return value.copied()
    if isinstance(value, torch.Tensor):
        refuse_uncopied(tracer, value)
        return value.data  # which shares its memory, as the copy does, and counts its own writes
    return tracer.interpret(copy.copy, args, kwargs, rest)


@policy(torch.Tensor.__deepcopy__)
def deep_copy_of_tensor(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensor, memo = args
    if id(tensor) in memo:
        return memo[id(tensor)]
    with DisableTorchFunction():
        computed, storage = tensor.grad_fn is not None, tensor.untyped_storage()
    if computed:
        raise RuntimeError(NOT_A_LEAF)
    known = memo.setdefault("torch", {})
    refuse_uncopied(tracer, tensor)
    given = tracer.recorder.inputs_in(tensor)  # a fake of one whose sizes vary has memory of its own
    if storage._cdata in known or not all(map(fills_its_memory, (tensor, *(each.example for each in given)))):
        raise GraphBreak(TENSOR_COPY, why="it shares its memory with others")
    for each in given:
        tracer.world.guard(each.source, "check", fills_its_memory)
    made = known[storage._cdata] = memo[id(tensor)] = tensor.clone()
    return made


def fills_its_memory(tensor: torch.Tensor) -> bool:
    """Whether it is all of its storage, which a copy has as a whole."""
    with DisableTorchFunction():
        return bool(tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size())


def refuse_uncopied(tracer: Tracing, tensor: torch.Tensor) -> None:
    """Raise the GraphBreak of what only the real copy has: gradients, and attributes in Python."""
    if tensor.requires_grad:
        raise GraphBreak(TENSOR_COPY, why="it requires gradients")
    real = tracer.world.real(tensor)
    if real is not tensor:
        if vars(real):
            raise GraphBreak(TENSOR_COPY, why="it has attributes in Python")
        tracer.world.guard(DictOf(tracer.world.origin[id(tensor)]), "keys", ())
    elif tracer.world.tensor_names.get(id(tensor)):
        raise GraphBreak(TENSOR_COPY, why="it has attributes in Python")


@policy(copyreg._slotnames)  # type: ignore[attr-defined]
def names_of_slots(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Classes remember the answer: that is the module's own business."""
    with untraced():
        return copyreg._slotnames(*args)  # type: ignore[attr-defined]


@policy(torch.nn.Parameter.__deepcopy__)
def deep_copy_of_parameter(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if id(args[0]) in args[1]:
        return args[1][id(args[0])]
    raise GraphBreak(TENSOR_COPY, why="it is a parameter")


#: What torch says of tensors that were computed.
NOT_A_LEAF = (
    "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  "
    "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, see "
    "https://github.com/pytorch/pytorch/pull/103001"
)
