"""Convolutions of images, with channels last in memory: as they are, as matrix products, or packed for oneDNN.

c = convolution(x, w, b, ...)                              x' = clone(x), channels last
n = native_batch_norm(c, gamma, beta, mean, var, False)    w' = packed(w, gamma, var)
y = n[0]                                                   y = _convolution_pointwise(x', w', folded(b, ...), ...)

Those in float32 may also run in tiles of our own, see `tiles`: what is computed of the result is then part
of them. So where something is, it is part of what is timed.

Where the processor has no instructions for bfloat16 or float16, oneDNN is given float32, and its result rounded once.

It pays only if a graph's convolutions gain on the whole: the times of all decide together, and of the copies of images
that the graph returns. `layout` makes what stands between them agree. oneDNN's own epilogues are not used: its relu
turns NaN into 0.

A new way to compute one is a new entry of `_candidates`, and its form as nodes in `_rewrite`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from onegraph.base.config import Config
from onegraph.base.constants import inf
from onegraph.base.dataclass import dataclass
from onegraph.compiler.library.convolution_tiles import ConvolutionTiler, filter_panels, tiles_of_image
from onegraph.compiler.library.facts import fills_memory, is_ordinary, is_static, multiplied_in, present_shape
from onegraph.compiler.library.filters import folded_bias, folded_panels, folded_weight, packed_weight
from onegraph.compiler.library.layout import channels_last, with_channels_last
from onegraph.compiler.library.linear import Product, as_sum
from onegraph.compiler.library.measure import FEW, Runs, copies, times
from onegraph.compiler.library.nodes import as_type, call, size_of
from onegraph.compiler.library.recipe import Check, Recipe, check_of, keeping
from onegraph.compiler.library.window import Window
from onegraph.compiler.lower.registry import POINTWISE
from onegraph.compiler.target import Compile, Machine

aten = torch.ops.aten
mkldnn = torch.ops.mkldnn

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
FEW_CHANNELS = 8
CALL = 2e-6  # seconds of a library call, at least
CLEARLY = 0.9  # of a library's time, what tiles may take: it is not measured, and their code takes time to make
EPILOGUE: tuple[str, list[Any], str] = ("none", [], "")  # nothing is done to the result
FOLDING = ("packed", "tiles")  # the forms whose filters hold the factor of the normalization
NORMS = (aten.native_batch_norm.default, aten._native_batch_norm_legit_no_training.default)


@dataclass(frozen=True, slots=True)
class Norm:
    """A batch normalization with constant statistics."""

    weight: Node | None
    bias: Node | None
    mean: Node
    var: Node
    eps: float
    nodes: tuple[Node, ...]  # the operator, and all that takes its results


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution; `result` is the node that its packed form stands for, behind the normalization if there is one."""

    x: Node
    weight: Node
    bias: Node | None
    window: Window
    norm: Norm | None
    node: Node
    result: Node
    constant: bool  # whether it may be packed

    @property
    def filters(self) -> tuple[int, ...]:
        """The shape of the weight: output channels, input channels of a group, rows, columns."""
        return tuple(self.weight.meta["val"].shape)

    @property
    def image(self) -> tuple[int, ...]:
        """Its sizes, at present."""
        shape = present_shape(self.x.meta["val"])
        assert shape is not None
        return shape

    @property
    def packed_for(self) -> tuple[int, ...] | None:
        """The image that the filters are packed for; None if they must do for images of any size.

        oneDNN arranges filters of one pixel by the number of pixels of the image, and takes 25 times as long where they
        are arranged for others. A matrix it arranges in one way, and takes as long as for the image itself.
        """
        of_any_size = not all(type(size) is int for size in self.x.meta["val"].shape)
        return None if of_any_size and self.filters[2:] == (1, 1) else self.image

    @property
    def is_packed_matrix(self) -> bool:
        """Whether the packed form multiplies the pixels by a packed matrix."""
        return self.packed_for is None and self.is_product

    @property
    def is_product(self) -> bool:
        """Whether each pixel that the filter meets is multiplied by the same matrix, and nothing else happens."""
        return self.window.multiplies_pixels and self.filters[2:] == (1, 1)

    @property
    def pixels(self) -> int:
        """Those of the result, at present."""
        count, _, *sizes = present_shape(self.node.meta["val"]) or (0, 0)
        return count * math.prod(sizes)

    @property
    def padded(self) -> int:
        """Elements of its image with zeros around; none if it needs none."""
        count, channels, *sizes = self.image
        around = [size + 2 * more for size, more in zip(sizes, self.window.padding, strict=True)]
        return count * channels * math.prod(around) if any(self.window.padding) else 0

    def may_tile(self, tiler: ConvolutionTiler) -> bool:
        """Whether it may run in tiles of ours, which add up float32: of images of one size, in any number."""
        value = self.x.meta["val"]
        fits = self.constant and value.dtype is torch.float32 and all(type(size) is int for size in value.shape[1:])
        return fits and tiler.fits(self.filters, self.window, self.pixels)

    @property
    def has_few_pixels(self) -> bool:
        """Whether it is a product of as few in every call: its time is that of reading the filters once."""
        static = all(type(size) is int for size in self.x.meta["val"].shape)
        return static and self.is_product and self.pixels <= FEW

    @property
    def is_followed(self) -> bool:
        """Whether something is computed of the result element by element."""
        return any(user.target in POINTWISE for user in self.result.users)


