"""Products with a weight of 4-bit integers, as operators of their own: what kernels compute without unpacking it.

    result[r, c] = sum over g of scale[c, g] * (sum over k of group g of x[r, k] * q[c, k])

Eight integers of a column, from -8 to 7, are a word of 32 bits: bits 4 i to 4 i + 3 hold q + 8, and the uppermost four
q itself. So each is one `and` away from q + 8 times a power of 16, which float32 holds exactly; `x` comes divided by
these powers, which is exact, too, and with what takes the eights away. Columns lie in panels side by side, so that a
vector has a word of each. A scale is a bfloat16, which is the upper half of a float32: two of them are a word.

All of a weight is one tensor of words: those of all panels, and behind them the scales of all panels.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from onegraph.base.dataclass import dataclass
from onegraph.torchlib.aten import define

GROUP = 32  # integers with one scale
TOGETHER = 8  # integers in a word
WORDS = GROUP // TOGETHER
LEAST, MOST = -8, 7


@dataclass(frozen=True, slots=True)
class Panels:
    """How a weight of so many columns, over which so many elements are summed, lies in memory."""

    inner: int
    columns: int
    width: int

    @property
    def count(self) -> int:
        return -(-self.columns // self.width)

    @property
    def groups(self) -> int:
        return -(-self.inner // GROUP)

    @property
    def codes(self) -> tuple[int, int, int]:
        """The shape of the words that hold integers: panels, words of a column, columns of a panel."""
        return self.count, self.groups * WORDS, self.width

    @property
    def scales(self) -> tuple[int, int, int]:
        """The shape of the words that hold scales: panels, pairs of groups, columns of a panel."""
        return self.count, -(-self.groups // 2), self.width

    @property
    def words(self) -> int:
        """All words."""
        return self.count * self.width * (self.codes[1] + self.scales[1])

    @property
    def begin_of_scales(self) -> int:
        return self.count * self.width * self.codes[1]


def factors(x: Tensor) -> tuple[Tensor, Tensor]:
    """What the words of a column are multiplied with: [rows, inner] as float32 [rows, words, 8], divided by the powers
    of 16, and float32 [rows, words], -8 times the sum of the first seven of each."""
    x = F.pad(x.float(), (0, -x.shape[1] % GROUP)).unflatten(1, (-1, TOGETHER))
    powers = torch.tensor([*(16.0**-place for place in range(TOGETHER - 1)), 1.0])
    return x * powers, x[..., :-1].sum(2) * LEAST


def factors_of_fakes(x: Tensor) -> tuple[Tensor, Tensor]:
    words = -(-x.shape[1] // GROUP) * WORDS
    made = x.new_empty(x.shape[0], words, TOGETHER, dtype=torch.float32)
    return made, x.new_empty(x.shape[0], words, dtype=torch.float32)


def product(divided: Tensor, eights: Tensor, weight: Tensor, inner: int, columns: int, width: int) -> Tensor:
    """The product with a packed weight, in float32: the columns of all panels, those that fill up the last one, too."""
    values = unpacked(weight, Panels(inner, columns, width))
    powers = torch.tensor([*(16.0**place for place in range(TOGETHER - 1)), 1.0])
    return (divided * powers).flatten(1)[:, :inner] @ values.t()


def product_of_fakes(divided: Tensor, eights: Tensor, weight: Tensor, inner: int, columns: int, width: int) -> Tensor:
    return divided.new_empty(divided.shape[0], Panels(inner, columns, width).count * width)


def pack(words: Tensor, lie: Panels, panel: int, codes: Tensor, scales: Tensor) -> None:
    """Put columns into the words of a weight, from the beginning of a panel on.

    Args:
        words: int32, of the whole weight.
        codes: int32 [columns, words of a column], see `nibbles`.
        scales: bfloat16 [columns, groups].
    """
    halves = (F.pad(scales, (0, 1)) if lie.groups % 2 else scales).flatten().view(torch.int32)
    whole, rest = divmod(len(codes), lie.width)
    parts = words.split((lie.begin_of_scales, lie.words - lie.begin_of_scales))
    rows = (codes, halves.unflatten(0, (len(codes), -1)))
    for part, shape, given in zip(parts, (lie.codes, lie.scales), rows, strict=True):
        panels = part.view(shape)[panel:]
        panels[:whole].copy_(given[: whole * lie.width].unflatten(0, (whole, lie.width)).transpose(1, 2))
        if rest:
            panels[whole].zero_()[:, :rest] = given[whole * lie.width :].t()


def nibbles(integers: Tensor) -> Tensor:
    """Words of eight integers each: their lower halves are brought together in steps, as in a tree.

    Args:
        integers: int8 [columns, a multiple of 8], from -8 to 7.
    """
    words = integers.view(torch.int64) & 0x0F0F0F0F0F0F0F0F
    words |= words >> 4
    words &= 0x00FF00FF00FF00FF
    words |= words >> 8
    words &= 0x0000FFFF0000FFFF
    words |= words >> 16
    return words.view(torch.int32)[:, ::2] ^ 0x08888888


def unpacked(words: Tensor, lie: Panels) -> Tensor:
    """The weight in float32, with a row for each column of all panels."""
    codes = words[: lie.begin_of_scales].view(lie.codes).transpose(1, 2).flatten(0, 1)
    places = torch.arange(TOGETHER, dtype=torch.int32)
    integers = (codes[..., None] >> 4 * places & 15) + LEAST
    integers[..., -1] = codes >> 28
    halves = words[lie.begin_of_scales :].view(lie.scales).transpose(1, 2).flatten(0, 1)
    scales = halves.flatten().view(torch.bfloat16).unflatten(0, (len(halves), -1))[:, : lie.groups].float()
    weight = integers.flatten(1).unflatten(1, (lie.groups, GROUP)) * scales[..., None]
    return weight.flatten(1)[:, : lie.inner]


define("nibble_factors(Tensor x) -> (Tensor, Tensor)", CPU=factors, Meta=factors_of_fakes)
define(
    "product_of_nibbles(Tensor divided, Tensor eights, Tensor weight, int inner, int columns, int width) -> Tensor",
    CPU=product,
    Meta=product_of_fakes,
)
FACTORS = torch.ops.onegraph.nibble_factors.default
PRODUCT = torch.ops.onegraph.product_of_nibbles.default
