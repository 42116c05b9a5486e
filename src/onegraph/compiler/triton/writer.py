"""From one kernel to the text of one function in Triton's language.

A program of the grid computes a block of iterations of the outer axes: its lanes `x`. A loop whose iterations are
independent runs in lanes as well, `r`, and its totals are combined when it ends; where its lanes hold the whole loop,
there is no loop left. Other loops are run by each lane alone. Values in registers have one element for each lane that
they depend on: `[X, R]`, `[X, 1]`, `[1, R]`, or `[X]` and `[R]` where the kernel has lanes of one kind. A kernel that
turns something has tiles `[Y, X]` of its outer axes.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from onegraph.compiler.kernels import is_ordered, operands, place_indices, size_symbols, stored_by
from onegraph.compiler.triton.blocks import Blocks, blocks_in, extent_of, shared_loops
from onegraph.compiler.triton.casts import cast
from onegraph.compiler.triton.index_text import NO_LANES, Term, factor, index_text
from onegraph.compiler.triton.ops import HELPERS, INFIX, TRITON_OPS, literal, triton_type, typed
from onegraph.compiler.triton.totals import Totals
from onegraph.ir.index import ONE, Index, Symbol, product
from onegraph.ir.loop import (
    Accumulate,
    Apply,
    Bitcast,
    Block,
    Cast,
    Check,
    Constant,
    IndexValue,
    Kernel,
    Let,
    Literal,
    Load,
    Loop,
    Operand,
    Place,
    Store,
    loads,
    statements,
)
from onegraph.ir.scalar import SCALAR_OPS, operand_dtypes
from onegraph.ir.types import BOOL, I64, DType

HEAD = "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n"
Y, X, R = "y", "x", "r"
NO_POSITION = (1 << 63) - 1
SHORT = 1 << 31  # numbers of elements that are counted in 32 bits


class KernelWriter:
    """Writes `name(p0, p1, ..., sizes ..., YBLOCK, XBLOCK, RBLOCK)`: pointers to the operands, sizes of 64 bits, and
    constants."""

    def __init__(self, kernel: Kernel, dtypes: Mapping[str, DType], blocks: Blocks) -> None:
        self.kernel = kernel
        self.dtypes = {**dtypes, **{local.name: local.dtype for local in kernel.locals}}
        self.blocks = blocks
        self.types = {s.name: s.dtype for s in statements(kernel.body) if isinstance(s, Let | Accumulate)}
        shared = blocks.r > 1 and any(True for _ in shared_loops(kernel))
        there = {Y: blocks.across >= 0, X: bool(kernel.axes), R: shared}
        self.dims = tuple(dim for dim in (Y, X, R) if there[dim])
        self.lanes = frozenset(self.dims) - {R}  # of the code that is being written
        self.lines: list[str] = []
        self.depth = 1
        self.values: dict[str, Term] = {}  # of names, axes and sizes
        self.masks: list[Term] = []  # conditions on lanes that count
        self.known: dict[str, str] = {}  # names of expressions that stand at the top of the function
        self.stored = stored_by(kernel)
        self.stored_and_read = self.stored & {load.buffer for load in loads(kernel.body)}
        self.has_loops = any(isinstance(statement, Loop) for statement in kernel.body)
        self.locals = {local.name for local in kernel.locals}
        self.totals = Totals(self)
        self.count = 0
        self.unseen = False  # something was read or written that other threads of the program may write or read

    # ---- the function ------------------------------------------------------------------------------------------------

    def write(self, name: str) -> str:
        """The text of the module: its imports, the helpers that are called, and the function."""
        for local in self.kernel.locals:
            if local.size != 1:
                raise NotImplementedError(f"{local.size} elements of memory for each iteration")
        symbols = size_symbols(self.kernel)
        self.values.update({symbol.name: Term(symbol.name) for symbol in symbols})
        self.open_axes()
        for local in self.kernel.locals:
            self.line(f"{local.name} = {self.filled(0, local.dtype)}")
            self.values[local.name] = Term(local.name, self.lanes)
        self.block(self.kernel.body)
        constants = [f"{dim.upper()}BLOCK: tl.constexpr" for dim in self.dims]
        head = ", ".join([*operands(self.kernel), *(symbol.name for symbol in symbols), *constants])
        body = "\n".join(self.lines)
        used = [textwrap.dedent(text) for name, text in HELPERS.items() if re.search(rf"\b{name}\b", body)]
        return "\n\n".join([HEAD, *used, f"@triton.jit\ndef {name}({head}):\n{body}\n"])

    def open_axes(self) -> None:
        """The positions along the outer axes, by the number of the program and of the lane."""
        axes, across = self.kernel.axes, self.blocks.across
        if not axes:
            return
        program = "tl.program_id(0)" + (".to(tl.int64)" if self.is_wide else "")
        if across < 0:
            self.open_block(X, axes, program)
            return
        rest = tuple(axis for axis in axes if axis != axes[across])
        columns = index_text(
            blocks_in(product([a.extent for a in rest if a.extent is not None]), self.blocks.x), self.values
        )
        self.line(f"program = {program}")
        self.open_block(Y, (axes[across],), f"program // {factor(columns.text)}")
        self.open_block(X, rest, f"program % {factor(columns.text)}")

    def open_block(self, dim: str, axes: tuple[Symbol, ...], program: str) -> None:
        """The positions along some of the outer axes, whose iterations are lanes of one dimension."""
        size = getattr(self.blocks, dim)
        self.line(f"{dim} = {program} * {dim.upper()}BLOCK + {self.numbers(dim)}")
        self.decode(axes, Term(dim, frozenset({dim})))
        count = product([axis.extent for axis in axes if axis.extent is not None])
        if size > 1 and (count.constant is None or count.constant % size):
            self.line(f"{dim}mask = {dim} < {factor(index_text(count, self.values).text)}")
            self.masks.append(Term(f"{dim}mask", frozenset({dim})))

    @property
    def is_wide(self) -> bool:
        """Whether elements are counted in 64 bits: there are many, or it is not known how many."""
        if size_symbols(self.kernel):
            return True
        reached = [extent_of(self.kernel.axes)]
        for statement in statements(self.kernel.body):
            match statement:
                case Let(value=Load(place=place)) | Store(place=place):
                    reached += [_reach(index) for index in place_indices(place)]
        return max(reached) >= SHORT

    def decode(self, axes: Sequence[Symbol], at: Term) -> None:
        """The position along each axis, of the position in all of them, row by row."""
        running = [axis for axis in axes if axis.extent != ONE]
        for axis in axes:
            self.values[axis.name] = Term("0")
        rest = at.text
        for number, axis in reversed(list(enumerate(running))):
            assert axis.extent is not None
            extent = index_text(axis.extent, self.values).text
            if number == 0:
                self.values[axis.name] = Term(rest, at.lanes)
            else:
                self.values[axis.name] = self.named(Term(f"{rest} % {factor(extent)}", at.lanes), axis.name)
                rest = self.named(Term(f"{rest} // {factor(extent)}", at.lanes), f"{axis.name}_rest").text

    def numbers(self, dim: str) -> str:
        """0, 1, 2, ... in the lanes."""
        text = f"tl.arange(0, {dim.upper()}BLOCK)"
        if len(self.dims) == 1:
            return text
        return f"{text}[{', '.join(':' if each == dim else 'None' for each in self.dims)}]"

    # ---- lines -------------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append(f"{'    ' * self.depth}{text}")

    def named(self, term: Term, name: str = "") -> Term:
        """The value of the expression under a name. What stands outside of all loops is computed once."""
        if term.text in self.known:
            return Term(self.known[term.text], term.lanes)
        if not name:
            name, self.count = f"v{self.count}", self.count + 1
        self.line(f"{name} = {term.text}")
        if self.depth == 1:
            self.known[term.text] = name
        return Term(name, term.lanes)

    @contextmanager
    def indented(self, head: str) -> Iterator[None]:
        self.line(head)
        self.depth, self.unseen = self.depth + 1, True
        yield
        self.depth, self.unseen = self.depth - 1, True

    def shape(self, lanes: frozenset[str]) -> str:
        sizes = [f"{dim.upper()}BLOCK" if dim in lanes else "1" for dim in self.dims]
        return f"[{', '.join(sizes if lanes else [])}]"

    def filled(self, value: Literal, dtype: DType) -> str:
        """The number in every lane of the code that is being written."""
        return f"tl.full({self.shape(self.lanes)}, {literal(value)}, {triton_type(dtype)})"

    def mask(self, lanes: Iterable[str], *more: Term) -> str:
        """The condition on so many lanes: of masks those on these alone."""
        found = [mask.text for mask in self.masks if mask.lanes.issubset(lanes)]
        return " & ".join([*found, *(term.text for term in more)])

    # ---- statements --------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        for statement in block:
            match statement:
                case Let():
                    self.let(statement)
                case Store():
                    self.store(statement)
                case Accumulate():
                    self.totals.add(statement)
                case Loop():
                    self.loop(statement)
                case Check(condition, _, message):
                    held = self.operand(condition, BOOL)
                    idle = self.mask(self.lanes)
                    text = f"{held.text} | ~({idle})" if idle else held.text
                    self.line(f"tl.device_assert({text}, {message!r})")

    def let(self, let: Let) -> None:
        term = self.value(let)
        loaded = isinstance(let.value, Load) and let.value.buffer not in self.stored
        if loaded and self.depth == 1:
            self.values[let.name] = self.named(term, let.name)
        else:
            self.line(f"{let.name} = {term.text}")
            self.values[let.name] = Term(let.name, term.lanes)

    def value(self, let: Let) -> Term:
        dtype = let.dtype
        match let.value:
            case Constant(value):
                return Term(typed(value, dtype))
            case IndexValue(index):
                found = index_text(index, self.values)
                return Term(cast(f"({found.text} + {typed(0, I64)})", I64, dtype), found.lanes)
            case Load():
                return self.load(let.value)
            case Cast(arg):
                return Term(cast(self.values[arg].text, self.types[arg], dtype), self.values[arg].lanes)
            case Bitcast(arg):
                return Term(f"{arg}.to({triton_type(dtype)}, bitcast=True)", self.values[arg].lanes)
            case Apply(op, args):
                return self.apply(op, args, dtype)

    def apply(self, op: str, args: tuple[Operand, ...], dtype: DType) -> Term:
        """An operation, on short floats in float32."""
        given = [self.types[a] if isinstance(a, str) else None for a in args]
        wanted = operand_dtypes(SCALAR_OPS[op], dtype, given)
        of = wanted[-1]
        terms = []
        for arg, kind in zip(args, wanted, strict=True):
            wide = kind if op == "where" else kind.compute
            if isinstance(arg, str):
                terms.append(Term(cast(self.values[arg].text, kind, wide), self.values[arg].lanes))
            elif op in INFIX:
                terms.append(Term(literal(arg)))
            else:
                terms.append(Term(typed(arg, wide)))
        of = of if op == "where" else of.compute
        text = TRITON_OPS[op](of, *(term.text for term in terms))
        lanes = NO_LANES.union(*(term.lanes for term in terms))
        if SCALAR_OPS[op].rule == "same" and dtype is not dtype.compute:
            text = cast(f"({text})", of, dtype)
        return Term(text, lanes)

    def operand(self, operand: Operand, dtype: DType) -> Term:
        if isinstance(operand, str):
            return self.values[operand]
        return Term(typed(operand, dtype))

    # ---- memory ------------------------------------------------------------------------------------------------------

    def load(self, load: Load) -> Term:
        if load.buffer in self.locals:
            return self.values[load.buffer]
        if load.buffer in self.stored:
            self.barrier()
        self.unseen = True
        at = self.at(load.place)
        conditions = [self.values[load.condition]] if load.condition is not None else []
        lanes = at.lanes.union(*(term.lanes for term in conditions))
        mask = self.mask(lanes, *conditions)
        pointer = f"{load.buffer} + {self.spread(at, lanes)}"
        text = f"tl.load({pointer}, {mask}, other=0)" if mask else f"tl.load({pointer})"
        if self.dtypes[load.buffer] is BOOL:
            text = f"({text} != 0)"
        return Term(text, lanes)

    def store(self, store: Store) -> None:
        value = self.operand(store.value, self.dtypes[store.buffer])
        lanes = self.lanes
        mask = self.mask(lanes)
        if store.buffer in self.locals:
            text = f"{value.text} + {self.filled(0, self.dtypes[store.buffer])}" if value.lanes != lanes else value.text
            self.line(f"{store.buffer} = {f'tl.where({mask}, {text}, {store.buffer})' if mask else text}")
            return
        pointer = f"{store.buffer} + {self.spread(self.at(store.place), lanes)}"
        rest = f", {mask}" if mask else ""
        if store.atomic:
            self.line(f'tl.atomic_add({pointer}, {value.text}{rest}, sem="relaxed")')
            return
        if self.has_loops:
            self.barrier()
        self.unseen = self.unseen or store.buffer in self.stored_and_read
        self.line(f"tl.store({pointer}, {value.text}{rest})")

    def barrier(self) -> None:
        """The threads of the program wait for each other: what one has read, another may overwrite, and the reverse.

        Where there are no loops, each element is read and written by the same thread.
        """
        if self.unseen:
            self.line("tl.debug_barrier()")
            self.unseen = False

    def at(self, place: Place) -> Term:
        (index,) = place_indices(place)
        return index_text(index, self.values)

    def spread(self, term: Term, lanes: frozenset[str]) -> str:
        """The number in all of these lanes."""
        if term.lanes == lanes:
            return factor(term.text)
        return f"({term.text} + tl.zeros({self.shape(lanes)}, tl.int32))"

    # ---- loops -------------------------------------------------------------------------------------------------------

    def loop(self, loop: Loop) -> None:
        if R in self.dims and R not in self.lanes and not is_ordered(loop):
            self.shared_loop(loop)
        else:
            totals = [s for s in loop.body if isinstance(s, Accumulate)]
            for total in totals:
                self.totals.begin(total)
            self.own_loop(loop.axes, loop.body)
            for total in totals:
                self.values[total.name] = self.totals.alone(total)

    def own_loop(self, axes: tuple[Symbol, ...], body: Block) -> None:
        """Each lane runs the iterations in order."""
        if not axes:
            self.block(body)
            return
        axis, *inner = axes
        assert axis.extent is not None
        extent = index_text(axis.extent, self.values)
        limit = f"tl.max({extent.text})" if extent.lanes else extent.text
        with self.indented(f"for {axis.name} in range(0, {limit}):"):
            self.values[axis.name] = Term(axis.name)
            if extent.lanes:
                self.masks.append(self.named(Term(f"{axis.name} < {extent.text}", extent.lanes)))
            self.own_loop(tuple(inner), body)
            if extent.lanes:
                self.masks.pop()

    def shared_loop(self, loop: Loop) -> None:
        """The lanes run the iterations side by side."""
        count = product([axis.extent for axis in loop.axes if axis.extent is not None])
        extent = index_text(count, self.values)
        whole = count.constant is not None and count.constant <= self.blocks.r
        totals = [s for s in loop.body if isinstance(s, Accumulate)]
        outer, self.lanes = self.lanes, self.lanes | {R}
        for total in totals:
            self.totals.begin(total)
        numbers = self.numbers(R) + (".to(tl.int64)" if self.is_wide else "")
        if whole:
            self.iterations(loop, self.named(Term(numbers, frozenset({R})), self.fresh("r")), extent, count)
        else:
            base = self.fresh("begin")
            limit = f"tl.max({extent.text})" if extent.lanes else extent.text
            with self.indented(f"for {base} in range(0, {limit}, RBLOCK):"):
                at = self.named(Term(f"{base} + {numbers}", frozenset({R})), self.fresh("r"))
                self.iterations(loop, at, extent, count)
        self.lanes = outer
        for total in totals:
            self.values[total.name] = self.totals.combined(total)

    def iterations(self, loop: Loop, at: Term, extent: Term, count: Index) -> None:
        """The body for the positions in the lanes, of which some may lie behind the end."""
        masked = count.constant is None or count.constant % self.blocks.r != 0
        if masked:
            text = Term(f"{at.text} < {factor(extent.text)}", at.lanes | extent.lanes)
            self.masks.append(self.named(text, self.fresh("rmask")))
        self.decode(loop.axes, at)
        self.block(loop.body)
        if masked:
            self.masks.pop()

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"


def _reach(index: Index) -> int:
    """No element of the index lies further out, in either direction."""
    total = 0
    for monomial, coefficient in index.terms:
        most = abs(coefficient)
        for atom in monomial:
            if not isinstance(atom, Symbol):
                most *= max(_reach(atom.a), 1)
            elif atom.extent is not None:
                most *= max(_reach(atom.extent) if atom.extent.constant is None else atom.extent.constant, 1)
        total += most
    return total
