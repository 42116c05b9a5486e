"""Products with a weight of 4-bit integers: a sum whose terms unpack a word of eight, with a column in each lane.

This is imported where such products are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onegraph.compiler.lower.lowerer import Cell, Lowerer
from onegraph.compiler.lower.reduction import integer
from onegraph.compiler.lower.registry import lower
from onegraph.compiler.lower.scalars import Scalar, apply, where
from onegraph.compiler.lower.views import View
from onegraph.ir.index import Index
from onegraph.ir.types import F32, I32
from onegraph.torchlib.nibbles import FACTORS, LEAST, PRODUCT, TOGETHER, WORDS, Panels

ONE_AS_BITS = 127  # the exponent of 1.0, at bit 23 of a float32


@lower(FACTORS)
def nibble_factors(g: Lowerer, x: View) -> tuple[View, View]:
    """See `torchlib.nibbles`."""
    divided, eights = g.results
    inner = x.shape[1]
    is_whole = inner.constant is not None and inner.constant % (TOGETHER * WORDS) == 0

    def element(cell: Cell, word: Index, place: Index) -> Scalar:
        at = word * TOGETHER + place
        condition = None if is_whole else cell.within(at, 0, inner)
        return cell.load(x, [cell.position[0], at], condition).to(F32)

    def quotient(cell: Cell) -> Scalar:
        _, word, place = cell.position
        number = cell.index(place).to(I32)
        exponent = where(number.eq(TOGETHER - 1), ONE_AS_BITS, ONE_AS_BITS - number * 4)
        return element(cell, word, place) * apply("shl", exponent, 23).bitcast(F32)

    def sum_of_first(cell: Cell) -> Scalar:
        first, *others = (element(cell, cell.position[1], Index.of(place)) for place in range(TOGETHER - 1))
        return sum(others, first) * LEAST

    return g.pointwise(divided.shape, F32, quotient), g.pointwise(eights.shape, F32, sum_of_first)


@lower(PRODUCT)
def product_of_nibbles(
    g: Lowerer, divided: View, eights: View, weight: View, inner: Any, columns: Any, width: Any
) -> View:
    """See `torchlib.nibbles`."""
    lie = Panels(integer(inner), integer(columns), integer(width))
    _, words, _ = lie.codes
    _, pairs, _ = lie.scales

    def term(cell: Cell, at: tuple[Index, ...]) -> Sequence[Scalar]:
        (row, column), (group, word) = cell.position, (at[0], at[0] * WORDS + at[1])
        panel, lane = column // lie.width, column % lie.width
        codes = cell.load(weight, [(panel * words + word) * lie.width + lane])
        total = cell.load(eights, [row, word])
        for place in range(TOGETHER):
            last = place == TOGETHER - 1
            number = apply("shr", codes, 28) if last else codes & (15 << 4 * place)
            total = apply("fma", cell.load(divided, [row, word, Index.of(place)]), number.to(F32), total)
        begin = lie.begin_of_scales
        both = cell.load(weight, [(panel * pairs + group // 2) * lie.width + lane + begin])
        half = apply("shl", both, cell.index((1 - group % 2) * 16).to(I32)) & -(1 << 16)
        return [total * half.bitcast(F32)]

    return g.reduction("sum", g.result.shape, (Index.of(lie.groups), Index.of(WORDS)), F32, term)
