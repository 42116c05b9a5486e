"""Weights in integers of 8 or 4 bits for few rows, for the option `quantize`: what is multiplied with them stays float.

addmm(b, x, t(w))    product_with_short_weight(factors_of_short_weight(x), packed(w)) + b

Of 8 bits, a column of the result has a scale: the element that is farthest from zero becomes 127 or -127.

Of 4 bits, groups of 32 along what is summed over have a scale each, rounded to bfloat16: the element of a group that
is farthest from zero becomes -8. So a weight takes 4.5 bits. Groups of 64 would take 4.25, and be a tenth farther off;
a zero point for each group brings a tenth, and takes half a bit.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from onegraph.compiler.library.blocks import BLOCKS
from onegraph.compiler.lower.short_weights import FACTORS, PRODUCT
from onegraph.torchlib.fake import FakeTensor
from onegraph.torchlib.short_weights import GROUP, Panels, pack, unpacked

aten = torch.ops.aten

WIDTH = 32  # columns of a panel: two vectors, whose totals fit into registers for eight rows
NEAR = 1 << 18  # elements of a weight that are rounded at a time
MOST = 127  # the largest integer of 8 bits
SMALLEST = 2.0**-126  # scale: its reciprocal is finite
Do = Callable[..., Any]


def panels(inner: int, columns: int, bits: int) -> Panels:
    return Panels(inner, columns, WIDTH, bits)


def packed(weight: Tensor, tall: bool, bits: int) -> Tensor:
    """Words of integers, and behind them those of scales."""
    columns = weight.t() if tall else weight
    lie = panels(columns.shape[1], columns.shape[0], bits)
    if isinstance(weight, FakeTensor):
        return weight.new_empty(lie.size, dtype=torch.int32)
    words = BLOCKS.piece((lie.size,), torch.int32)
    step = max(NEAR // (lie.inner * WIDTH), 1)
    for panel in range(0, lie.count, step):
        rows = columns[panel * WIDTH : (panel + step) * WIDTH].float().contiguous()
        missing = lie.words * lie.together - lie.inner
        pack(words, lie, panel, *rounded(F.pad(rows, (0, missing)) if missing else rows, bits))
    return words


def rounded(rows: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Integers in int8, and scales: float32 [columns, 1], or bfloat16 [columns, groups] for 4 bits.

    What is no finite number is 0 times a scale that is none.
    """
    groups = rows.unflatten(1, (-1, GROUP if bits == 4 else rows.shape[1]))
    low, high = groups.amin(2), groups.amax(2)
    if bits == 4:
        least, most = -8, 7
        scales = torch.where(high + low > 0, high, low).mul_(1 / least).add_(SMALLEST).bfloat16()
    else:
        least, most = -MOST, MOST
        scales = torch.maximum(high, -low).mul_(1 / MOST).clamp_min_(SMALLEST)
    found = groups * scales.float().reciprocal()[..., None]
    return found.nan_to_num_(0.0).round_().clamp_(least, most).to(torch.int8).flatten(1), scales


def as_floats(words: Tensor, inner: int, columns: int, bits: int) -> Tensor:
    """The weight as it is multiplied, with a row for each column of the result."""
    return unpacked(words, panels(inner, columns, bits))[:columns]


def factors_of(do: Do, x: Any, bits: int) -> tuple[Any, Any]:
    """What packed weights are multiplied with: of the same x the same for all."""
    both = do(FACTORS, x, bits)
    return do(operator.getitem, both, 0), do(operator.getitem, both, 1)


def product_with(do: Do, factors: tuple[Any, Any], weight: Any, inner: int, columns: int, bits: int) -> Any:
    """The product, in float32."""
    total = do(PRODUCT, *factors, weight, inner, columns, WIDTH, bits)
    return total if columns % WIDTH == 0 else do(aten.slice.Tensor, total, 1, 0, columns)
