"""Products with a weight of short integers: a sum whose terms unpack a word of several, with a column in each lane.

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
from onegraph.torchlib.short_weights import FACTORS as FACTORS
from onegraph.torchlib.short_weights import PRODUCT as PRODUCT
from onegraph.torchlib.short_weights import Panels

EXPONENT_OF_ONE, BEFORE_EXPONENT = 127, 23  # of a float32: its bits


@lower(FACTORS)
def factors_of_short_weight(g: Lowerer, x: View, bits: Any) -> tuple[View, View]:
    """See `torchlib.short_weights`."""
    divided, shifts = g.results
    lie = Panels(integer(x.shape[1]), 1, 1, integer(bits))
    is_whole = lie.inner == lie.words * lie.together

    def element(cell: Cell, word: Index, place: Index) -> Scalar:
        at = word * lie.together + place
        condition = None if is_whole else cell.within(at, 0, lie.inner)
        return cell.load(x, [cell.position[0], at], condition).to(F32)

    def quotient(cell: Cell) -> Scalar:
        _, word, place = cell.position
        number = cell.index(place).to(I32)
        exponent = where(number.eq(lie.together - 1), EXPONENT_OF_ONE, EXPONENT_OF_ONE - number * lie.bits)
        return element(cell, word, place) * apply("shl", exponent, BEFORE_EXPONENT).bitcast(F32)

    def shift(cell: Cell) -> Scalar:
        first, *others = (element(cell, cell.position[1], Index.of(place)) for place in range(lie.together - 1))
        return sum(others, first) * -lie.shift

    return g.pointwise(divided.shape, F32, quotient), g.pointwise(shifts.shape, F32, shift)


@lower(PRODUCT)
def product_with_short_weight(
    g: Lowerer, divided: View, shifts: View, weight: View, inner: Any, columns: Any, width: Any, bits: Any
) -> View:
    """See `torchlib.short_weights`."""
    lie = Panels(*map(integer, (inner, columns, width, bits)))
    words = lie.words // lie.groups  # of a group

    def words_at(cell: Cell, words: int, number: Index, begin: int) -> Scalar:
        panel, lane = cell.position[1] // lie.width, cell.position[1] % lie.width
        return cell.load(weight, [(panel * words + number) * lie.width + lane + begin])

    def term(cell: Cell, at: tuple[Index, ...]) -> Sequence[Scalar]:
        (row, _), (group, word) = cell.position, at
        word = group * words + word
        codes, total = words_at(cell, lie.words, word, 0), cell.load(shifts, [row, word])
        for place in range(lie.together):
            last = place == lie.together - 1
            number = apply("shr", codes, 32 - lie.bits) if last else codes & (2 * lie.shift - 1 << lie.bits * place)
            total = apply("fma", cell.load(divided, [row, word, Index.of(place)]), number.to(F32), total)
        if lie.bits != 4:
            return [total]
        both = words_at(cell, lie.scale_words, group // 2, lie.begin_of_scales)
        half = apply("shl", both, cell.index((1 - group % 2) * 16).to(I32)) & -(1 << 16)
        return [total * half.bitcast(F32)]

    total = g.reduction("sum", g.result.shape, (Index.of(lie.groups), Index.of(words)), F32, term)
    if lie.bits == 4:
        return total

    def scaled(cell: Cell) -> Scalar:
        return cell.load(total) * words_at(cell, 1, Index.of(0), lie.begin_of_scales).bitcast(F32)

    return g.pointwise(g.result.shape, F32, scaled)
