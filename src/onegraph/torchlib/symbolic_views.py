"""Views of contiguous tensors whose sizes are symbols: other sizes over the same memory, where nothing has to be asked.

torch's kernel goes from the old sizes to the new ones dimension by dimension and asks at each step, which takes most of
the time of a trace with symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from onegraph.ir.index import ZERO, Index, product
from onegraph.ir.types import contiguous_strides
from onegraph.torchlib.shapes import Condition, Sizes
from onegraph.torchlib.size_node import SizeNode

aten = torch.ops.aten
VIEWS = frozenset({aten.view.default, aten._unsafe_view.default})
OPEN = Index.of(-1)


def contiguous_view(sizes: Sizes, func: OpOverload, args: Sequence[Any]) -> Tensor | None:
    """The meta tensor that a view is, or None where the general rules have to find out."""
    if func not in VIEWS or args[0].is_conj() or args[0].is_neg():
        return None
    x, wanted = args
    shape, steps, after = (indices(sizes, numbers) for numbers in (x.shape, x.stride(), wanted))
    if shape is None or steps is None or after is None or ZERO in after or after.count(OPEN) > 1:
        return None
    count, rest = product(shape), product([size for size in after if size != OPEN])
    after = tuple(count // rest if size == OPEN else size for size in after)
    if (
        steps != contiguous_strides(shape)
        or product(after) != count
        or not all(is_positive(sizes, size) for size in (*shape, *after))
    ):
        return None
    with torch._C._DisableTorchDispatch():
        elem = torch.empty(0, dtype=x.dtype, device="meta")
        place = ([number(sizes, each) for each in every] for every in (after, contiguous_strides(after)))
        elem.set_(x.untyped_storage(), x.storage_offset(), *place)
    return elem


def indices(sizes: Sizes, numbers: Sequence[int | torch.SymInt]) -> tuple[Index, ...] | None:
    """The numbers as index expressions, if that is what they are."""
    found = tuple(n.node.value if isinstance(n, torch.SymInt) else Index.of(n) for n in numbers)
    return found if all(isinstance(each, Index) and not sizes.is_unknown(each) for each in found) else None


def is_positive(sizes: Sizes, size: Index) -> bool:
    """Whether that is so in every call."""
    return size.symbol is not None or sizes.certain(Condition("<", ZERO, size)) is True


def number(sizes: Sizes, index: Index) -> int | torch.SymInt:
    return torch.SymInt(SizeNode(sizes, index)) if index.constant is None else index.constant
