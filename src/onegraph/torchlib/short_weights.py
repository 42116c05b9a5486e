"""Products with a weight of integers of 4 or 8 bits, as operators of their own: what kernels compute without a copy of
it in floats.

    result[r, c] = sum over g of scale[c, g] * (sum over k of group g of x[r, k] * q[c, k])

Several integers of a column are a word of 32 bits. The uppermost is as it is, the others are shifted up so that none is
negative: q + 8 of four bits. So each is one `and` away from that number times a power of two, which float32 holds
exactly; `x` comes divided by these powers, which is exact, too, and with what takes the shifts away. Columns lie in
panels side by side, so that a vector has a word of each.

All of a weight is one tensor of words: those of integers of all panels, and behind them those of scales. Integers of
8 bits have one scale for a column, in float32. Those of 4 bits have one for each 32 of a column: in bfloat16, which is
the upper half of a float32, two in a word.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from onegraph.base.dataclass import dataclass
from onegraph.torchlib.aten import define

GROUP = 32  # integers of four bits with one scale


@dataclass(frozen=True, slots=True)
class Panels:
    """How a weight of so many columns, over which so many elements are summed, lies in memory.

    Fields:
        width: columns of a panel.
        bits: of an integer, 4 or 8.
    """

    inner: int
    columns: int
    width: int
    bits: int

    @property
    def together(self) -> int:
        """Integers in a word."""
        return 32 // self.bits

    @property
    def shift(self) -> int:
        """What is added to all of a word but the uppermost; the least integer is as far below zero."""
        return 1 << self.bits - 1

    @property
    def powers(self) -> tuple[float, ...]:
        """What each integer of a word is multiplied by, where it stands in it."""
        return (*(2.0 ** (self.bits * place) for place in range(self.together - 1)), 1.0)

    @property
    def count(self) -> int:
        return -(-self.columns // self.width)

    @property
    def groups(self) -> int:
        """Scales of a column."""
        return -(-self.inner // GROUP) if self.bits == 4 else 1

    @property
    def words(self) -> int:
        """Of integers of a column: whole groups."""
        whole = GROUP if self.bits == 4 else self.together
        return -(-self.inner // whole) * whole // self.together

    @property
    def scale_words(self) -> int:
        return -(-self.groups // 2) if self.bits == 4 else 1

    @property
    def begin_of_scales(self) -> int:
        return self.count * self.width * self.words

    @property
    def size(self) -> int:
        """All words."""
        return self.begin_of_scales + self.count * self.width * self.scale_words


def factors(x: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """What words are multiplied with: [rows, inner] as float32 [rows, words, integers of a word], divided by the
    powers, and float32 [rows, words], which takes the shifts away."""
    lie = Panels(x.shape[1], 1, 1, bits)
    x = F.pad(x.float(), (0, lie.words * lie.together - lie.inner)).unflatten(1, (lie.words, lie.together))
    return x / torch.tensor(lie.powers), x[..., :-1].sum(2) * -lie.shift


def factors_of_fakes(x: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    lie = Panels(x.shape[1], 1, 1, bits)
    made = x.new_empty(x.shape[0], lie.words, lie.together, dtype=torch.float32)
    return made, x.new_empty(x.shape[0], lie.words, dtype=torch.float32)


def product(divided: Tensor, shifts: Tensor, weight: Tensor, inner: int, columns: int, width: int, bits: int) -> Tensor:
    """The product with a packed weight, in float32: the columns of all panels, those that fill up the last one, too."""
    lie = Panels(inner, columns, width, bits)
    return (divided * torch.tensor(lie.powers)).flatten(1)[:, :inner] @ unpacked(weight, lie).t()


def product_of_fakes(
    divided: Tensor, shifts: Tensor, weight: Tensor, inner: int, columns: int, width: int, bits: int
) -> Tensor:
    return divided.new_empty(divided.shape[0], Panels(inner, columns, width, bits).count * width)


def pack(words: Tensor, lie: Panels, panel: int, integers: Tensor, scales: Tensor) -> None:
    """Put columns into the words of a weight, from the beginning of a panel on.

    Args:
        words: int32, of the whole weight.
        integers: int8 [columns, inner], in whole words.
        scales: [columns, groups], bfloat16 for 4 bits, float32 for 8.
    """
    if lie.bits == 4:
        scales = F.pad(scales, (0, 1)) if lie.groups % 2 else scales
        codes = _nibbles(integers) ^ 0x08888888
    else:
        codes = integers.view(torch.int32) ^ 0x00808080
    whole, rest = divmod(len(codes), lie.width)
    parts = words.split((lie.begin_of_scales, lie.size - lie.begin_of_scales))
    for part, given in zip(parts, (codes, scales.view(torch.int32)), strict=True):
        panels = part.view(lie.count, -1, lie.width)[panel:]
        panels[:whole].copy_(given[: whole * lie.width].unflatten(0, (whole, lie.width)).transpose(1, 2))
        if rest:
            panels[whole].zero_()[:, :rest] = given[whole * lie.width :].t()


def _nibbles(integers: Tensor) -> Tensor:
    """The lower halves of eight bytes in a word: they are brought together in steps, as in a tree."""
    words = integers.view(torch.int64) & 0x0F0F0F0F0F0F0F0F
    words |= words >> 4
    words &= 0x00FF00FF00FF00FF
    words |= words >> 8
    words &= 0x0000FFFF0000FFFF
    words |= words >> 16
    return words.view(torch.int32)[:, ::2]


def unpacked(words: Tensor, lie: Panels) -> Tensor:
    """The weight in float32, with a row for each column of all panels."""
    parts = words.split((lie.begin_of_scales, lie.size - lie.begin_of_scales))
    codes, last = (part.view(lie.count, -1, lie.width).transpose(1, 2).flatten(0, 1) for part in parts)
    integers = (codes[..., None] >> torch.arange(0, 32, lie.bits, dtype=torch.int32) & 2 * lie.shift - 1) - lie.shift
    integers[..., -1] = codes >> 32 - lie.bits
    kind = torch.bfloat16 if lie.bits == 4 else torch.float32
    scales = last.flatten().view(kind).unflatten(0, (len(codes), -1))[:, : lie.groups].float()
    weight: Tensor = integers.flatten(1).unflatten(1, (lie.groups, -1)) * scales[..., None]
    return weight.flatten(1)[:, : lie.inner]


define("factors_of_short_weight(Tensor x, int bits) -> (Tensor, Tensor)", CPU=factors, Meta=factors_of_fakes)
define(
    "product_with_short_weight(Tensor divided, Tensor shifts, Tensor weight, int inner, int columns, int width,"
    " int bits) -> Tensor",
    CPU=product,
    Meta=product_of_fakes,
)
FACTORS = torch.ops.onegraph.factors_of_short_weight.default
PRODUCT = torch.ops.onegraph.product_with_short_weight.default
