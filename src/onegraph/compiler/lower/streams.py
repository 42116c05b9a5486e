"""Which words of a Philox generator an element of a drawn tensor is made of, as eager's kernels on GPUs have it.

The elements are shared out among threads. Each thread has a stream of its own, from which a call takes four words of 32
bits. So where an element's words are follows from its number and from how many threads there are: it is computed for
each element by itself, wherever it is needed. See ATen/native/cuda/DistributionTemplates.h, and Dropout.cu.
"""

from __future__ import annotations

from onegraph.base.dataclass import dataclass
from onegraph.compiler.lower import scalars as s
from onegraph.compiler.lower.lowerer import Cell, Lowerer
from onegraph.compiler.lower.scalars import Scalar
from onegraph.compiler.lower.views import View
from onegraph.ir.index import ZERO, Index, greatest, least
from onegraph.ir.types import I32, I64, U32, U64, DType

BLOCK = 256  # threads of a block of eager's kernels
SHORT = 1 << 31
#: An integer: while compiling, or for an element.
Number = Scalar | int


@dataclass(frozen=True, slots=True)
class Words:
    """Four words that one call takes from a stream; `place` is the number of the element among those that share them.

    Fields:
        state: the generator's seed and offset.
        before: calls behind the offset that other draws take.
        call: behind those.
    """

    cell: Cell
    state: View
    before: Index
    stream: Number
    call: Number
    place: Number

    def __getitem__(self, number: Number) -> Scalar:
        cell = self.cell
        seed, offset = (cell.load(self.state, [Index.of(at)]) for at in (0, 1))
        counter: Number = s.apply("shr", offset, 2)
        if self.before != ZERO:
            counter = added(counter, cell.index(self.before))
        counter = added(counter, self.call)
        given = (seed, counter, self.stream, number)
        return s.apply("philox", *(scalar(cell, each, U64) for each in given)).to(U32)


@dataclass(frozen=True, slots=True)
class Streams:
    """A draw of so many elements by so many threads; `state` and `before` are those of `Words`."""

    count: Index
    threads: Index
    state: View
    before: Index

    @staticmethod
    def of(g: Lowerer, count: Index, together: int, size: int = 0) -> Streams:
        """Take numbers for a draw whose threads make `together` elements with a call: the generator moves on by as
        many calls as a thread makes. With a `size`, the bytes of an element, all of them must be less than 2 GiB."""
        blocks = (count + (BLOCK - 1)) // BLOCK
        threads = greatest(least(blocks, g.machine.drawing_threads // BLOCK), 1) * BLOCK
        unknown = ZERO if count.constant is not None else count * size
        return Streams(count, threads, *g.drawn((count - 1) // (threads * together) + 1, unknown))

    def in_rows(self, cell: Cell, number: Index, together: int) -> Words:
        """The words of an element, where the threads make a row of elements side by side, and then the next one."""
        row, stream = self.turns(cell, self.number(cell, number))
        return Words(cell, self.state, self.before, stream, quotient(row, together), rest(row, together))

    def side_by_side(self, cell: Cell, number: Index, wide: Index) -> Words:
        """The same where each thread makes `wide` elements that stand side by side, in calls of up to four."""
        if wide.constant == 1:
            return self.in_rows(cell, number, 4)
        position, width = self.number(cell, number), self.number(cell, wide)
        at = rest(position, width)
        turn, stream = self.turns(cell, quotient(position, width))
        call, place = (0, at) if wide.constant in (2, 4) else (quotient(at, 4), rest(at, 4))
        if isinstance(turn, int):
            return Words(cell, self.state, self.before, stream, call, place)
        if isinstance(width, int):
            return Words(cell, self.state, self.before, stream, added(times(turn, max(width // 4, 1)), call), place)
        is_one = width.eq(1)
        call, place = (scalar(cell, each, width.dtype) for each in (call, place))
        call = turn * s.maximum(scalar(cell, quotient(width, 4), width.dtype), 1) + call
        in_rows = (scalar(cell, each(turn, 4), width.dtype) for each in (quotient, rest))
        call, place = (s.where(is_one, *each) for each in zip(in_rows, (call, place), strict=True))
        return Words(cell, self.state, self.before, stream, call, place)

    def number(self, cell: Cell, number: Index) -> Number:
        """A number of elements, in 32 bits if all of them are."""
        if number.constant is not None:
            return number.constant
        is_short = self.count.constant is not None and self.count.constant < SHORT
        return cell.index(number).to(I32 if is_short else I64)

    def turns(self, cell: Cell, number: Number) -> tuple[Number, Number]:
        """How often all threads had their turn before this one, and which of them makes it."""
        count, threads = self.count.constant, self.threads.constant
        if count is not None and threads is not None and count <= threads:
            return 0, number
        streams = self.number(cell, self.threads)
        return quotient(number, streams), rest(number, streams)


# ---- numbers that are not negative: those that are known while compiling are 0, or what is divided by ----------------


def scalar(cell: Cell, x: Number, dtype: DType) -> Scalar:
    return cell.literal(x, dtype) if isinstance(x, int) else x.to(dtype)


def quotient(x: Number, by: Number) -> Number:
    if isinstance(x, int) or by == 1:
        return x
    if isinstance(by, int) and by & (by - 1) == 0:
        return s.apply("shr", x, by.bit_length() - 1)
    return s.apply("trunc_div", x, by)


def rest(x: Number, by: Number) -> Number:
    if isinstance(x, int) or by == 1:
        return 0
    if isinstance(by, int) and by & (by - 1) == 0:
        return x & (by - 1)
    return s.apply("fmod", x, by)


def times(x: Number, by: int) -> Number:
    return x if isinstance(x, int) or by == 1 else x * by


def added(x: Number, y: Number) -> Number:
    if isinstance(x, int):
        return y
    return x if isinstance(y, int) else x + y.to(x.dtype)
