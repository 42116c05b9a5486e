"""Products with a constant weight in integers, of 8 bits or of 4, for the option `quantize`.

addmm(b, x, t(w))    qlinear_pointwise(codes(x), packed(w), scales(w)) * scales(x) + b      by oneDNN
addmm(b, x, t(w))    _int_mm(codes(x), t(codes(w))) * scales(x) * scales(w) + b             by aten
addmm(b, x, t(w))    product_with_short_weight(x, packed(w)) + b          for few rows, see `short_weights`

A row is kept as integers from -127 to 127, its codes, and what they are multiplied by, its scale. Rows of x get theirs
in each call, columns of the weight once. Integers are added exactly, in 32 bits. For few rows the weight alone is
integers: the time is that of reading it.

Codes and scales of x, and what is done to the result, are ordinary operators, which become part of the kernels around.
A row of x with a NaN or an infinity has the scale NaN or infinite and codes of 0 there: all its results are NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.base.events import ProductsQuantized, QuantizedProduct
from onegraph.compiler.library import short_weights
from onegraph.compiler.library.facts import multiplied_in
from onegraph.compiler.library.linear import LITTLE, LONG, SIDE, Product, library_ways, may_pack, product_of
from onegraph.compiler.library.measure import FEW, Runs, copies, fastest, times
from onegraph.compiler.library.nodes import as_type, call
from onegraph.compiler.library.quantized_error import Unmeasured, errors
from onegraph.compiler.library.recipe import Recipe, check_of
from onegraph.compiler.target import Compile
from onegraph.torchlib.graph import LazyGraphModule

aten = torch.ops.aten
onednn = torch.ops.onednn

#: Of the relative error, above which a product stays as it is. Of normally distributed weights, 4 bits take 9%.
BOUND, BOUND_OF_INT4 = 0.05, 0.15
MOST = 127  # the largest code
NEAR = 1 << 16  # elements of a weight that are rounded at a time
LEAST = 2.0**-126  # scale: its reciprocal is finite
CLEARLY = 0.8  # how much less than a float product's its time must be: the codes of x take some
LONG_SIDE = 4 * SIDE  # for few rows, where the call itself is a part of the time

FLOAT = "float"
INT4 = "int4-weights"
#: Why a product stays as it is.
FAR = "more than {:.0%} off"
SLOW = "integers are not clearly faster"
ROWS = f"it has more than {FEW} rows, their number changes, or less than {LONG} are summed"
READ = "its weight is read in every call to see whether it has changed"

Do = Callable[..., Any]


def quantize(
    module: GraphModule, parameters: frozenset[int], given: list[Any], cx: Context, compiled: Compile
) -> GraphModule:
    """The graph with integers in its products with parameters, where that is faster and the error small enough.

    Args:
        parameters: the positions of the inputs that are parameters of a module.
        given: what the graph is called with first: the errors are those of its products.
        compiled: makes what is timed of graphs that become kernels of ours.
    """
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    constants = frozenset(node for number, node in enumerate(placeholders) if number in parameters)
    products = {node: _constant_product(node, constants) for node in module.graph.nodes}
    found = {node: product for node, product in products.items() if product is not None}
    if not found:
        return module
    ways = {node: _way(product, cx.config, compiled) for node, product in found.items()}
    chosen = {node: partial(_alone, way, _bits(cx.config)) for node, (way, _) in ways.items() if way != FLOAT}
    try:
        measured = errors(module, chosen, given)
    except Unmeasured as why:
        cx.emit(ProductsQuantized(cx.frame, cx.config.quantize or "", reason=str(why)))
        return module
    bound = BOUND_OF_INT4 if cx.config.quantize == INT4 else BOUND
    good = {node: ways[node][0] for node, error in measured.items() if error <= bound}
    whys = {
        node: FAR.format(bound) if node in measured and node not in good else why for node, (_, why) in ways.items()
    }
    report = [
        QuantizedProduct(product.weight.name, product.sizes, measured.get(node), whys[node])
        for node, product in found.items()
    ]
    cx.emit(ProductsQuantized(cx.frame, cx.config.quantize or "", tuple(report)))
    return _rewritten(module, good, constants, _bits(cx.config)) if good else module


def _constant_product(node: Node, constants: frozenset[Node]) -> Product | None:
    """The product with a parameter, in its type or in that of x (under autocast), that the node is."""
    product = product_of(node, constants)
    if product is None or product.constant:
        return product
    match product.weight.target, product.weight.args, dict(product.weight.kwargs):
        case aten._to_copy.default, (Node() as weight,), {"dtype": _, **rest} if weight in constants and not rest:
            return replace(product, weight=weight, constant=True)
    return None


def _way(product: Product, config: Config, compiled: Compile) -> tuple[str, str]:
    """How the product is computed, and why it stays in float if it does."""
    rows, inner, columns = product.sizes
    check, has_onednn = check_of(config), torch.backends.mkldnn.is_available() and bool(torch.backends.mkldnn.enabled)
    ways = ["sum"] * (product.has_few_rows and inner >= LONG)
    if config.quantize == "int8-dynamic":
        ways += [*["onednn"] * has_onednn, "aten"]
    if not may_pack(True, check, rows):
        return FLOAT, READ
    if not ways:
        return FLOAT, ROWS
    if config.library_calls != "measured":
        preferred = {"aten": "aten", "tiles": "sum"}.get(config.library_calls, "onednn")
        return next((way for way in (preferred, "onednn") if way in ways), ways[-1]), ""
    if rows * inner * columns < LITTLE:
        return FLOAT, SLOW
    if rows == 1 and "sum" in ways:
        return "sum", ""  # the time is that of reading the weight, which is half as long at most
    side = LONG_SIDE if rows <= FEW else SIDE
    timed = (min(rows, SIDE), min(inner, side), min(columns, side))
    floats = ["aten", *["onednn", "packed"] * has_onednn]
    if has_onednn and multiplied_in(product.dtype) is not product.dtype:
        floats = ["packed"]  # aten takes so long that timing it takes seconds
    integers = [f"integers by {way}" for way in ways]

    def candidates() -> Mapping[str, Runs]:
        made = library_ways(timed, product.dtype, product.tall, product.bias is not None, True, check)
        made = {**made, **_integer_ways(timed, ways, product, config, compiled)}
        return {name: made[name] for name in (*floats, *integers)}

    what = f"quantized {timed} {product.dtype} bias {product.bias is not None} tall {product.tall} checked by {check}"
    what += f" as {ways}"
    found = times(what, [*floats, *integers], candidates, config)
    best = fastest(
        {way: found[f"integers by {way}"] for way in ways}
    )  # the first where it is near: a sum leaves x as it is
    is_faster = found[f"integers by {best}"] < CLEARLY * min(found[name] for name in floats)
    return (best, "") if is_faster else (FLOAT, SLOW)


def _integer_ways(
    sizes: tuple[int, int, int], ways: Sequence[str], product: Product, config: Config, compiled: Compile
) -> Mapping[str, Runs]:
    rows, inner, columns = sizes
    made: dict[str, Runs] = {}
    if "sum" in ways:
        bits = _bits(config)
        run = compiled(_sum_alone(product.x.meta["val"].fake_mode, sizes, bits))
        words = copies(short_weights.packed(torch.ones((columns, inner)), False, bits), rows)
        made["integers by sum"] = [partial(run, torch.ones((rows, inner)), weight) for weight in words]
    if ways == ["sum"]:
        return made
    x, scales, zero = torch.ones((rows, inner), dtype=torch.int8), torch.ones(columns), _zero(_at_once)
    weights = [weight.to(torch.int8) for weight in copies(torch.ones((columns, inner)), rows)]
    made["integers by aten"] = [partial(aten._int_mm.default, x, weight.t()) for weight in weights]
    if "onednn" in ways:
        packed = [onednn.qlinear_prepack(weight, None) for weight in weights]
        made["integers by onednn"] = [partial(_by_onednn, _at_once, x, weight, scales, zero) for weight in packed]
    return made


def _sum_alone(mode: Any, sizes: tuple[int, int, int], bits: int) -> GraphModule:
    rows, inner, columns = sizes
    graph = Graph()
    given = [graph.placeholder("x"), graph.placeholder("weight")]
    do = partial(call, graph)
    with mode:
        given[0].meta["val"] = torch.empty(rows, inner)
        given[1].meta["val"] = torch.empty(short_weights.panels(inner, columns, bits).size, dtype=torch.int32)
        factors = short_weights.factors_of(do, given[0], bits)
        graph.output((short_weights.product_with(do, factors, given[1], inner, columns, bits),))
    return LazyGraphModule(torch.nn.Module(), graph)


def _bits(config: Config) -> int:
    """Of weights that are multiplied with floats."""
    return 4 if config.quantize == INT4 else 8


# ---- the arithmetic, of tensors (`_at_once`) or as nodes of a graph --------------------------------------------------


def _at_once(operator: Any, *args: Any, **kwargs: Any) -> Any:
    return operator(*args, **kwargs)


def _in_codes(do: Do, x: Any) -> tuple[Any, Any]:
    """Each row of float32 as integers, rounded to nearest even, and its scale."""
    scales = _scales(do, x)
    near = do(aten.round.default, do(aten.mul.Tensor, x, do(aten.reciprocal.default, scales)))
    is_number = do(aten.le.Scalar, do(aten.abs.default, near), float(MOST))
    return do(aten._to_copy.default, do(aten.where.ScalarOther, is_number, near, 0.0), dtype=torch.int8), scales


def _scales(do: Do, x: Any) -> Any:
    largest = do(aten.amax.default, do(aten.abs.default, x), [1], True)
    return do(aten.clamp_min.default, do(aten.mul.Scalar, largest, 1 / MOST), LEAST)


def _by_onednn(do: Do, codes: Any, weight: Any, scales: Any, zero: Any) -> Any:
    rest: tuple[Any, ...] = (None, 1.0, 0, torch.float32, "none", [], "")
    return do(onednn.qlinear_pointwise.default, codes, 1.0, 0, weight, scales, zero, *rest)


def _by_aten(do: Do, codes: Any, weight: Any, scales: Any) -> Any:
    total = do(aten._int_mm.default, codes, do(aten.t.default, weight))
    return do(aten.mul.Tensor, do(aten._to_copy.default, total, dtype=torch.float32), scales)


def _zero(do: Do) -> Any:
    return do(aten.full.default, [1], 0, dtype=torch.int64)


# ---- weights ---------------------------------------------------------------------------------------------------------


def int8_codes(weight: Tensor, tall: bool) -> Tensor:
    """A row of integers for each column of the result."""
    codes = torch.empty((weight.t() if tall else weight).shape, dtype=torch.int8)
    for part, rows in _parts(weight, tall):
        codes[part] = _in_codes(_at_once, rows)[0]
    return codes


def int8_scales(weight: Tensor, tall: bool) -> Tensor:
    """A scale for each column of the result."""
    return torch.cat([_scales(_at_once, rows).flatten() for _, rows in _parts(weight, tall)])


def _parts(weight: Tensor, tall: bool) -> Iterator[tuple[slice, Tensor]]:
    """What is rounded together, in float32: so much that it stays in a cache from one operator to the next."""
    columns = weight.t() if tall else weight
    step = max(NEAR // columns.shape[1], 1)
    for start in range(0, len(columns), step):
        part = slice(start, start + step)
        yield part, columns[part].float().contiguous()


def int8_packed(weight: Tensor, tall: bool) -> Tensor:
    """The integers as oneDNN wants them."""
    packed: Tensor = onednn.qlinear_prepack(int8_codes(weight, tall), None)
    return packed


def _alone(way: str, bits: int, x: Tensor, y: Tensor) -> Tensor:
    """`x @ y` as it is to be computed, in float32 and without the bias."""
    x = x.float()
    if way == "sum":
        inner, columns = y.shape
        return x @ short_weights.as_floats(short_weights.packed(y, True, bits), inner, columns, bits).t()
    scales = int8_scales(y, True)
    codes, steps = _in_codes(_at_once, x)
    if way == "onednn":
        total = _by_onednn(_at_once, codes, int8_packed(y, True), scales, _zero(_at_once))
    else:
        total = _by_aten(_at_once, codes, int8_codes(y, True), scales)
    result: Tensor = total * steps
    return result


# ---- the graph -------------------------------------------------------------------------------------------------------


def _rewritten(module: GraphModule, ways: Mapping[Node, str], constants: frozenset[Node], bits: int) -> GraphModule:
    graph = Graph()
    copied: dict[Node, Node] = {}
    graph.output(graph.graph_copy(module.graph, copied))
    parameters = frozenset(copied[node] for node in constants)
    writer = _Writer(graph, bits)
    for old, way in ways.items():
        node = copied[old]
        product = _constant_product(node, parameters)
        assert product is not None
        with graph.inserting_before(node), node.meta["val"].fake_mode:
            new = writer.product(product, way)
        new.meta.update(node.meta)
        node.replace_all_uses_with(new)
        graph.erase_node(node)
    return LazyGraphModule(module, graph)


class _Writer:
    """Writes products in front of others; codes of what several of them take are written once."""

    def __init__(self, graph: Graph, bits: int) -> None:
        self.graph, self.bits, self.do = graph, bits, partial(call, graph)
        self._codes: dict[Node, tuple[Node, Node]] = {}
        self._factors: dict[Node, tuple[Node, Node]] = {}
        self._made: dict[tuple[Node, Any], Node] = {}
        self._zeros: list[Node] = []

    def product(self, product: Product, way: str) -> Node:
        total = self._of_floats(product) if way == "sum" else self._of_codes(product, way)
        if product.bias is not None:
            total = self.do(aten.add.Tensor, total, as_type(self.graph, product.bias, torch.float32))
        return as_type(self.graph, total, product.dtype)

    def _of_floats(self, product: Product) -> Node:
        _, inner, columns = product.sizes
        size = short_weights.panels(inner, columns, self.bits).size
        weight = self._of_weight(product, short_weights.packed, torch.int32, (size,), self.bits)
        if product.x not in self._factors:
            self._factors[product.x] = short_weights.factors_of(self.do, product.x, self.bits)
        factors = self._factors[product.x]
        total: Node = short_weights.product_with(self.do, factors, weight, inner, columns, self.bits)
        return total

    def _of_codes(self, product: Product, way: str) -> Node:
        scales = self._of_weight(product, int8_scales, torch.float32, product.sizes[2:])
        codes, steps = self._codes_of(product.x)
        return self.do(aten.mul.Tensor, self._total(product, way, codes, scales), steps)

    def _total(self, product: Product, way: str, codes: Node, scales: Node) -> Node:
        _, inner, columns = product.sizes
        if way == "aten":
            weight = self._of_weight(product, int8_codes, torch.int8, (columns, inner))
            by_aten: Node = _by_aten(self.do, codes, weight, scales)
            return by_aten
        packed = self._of_weight(product, int8_packed, torch.int8, (inner, columns))
        if not self._zeros:
            self._zeros.append(_zero(self.do))
        by_onednn: Node = _by_onednn(self.do, codes, packed, scales, self._zeros[0])
        return by_onednn

    def _codes_of(self, x: Node) -> tuple[Node, Node]:
        if x not in self._codes:
            self._codes[x] = _in_codes(self.do, as_type(self.graph, x, torch.float32))
        return self._codes[x]

    def _of_weight(
        self,
        product: Product,
        function: Callable[..., Tensor],
        dtype: torch.dtype,
        shape: tuple[int, ...],
        *settings: int,
    ) -> Node:
        value = product.weight.meta["val"]
        recipe = Recipe(function, (product.tall, *settings), (value.element_size(),))
        key = (product.weight, recipe)
        if key not in self._made:
            made = self.graph.call_function(recipe, (product.weight,))
            made.meta["val"] = torch.empty(shape, dtype=dtype)
            self._made[key] = made
        return self._made[key]