def choose_convolutions(
    graph: Graph,
    parameters: frozenset[Node],
    inputs: frozenset[Node],
    config: Config,
    compiled: Compile,
    machine: Machine,
) -> dict[Node, Node]:
    """Put channels last if that is faster on the whole. Gives the new nodes, and what each stands for."""
    found = [c for node in graph.nodes if (c := _convolution(node, parameters, inputs)) is not None]
    tiler = ConvolutionTiler(compiled, machine, config)
    forms = _forms(found, config, tiler)
    return dict(_rewrite(graph, c, form, tiler) for c, form in zip(found, forms, strict=False))


# ---- what is there ---------------------------------------------------------------------------------------------------


def _convolution(node: Node, parameters: frozenset[Node], inputs: frozenset[Node]) -> Convolution | None:
    """The convolution that the node is, if it is one of an image."""
    if node.target is not aten.convolution.default or node.kwargs:
        return None
    x, weight, bias, stride, padding, dilation, transposed, _, groups = node.args
    tensors = [item for item in (x, weight, bias) if isinstance(item, Node)]
    fits = all(is_ordinary(item.meta["val"], DTYPES) and present_shape(item.meta["val"]) for item in tensors)
    fits = fits and all(is_static(item.meta["val"]) for item in tensors if item is not x)
    numbers = (*stride, *padding, *dilation, groups)  # type: ignore[misc]
    if transposed or not isinstance(weight, Node) or not fits or not all(type(n) is int for n in numbers):
        return None
    assert isinstance(x, Node) and (bias is None or isinstance(bias, Node))
    if len({item.meta["val"].dtype for item in tensors}) != 1 or not fills_memory(weight.meta["val"]):
        return None
    if x.meta["val"].dim() != 4 or min(padding) < 0 or not present_shape(node.meta["val"]):  # type: ignore[arg-type]
        return None
    pair = [(n * 2 if len(n) == 1 else n) for n in map(tuple, (padding, stride, dilation))]  # type: ignore[arg-type]
    constant = weight in parameters and (bias is None or bias in inputs)
    norm, result = _norm(node, inputs) if constant else (None, node)
    return Convolution(x, weight, bias, Window(pair[0], pair[1], pair[2], groups), norm, node, result, constant)  # type: ignore[arg-type]


