"""Square tiles: what is contiguous along another axis than the vector's is loaded along that one, and transposed.

A tile has as many iterations of the axis across as a vector has lanes. Its body is written once for each of them; a
load that is contiguous across is made once for the tile, one vector for each lane, and each iteration takes a column.
"""

from __future__ import annotations

from onegraph.compiler.codegen.emitter import Val
from onegraph.compiler.codegen.writing import Writing
from onegraph.ir.index import ONE, Index
from onegraph.ir.loop import Vector
from onegraph.ir.types import BOOL, I64, DType


class Tiles:
    """The tile that is being written, if any: `iteration` is the one of its iterations, `columns` what was loaded."""

    def __init__(self, writer: Writing) -> None:
        self.w = writer
        self.iteration: int | None = None
        self.first = Val("0", I64)  # where the tile begins across
        self.columns: dict[tuple[str, Index], list[Val]] = {}

    def loops(self, vector: Vector, begin: Val, end: Val) -> None:
        """The iterations of one tile row: whole tiles, then what is left at either edge one iteration after another."""
        w, e = self.w, self.w.e
        across, width = vector.across, vector.width
        assert across is not None
        first = e.inst("mul nsw", w.values[across.name], e.i64(width))
        extent = w.index(across.extent or ONE)
        after = e.inst("add nsw", first, e.i64(width))
        lanes = e.inst("and", e.inst("sub nsw", end, begin), e.i64(-width))
        fits = e.inst("icmp sle", after, extent, dtype=BOOL)
        middle = e.inst("add nsw", begin, e.select(fits, lanes, e.i64(0)))
        # A tile that does not fit is not entered: what its rows need is read, and checked, before any column is.
        tile = e.open_loop(first, e.select(fits, e.inst("add nsw", first, e.i64(1)), first), 1)
        self.whole(vector, tile, begin, middle)
        e.close_loop()
        w.values[across.name] = e.open_loop(first, e.call("smin", after, extent), 1)
        w.vector_loop(vector.axis, middle, end, lambda: w.block(w.kernel.body), exact=False)
        e.close_loop()

    def whole(self, vector: Vector, first: Val, begin: Val, end: Val) -> None:
        w, e = self.w, self.w.e
        assert vector.across is not None
        before = w.lanes
        w.lanes = vector.width
        w.values[vector.axis.name] = e.open_loop(begin, end, vector.width)
        for iteration in range(vector.width):
            self.iteration, self.first = iteration, first
            w.values[vector.across.name] = e.inst("add nsw", first, e.i64(iteration)) if iteration else first
            w.block(w.kernel.body)
        e.close_loop()
        self.iteration, self.columns, w.lanes = None, {}, before

    def covers(self, index: Index) -> bool:
        """Whether a load is one of the tile: contiguous across, a constant step apart along the vector."""
        vector = self.w.kernel.vector
        if self.iteration is None or vector is None or vector.across is None:
            return False
        return index.coefficient(vector.across) == ONE and self.w.memory.stride(index) is not None

    def load(self, buffer: str, index: Index, stored: DType) -> Val:
        """The vector of this iteration."""
        assert self.iteration is not None
        key = (buffer, index)
        if key not in self.columns:
            self.columns[key] = self._transposed(buffer, index, stored)
        return self.columns[key][self.iteration]

    def _transposed(self, buffer: str, index: Index, stored: DType) -> list[Val]:
        w, vector = self.w, self.w.kernel.vector
        assert vector is not None and vector.across is not None
        width, names = vector.width, (vector.across.name, vector.axis.name)
        kept = {name: w.values[name] for name in names}
        w.values[names[0]] = self.first
        rows = []
        for lane in range(width):
            w.values[names[1]] = w.e.inst("add nsw", kept[names[1]], w.e.i64(lane)) if lane else kept[names[1]]
            address = w.memory.address(buffer, index, stored)
            whole = Val("", stored, width)
            text = f"load {whole.type}, ptr {address.text}, align {stored.size}"
            depth = w.memory.depth(buffer, address)
            w.memory.check("load", buffer, index, width, depth=depth)
            rows.append(w.e.value(text, stored, width, depth, pure=depth is not None))
        w.values.update(kept)
        distance = 1
        while distance < width:
            rows = self._exchanged(rows, distance)
            distance *= 2
        return rows

    def _exchanged(self, rows: list[Val], distance: int) -> list[Val]:
        """One step of the transposition: blocks of `distance` change places across the diagonal."""
        width = len(rows)
        result = list(rows)
        low = [lane if not lane & distance else width + lane - distance for lane in range(width)]
        high = [lane + distance if not lane & distance else width + lane for lane in range(width)]
        for at in range(width):
            if not at & distance:
                a, b = rows[at], rows[at + distance]
                result[at], result[at + distance] = self._shuffled(a, b, low), self._shuffled(a, b, high)
        return result

    def _shuffled(self, a: Val, b: Val, lanes: list[int]) -> Val:
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        text = f"shufflevector {a}, {b}, <{len(lanes)} x i32> <{mask}>"
        return self.w.e.value(text, a.dtype, a.lanes, max(a.depth, b.depth))
