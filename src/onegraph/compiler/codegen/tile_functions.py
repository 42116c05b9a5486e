"""The inner loops of a product's tile as a function of the module, which all kernels that have such loops share.

    for r0: 3, r1: 768:                                      call @og.tile.6.64...(totals, w, x of each row,
      w = load w @ ...                                                             extents, steps)
      t0 = dot over (load x @ (row 0) ...), w
      ...
      t5 = dot over (load x @ (row 5) ...), w
    store totals @ 0 = t0
    ...

Sizes and steps are arguments, but for steps that most have: products of a model differ in little else, and half of what
LLVM needs for one is for these loops. A tile takes far longer than the call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onegraph.base.dataclass import dataclass
from onegraph.compiler.codegen.emitter import Emitter, Val
from onegraph.compiler.codegen.writing import Writing
from onegraph.ir.index import ZERO, Index, Symbol
from onegraph.ir.loop import Accumulate, Let, Load, Loop, Offset, Store, statements
from onegraph.ir.scalar import REDUCTIONS
from onegraph.ir.types import F32, I64

Steps = tuple[int, ...]
#: How the sums of a loop are made, see `accumulators`: in blocks of so many steps, from the largest; and whether what
#: is summed within each step is a level, too.
Level = tuple[Steps, bool]


@dataclass(frozen=True, slots=True)
class Operand:
    """What a tile loads: an element `begin` of a buffer, and how far it moves for each of the loops."""

    buffer: str
    begin: Index
    steps: Steps


@dataclass(frozen=True, slots=True)
class TileLoops:
    """The loops of a tile: how often each runs, what of all rows is loaded, and what of each."""

    counts: Steps
    shared: Operand
    rows: tuple[Operand, ...]
    is_vector: bool  # whether a row loads an element for each column, or one for all
    fetched: Operand | None  # what is asked for meanwhile


def write_tile(w: Writing, loop: Loop, levels: Sequence[Level], to: str) -> frozenset[str]:
    """Write the loops of a tile as a call, which leaves the totals in the memory `to`, and give their names; none where
    the loops are anything else, and nothing is written.

    The totals are to be stored in order in the kernel's only local, and used for nothing else.
    """
    loops = _loops(w, loop)
    if loops is None:
        return frozenset()
    _call(w, loops, levels, to)
    return frozenset(statement.name for statement in loop.body if isinstance(statement, Accumulate))


def _loops(w: Writing, loop: Loop) -> TileLoops | None:
    if w.mask is not None or w.vector_axis is None:
        return None
    counts = [axis.extent.constant if axis.extent is not None else None for axis in loop.axes]
    operands: dict[str, Operand] = {}
    panels: dict[Operand, Operand | None] = {}
    totals: list[Accumulate] = []
    for statement in loop.body:
        match statement:
            case Let(name, dtype, Load(buffer, Offset(index), None)) if dtype is F32:
                operand = _operand(buffer, index, loop.axes)
                if operand is None or w.memory.depth(buffer, Val("", I64)) is None:
                    return None
                operands[name] = operand
                following = w.memory.next_panel(index)
                panels[operand] = None if following is None else _operand(buffer, following, loop.axes)
            case Accumulate(_, dtype, op, (str(), str())) if dtype is F32 and REDUCTIONS[op].products:
                totals.append(statement)
            case _:
                return None
    pairs = [tuple(operands.get(str(arg)) for arg in total.args) for total in totals]
    found = _divided(pairs) if None not in counts and len(totals) > 1 and _are_kept(w, totals) else None
    if found is None:
        return None
    shared, rows = found
    if _stride(w, shared) != 1 or len({(row.steps, _stride(w, row)) for row in rows}) != 1:
        return None
    stride = _stride(w, rows[0])
    if stride not in (0, 1):
        return None
    sizes = tuple(count for count in counts if count is not None)
    return TileLoops(sizes, shared, rows, stride == 1, panels[shared])


def _divided(pairs: Sequence[tuple[Operand | None, ...]]) -> tuple[Operand, tuple[Operand, ...]] | None:
    """The factor that all products have, and the other of each."""
    for factor in pairs[0]:
        others = [[other for other in pair if other != factor] for pair in pairs]
        rows = tuple(other for each in others for other in each if other is not None)
        if factor is not None and len(rows) == len(pairs) and all(factor in pair for pair in pairs):
            return factor, rows
    return None


def _operand(buffer: str, index: Index, axes: Sequence[Symbol]) -> Operand | None:
    """The load in loops over the axes, if each moves it by a constant."""
    steps = []
    for axis in axes:
        step = index.coefficient(axis)
        if step is None or step.constant is None:
            return None
        steps.append(step.constant)
    return Operand(buffer, index.substitute(dict.fromkeys(axes, ZERO)), tuple(steps))


def _stride(w: Writing, operand: Operand) -> int | None:
    return w.memory.stride(operand.begin)


def _are_kept(w: Writing, totals: Sequence[Accumulate]) -> bool:
    """Whether all that is done with the totals is to store them in order."""
    (local,) = w.kernel.locals
    stored = [s for s in statements(w.kernel.body) if isinstance(s, Store) and s.buffer == local.name]
    order = [(store.value, store.place) for store in stored]
    return order == [(total.name, Offset(Index.of(number))) for number, total in enumerate(totals)]


def _call(w: Writing, loops: TileLoops, levels: Sequence[Level], to: str) -> None:
    e, lanes, inner = w.e, w.lanes, len(loops.counts) - 1
    operands = [loops.shared, *loops.rows, *[loops.fetched] * (loops.fetched is not None)]
    pointers = [w.memory.address(o.buffer, o.begin, F32, o is not loops.fetched) for o in operands if o is not None]
    kinds = {"w": loops.shared, "x": loops.rows[0], "f": loops.fetched}
    fixed = {f"w{inner}": lanes, f"x{inner}": 1}
    steps = {f"{kind}{axis}": o.steps[axis] for kind, o in kinds.items() if o is not None for axis in range(inner + 1)}
    fixed = {name: step for name, step in fixed.items() if steps[name] == step}
    form = "x".join(f"{'_'.join(map(str, blocks))}{'a' * apart}" for blocks, apart in levels)
    known = ".".join([*fixed, *["f"] * (loops.fetched is not None)])
    name = f"@og.tile.{len(loops.rows)}.{lanes}.{'v' * loops.is_vector}.{form}.{known}"
    if name not in e.definitions:
        e.definitions[name] = _Function(w, loops, levels, fixed).text(name)
    given = [f"i64 {count}" for count in loops.counts]
    given += [f"i64 {step}" for name, step in steps.items() if name not in fixed]
    e.line(f"call void {name}({', '.join([f'ptr {to}', *(f'ptr {p.text}' for p in pointers), *given])})")


class _Function:
    """The text of a function of loops; `fixed` are the steps that are no arguments."""

    def __init__(self, w: Writing, loops: TileLoops, levels: Sequence[Level], fixed: Mapping[str, int]) -> None:
        self.e, self.lanes = Emitter(w.e.instructions), w.lanes
        self.outer, self.loops, self.levels, self.fixed = w.e, loops, levels, fixed
        self.cells: list[list[str]] = []  # the totals of each level
        self.at: list[Val] = []  # the counters of the loops

    def text(self, name: str) -> str:
        e, loops, axes = self.e, self.loops, range(len(self.loops.counts))
        kinds = ["w", "x", *["f"] * (loops.fetched is not None)]
        pointers = ["totals", "w", *(f"x.{row}" for row in range(len(loops.rows))), *kinds[2:]]
        steps = [f"{kind}{axis}" for kind in kinds for axis in axes]
        sizes = [*(f"n{axis}" for axis in axes), *(step for step in steps if step not in self.fixed)]
        self.open_level()
        self.nest(0)
        for row, cell in enumerate(self.cells.pop()):
            place = e.value(f"getelementptr float, ptr %totals, i64 {row * self.lanes}", I64, 1, 0)
            e.line(f"store {self.total(cell)}, ptr {place.text}, align 4")
        parameters = ", ".join([*(f"ptr %{each}" for each in pointers), *(f"i64 %{each}" for each in sizes)])
        body = "\n  ".join([*e.entry, *e.regions[0].lines])
        self.outer.declarations |= e.declarations
        return f"define internal void {name}({parameters}) noinline {{\n  {body}\n  ret void\n}}\n"

    def nest(self, axis: int) -> None:
        e, (blocks, apart) = self.e, self.levels[axis]
        begin, end = e.i64(0), Val(f"%n{axis}", I64)
        for steps in blocks:
            begin, rest = e.open_loop(begin, end, steps), end
            end = e.call("smin", e.inst("add nsw", begin, e.i64(steps)), rest)
            self.open_level()
        self.at.append(e.open_loop(begin, end, 1))
        if apart:
            self.open_level()
        if axis + 1 < len(self.levels):
            self.nest(axis + 1)
        else:
            self.add()
        if apart:
            self.close_level()
        e.close_loop()
        for _ in blocks:
            self.close_level()
            e.close_loop()

    def add(self) -> None:
        """The innermost body."""
        e = self.e
        if self.loops.fetched is not None:
            e.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
            e.line(f"call void @llvm.prefetch.p0(ptr {self.address('f', '%f').text}, i32 0, i32 2, i32 1)")
        shared = self.load("w", "%w", self.lanes)
        for row, cell in enumerate(self.cells[-1]):
            x = self.load("x", f"%x.{row}", self.lanes if self.loops.is_vector else 1)
            e.line(f"store {e.call('fma', e.widened(x, self.lanes), shared, self.total(cell))}, ptr {cell}")

    def load(self, kind: str, pointer: str, lanes: int) -> Val:
        address = self.address(kind, pointer)
        return self.e.value(f"load {Val('', F32, lanes).type}, ptr {address.text}, align 4", F32, lanes, address.depth)

    def address(self, kind: str, pointer: str) -> Val:
        """Where the loops are; where the innermost one begins is frozen, as in `Memory.row`."""
        e, begin = self.e, Val(pointer, I64)
        for axis, at in enumerate(self.at):
            step = self.fixed.get(f"{kind}{axis}")
            factor = Val(f"%{kind}{axis}", I64) if step is None else e.i64(step)
            moved = at if step == 1 else e.inst("mul nsw", at, factor)
            begin = e.value(f"getelementptr float, ptr {begin.text}, i64 {moved.text}", I64, 1, moved.depth)
            if axis + 1 < len(self.at):
                begin = e.value(f"freeze ptr {begin.text}", I64, 1, begin.depth)
        return begin

    # ---- totals ------------------------------------------------------------------------------------------------------

    def open_level(self) -> None:
        vector = Val("zeroinitializer", F32, self.lanes)
        self.cells.append([f"%{self.e.fresh('acc')}" for _ in self.loops.rows])
        self.e.entry += [f"{cell} = alloca {vector.type}" for cell in self.cells[-1]]
        for cell in self.cells[-1]:
            self.e.line(f"store {vector}, ptr {cell}")

    def close_level(self) -> None:
        for cell, above in zip(self.cells.pop(), self.cells[-1], strict=True):
            self.e.line(f"store {self.e.inst('fadd', self.total(above), self.total(cell))}, ptr {above}")

    def total(self, cell: str) -> Val:
        return self.e.value(f"load {Val('', F32, self.lanes).type}, ptr {cell}", F32, self.lanes, None, pure=False)