def _norm(node: Node, constants: frozenset[Node]) -> tuple[Norm | None, Node]:
    """The normalization that alone uses the convolution, and the node of its result."""
    if len(node.users) != 1:
        return None, node
    (user,) = node.users
    if user.target not in NORMS or user.kwargs or user.args[0] is not node:
        return None, node
    if user.target is aten.native_batch_norm.default:
        _, weight, bias, mean, var, training, _, eps = user.args
    else:
        training = False
        _, weight, bias, mean, var, _, eps = user.args
    results = [item for item in user.users if item.users]
    tensors = [item for item in (weight, bias, mean, var) if item is not None]
    if training is not False or len(results) != 1 or results[0].args[1] != 0 or not isinstance(eps, float):
        return None, node
    if mean is None or var is None or not all(item in constants for item in tensors):
        return None, node
    values = [item.meta["val"] for item in tensors]  # type: ignore[union-attr]
    if not all(is_ordinary(v, DTYPES) and fills_memory(v) for v in values):
        return None, node
    return Norm(weight, bias, mean, var, eps, (user, *user.users)), results[0]  # type: ignore[arg-type]


# ---- whether it pays -------------------------------------------------------------------------------------------------


def _forms(found: Sequence[Convolution], config: Config, tiler: ConvolutionTiler) -> list[str]:
    """The form of each; none if they stay as they are."""
    match config.library_calls:
        case "tiles":
            others = ["sum" if c.has_few_pixels else "packed" if c.constant else "plain" for c in found]
            return ["tiles" if c.may_tile(tiler) else other for c, other in zip(found, others, strict=True)]
        case "packed":
            return ["packed" if c.constant else "plain" for c in found]
        case "measured":
            pass
        case _:
            return ["plain"] * len(found)
    forms, gained = [], 0.0
    check = check_of(config)
    for c in found:
        x = c.x.meta["val"]
        if c.has_few_pixels:
            forms.append("sum")
            gained += CALL
            continue
        if c.constant and multiplied_in(x.dtype) is not x.dtype:  # aten takes so long that timing it takes seconds
            forms.append("packed")
            gained = inf
            continue
        what = f"convolution, cold {c.image} {c.filters} {c.window} {x.dtype}"
        what += f" constant {c.constant} packed for {c.packed_for} as product {c.is_product} checked by {check}"
        tiled = check != "digest" and c.may_tile(tiler)  # of which the times of the others have their part
        what += f" beside tiles, followed {c.is_followed}" * tiled
        candidates = partial(_candidates, c, check, tiled)
        measured = dict(times(what, _ways(c, tiled), candidates, config))
        if tiled:
            measured["tiles"] = tiler.seconds(x.fake_mode, c.filters, c.window, c.pixels, c.padded) / CLEARLY
        best = min((name for name in measured if name != "aten"), key=lambda name: measured[name])
        forms.append(best)
        gained += measured["aten"] - measured[best]
    pays = gained > 0 and gained > sum(_restoring(node.meta["val"], config) for node in _given_back(found))
    return forms if pays else []


def _given_back(found: Sequence[Convolution]) -> set[Node]:
    """The images among the results of the graph, such as those that a backward pass wants: in eager's order."""
    images = {node for c in found for node in (c.x, c.result)}
    return {node for node in images if any(user.op == "output" for user in node.users)}


def _restoring(value: Tensor, config: Config) -> float:
    """Seconds of putting an image back into that order."""
    shape: Any = present_shape(value)

    def candidates() -> Mapping[str, Runs]:
        image = torch.full(shape, 0.5, dtype=value.dtype).to(memory_format=torch.channels_last)
        return {"copy": [image.contiguous]}

    return times(f"copy of {shape} {value.dtype}", ["copy"], candidates, config)["copy"]


def _ways(c: Convolution, tiled: bool) -> list[str]:
    """Beside tiles of ours, only the fastest way of the library."""
    plain = [] if tiled else ["plain", *["product"] * c.is_product]
    return ["aten", *plain, *["packed"] * c.constant]


