"""Attention of many queries in one pass over the keys: a block of queries side by side in vectors.

    queries, turned:                             k_q(b, h, d, i)
    for each (batch, head, block of queries):    k_attention(b, h, block, lane)
      for each block of keys:
        scores[j] = sum over d: q[d] * k[j, d]                 several keys in a tile, a query in each lane
        highest' = max(highest, scores)
        scores[j] = exp(scores[j] - highest')
        sums = sums * exp(highest - highest') + sum over j: scores[j]
        result[e] = result[e] * exp(highest - highest') + sum over j: scores[j] * v[j, e]
      store result[e] / sums

The scores stay in a near cache, and keys and values are read where they are. All that belongs to a query stands in its
lane: no maximum or sum is taken across lanes. Keys behind the last query of a causal block are not looked at. Sources:
M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax" (2018); T. Dao et al., "FlashAttention" (2022).

As in torch's kernel, a query whose keys are all masked gets zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import e, log2, sqrt

import torch

from onegraph.base.constants import inf
from onegraph.base.dataclass import dataclass
from onegraph.compiler.body import Body
from onegraph.compiler.lower.lowerer import Cell, Lowerer
from onegraph.compiler.lower.registry import MaybeView, lower
from onegraph.compiler.lower.scalars import Scalar, exp2, where
from onegraph.compiler.lower.views import View, axes_of, coordinates
from onegraph.compiler.target import Machine
from onegraph.ir.index import ONE, ZERO, Index, Symbol, least
from onegraph.ir.loop import Coordinates, Kernel, Local, Vector
from onegraph.ir.types import BOOL, F32, I32, DType, contiguous_strides

aten = torch.ops.aten

LANES, ROWS = 32, 8  # of a tile, at most: queries, and keys or elements of the result
KEYS = 64  # in a block, at most, whose scores stay near
MANY = 768  # queries, from which on it pays to lay the keys of a head side by side, each on few pages
LOG2_E = log2(e)


@lower(aten.scaled_dot_product_attention.default)
def attention(
    g: Lowerer,
    q: View,
    k: View,
    v: View,
    mask: View | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> MaybeView:
    width, out = q.shape[3].constant, v.shape[3].constant
    if dropout or width is None or out is None or not q.shape[1] == k.shape[1] == v.shape[1]:
        return NotImplemented
    if q.shape[2].constant is None or q.shape[2].constant >= MANY:
        k, v = (g.whole(g.tensor(x, contiguous_strides(x.shape))) for x in (k, v))
    given = Given(q, k, v, mask, causal, 1 / sqrt(width) if scale is None else scale)
    name = g.buffer(g.result)
    g.steps.append(_Writer(given, name, g.result.dtype, g.machine).kernel())
    return g.whole(name)


@dataclass(frozen=True, slots=True)
class Given:
    """What is asked: tensors of batches, heads, rows and columns."""

    queries: View
    keys: View
    values: View
    mask: View | None
    causal: bool
    scale: float


class _Writer:
    """Writes the kernel: what becomes of a block of queries, in the lanes of its vectors."""

    def __init__(self, given: Given, name: str, dtype: DType, machine: Machine) -> None:
        self.given, self.name, self.dtype = given, name, dtype
        self.lanes = min(LANES, machine.tile_columns)
        self.tile = min(ROWS, machine.tile_rows * machine.tile_columns // self.lanes)
        self.block = KEYS // self.tile * self.tile
        batch, heads, rows, width = given.queries.shape
        self.length, self.width = given.keys.shape[2], given.values.shape[3].constant or 0
        blocks = Symbol("n", (rows + (self.lanes - 1)) // self.lanes)
        self.axes = (*axes_of((batch, heads), "i"), blocks, Symbol("l", Index.of(self.lanes)))
        sizes = {"query": width.constant or 0, "result": self.width, "score": self.block, "highest": 1, "total": 1}
        self.locals = {part: Local(f"{name}_{part}", F32, size) for part, size in sizes.items()}
        self.body = Body(self.axes, volatile=[name, *(local.name for local in self.locals.values())])
        self.cell = Cell(self.body, ())
        self.batch, self.head, block, lane = coordinates(self.axes)
        self.row = least(block * self.lanes + lane, rows - 1)  # what is beyond the last query is that one again
        self.seen = least(self.length, (block + 1) * self.lanes) if given.causal else self.length

    def kernel(self) -> Kernel:
        given, cell = self.given, self.cell
        with self.loop("d", given.queries.shape[3]) as d:
            query = cell.load(given.queries, (self.batch, self.head, self.row, d)).to(F32)
            self.put("query", query * given.scale, d)
        with self.loop("e", given.values.shape[3]) as e:
            self.put("result", self.number(0.0), e)
        self.put("highest", self.number(-inf))
        self.put("total", self.number(0.0))
        with self.loop("k", (self.seen + (self.block - 1)) // self.block) as block:
            self.keys(block * self.block)
        total = self.get("total")
        inverse = 1.0 / where(total.eq(0.0), 1.0, total)
        with self.loop("f", given.values.shape[3]) as f:
            value = (self.get("result", f) * inverse).to(self.dtype)
            self.body.store(self.name, Coordinates((self.batch, self.head, self.row, f)), value.operand)
        locals = tuple(self.locals.values())
        return Kernel(f"k_{self.name}", self.axes, self.body.block(), Vector(self.axes[-1], self.lanes), locals)

    def keys(self, begin: Index) -> None:
        """What a block of keys adds."""
        count = least(self.seen - begin, Index.of(self.block))
        tiles = (count + (self.tile - 1)) // self.tile
        before = self.get("highest")
        with self.loop("t", tiles) as tile:
            self.scores(begin, tile * self.tile)
        if self.given.mask is not None:
            with self.loop("m", count) as j:
                self.mask(self.given.mask, begin, j)
        highest = self.get("highest")
        highest = where(highest.eq(-inf), 0.0, highest)  # of queries whose keys are all masked so far
        shrunk = exp2((before - highest) * LOG2_E)
        with self.loop("j", tiles * self.tile) as j:
            weight = exp2((self.get("score", j) - highest) * LOG2_E)
            self.put("score", weight, j)
            total = self.body.accumulate("sum", F32, weight.operand)
        self.put("total", self.get("total") * shrunk + Scalar(self.body, total, F32))
        whole, rest = divmod(self.width, self.tile)
        for start, number, height in ((0, whole, self.tile), (self.width - rest, 1, rest)):
            if number and height:
                self.add_values(begin, count, shrunk, (start, number, height))

    def scores(self, begin: Index, first: Index) -> None:
        """Those of a tile of keys."""
        given, totals = self.given, []
        with self.loop("c", given.queries.shape[3]) as d:
            query = self.get("query", d)
            for row in range(self.tile):
                at = least(begin + first + row, self.length - 1)
                key = self.cell.load(given.keys, (self.batch, self.head, at, d)).to(F32)
                totals.append(self.body.accumulate("dot", F32, query.operand, key.operand))
        scores = [self.visible(Scalar(self.body, x, F32), begin + first + row) for row, x in enumerate(totals)]
        for row, score in enumerate(scores):
            self.put("score", score, first + row)
        if given.mask is None:
            self.raise_highest(scores)

    def mask(self, mask: View, begin: Index, j: Index) -> None:
        """Add the mask to a score, or hide it."""
        place = (self.batch, self.head, self.row, begin + j)
        at = [ZERO if size == ONE else x for size, x in zip(mask.shape, place[4 - mask.rank :], strict=True)]
        found, score = self.cell.load(mask, at), self.get("score", j)
        score = where(found, score, -inf) if mask.dtype is BOOL else score + found.to(F32)
        self.put("score", score, j)
        self.raise_highest([score])

    def visible(self, score: Scalar, at: Index) -> Scalar:
        """The score, if there is such a key and the query sees it."""
        number = self.cell.index(at).to(I32)
        if self.given.causal:
            return where(number <= self.cell.index(least(self.row, self.length - 1)).to(I32), score, -inf)
        if self.length.constant is not None and self.length.constant % self.tile == 0:
            return score
        return where(number < self.cell.index(self.length).to(I32), score, -inf)

    def raise_highest(self, scores: Sequence[Scalar]) -> None:
        """A NaN among them need not show here: it shows in the sum of the weights."""
        highest = self.get("highest")
        for score in scores:
            highest = where(score > highest, score, highest)
        self.put("highest", highest)

    def add_values(self, begin: Index, count: Index, shrunk: Scalar, tiles: tuple[int, int, int]) -> None:
        """What so many weights add to elements of the result: `tiles` begin somewhere, are so many, and so high."""
        (start, number, height), totals = tiles, []
        with self.loop(f"v{start}", Index.of(number)) as tile:
            first = tile * height + start
            with self.loop(f"w{start}", count) as j:
                weight = self.get("score", j)
                for row in range(height):
                    place = (self.batch, self.head, begin + j, first + row)
                    value = self.cell.load(self.given.values, place).to(F32)
                    totals.append(self.body.accumulate("dot", F32, weight.operand, value.operand))
            for row, total in enumerate(totals):
                element = self.get("result", first + row) * shrunk + Scalar(self.body, total, F32)
                self.put("result", element, first + row)

    # ---- pieces ------------------------------------------------------------------------------------------------------

    def get(self, part: str, at: Index = ZERO) -> Scalar:
        return Scalar(self.body, self.body.load(F32, self.locals[part].name, Coordinates((at,))), F32)

    def put(self, part: str, value: Scalar, at: Index = ZERO) -> None:
        self.body.store(self.locals[part].name, Coordinates((at,)), value.operand)

    def number(self, value: float) -> Scalar:
        return self.cell.literal(value, F32)

    @contextmanager
    def loop(self, name: str, extent: Index) -> Iterator[Index]:
        axis = Symbol(name, extent)
        self.body.enter((axis,))
        yield Index.of(axis)
        self.body.leave()
