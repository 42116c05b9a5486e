"""Operators that draw random numbers, on devices with Philox as their generator: the numbers that eager's kernels give.

The formulas are those of cuRAND's headers and of ATen/core/TransformationHelper.h. What cannot be said so is left to
torch's operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from onegraph.compiler.lower import scalars as s
from onegraph.compiler.lower.arguments import index_of, number_of, static, storage_of, torch_dtype
from onegraph.compiler.lower.lowerer import Cell, Lowerer, is_empty
from onegraph.compiler.lower.registry import MaybeView, lower
from onegraph.compiler.lower.scalars import Scalar, where
from onegraph.compiler.lower.streams import Number, Streams, Words, rest, times
from onegraph.compiler.lower.views import View, flatten
from onegraph.ir.index import ONE, ZERO, Index, least, product
from onegraph.ir.types import BOOL, F32, F64, I64, U64, DType, TensorType
from onegraph.torchlib import philox  # noqa: F401 - it defines the operators that plans with draws call
from onegraph.torchlib.state import unseen
from onegraph.torchlib.strides import is_certainly_dense, is_contiguous

aten = torch.ops.aten
REACH = 1 << 31  # bytes that eager counts in 32 bits: it divides a larger tensor, and draws for each part
STEP_32, STEP_53 = 2.0**-32, 2.0**-53
TWO_PI = 6.2831854820251465  # in float32


def drawn(g: Lowerer, together: int, compute: Callable[[Words], Scalar]) -> MaybeView:
    """The result of a draw of which `together` elements are made of a call. Elements go in the order in which they are
    in memory."""
    result = g.result
    if not is_certainly_dense(g.node.meta["val"]) or is_large(result):
        return NotImplemented
    if is_empty(result.shape):
        return g.pointwise(result.shape, result.dtype, lambda cell: cell.literal(0, result.dtype))
    streams = Streams.of(g, product(result.shape), together, result.dtype.size)

    def element(cell: Cell) -> Scalar:
        return compute(streams.in_rows(cell, result.offset(cell.position), together))

    return g.pointwise(result.shape, result.dtype, element)


def is_large(type: TensorType) -> bool:
    """Whether eager may divide the tensor."""
    count = product(type.shape).constant
    return count is not None and count * type.dtype.size >= REACH


def held(number: Any, dtype: DType) -> float:
    """A number as a type of floats holds it."""
    with unseen():
        found: float = torch.tensor(number, dtype=torch_dtype(dtype), device="cpu").item()
    return found


# ---- what is made of words -------------------------------------------------------------------------------------------


def next_to(number: Number) -> Number:
    return 1 if isinstance(number, int) else number + 1


def pair_of(words: Words) -> tuple[Scalar, Scalar]:
    """The two words of an element, where two elements share a call."""
    first = times(words.place, 2)
    return words[first].to(U64), words[next_to(first)].to(U64)


def uniform_of(words: Words) -> Scalar:
    """A number above 0 and at most 1, in float32."""
    return words[words.place].to(F32) * STEP_32 + STEP_32 / 2


def uniform_double_of(words: Words) -> Scalar:
    low, high = pair_of(words)
    return (low ^ s.apply("shl", high, 21)).to(F64) * STEP_53 + STEP_53 / 2


def word_of_64(words: Words) -> Scalar:
    high, low = pair_of(words)
    return s.apply("shl", high, 32) | low


def by_uniform(g: Lowerer, compute: Callable[[Scalar], Scalar]) -> MaybeView:
    """A draw of uniform numbers, which are float32 but for a result in double precision."""
    if g.result.dtype is F64:
        return drawn(g, 2, lambda words: compute(uniform_double_of(words)))
    return drawn(g, 4, lambda words: compute(uniform_of(words)))


# ---- real numbers ----------------------------------------------------------------------------------------------------


@lower(aten.rand.default, aten.rand_like.default, draws=True)
def rand(g: Lowerer, *_: Any, **__: Any) -> MaybeView:
    return uniform(g, None)


@lower(aten.uniform.default, draws=True)
def uniform(g: Lowerer, x: View | None, low: Any = 0.0, high: Any = 1.0) -> MaybeView:
    """The upper end is drawn and the lower one is not, which is turned around at the end."""
    dtype = g.result.dtype
    if not dtype.is_float:
        return NotImplemented
    first, last = (held(number_of(each), dtype) for each in (low, high))
    size = held(last - first, dtype)

    def compute(u: Scalar) -> Scalar:
        value = (u if (size, first) == (1.0, 0.0) else s.apply("fma", u, size, first)).to(dtype)
        return where(value.eq(last), first, value)

    return by_uniform(g, compute)


@lower(aten.exponential.default, draws=True)
def exponential(g: Lowerer, x: View, rate: Any = 1.0) -> MaybeView:
    dtype = g.result.dtype.compute
    if not dtype.is_float:
        return NotImplemented
    nearest = 2.0**-dtype.digits  # to 1: a logarithm of 0 is not drawn
    factor = held(-1.0 / held(number_of(rate), dtype), dtype)
    log = s.log if dtype is F64 else s.fast_log
    return by_uniform(g, lambda u: where(u >= 1 - nearest, -nearest, log(u)) * factor)


@lower(aten.randn.default, aten.randn_like.default, draws=True)
def randn(g: Lowerer, *_: Any, **__: Any) -> MaybeView:
    return normal(g, None)


@lower(aten.normal_functional.default, draws=True)
def normal(g: Lowerer, x: View | None, mean: Any = 0.0, deviation: Any = 1.0) -> MaybeView:
    """Two words make a sine and a cosine. In double precision that is `sincospi`, which is left to torch."""
    dtype = g.result.dtype
    if not dtype.is_float or dtype is F64:
        return NotImplemented
    middle, by = (held(number_of(each), F32) for each in (mean, deviation))

    def compute(words: Words) -> Scalar:
        first = words.place if isinstance(words.place, int) else words.place & 2
        second = rest(words.place, 2)
        u = words[first].to(F32) * STEP_32 + STEP_32 / 2
        angle = s.apply("fma", words[next_to(first)].to(F32), STEP_32 * TWO_PI, STEP_32 * TWO_PI / 2)
        sine = s.fast_sin(angle)
        turned = sine if isinstance(second, int) else where(second.eq(0), sine, s.fast_cos(angle))
        return s.apply("fma", turned * s.sqrt(s.log(u) * -2.0), by, middle)

    return drawn(g, 4, compute)


# ---- integers --------------------------------------------------------------------------------------------------------


@lower(aten.randint.default, draws=True)
def randint(g: Lowerer, high: Any, size: Any, **_: Any) -> MaybeView:
    return integers(g, ZERO, high)


@lower(aten.randint.low, draws=True)
def randint_between(g: Lowerer, low: Any, high: Any, size: Any, **_: Any) -> MaybeView:
    return integers(g, low, high)


@lower(aten.randint_like.default, aten.random.to, draws=True)
def randint_like(g: Lowerer, x: View, high: Any, **_: Any) -> MaybeView:
    return integers(g, ZERO, high)


@lower(aten.randint_like.low_dtype, getattr(aten.random, "from"), draws=True)  # a word of Python's own
def randint_like_between(g: Lowerer, x: View, low: Any, high: Any, **_: Any) -> MaybeView:
    return integers(g, low, high)


def integers(g: Lowerer, low: Any, high: Any) -> MaybeView:
    """What is left of a word, divided by how many numbers there are; of 64 bits from 2**28 numbers on."""
    dtype = g.result.dtype
    if high is None or (first := static(low)) is None or (end := static(high)) is None or first >= end:
        return NotImplemented
    if dtype.is_float and max(-first, end) > 1 << dtype.digits:
        return NotImplemented  # the ends are rounded first
    size = end - first

    def between(word: Scalar) -> Scalar:
        return (s.apply("remainder", word, size).to(I64) + first).to(dtype)

    if size >= 1 << 28:
        return drawn(g, 2, lambda words: between(word_of_64(words)))
    return drawn(g, 4, lambda words: between(words[words.place]))


@lower(aten.random.default, draws=True)
def random(g: Lowerer, x: View) -> MaybeView:
    """All numbers from 0 on that the type has, or holds exactly."""
    dtype = g.result.dtype
    if dtype.kind == "uint" and dtype.size > 1:
        return NotImplemented
    size = (1 << dtype.digits) + (1 if dtype.is_float else 0)
    if dtype in (F64, I64):
        return drawn(g, 2, lambda words: s.apply("remainder", word_of_64(words), size).to(dtype))
    return drawn(g, 4, lambda words: s.apply("remainder", words[words.place], size).to(dtype))


# ---- chances ---------------------------------------------------------------------------------------------------------


@lower(aten.bernoulli.p, draws=True)
def bernoulli(g: Lowerer, x: View, chance: Any = 0.5) -> MaybeView:
    p = held(number_of(chance), F64 if g.result.dtype is F64 else F32)
    return by_uniform(g, lambda u: u < p)


@lower(aten.bernoulli.default, draws=True)
def bernoulli_of(g: Lowerer, chances: View) -> MaybeView:
    return bernoulli_by(g, chances, chances)


@lower(aten.bernoulli.Tensor, draws=True)
def bernoulli_by(g: Lowerer, x: View, chances: View) -> MaybeView:
    """Each thread makes four elements that stand side by side, with one call. The generator moves on by three."""
    result = g.result
    if not is_contiguous(g.node.meta["val"]) or not chances.dtype.is_float or is_empty(result.shape):
        return NotImplemented
    count = product(result.shape)
    streams = Streams(count, (count + 3) // 4, *g.drawn(least(count, ONE) * 3))
    dtype = F64 if result.dtype is F64 else F32
    chances = chances.expanded(result.shape)

    def element(cell: Cell) -> Scalar:
        u = uniform_of(streams.side_by_side(cell, flatten(cell.position, result.shape), Index.of(4)))
        return u.to(dtype) <= cell.load(chances).to(dtype)

    return g.pointwise(result.shape, result.dtype, element)


# ---- dropout ---------------------------------------------------------------------------------------------------------


@lower(aten.native_dropout.default, draws=True)
def dropout(g: Lowerer, x: View, p: Any, train: bool | None) -> Any:
    """The result, and which elements are kept. A thread makes several elements at once that stand side by side."""
    result, mask = g.results
    shape, dtype = result.shape, result.dtype.compute
    chance = float(number_of(p))
    if train is False or chance == 1 or is_empty(shape):
        return undrawn(g, x, train is False)
    count = product(shape)
    together = elements_together(g, count)
    if together is None:
        return NotImplemented
    streams = Streams.of(g, count, 4)
    share = held(1.0 - chance, dtype)
    scale = held(1.0 / share, dtype)

    def keep(cell: Cell) -> Scalar:
        number = flatten(cell.position, shape) if together.constant == 1 else result.offset(cell.position)
        return uniform_of(streams.side_by_side(cell, number, together)).to(dtype) < share

    kept = g.pointwise(shape, BOOL, keep, mask.strides)

    def scaled(cell: Cell) -> Scalar:
        return cell.load(x).to(dtype) * cell.load(kept).to(dtype) * scale

    return g.pointwise(shape, result.dtype, scaled, result.strides), kept


def undrawn(g: Lowerer, x: View, keeps: bool) -> tuple[View, View]:
    """What a dropout gives that keeps all, or nothing."""
    result, mask = g.results
    kept = g.pointwise(result.shape, BOOL, lambda cell: cell.literal(keeps, BOOL), mask.strides)

    def value(cell: Cell) -> Scalar:
        return cell.load(x) if keeps else cell.literal(0, result.dtype)

    return g.pointwise(result.shape, result.dtype, value, result.strides), kept


def elements_together(g: Lowerer, count: Index) -> Index | None:
    """How many elements a thread makes at once: as many as 16 bytes hold, or less, so that their count is a multiple,
    and their place in memory is. None where the order of elements hangs on what only the call knows."""
    node = g.node.args[0]
    assert isinstance(node, Node)
    fake = node.meta["val"]
    if not is_certainly_dense(fake):
        return ONE
    place = place_of(g, node)
    if place is None:
        return None
    most = 16 // fake.dtype.itemsize
    found = least(power_of_two(count, most), power_of_two(place, most))
    return found if found.constant is not None or is_contiguous(fake) else None


def place_of(g: Lowerer, node: Node) -> Index | None:
    """Where eager's tensor begins in memory, in elements. The memory of what an operator has made begins where any
    element may."""
    fake, position = node.meta["val"], 0
    for each in node.graph.nodes:
        tensor = each.meta.get("val")
        shares = isinstance(tensor, torch.Tensor) and storage_of(tensor) == storage_of(fake)
        if shares and each.op == "get_attr":
            return None
        if shares and each.op == "placeholder":
            before: Index = index_of(fake.storage_offset() - tensor.storage_offset())
            return g.address(f"arg{position}") // int(fake.dtype.itemsize) + before
        position += each.op == "placeholder"
    return index_of(fake.storage_offset())


def power_of_two(number: Index, most: int) -> Index:
    """The largest power of two that divides the number, and is at most the other one."""
    found, power = ONE, 2
    while power <= most:
        found = found + (1 - least(number % power, ONE)) * (power // 2)
        power *= 2
    return found
