"""Loads and stores of a kernel: scalar, contiguous, gathered; under a mask where some lanes do not count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from onegraph.compiler.codegen.casts import from_memory, to_memory
from onegraph.compiler.codegen.emitter import Val, memory_type, suffix
from onegraph.compiler.codegen.fence import Fence
from onegraph.compiler.codegen.indices import emit_index
from onegraph.compiler.codegen.writing import Writing
from onegraph.compiler.kernels import has_products, operands
from onegraph.ir.index import ONE, ZERO, Index
from onegraph.ir.loop import Accumulate, Kernel, Loop, Offset, Operand, Place, loads, statements, writes
from onegraph.ir.types import BOOL, I8, I64, DType

AHEAD = 1 << 13  # bytes between what is read and what is asked for: the processor itself looks to the end of a page
LONG = 1 << 20  # bytes, from which on what is read comes from memory
LONG_WEIGHT = 9 << 15  # of what few rows are multiplied with: in a model others are read before it is read again


class Memory:
    """`pointers[buffer]` is the address of its first element; `passes` counts the loops that have read a row.

    With a `fence`, each access is checked.
    """

    def __init__(self, writer: Writing, dtypes: Mapping[str, DType], fence: Fence | None = None) -> None:
        self.w = writer
        self.fence = fence
        self.dtypes = dict(dtypes)
        self.pointers: dict[str, str] = {}
        self.is_product = has_products(writer.kernel)
        self.adds_products = _adds_products(writer.kernel)
        self.own = {local.name for local in writer.kernel.locals}
        self.written = {*writes(writer.kernel), *self.own}
        self.passes: Counter[tuple[str, Index]] = Counter()

    @property
    def lanes_of_locals(self) -> int:
        """How many iterations of the outer loops, each with locals of its own, run side by side."""
        kernel = self.w.kernel
        return kernel.vector.width if kernel.vector is not None and kernel.vector.axis in kernel.axes else 1

    def bind(self) -> None:
        """Read the addresses from the kernel's argument; make room for locals."""
        e = self.w.e
        for position, buffer in enumerate(operands(self.w.kernel)):
            e.line(f"%p{position}.p = getelementptr ptr, ptr %buffers, i64 {position}")
            e.line(f"%p{position} = load ptr, ptr %p{position}.p")
            self.pointers[buffer] = f"%p{position}"
        for position, local in enumerate(self.w.kernel.locals):
            size = local.size * self.lanes_of_locals
            e.entry.append(f"%local{position} = alloca {memory_type(local.dtype)}, i64 {size}, align 64")
            self.pointers[local.name] = f"%local{position}"
            self.dtypes[local.name] = local.dtype
            if self.fence is not None:
                self.fence.own(local.name, size)
        if self.fence is not None:
            self.fence.bind(operands(self.w.kernel), self.dtypes)

    def check(
        self, what: str, buffer: str, index: Index, lanes: int = 1, mask: Val | None = None, depth: int | None = None
    ) -> None:
        """With a fence, check the elements from `index` on: one for each lane of it, or so many neighbours."""
        if self.fence is not None:
            at = self.w.index(index) if lanes == 1 else emit_index(self.w.e, index, self.w.values)
            self.fence.check(f"{what} at {index}", buffer, at, lanes, mask, depth)

    # ---- loads -------------------------------------------------------------------------------------------------------

    def load(self, buffer: str, place: Place, condition: Val | None) -> Val:
        assert isinstance(place, Offset)
        e, index, dtype = self.w.e, place.index, self.dtypes[buffer]
        stored = I8 if dtype is BOOL else dtype
        if buffer in self.own and self.lanes_of_locals > 1:
            address = self.address(buffer, index * self.lanes_of_locals, stored)
            vector = Val("", stored, self.w.lanes)
            self.check("load", buffer, index * self.lanes_of_locals, self.w.lanes)
            text = f"load {vector.type}, ptr {address.text}, align {stored.size}"
            value = e.value(text, stored, self.w.lanes, None, pure=False)
        elif not self.varies(index):
            value = self.uniform_load(buffer, index, stored, condition)
        elif self.stride(index) == 1:
            value = self.contiguous_load(buffer, index, stored, condition)
        elif condition is None and self.w.tiles.covers(index):
            value = self.w.tiles.load(buffer, index, stored)
        else:
            value = self.gather(buffer, index, stored, condition)
        return from_memory(e, value, dtype)

    def depth(self, buffer: str, *values: Val) -> int | None:
        """Where a load may stand: next to its operands, unless the kernel also writes the buffer."""
        return None if buffer in self.written else max(value.depth for value in values)

    def address(self, buffer: str, index: Index, stored: DType, certain: bool = True) -> Val:
        """The address of the element (of that for the first lane); it need not be one unless that is certain."""
        e, begin = self.w.e, self.pointers[buffer]
        opcode = "getelementptr inbounds" if certain else "getelementptr"
        if self.is_product and certain:
            begin, index = self.row(begin, index, stored)
        at = emit_index(e, index, self.w.values)
        text = f"{opcode} {memory_type(stored)}, ptr {begin}, i64 {at.text}"
        return e.value(text, I64, 1, at.depth)

    def row(self, begin: str, index: Index, stored: DType) -> tuple[str, Index]:
        """The address at which this loop begins, and the index from there on.

        It is frozen: of several rows in a tile, LLVM would else weigh all ways to add up the place of each (which takes
        half of its time), and find this one.
        """
        e, values = self.w.e, self.w.values
        outer = tuple(
            term for term in index.terms if all(values[s.name].depth < e.depth for s in Index((term,)).symbols)
        )
        if not outer or len(outer) == len(index.terms):
            return begin, index
        at = emit_index(e, Index(outer), values)
        row = e.value(f"getelementptr inbounds {memory_type(stored)}, ptr {begin}, i64 {at.text}", I64, 1, at.depth)
        return e.value(f"freeze ptr {row.text}", I64, 1, at.depth).text, index - Index(outer)

    def varies(self, index: Index) -> bool:
        """Whether lanes of the code being written differ in it."""
        axis = self.w.vector_axis
        return axis is not None and any(
            symbol == axis or self.w.values[symbol.name].lanes > 1 for symbol in index.symbols
        )

    def stride(self, index: Index) -> int | None:
        """By how many elements neighbouring lanes differ, if that is a constant."""
        axis = self.w.vector_axis
        assert axis is not None
        if any(symbol != axis and self.w.values[symbol.name].lanes > 1 for symbol in index.symbols):
            return None
        step = index.coefficient(axis)
        return None if step is None else step.constant

    def uniform_load(self, buffer: str, index: Index, stored: DType, condition: Val | None) -> Val:
        """One element for all lanes. If no lane wants it, it is read from a place that holds zero."""
        e = self.w.e
        address = self.address(buffer, index, stored, condition is None)
        operands = [address]
        wanted = None
        if condition is not None:
            several = self.combined(condition) if condition.lanes > 1 else None  # without lanes behind the end
            wanted = condition if several is None else self.w.folded("vector.reduce.or", several)
            e.definitions["zero"] = "@zero = internal constant [16 x i8] zeroinitializer, align 16\n"
            depth = max(wanted.depth, address.depth)
            address = e.value(f"select {wanted}, ptr {address.text}, ptr @zero", I64, 1, depth)
            operands = [address, wanted]
        text = f"load {memory_type(stored)}, ptr {address.text}, align {stored.size}"
        place = self.depth(buffer, *operands)
        self.check("load", buffer, index, 1, wanted, place)
        value = e.value(text, stored, 1, place, pure=place is not None)
        if condition is not None and condition.lanes > 1:
            value = e.select(condition, value, e.constant(0, stored))
        return value

    def contiguous_load(self, buffer: str, index: Index, stored: DType, condition: Val | None) -> Val:
        e, lanes = self.w.e, self.w.lanes
        address = self.address(buffer, index, stored, condition is None)
        mask = self.combined(condition)
        vector = Val("", stored, lanes)
        if mask is None:
            self.fetch_next_row(buffer, index, stored, address)
            self.fetch_next_panel(buffer, index, stored)
            self.fetch_ahead(buffer, index, stored, address)
            depth = self.depth(buffer, address)
            self.check("load", buffer, index, lanes, None, depth)
            text = f"load {vector.type}, ptr {address.text}, align {stored.size}"
            return e.value(text, stored, lanes, depth, pure=depth is not None)
        name = f"@llvm.masked.load.{suffix(vector)}.p0"
        e.declare(f"declare {vector.type} {name}(ptr, <{lanes} x i1>, {vector.type})")
        depth = self.depth(buffer, address, mask)
        self.check("load", buffer, index, lanes, mask, depth)
        text = (
            f"call {vector.type} {name}(ptr align {stored.size} {address.text}, {mask}, {vector.type} zeroinitializer)"
        )
        return e.value(text, stored, lanes, depth, pure=depth is not None)

    def fetch_next_row(self, buffer: str, index: Index, stored: DType, address: Val) -> None:
        """The second loop over a long row finds it in a cache, and asks the memory for the next one meanwhile."""
        e, axis, axes = self.w.e, self.w.vector_axis, self.w.kernel.axes
        if self.passes[buffer, index] != 1 or not axes or axis is None or axis.extent is None:
            return
        step, extent = index.coefficient(axes[-1]), axis.extent.constant
        if step is None or step.constant is None or extent is None:
            return
        if extent * stored.size not in self.w.machine.long_rows:
            return
        for start in range(0, self.w.lanes * stored.size, self.w.machine.line):
            distance = step.constant * stored.size + start
            next = e.value(f"getelementptr i8, ptr {address.text}, i64 {distance}", I64, 1, address.depth)
            self.fetch(next)

    def fetch_next_panel(self, buffer: str, index: Index, stored: DType) -> None:
        following = self.next_panel(index)
        if following is not None:
            self.fetch(self.address(buffer, following, stored, certain=False))

    def next_panel(self, index: Index) -> Index | None:
        """While tiles of a product go through a panel, each asks for its share of the next one: the loop over the rows
        of tiles is the innermost, the one over panels the next. Or for its share of the next block of the panel, where
        several tiles go through one block after the other."""
        kernel, columns = self.w.kernel, self.w.vector_axis
        if not self.is_product or columns is None or len(kernel.axes) < 3:
            return None
        inner = [axis for axis in index.symbols if axis not in kernel.axes]
        panels = [axis for axis in kernel.axes if axis != columns and axis in index.symbols]
        if kernel.axes[-1] in index.symbols or not inner or not panels:
            return None
        at, length = ZERO, ONE  # where in its panel this is read, and how long that is, in vectors
        steps = [(index.coefficient(axis), axis) for axis in inner]
        together = [axis for axis in self.w.loops if axis not in index.symbols and axis.extent != ONE]
        if together:
            steps = [(step, axis) for step, axis in steps if axis == self.w.loops[-1]]
        for step, axis in sorted(steps, key=lambda pair: -1 if pair[0] is None else pair[0].constant or -1):
            if step != length * self.w.lanes or axis.extent is None:
                return None  # a panel does not lie together
            at, length = at + length * Index.of(axis), length * axis.extent
        begin = index.substitute({columns: ZERO} | {axis: ZERO for _, axis in steps})
        if together:
            tiles, begin = together[-1], begin + length * self.w.lanes
        else:
            tiles, begin = kernel.axes[-1], begin.substitute({panels[-1]: Index.of(panels[-1]) + 1})
        count = tiles.extent.constant if tiles.extent is not None else None
        share = -(-self.w.lanes // count) if count is not None else 1
        turn = Index.of(tiles) * length + at
        return begin + turn * share

    def fetch_ahead(self, buffer: str, index: Index, stored: DType, address: Val) -> None:
        """What is read from its beginning to its end, and is too long to be in a cache, is asked for well ahead."""
        if self.passes[buffer, index] or not self.is_stream(index, stored):
            return
        e = self.w.e
        for start in range(0, self.w.lanes * stored.size, self.w.machine.line):
            ahead = e.value(f"getelementptr i8, ptr {address.text}, i64 {AHEAD + start}", I64, 1, address.depth)
            self.fetch(ahead)

    def is_stream(self, index: Index, stored: DType) -> bool:
        """Whether the loops read so much, and no element twice, in the order of memory."""
        if not set(self.w.kernel.axes) <= index.symbols:
            return False
        steps: list[tuple[int, int]] = []
        for axis in index.symbols:
            step = index.coefficient(axis)
            if step is None or step.constant is None or axis.extent is None or axis.extent.constant is None:
                return False
            steps.append((step.constant, axis.extent.constant))
        size = 1
        for stride, extent in sorted(steps):
            if stride != size:
                return False
            size *= extent
        return size * stored.size >= (LONG_WEIGHT if self.adds_products else LONG)

    def fetch(self, address: Val) -> None:
        """Ask the memory for what is there, if anything is, to have it near soon."""
        self.w.e.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.w.e.line(f"call void @llvm.prefetch.p0(ptr {address.text}, i32 0, i32 2, i32 1)")

    def gather(self, buffer: str, index: Index, stored: DType, condition: Val | None) -> Val:
        e, lanes = self.w.e, self.w.lanes
        at = self.w.index(index)
        mask = self.combined(condition) or e.constant(True, BOOL, lanes)
        vector = Val("", stored, lanes)
        pointers = self.lane_addresses(buffer, at, stored)
        name = f"@llvm.masked.gather.{suffix(vector)}.v{lanes}p0"
        e.declare(f"declare {vector.type} {name}(<{lanes} x ptr>, <{lanes} x i1>, {vector.type})")
        depth = self.depth(buffer, at, mask)
        self.check("load", buffer, index, 1, mask, depth)
        text = (
            f"call {vector.type} {name}(<{lanes} x ptr> align {stored.size} {pointers}, {mask}, "
            f"{vector.type} zeroinitializer)"
        )
        return e.value(text, stored, lanes, depth, pure=depth is not None)

    def lane_addresses(self, buffer: str, at: Val, stored: DType) -> str:
        e = self.w.e
        text = f"getelementptr {memory_type(stored)}, ptr {self.pointers[buffer]}, {at}"
        return e.value(text, I64, at.lanes, at.depth).text

    def combined(self, condition: Val | None) -> Val | None:
        """The lanes for which memory may be touched."""
        e, mask = self.w.e, self.w.mask
        if condition is None:
            return mask
        condition = e.widened(condition, self.w.lanes)
        return condition if mask is None else e.inst("and", condition, mask)

    # ---- stores ------------------------------------------------------------------------------------------------------

    def store(self, buffer: str, place: Place, operand: Operand, atomic: bool) -> None:
        assert isinstance(place, Offset)
        e, index, dtype = self.w.e, place.index, self.dtypes[buffer]
        stored = I8 if dtype is BOOL else dtype
        value = to_memory(e, self.w.operand(operand, dtype), dtype)
        if atomic:
            self.add_atomically(buffer, index, stored, value)
            return
        if buffer in self.own and self.lanes_of_locals > 1:
            address = self.address(buffer, index * self.lanes_of_locals, stored)
            self.check("store", buffer, index * self.lanes_of_locals, self.w.lanes)
            e.line(f"store {e.widened(value, self.w.lanes)}, ptr {address.text}, align {stored.size}")
        elif not self.varies(index):
            address = self.address(buffer, index, stored)
            self.check("store", buffer, index)
            e.line(f"store {self.lane(value, 0)}, ptr {address.text}, align {stored.size}")
        elif self.stride(index) == 1:
            self.contiguous_store(buffer, index, stored, value)
        elif not self.w.tiles.store(buffer, index, value):
            self.scatter(buffer, index, stored, value)

    def contiguous_store(self, buffer: str, index: Index, stored: DType, value: Val) -> None:
        e, lanes, mask = self.w.e, self.w.lanes, self.w.mask
        address = self.address(buffer, index, stored)
        value = e.widened(value, lanes)
        self.check("store", buffer, index, lanes, mask)
        if mask is None:
            e.line(f"store {value}, ptr {address.text}, align {stored.size}")
            return
        name = f"@llvm.masked.store.{suffix(value)}.p0"
        e.declare(f"declare void {name}({value.type}, ptr, <{lanes} x i1>)")
        e.line(f"call void {name}({value}, ptr align {stored.size} {address.text}, {mask})")

    def scatter(self, buffer: str, index: Index, stored: DType, value: Val) -> None:
        e, lanes = self.w.e, self.w.lanes
        at = self.w.index(index)
        value = e.widened(value, lanes)
        mask = self.w.mask or e.constant(True, BOOL, lanes)
        self.check("store", buffer, index, 1, mask)
        pointers = self.lane_addresses(buffer, at, stored)
        name = f"@llvm.masked.scatter.{suffix(value)}.v{lanes}p0"
        e.declare(f"declare void {name}({value.type}, <{lanes} x ptr>, <{lanes} x i1>)")
        e.line(f"call void {name}({value}, <{lanes} x ptr> align {stored.size} {pointers}, {mask})")

    def add_atomically(self, buffer: str, index: Index, stored: DType, value: Val) -> None:
        """Scalar code only: such kernels are not vectorized."""
        assert self.w.lanes == 1
        address = self.address(buffer, index, stored)
        self.check("addition", buffer, index)
        operation = "fadd" if stored.is_float else "add"
        self.w.e.line(f"atomicrmw {operation} ptr {address.text}, {value} monotonic, align {stored.size}")

    def lane(self, value: Val, number: int) -> Val:
        if value.lanes == 1:
            return value
        e = self.w.e
        return e.value(f"extractelement {value}, i64 {number}", value.dtype, 1, value.depth)


def _adds_products(kernel: Kernel) -> bool:
    """Whether a sum also reads what all iterations of the outer axes do, as products of a weight and few rows."""
    return any(
        isinstance(loop, Loop)
        and any(isinstance(statement, Accumulate) for statement in loop.body)
        and any(
            isinstance(load.place, Offset) and load.place.index.symbols.isdisjoint(kernel.axes)
            for load in loads(loop.body)
        )
        for loop in statements(kernel.body)
    )
