"""Operators that write to memory which they read elsewhere, or write to twice.

Many refuse that on real tensors. What others compute depends on the order in which they go through the elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.exceptions import TooHardError

from onegraph.torchlib.aten import leaves
from onegraph.torchlib.private import OpOverload

aten = torch.ops.aten
#: They write one value everywhere, so they may do it twice.
IDEMPOTENT = frozenset({aten.fill_.Scalar, aten.fill_.Tensor, aten.zero_.default})
#: How many steps numpy may take to find out whether two tensors have an element in common.
MOST_WORK = 10_000
#: Where the memory of all fakes begins. Nobody reads it.
BEGIN = 1 << 40


class OverlappingWrite(RuntimeError):
    """An operator would write to memory that it reads in another place, or write to an element twice."""


def refuse_overlaps(
    op: OpOverload,
    positions: Sequence[int],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    real: Mapping[int, int],
) -> None:
    """Look at a call, with fakes, of an operator that writes to the arguments at some positions of its schema.

    `real` are the real storages for which storages of fakes stand, by address: fakes of one may have several.

    Raises:
        OverlappingWrite: the result would depend on the order in which the elements are computed.
    """
    if op.namespace != "aten" or op in IDEMPOTENT or torch.Tag.inplace_view in op.tags:
        return
    names = [formal.name for formal in op._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    sharing: dict[int, list[tuple[str, int, torch.Tensor]]] = {}
    for name, value in given.items():
        for place, tensor in enumerate(tensors_of(value)):
            sharing.setdefault(storage_of(tensor, real), []).append((name, place, tensor))
    written_names = {names[position] for position in positions}
    for members in sharing.values():
        for name, place, written in members:
            if name not in written_names:
                continue
            if is_written_twice(written):
                raise OverlappingWrite("more than one element of what is written to is at one place in memory")
            for other_name, other_place, other in members:
                # A list that is written to is written to in its order. Another is gone through member by member: a
                # later one would see what was written.
                apart = place != other_place or layout_of(written) != layout_of(other)
                if name != other_name and apart and have_common(written, other):
                    raise OverlappingWrite("what is written to shares memory with what is read, in another place")


def tensors_of(value: Any) -> list[torch.Tensor]:
    """The tensors of one argument."""
    return [each for each in leaves([value], {}) if isinstance(each, torch.Tensor) and each.layout is torch.strided]


def storage_of(tensor: torch.Tensor, real: Mapping[int, int]) -> int:
    address = tensor.untyped_storage()._cdata
    return real.get(address, address)


def layout_of(tensor: torch.Tensor) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """The offset, sizes and strides, in elements; the present ones of sizes that vary."""
    numbers = (tensor.storage_offset(), *tensor.shape, *tensor.stride())
    offset, *rest = (hint_of(number) for number in numbers)
    return offset, tuple(rest[: tensor.ndim]), tuple(rest[tensor.ndim :])


def hint_of(number: int | torch.SymInt) -> int:
    """The number itself, or its value in this trace; 2 where it has none yet."""
    if not isinstance(number, torch.SymInt):
        return number
    hint: int = number.node.hint if number.node.has_hint() else 2
    return hint


def is_written_twice(tensor: torch.Tensor) -> bool:
    """Whether two elements may be at one place: the dimensions, by stride, do not each step over all before."""
    _, sizes, strides = layout_of(tensor)
    if 0 in sizes:
        return False
    reached = 0
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size > 1 and stride <= reached:
            return True
        reached += stride * (size - 1)
    return False


def have_common(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors in one storage have a byte in common, or may have as far as a short search can tell."""
    try:
        return np.shares_memory(as_array(a), as_array(b), max_work=MOST_WORK)  # type: ignore[arg-type]  # any number
    except TooHardError:
        return True


def as_array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """An array that lies as the tensor does, to be asked for its bounds only: there is no memory."""
    offset, sizes, strides = layout_of(tensor)
    width = tensor.element_size()
    interface = {
        "version": 3,
        "shape": sizes,
        "strides": tuple(stride * width for stride in strides),
        "typestr": f"|V{width}",
        "data": (BEGIN + offset * width, False),
    }
    return np.asarray(SimpleNamespace(__array_interface__=interface))
