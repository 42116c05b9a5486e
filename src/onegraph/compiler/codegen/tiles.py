"""Square tiles: what is contiguous along another axis than the vector's is loaded along that one, and transposed.

A tile has as many iterations of the axis across as a vector has lanes. Its body is written once for each of them; a
load that is contiguous across is made once for the tile, one vector for each lane, and each iteration takes a column.

The axis across may also be that of an inner loop of a kernel whose outer axis runs in vectors. Such a tile is less high
than a vector is wide, lanes need not be a constant step apart, and stores along the axis are transposed, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from onegraph.compiler.codegen.emitter import Val
from onegraph.compiler.codegen.writing import Writing
from onegraph.ir.index import ONE, Index, Symbol
from onegraph.ir.loop import Block, Let, Offset, Place, Store, Vector, loads, stores
from onegraph.ir.types import BOOL, I64, DType

SIDE = 16  # iterations of an inner loop in a tile


class Tiles:
    """The tile that is being written, if any: `iteration` is the one of its iterations, `columns` what was loaded."""

    def __init__(self, writer: Writing) -> None:
        self.w = writer
        self.iteration: int | None = None
        self.across: Symbol | None = None
        self.side = 0  # how many iterations of the axis across
        self.is_inner = False
        self.first = Val("0", I64)  # where the tile begins across
        self.columns: dict[tuple[str, Index], list[Val]] = {}
        self.stored: dict[tuple[str, Index], list[Val]] = {}

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
        self._iterations(vector.across, vector.width, first, w.kernel.body)
        e.close_loop()
        w.lanes = before

    def loop(self, axis: Symbol, body: Block) -> bool:
        """Write the tiles of an inner loop, if that is better than its iterations one after another."""
        w, e = self.w, self.w.e
        if not self._is_turned(axis, body):
            return False
        extent = w.index(axis.extent or ONE)
        whole = e.inst("and", extent, e.i64(-SIDE))
        self.is_inner = True
        self._iterations(axis, SIDE, e.open_loop(e.i64(0), whole, SIDE), body)
        self.is_inner = False
        e.close_loop()
        w.values[axis.name] = e.open_loop(whole, extent, 1)
        w.block(body)
        e.close_loop()
        return True

    def _is_turned(self, axis: Symbol, body: Block) -> bool:
        """Whether memory is contiguous along the loop and not along the vector, and what is stored is not read."""
        w, vector = self.w, self.w.kernel.vector
        if vector is None or vector.axis not in w.kernel.axes or w.mask is not None or self.iteration is not None:
            return False
        extent = axis.extent.constant if axis.extent is not None else None
        if w.lanes < SIDE or w.lanes & (w.lanes - 1) or extent is None or extent < SIDE:
            return False
        if not all(isinstance(statement, Let | Store) for statement in body):
            return False
        read = [(load.buffer, load.place) for load in loads(body)]
        stored = [(store.buffer, store.place) for store in stores(body)]
        turned = {buffer for buffer, place in (*read, *stored) if self._lies_along(place, axis)}
        once = Counter(buffer for buffer, _ in stored) + Counter({buffer for buffer, _ in read})
        return bool(turned) and all(once[buffer] == 1 for buffer in turned)

    def _lies_along(self, place: Place, axis: Symbol) -> bool:
        assert isinstance(place, Offset)
        return self._is_across(place.index, axis)

    def _is_across(self, index: Index, axis: Symbol) -> bool:
        """Whether it is contiguous along the axis, and each lane of the vector has an address of its own."""
        w, vector = self.w, self.w.vector_axis
        if vector is None or vector not in index.symbols or index.coefficient(axis) != ONE:
            return False
        step = index.coefficient(vector)
        others = (w.values[symbol.name].lanes == 1 for symbol in index.symbols if symbol not in (axis, vector))
        return (step is None or step.constant != 1) and all(others)

    def _iterations(self, across: Symbol, side: int, first: Val, body: Block) -> None:
        w, e = self.w, self.w.e
        self.across, self.side, self.first = across, side, first
        for iteration in range(side):
            self.iteration = iteration
            w.values[across.name] = e.inst("add nsw", first, e.i64(iteration)) if iteration else first
            w.block(body)
        for (buffer, index), columns in self.stored.items():
            self._store_rows(buffer, index, columns)
        self.iteration, self.across, self.columns, self.stored = None, None, {}, {}

    def covers(self, index: Index) -> bool:
        """Whether an access is one of the tile."""
        if self.iteration is None or self.across is None:
            return False
        if self.is_inner:
            return self._is_across(index, self.across)
        return index.coefficient(self.across) == ONE and self.w.memory.stride(index) is not None

    def load(self, buffer: str, index: Index, stored: DType) -> Val:
        """The vector of this iteration."""
        assert self.iteration is not None
        key = (buffer, index)
        if key not in self.columns:
            self.columns[key] = self._loaded_columns(buffer, index, stored)
        return self.columns[key][self.iteration]

    def store(self, buffer: str, index: Index, value: Val) -> bool:
        """Keep the vector of this iteration until the tile is whole, unless it does not lie along the axis across."""
        if not self.is_inner or not self.covers(index):
            return False
        self.stored.setdefault((buffer, index), []).append(self.w.e.widened(value, self.w.lanes))
        return True

    def _loaded_columns(self, buffer: str, index: Index, stored: DType) -> list[Val]:
        w, rows = self.w, []
        for _ in self._lanes():
            address = w.memory.address(buffer, index, stored)
            whole = Val("", stored, self.side)
            text = f"load {whole.type}, ptr {address.text}, align {stored.size}"
            depth = w.memory.depth(buffer, address)
            w.memory.check("load", buffer, index, self.side, depth=depth)
            rows.append(w.e.value(text, stored, self.side, depth, pure=depth is not None))
        blocks = [self._transposed(rows[at : at + self.side]) for at in range(0, len(rows), self.side)]
        return [self._joined(list(columns)) for columns in zip(*blocks, strict=True)]

    def _store_rows(self, buffer: str, index: Index, columns: list[Val]) -> None:
        w, side = self.w, self.side
        parts = [list(range(at, at + side)) for at in range(0, w.lanes, side)]
        blocks = [self._transposed([self._shuffled(column, column, part) for column in columns]) for part in parts]
        rows = iter([row for block in blocks for row in block])
        for _ in self._lanes():
            row = next(rows)
            address = w.memory.address(buffer, index, row.dtype)
            w.memory.check("store", buffer, index, side)
            w.e.line(f"store {row}, ptr {address.text}, align {row.dtype.size}")

    def _lanes(self) -> Iterator[None]:
        """The lanes one after another, at the beginning of the tile: index expressions then are those of one."""
        w, vector, across = self.w, self.w.kernel.vector, self.across
        assert vector is not None and across is not None
        names = (across.name, vector.axis.name)
        kept, lanes = {name: w.values[name] for name in names}, w.lanes
        w.values[names[0]] = self.first
        for lane in range(lanes):
            w.values[names[1]] = w.e.inst("add nsw", kept[names[1]], w.e.i64(lane)) if lane else kept[names[1]]
            yield
        w.values.update(kept)

    def _transposed(self, rows: list[Val]) -> list[Val]:
        distance = 1
        while distance < len(rows):
            rows = self._exchanged(rows, distance)
            distance *= 2
        return rows

    def _joined(self, parts: list[Val]) -> Val:
        """Vectors one behind the other."""
        while len(parts) > 1:
            wide = list(range(2 * parts[0].lanes))
            parts = [self._shuffled(*pair, wide) for pair in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

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
        return self.w.e.value(text, a.dtype, len(lanes), max(a.depth, b.depth))