def _candidates(c: Convolution, check: Check, tiled: bool) -> Mapping[str, Runs]:
    """A convolution as it is, and with channels last; the packed one checks its weight as it does in a call.

    Where tiles are another way, what is computed of the result is part of it: an activation stands for that.
    """
    dtype = c.x.meta["val"].dtype
    x = torch.full(c.image, 0.5, dtype=dtype)
    last = x.to(memory_format=torch.channels_last)
    pixels = c.image[0] * c.image[2] * c.image[3]
    weights = copies(torch.full(c.filters, 0.5, dtype=dtype), pixels)
    activated = torch.relu_ if tiled and c.is_followed else _as_it_is
    padding, stride, dilation, groups = c.window.arguments()
    rest = (None, stride, padding, dilation, False, [0] * len(stride), groups)
    found: dict[str, Runs] = {
        "aten": [partial(lambda w: activated(torch.convolution(x, w, *rest)), weight) for weight in weights],
    }
    if not tiled:
        found["plain"] = [partial(torch.convolution, last, weight, *rest) for weight in weights]
    down, across = stride

    def rows() -> Tensor:
        return last.permute(0, 2, 3, 1)[:, ::down, ::across].reshape(-1, x.shape[1])

    if c.is_product and not tiled:
        found["product"] = [partial(lambda weight: torch.mm(rows(), weight.flatten(1).t()), w) for w in weights]
    if c.constant:
        recipe = Recipe(packed_weight, (c.window, c.packed_for), (x.element_size(),))

        def packed(keep: Callable[..., Tensor], weight: Tensor) -> object:
            if c.is_packed_matrix:
                return activated(mkldnn._linear_pointwise(rows(), keep(weight), None, *EPILOGUE))
            settings = (padding, stride, dilation, groups)
            return activated(mkldnn._convolution_pointwise(last, keep(weight), None, *settings, *EPILOGUE))

        found["packed"] = [partial(packed, keeping(recipe, check), weight) for weight in weights]
    return found


def _as_it_is(result: Tensor) -> Tensor:
    return result


# ---- the new form ----------------------------------------------------------------------------------------------------


def _rewrite(graph: Graph, c: Convolution, form: str, tiler: ConvolutionTiler) -> tuple[Node, Node]:
    """The node of the new form, and the one that it replaces."""
    old = c.result if form in FOLDING else c.node
    with graph.inserting_before(old), old.meta["val"].fake_mode:
        x = c.node.all_input_nodes[0]  # which may be new by now
        # The channels of an image of few are near in any order; those of depthwise ones are read as vectors.
        if form != "tiles" or c.image[1] > FEW_CHANNELS or c.window.groups > 1:
            x = with_channels_last(graph, x)
        match form:
            case "tiles":
                new = _tiles(graph, c, x, tiler.panel(c.filters, c.window))
            case "packed":
                new = _packed(graph, c, x)
            case "product" | "sum":
                new = _product(graph, c, x, form == "sum")
            case _:
                new = _plain(graph, c, x)
    new.meta.update(old.meta)
    new.meta["val"] = channels_last(old.meta["val"])
    old.replace_all_uses_with(new)
    if form in FOLDING and c.norm is not None:
        for node in reversed(c.norm.nodes):
            graph.erase_node(node)
    graph.erase_node(c.node)
    return new, old


def _plain(graph: Graph, c: Convolution, x: Node) -> Node:
    return graph.call_function(c.node.target, (x, *c.node.args[1:]))  # type: ignore[arg-type]


def _product(graph: Graph, c: Convolution, x: Node, summed: bool) -> Node:
    """Each pixel is a row, and the filters are a matrix; `summed` in loops of ours."""

    def multiplied(rows: Node, product: Tensor) -> Node:
        filters = c.weight.meta["val"]
        outputs, inputs = filters.shape[:2]
        sizes = (c.weight, [outputs, inputs])
        matrix = _call(graph, aten.view.default, sizes, filters.new_empty(outputs, inputs))
        if summed:
            return as_sum(graph, Product(rows, matrix, c.bias, False, False, (c.pixels, inputs, outputs)), False)
        columns = _call(graph, aten.t.default, (matrix,), matrix.meta["val"].t())
        if c.bias is None:
            return _call(graph, aten.mm.default, (rows, columns), product)
        return _call(graph, aten.addmm.default, (c.bias, rows, columns), product)

    return _over_pixels(graph, c, x, multiplied)


