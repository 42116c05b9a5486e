"""What is told of a kernel to people who look at where time goes: a name, the bytes that it moves, its arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onegraph.compiler.kernels import place_indices, with_middles
from onegraph.ir.index import ONE, Index, Symbol, product
from onegraph.ir.loop import (
    Accumulate,
    Apply,
    Block,
    Buffer,
    BufferArgument,
    Extern,
    Kernel,
    Let,
    Load,
    Loop,
    Statement,
    Store,
    loads,
    statements,
    stores,
)
from onegraph.ir.scalar import REDUCTIONS, SCALAR_OPS
from onegraph.ir.types import DType

LONGEST = 5  # operations in a name
#: Which argument of a library's product is the matrix whose rows it sums over.
_PRODUCTS = {name: 0 for name in ("mm", "bmm", "mv", "dot", "linear", "_linear_pointwise")}
_PRODUCTS |= {name: 1 for name in ("addmm", "baddbmm", "addmv")}
_CONVOLUTIONS = frozenset({"convolution", "_convolution_pointwise"})


def kernel_name(kernel: Kernel) -> str:
    """Its first operations, each once: `gelu_sum_div`. One that only moves data is a copy."""
    found = dict.fromkeys(_operations(kernel.body))
    return "_".join(list(found)[:LONGEST]) or "copy"


def _operations(block: Block) -> Iterator[str]:
    for statement in statements(block):
        match statement:
            case Let(value=Apply(op)) | Accumulate(op=op):
                yield op


def kernel_flops(kernel: Kernel) -> int:
    """Operations of arithmetic in one run, no comparisons and choices; 0 where sizes are symbols.

    A loop whose length depends on those around it counts as in the middle of them.
    """
    inside = _block_flops(kernel.body, with_middles(kernel.axes, {}))
    return (product([_extent(axis) for axis in kernel.axes]) * inside).constant or 0


def _block_flops(block: Block, middle: Mapping[Symbol, Index]) -> Index:
    total = Index.of(sum(map(_flops, block)))
    for statement in block:
        if isinstance(statement, Loop):
            inside = _block_flops(statement.body, with_middles(statement.axes, middle))
            total = total + inside * product([_extent(axis).substitute(middle) for axis in statement.axes])
    return total


def _flops(statement: Statement) -> int:
    match statement:
        case Let(value=Apply(op)):
            return SCALAR_OPS[op].rule == "same"
        case Accumulate(op=op):
            return 1 + REDUCTIONS[op].products
    return 0


def kernel_bytes(kernel: Kernel, dtypes: Mapping[str, DType]) -> int:
    """The bytes of its operands that one run reads or writes, each once; 0 where sizes are symbols.

    Elements that several accesses share are not told apart: each buffer counts with the access that reaches most.
    """
    own = {local.name for local in kernel.locals}
    reached: dict[tuple[str, bool], int] = {}
    accesses: list[Load | Store] = [*loads(kernel.body), *stores(kernel.body)]
    for access in accesses:
        if access.buffer in own:
            continue
        (index,) = place_indices(access.place)
        count = product([_extent(symbol) for symbol in index.symbols if symbol.extent is not None]).constant
        if count is None:
            return 0
        key = access.buffer, isinstance(access, Store)
        reached[key] = max(reached.get(key, 0), min(count, _span(index) or count))
    return sum(count * dtypes[name].size for (name, _), count in reached.items())


def _span(index: Index) -> int | None:
    """How many elements lie between the first and the last that the index reaches; None if that is not known."""
    total = 1
    for symbol in index.symbols:
        step, extent = index.coefficient(symbol), symbol.extent
        if step is None or extent is None or step.constant is None or extent.constant is None:
            return None
        total += abs(step.constant) * max(extent.constant - 1, 0)
    return total


def _extent(axis: Symbol) -> Index:
    return ONE if axis.extent is None else axis.extent


def library_flops(step: Extern, table: Mapping[str, Buffer]) -> int:
    """Operations of arithmetic in a library's product or convolution, additions counted too; 0 if that is not known."""
    name = step.operator.split(".")[1]
    given = [table[each.name].type.shape for each in step.args if isinstance(each, BufferArgument)]
    made = [table[each].type.shape for each in step.outputs if isinstance(each, str)]
    if not made or len(given) < 2:
        return 0
    if name in _PRODUCTS:
        return (product(made[0]) * given[_PRODUCTS[name]][-1] * 2).constant or 0
    if name.startswith("_scaled_dot_product") and len(given) > 2 and len(given[0]) == 4:
        return (product(given[0][:3]) * given[1][2] * (given[0][3] + given[2][3]) * 2).constant or 0
    if name in _CONVOLUTIONS:
        return (product(made[0]) * product(given[1][1:]) * 2).constant or 0
    return 0


def library_bytes(step: Extern, table: Mapping[str, Buffer]) -> int:
    """The bytes of its operands and results; 0 where sizes are symbols."""
    given = {each.name for each in step.args if isinstance(each, BufferArgument)}
    types = [table[name].type for name in sorted({*given, *(each for each in step.outputs if isinstance(each, str))})]
    sizes = [(product(type.shape) * type.dtype.size).constant for type in types]
    return 0 if None in sizes else sum(size for size in sizes if size is not None)
