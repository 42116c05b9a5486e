"""Matrix products with a weight: through aten, through oneDNN, through oneDNN with the weight packed, or as sums.

mm(x, t(w))            _linear_pointwise(x, w, None, "none", [], "")
addmm(b, x, t(w))      _linear_pointwise(x, packed(w), b, "none", [], "")
addmm(b, x, t(w))      sum(unsqueeze(x, 1) * w, 2) + b

Where the processor has no instructions for bfloat16 or float16, oneDNN is given float32, and its result rounded once:
in aten such a product takes several times as long.

A sum is for few rows: its time is that of reading the weight once, which a kernel of ours does as fast as the memory
allows, and together with what is computed before and after. No library that torch has comes near, but where the
processor multiplies short numbers faster than it adds up long ones: then that is timed, beyond a row. A weight whose
columns are summed over is transposed, and that kept, since strips of columns are read at half of that speed.

A new way to compute one is a new entry of `library_ways`, and its form as nodes in `_as_call`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from onegraph import _C
from onegraph.base.config import Config
from onegraph.base.constants import inf
from onegraph.base.dataclass import dataclass
from onegraph.compiler.library.facts import fills_memory, is_ordinary, is_static, multiplied_in, present_shape
from onegraph.compiler.library.measure import FEW, Runs, copies, fastest, times
from onegraph.compiler.library.nodes import as_type, call
from onegraph.compiler.library.recipe import Check, Recipe, check_of, keeping
from onegraph.compiler.library.tiles import Tiler, as_tiles, in_panels, packing
from onegraph.compiler.target import Compile, Machine
from onegraph.torchlib.fake import FakeTensor
from onegraph.torchlib.graph import LazyGraphModule

aten = torch.ops.aten
mkldnn = torch.ops.mkldnn

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
LITTLE = 2.5e5  # multiplications, below which the call itself costs more than what it does
SIDE = 1024  # so much of a long side is timed: the rest takes as long
WORK = 1 << 29  # multiplications that are timed, unless that leaves few rows
MANY = 8  # panels, beside which one that is not full costs little
AROUND = 1.05  # how much longer tiles may take alone: what is computed of the result costs nothing in them
LONG = 64  # what is summed over, so that vectors fill
EPILOGUE: tuple[str, list[Any], str] = ("none", [], "")  # nothing is done to the result


@dataclass(frozen=True, slots=True)
class Product:
    """`x @ weight.T + bias`, or `x @ weight + bias` if the weight is `tall`: what is summed over are its rows."""

    x: Node
    weight: Node
    bias: Node | None
    tall: bool
    constant: bool  # whether the weight may be packed
    sizes: tuple[int, int, int]  # rows of x at present, what is summed over, columns of the result

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.x.meta["val"].dtype
        return dtype

    @property
    def has_few_rows(self) -> bool:
        """Whether there are as few in every call."""
        shape = self.x.meta["val"].shape
        return self.sizes[0] <= FEW and all(type(size) is int or size.node.maybe_as_int() is not None for size in shape)


def choose_linear(
    graph: Graph, parameters: frozenset[Node], config: Config, compiled: Compile, machine: Machine
) -> None:
    """Rewrite the products for which something else than aten is faster."""
    tiler = Tiler(compiled, machine.tile_columns)
    for node in list(graph.nodes):
        product = product_of(node, parameters)
        if product is None:
            continue
        choice = _choice(product, config, tiler)
        if choice != "aten":
            with graph.inserting_before(node), node.meta["val"].fake_mode:
                new = _rewritten(graph, product, choice, tiler.width, config)
            new.meta.update(node.meta)
            node.replace_all_uses_with(new)
            graph.erase_node(node)


def _rewritten(graph: Graph, product: Product, choice: str, width: int, config: Config) -> Node:
    match choice:
        case "sum":
            return as_sum(graph, product, config.large_pages)
        case "tiles":
            value = product.weight.meta["val"]
            panels = graph.call_function(packing(value, product.tall, width), (product.weight,))
            panels.meta["val"] = in_panels(value, product.tall, width)
            return as_tiles(graph, product.x, panels, product.bias, product.sizes[2])
    return _as_call(graph, product, choice)


def product_of(node: Node, parameters: frozenset[Node]) -> Product | None:
    """The product that the node is; None for any other node, and where aten alone can do it."""
    match node.target, node.args:
        case aten.mm.default, (Node() as x, Node() as y):
            bias = None
        case aten.addmm.default, (Node() as bias, Node() as x, Node() as y):
            if node.kwargs or bias.meta["val"].dim() != 1:
                return None
        case _:
            return None
    tall = not (y.target is aten.t.default or (y.target is aten.permute.default and list(y.args[1]) == [1, 0]))  # type: ignore[arg-type]
    weight = y if tall else y.args[0]
    tensors = [item for item in (x, weight, bias) if item is not None]
    assert isinstance(weight, Node)
    shapes = [present_shape(item.meta["val"]) for item in (x, y)]
    if None in shapes or not all(is_ordinary(item.meta["val"], DTYPES) for item in tensors):  # type: ignore[union-attr]
        return None
    if not all(is_static(item.meta["val"]) for item in tensors if item is not x):  # type: ignore[union-attr]
        return None
    (rows, inner), (_, columns) = shapes  # type: ignore[misc]
    if bias is not None and present_shape(bias.meta["val"]) != (columns,):
        return None
    if len({item.meta["val"].dtype for item in tensors}) != 1 or not fills_memory(weight.meta["val"]):  # type: ignore[union-attr]
        return None
    return Product(x, weight, bias, tall, weight in parameters, (rows, inner, columns))


def _choice(product: Product, config: Config, tiler: Tiler) -> str:
    rows, inner, columns = product.sizes
    check = check_of(config)
    may_tile = _may_tile(product, check, tiler.width)
    match config.library_calls:
        case "packed" if not product.constant:
            return "onednn"
        case "tiles" if not may_tile:
            return "packed" if product.constant else "onednn"
        case "measured":
            pass
        case chosen:
            return chosen
    if rows * inner * columns < LITTLE:
        return "aten"
    may_sum = product.has_few_rows and inner >= LONG and (_is_laid_in_rows(product) or _is_kept(product, config))
    if may_sum and (rows == 1 or product.dtype is torch.float32 or multiplied_in(product.dtype) is not product.dtype):
        return "sum"
    if product.constant and rows > FEW and multiplied_in(product.dtype) is not product.dtype:
        return "packed"  # aten takes so long that timing it takes seconds
    timed = _timed(product.sizes, SIDE if multiplied_in(product.dtype) is torch.float32 else 2 * SIDE)
    what = f"linear, cold {timed} {product.dtype} in {multiplied_in(product.dtype)}"
    what += f" bias {product.bias is not None} tall {product.tall}"
    what += f" constant {product.constant} checked by {check}"
    setting = (product.tall, product.bias is not None, product.constant, check)
    ways = ["aten", "onednn", *["packed"] * may_pack(product.constant, check, timed[0])]
    ours: dict[str, Callable[[], Runs]] = {}
    if may_tile:
        module = tiler.graph(product.x.meta["val"].fake_mode, timed, product.bias is not None)
        what += f" panels of {tiler.width}"
        ours["tiles"] = partial(_tiled, product, timed, check, tiler, module)

    def candidates() -> Mapping[str, Runs]:
        made = {name: make() for name, make in ours.items()}
        return {**library_ways(timed, product.dtype, *setting), **made}

    if may_sum:
        ours = {"sum": partial(_summed, product, timed, tiler.compiled), **ours}
        what += " or a sum"
    found = times(what, [*ways, *ours], candidates, config)
    best = fastest({"sum": found["sum"], **found} if may_sum else found)
    return "tiles" if found.get("tiles", inf) <= AROUND * found[best] else best


def _timed(sizes: tuple[int, int, int], side: int) -> tuple[int, int, int]:
    rows, inner, columns = (min(size, side) for size in sizes)
    return min(rows, max(WORK // (inner * columns), SIDE // 4)), inner, columns


def _is_laid_in_rows(product: Product) -> bool:
    """Whether what is summed over lies side by side in memory."""
    return not product.tall and product.weight.meta["val"].stride()[1] == 1


def _is_kept(product: Product, config: Config) -> bool:
    """Whether a copy of the weight is worth keeping: for a digest the weight itself would be read beside it."""
    return product.constant and check_of(config) != "digest"


def may_pack(constant: bool, check: Check, rows: int) -> bool:
    """For few rows the time is that of reading the weight, and for a digest the packed one would read it twice."""
    return constant and (check != "digest" or rows > FEW)


def _may_tile(product: Product, check: Check, width: int) -> bool:
    """Whether tiles of ours can be as fast: of packed panels that are full, or many, in the type that is added."""
    rows, _, columns = product.sizes
    full = columns % width == 0 or columns > MANY * width
    return product.dtype is torch.float32 and full and may_pack(product.constant, check, rows)


def _tiled(product: Product, sizes: tuple[int, int, int], check: Check, tiler: Tiler, module: GraphModule) -> Runs:
    rows, inner, columns = sizes
    x, bias = torch.full((rows, inner), 0.5), [torch.full((columns,), 0.5)] * (product.bias is not None)
    weights = copies(torch.full((inner, columns) if product.tall else (columns, inner), 0.5), rows)
    recipe, run = packing(weights[0], product.tall, tiler.width), tiler.compiled(module)
    return [partial(lambda keep, weight: run(x, keep(weight), *bias), keeping(recipe, check), w) for w in weights]


def _summed(product: Product, sizes: tuple[int, int, int], compiled: Compile) -> Runs:
    rows, inner, columns = sizes
    graph, biased = Graph(), product.bias is not None
    shapes = [(rows, inner), (columns, inner), *[(columns,)] * biased]
    given = [graph.placeholder(f"x{number}") for number in range(len(shapes))]
    with product.x.meta["val"].fake_mode:
        for node, shape in zip(given, shapes, strict=True):
            node.meta["val"] = torch.empty(shape, dtype=product.dtype)
        alone = Product(given[0], given[1], given[2] if biased else None, False, False, sizes)
        graph.output((as_sum(graph, alone, False),))
    run = compiled(LazyGraphModule(torch.nn.Module(), graph))
    x, *weights = [torch.full(shape, 0.5, dtype=product.dtype) for shape in shapes]
    return [partial(run, x, weight, *weights[1:]) for weight in copies(weights[0], rows)]


def library_ways(
    sizes: tuple[int, int, int], dtype: torch.dtype, tall: bool, biased: bool, constant: bool, check: Check
) -> Mapping[str, Runs]:
    """The ways to compute a product of these sizes. The packed one checks its weight, as it does in a call."""
    rows, inner, columns = sizes
    x = torch.full((rows, inner), 0.5, dtype=dtype)
    weights = copies(torch.full((inner, columns) if tall else (columns, inner), 0.5, dtype=dtype), rows)
    bias = torch.full((columns,), 0.5, dtype=dtype) if biased else None
    seen = [weight if tall else weight.t() for weight in weights]
    within = multiplied_in(dtype)

    def multiplied(weight: Tensor) -> object:
        added = None if bias is None else bias.to(within)
        return mkldnn._linear_pointwise(x.to(within), weight, added, *EPILOGUE).to(dtype)

    found: dict[str, Runs] = {
        "aten": [partial(torch.mm, x, w) if bias is None else partial(torch.addmm, bias, x, w) for w in seen],
        "onednn": [partial(lambda w: multiplied(w.t().to(within)), w) for w in seen],
    }
    if may_pack(constant, check, rows):
        keeps = [(keeping(_packing(weight, tall, rows), check), weight) for weight in weights]
        found["packed"] = [partial(lambda keep, weight: multiplied(keep(weight)), *pair) for pair in keeps]
    return found


def packed_weight(weight: Tensor, rows: int, tall: bool, dtype: torch.dtype) -> Tensor:
    """The weight as oneDNN wants it for so many rows of the other factor, in an element type."""
    packed: Tensor = mkldnn._reorder_linear_weight((weight.t() if tall else weight).to(dtype), rows)
    return packed


def _packing(weight: Tensor, tall: bool, rows: int) -> Recipe:
    return Recipe(packed_weight, (rows, tall, multiplied_in(weight.dtype)), (weight.element_size(),))


def _as_call(graph: Graph, product: Product, choice: str) -> Node:
    within = multiplied_in(product.dtype)
    x, weight, bias = product.x, product.weight, product.bias
    value = weight.meta["val"]
    if choice == "packed":
        weight = graph.call_function(_packing(value, product.tall, product.sizes[0]), (weight,))
        weight.meta["val"] = value.to(within)
    else:
        weight = as_type(graph, call(graph, aten.t.default, weight) if product.tall else weight, within)
    bias = None if bias is None else as_type(graph, bias, within)
    args = (as_type(graph, x, within), weight, bias, *EPILOGUE)
    result = graph.call_function(mkldnn._linear_pointwise.default, args)
    result.meta["val"] = torch.empty((product.x.meta["val"].shape[0], product.sizes[2]), dtype=within)
    return as_type(graph, result, product.dtype)


def as_sum(graph: Graph, product: Product, large: bool) -> Node:
    """The product as a sum, added up in float32, whatever the type, and rounded once."""
    weight, value = product.weight, product.weight.meta["val"]
    sizes = (value.element_size(),)
    if not _is_laid_in_rows(product):
        weight = graph.call_function(Recipe(laid_in_rows, (product.tall, large), sizes), (weight,))
        weight.meta["val"] = laid_in_rows(value, product.tall, large)
    elif large and product.constant:
        weight = graph.call_function(Recipe(in_large_pages, (), sizes, is_view=True), (weight,))
        weight.meta["val"] = value
    x, weight = (as_type(graph, node, torch.float32) for node in (product.x, weight))
    total = call(
        graph,
        aten.sum.dim_IntList,
        call(graph, aten.mul.Tensor, call(graph, aten.unsqueeze.default, x, 1), weight),
        [2],
    )
    if product.bias is not None:
        total = call(graph, aten.add.Tensor, total, as_type(graph, product.bias, torch.float32))
    return as_type(graph, total, product.dtype)


def laid_in_rows(weight: Tensor, tall: bool, large: bool) -> Tensor:
    """The weight with a contiguous row for each column of the result, in large pages of memory perhaps."""
    columns = weight.t() if tall else weight
    made = torch.empty_like(columns, memory_format=torch.contiguous_format)
    if large and not isinstance(made, FakeTensor):
        _C.prefer_large_pages(made.data_ptr(), made.nbytes)
    return made.copy_(columns)


def in_large_pages(weight: Tensor) -> Tensor:
    """The weight, in its memory, which is moved to large pages: what streams is not held up at every 4096 bytes."""
    if not isinstance(weight, FakeTensor):
        _C.move_to_large_pages(weight.data_ptr(), weight.nbytes)
    return weight