def _over_pixels(graph: Graph, c: Convolution, x: Node, multiplied: Callable[[Node, Tensor], Node]) -> Node:
    """An image of what is made of the rows that its pixels are; this is told of what shape that is.

    Those that a filter passes over are left out.
    """
    image = x.meta["val"]
    outputs, inputs = c.weight.meta["val"].shape[:2]
    moved = _call(graph, aten.permute.default, (x, [0, 2, 3, 1]), image.permute(0, 2, 3, 1))
    if c.window.stride != (1, 1):
        for dim, step in enumerate(c.window.stride, 1):
            moved = call(graph, aten.slice.Tensor, moved, dim, 0, sys.maxsize, step)
        moved = call(graph, aten.clone.default, moved, memory_format=torch.contiguous_format)
    n, height, width, _ = moved.meta["val"].shape
    sizes = [size_of(graph, moved, dim) for dim in range(3)]
    rows = _call(graph, aten.view.default, (moved, [-1, inputs]), image.new_empty(n * height * width, inputs))
    result = multiplied(rows, image.new_empty(n * height * width, outputs))
    pixels = image.new_empty(n, height, width, outputs)
    pixels_node = _call(graph, aten.view.default, (result, [*sizes, outputs]), pixels)
    return _call(graph, aten.permute.default, (pixels_node, [0, 3, 1, 2]), pixels.permute(0, 3, 1, 2))


def _call(graph: Graph, target: Any, args: tuple[Any, ...], value: Tensor) -> Node:
    node = graph.call_function(target, args)
    node.meta["val"] = value
    return node


def _tiles(graph: Graph, c: Convolution, x: Node, width: int) -> Node:
    norm = c.norm
    if norm is None:
        panels = _made(graph, c.weight, filter_panels, (c.weight,), (width,))
    else:
        panels = _made(graph, c.weight, folded_panels, (c.weight, norm.weight, norm.var), (norm.eps, width))
    panels.meta["val"] = filter_panels(c.weight.meta["val"], width)
    return tiles_of_image(graph, x, panels, _bias(graph, c, torch.float32), c.filters, c.window)


def _bias(graph: Graph, c: Convolution, within: torch.dtype) -> Node | None:
    """What is added to the result, in an element type."""
    norm = c.norm
    if norm is None:
        return None if c.bias is None else as_type(graph, c.bias, within)
    parts = (c.bias, norm.weight, norm.bias, norm.mean, norm.var)
    bias = _made(graph, norm.mean, folded_bias, parts, (norm.eps, str(within).removeprefix("torch.")))
    bias.meta["val"] = norm.mean.meta["val"].new_empty(norm.mean.meta["val"].shape, dtype=within)
    return bias


def _packed(graph: Graph, c: Convolution, x: Node) -> Node:
    norm, dtype = c.norm, x.meta["val"].dtype
    within = multiplied_in(dtype)
    if norm is None:
        weight = _made(graph, c.weight, packed_weight, (c.weight,), (c.window, c.packed_for))
    else:
        settings = (norm.eps, c.window, c.packed_for)
        weight = _made(graph, c.weight, folded_weight, (c.weight, norm.weight, norm.var), settings)
    bias = _bias(graph, c, within)
    image = as_type(graph, x, within)
    if c.is_packed_matrix:
        linear = mkldnn._linear_pointwise.default
        result = _over_pixels(
            graph, c, image, lambda rows, product: _call(graph, linear, (rows, weight, bias, *EPILOGUE), product)
        )
    else:
        args = (image, weight, bias, *c.window.arguments(), *EPILOGUE)
        value = channels_last(c.node.meta["val"]).to(within)
        result = _call(graph, mkldnn._convolution_pointwise.default, args, value)
    return as_type(graph, result, dtype)


def _made(graph: Graph, like: Node, function: Any, tensors: Sequence[Node | None], settings: tuple[Any, ...]) -> Node:
    """A value made of constants, of the shape of one of them, in the type that oneDNN is given."""
    itemsizes = tuple(0 if t is None else t.meta["val"].element_size() for t in tensors)
    node = graph.call_function(Recipe(function, settings, itemsizes), tuple(tensors))
    value = like.meta["val"]
    node.meta["val"] = value.to(multiplied_in(value.dtype))
    return node
