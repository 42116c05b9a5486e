"""Collectives that write to their arguments, in terms of those that make new tensors.

Autograd knows nothing of the writes, as in eager mode. Where gloo writes itself, versions do not count it either: such
writes go through `data`. Others it copies into the outputs, which counts as a write (or several), and does here.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from onegraph.torchlib import private
from onegraph.torchlib.aten import does_nothing

#: Operators of ours that communicate.
LIBRARY = torch.library.Library("onegraph_c10d", "FRAGMENT")
#: Where the operators are that communicate, torch's and ours.
NAMESPACES = frozenset({"_c10d_functional", "_c10d_functional_autograd", "onegraph_c10d"})
SIZES = "of tensors whose sizes do not fit"
Group = dist.ProcessGroup


class NotFollowed(Exception):
    """A call that the operators do not cover, or that is an error in eager mode: what is the matter with it."""


def functional() -> Any:
    """The module of torch's functional collectives."""
    return pkgutil.resolve_name(private.FUNCTIONAL_COLLECTIVES)


def current(name: str) -> str:
    """The name of a function of that module now, where the one that is given is deprecated, and says so."""
    renamed = name.replace("into_tensor", "single").replace("_tensor", "_single")
    return renamed if hasattr(functional(), renamed) else name


def reduction(op: Any) -> str:
    """The name of a reduction, as operators have it."""
    names: dict[Any, str] = functional().REDUCE_OP_TO_STR
    if op not in names:
        raise NotFollowed(f"with {op}")
    return names[op]


def check(*tensors: Tensor) -> None:
    """Raise NotFollowed unless the tensors are of one type, and without gaps, as backends demand it."""
    for tensor in tensors:
        if not tensor.is_contiguous():
            raise NotFollowed("of a tensor that is not contiguous")
        if tensor.dtype != tensors[0].dtype or tensor.is_complex():
            raise NotFollowed("of tensors of other types")


def all_reduce(tensor: Tensor, op: Any, group: Group) -> None:
    check(tensor)
    tensor.data.copy_(functional().all_reduce(tensor.data, reduction(op), group))


def broadcast(tensor: Tensor, source: int, group: Group) -> None:
    """`source` is a rank in the group."""
    check(tensor)
    tensor.data.copy_(functional().broadcast(tensor.data, source, group))


def gathered(tensor: Tensor, group: Group) -> Tensor:
    """The elements of the tensors of all ranks, one after another."""
    gather = getattr(functional(), current("all_gather_tensor"))
    result: Tensor = gather(tensor.data.reshape(-1), 0, group)
    return result


def all_gather_into_tensor(output: Tensor, tensor: Tensor, group: Group) -> None:
    check(output, tensor)
    if output.numel() != group.size() * tensor.numel():
        raise NotFollowed(SIZES)
    output.detach().copy_(gathered(tensor, group).view(output.shape))


def all_gather(outputs: Sequence[Tensor], tensor: Tensor, group: Group) -> None:
    check(*outputs, tensor)
    if len(outputs) != group.size() or any(output.shape != tensor.shape for output in outputs):
        raise NotFollowed(SIZES)
    parts = gathered(tensor, group).view(group.size(), *tensor.shape)
    for number, output in enumerate(outputs):
        output.detach().copy_(parts[number])


def reduce_scatter_tensor(output: Tensor, tensor: Tensor, op: Any, group: Group) -> None:
    check(output, tensor)
    if tensor.numel() != group.size() * output.numel():
        raise NotFollowed(SIZES)
    scatter = getattr(functional(), current("reduce_scatter_tensor"))
    output.detach().copy_(scatter(tensor.data.reshape(-1), reduction(op), 0, group).view(output.shape))


def all_to_all_single(output: Tensor, tensor: Tensor, taken: Any, given: Any, group: Group) -> None:
    """`taken` and `given` are how many rows come from each rank, and go to each; none means equally many."""
    check(output, tensor)
    if not tensor.dim() or not output.dim():
        raise NotFollowed(SIZES)
    taken, given = (list(split or equally(each, group)) for split, each in ((taken, output), (given, tensor)))
    result = functional().all_to_all_single(tensor.data, taken, given, group)
    if len(taken) != group.size() or len(given) != group.size() or sum(given) != tensor.shape[0]:
        raise NotFollowed(SIZES)
    if result.shape != output.shape:
        raise NotFollowed(SIZES)
    output.data.copy_(result)


def equally(tensor: Tensor, group: Group) -> list[Any]:
    rows = tensor.shape[0]
    if rows % group.size() != 0:
        raise NotFollowed(SIZES)
    return [rows // group.size()] * group.size()


def _barrier(name: str) -> None:
    dist.barrier(private.resolve_group(name))


if not hasattr(torch.ops.onegraph_c10d, "barrier"):  # of an interrupted import
    LIBRARY.define("barrier(str group_name) -> ()")
    LIBRARY.impl("barrier", _barrier, "CompositeExplicitAutograd")
    LIBRARY.impl("barrier", does_nothing, "Meta")


def barrier(group: Group) -> None:
    torch.ops.onegraph_c10d.barrier(group.group_name)
