"""Weights in 4-bit integers for the option `quantize`: groups of 32 along what is summed over have a scale each.

addmm(b, x, t(w))    product_of_nibbles(nibble_factors(x), packed(w)) + b

The element of a group that is farthest from zero becomes -8, and the scale is what that takes, rounded to bfloat16. So
a weight takes 4.5 bits. Groups of 64 would take 4.25, and be a tenth farther off; a zero point for each group brings
a tenth, and takes half a bit.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from onegraph.compiler.library.blocks import BLOCKS
from onegraph.compiler.lower.nibbles import FACTORS, PRODUCT
from onegraph.torchlib.fake import FakeTensor
from onegraph.torchlib.nibbles import GROUP, LEAST, MOST, Panels, nibbles, pack, unpacked

aten = torch.ops.aten

WIDTH = 32  # columns of a panel: two vectors, whose totals fit into registers for eight rows
SMALLEST = 2.0**-126  # scale: its reciprocal is finite
NEAR = 1 << 18  # elements of a weight that are rounded at a time
Do = Callable[..., Any]


def int4_packed(weight: Tensor, tall: bool) -> Tensor:
    """Words of integers, and behind them those of scales."""
    columns = weight.t() if tall else weight
    lie = Panels(columns.shape[1], columns.shape[0], WIDTH)
    if isinstance(weight, FakeTensor):
        return weight.new_empty(lie.words, dtype=torch.int32)
    words = BLOCKS.piece((lie.words,), torch.int32)
    step = max(NEAR // (lie.inner * WIDTH), 1)
    for panel in range(0, lie.count, step):
        rows = columns[panel * WIDTH : (panel + step) * WIDTH].float().contiguous()
        integers, scales = rounded(rows)
        pack(words, lie, panel, nibbles(integers), scales)
    return words


def rounded(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Integers in int8 [columns, groups * 32], and scales in bfloat16 [columns, groups].

    What is no finite number is 0 times a scale that is none.
    """
    missing = -rows.shape[1] % GROUP
    groups = (torch.nn.functional.pad(rows, (0, missing)) if missing else rows).unflatten(1, (-1, GROUP))
    low, high = groups.amin(2), groups.amax(2)
    scales = torch.where(high + low > 0, high, low).mul_(1 / LEAST).add_(SMALLEST).bfloat16()
    found = groups * scales.float().reciprocal_()[..., None]
    return found.nan_to_num_(0.0).round_().clamp_(LEAST, MOST).to(torch.int8).flatten(1), scales


def int4_unpacked(words: Tensor, inner: int, columns: int) -> Tensor:
    """The weight as it is multiplied, with a row for each column of the result."""
    return unpacked(words, Panels(inner, columns, WIDTH))[:columns]


def words_of(inner: int, columns: int) -> int:
    """The words that such a weight takes."""
    return Panels(inner, columns, WIDTH).words


def int4_factors(do: Do, x: Any) -> tuple[Any, Any]:
    """What packed weights are multiplied with: of the same x the same for all."""
    both = do(FACTORS, x)
    return do(operator.getitem, both, 0), do(operator.getitem, both, 1)


def int4_product(do: Do, factors: tuple[Any, Any], weight: Any, inner: int, columns: int) -> Any:
    """The product, in float32."""
    total = do(PRODUCT, *factors, weight, inner, columns, WIDTH)
    return total if columns % WIDTH == 0 else do(aten.slice.Tensor, total, 1, 0, columns)
