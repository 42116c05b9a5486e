"""Why an operator is left to a library, and about what its call costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import Any

import torch
from torch.fx import Node

from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass
from onegraph.base.events import OperatorFellBack
from onegraph.torchlib.aten import is_random

aten = torch.ops.aten

UNKNOWN = "there is no lowering for it"
OPAQUE = "it is a custom operator: what it computes only its library knows"
OWN = frozenset({"aten", "prims", "mkldnn", "quantized", "quantized_decomposed", "onednn", "_quantized"})  # torch's
CALL_NANOSECONDS = 2_000  # of a call through the dispatcher, with its allocation
BYTES_PER_NANOSECOND = 10


@dataclass(frozen=True, slots=True)
class Left:
    """An operator that is called as it is, why, the bytes that the call moves, and about how long that takes."""

    operator: str
    reason: str
    moved: int
    nanoseconds: int


def announce(left: Iterable[Left], cx: Context) -> None:
    for each in left:
        cx.emit(OperatorFellBack(cx.frame, each.operator, each.reason, each.moved, each.nanoseconds))


_ROWS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    (
        "a library multiplies matrices best",
        (
            aten.mm.default,
            aten.bmm.default,
            aten.addmm.default,
            aten.baddbmm.default,
            aten.addbmm.default,
            aten.mv.default,
            aten.addmv.default,
            aten.dot.default,
            aten.linear.default,
        ),
    ),
    (
        "a library computes convolutions best",
        (aten.convolution.default, aten.convolution_backward.default),
    ),
    (
        "a library computes attention best",
        (aten.scaled_dot_product_attention.default, aten._scaled_dot_product_flash_attention_for_cpu.default),
    ),
    (
        "a library computes Fourier transforms best",
        (aten._fft_c2c.default, aten._fft_c2r.default, aten._fft_r2c.default),
    ),
    (
        "a library sorts best",
        (
            aten.sort.default,
            aten.sort.stable,
            aten.topk.default,
            aten.kthvalue.default,
            aten.median.default,
            aten.median.dim,
            aten.mode.default,
        ),
    ),
    (
        "the size of its result depends on values",
        (aten.nonzero.default, aten.masked_select.default, aten.unique_consecutive.default),
    ),
    (
        "a library sums embedding bags best",
        (aten._embedding_bag.default, aten._embedding_bag_forward_only.default),
    ),
)
BEST_CALLED = MappingProxyType({op: why for why, ops in _ROWS for op in ops})


def reason_left(op: Any) -> str:
    """Why the operator has no lowering."""
    if is_random(op):
        return "its random numbers come in eager's order"
    if str(op).startswith(("aten.linalg_", "aten._linalg_")):
        return "a library does linear algebra best"
    if op.namespace not in OWN:
        return OPAQUE
    return BEST_CALLED.get(op, UNKNOWN)


def cost_left(node: Node) -> tuple[int, int]:
    """The bytes that the call moves, and about how many nanoseconds that takes: arithmetic is not counted."""
    values = [node.meta.get("val"), *(argument.meta.get("val") for argument in node.all_input_nodes)]
    size = sum(_bytes(tensor) for value in values for tensor in _tensors(value))
    return size, CALL_NANOSECONDS + size // BYTES_PER_NANOSECOND


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    for item in value if isinstance(value, (tuple, list)) else (value,):
        if isinstance(item, torch.Tensor):
            yield item


def _bytes(tensor: torch.Tensor) -> int:
    """Its size; that of this call where the size is a symbol."""
    total = tensor.element_size()
    for size in tensor.shape:
        total *= int(size.node.hint) if isinstance(size, torch.SymInt) else size
    return total
