"""Calls that torch's operators refuse on the CPU, where a lowering would take them.

Such a call is left to the operator, which raises its own error when it runs. There are element types that operators
refuse: those that work element by element are not listed, their fakes are asked of the operator itself, and a test of
the operator database holds the table to eager. And there are operators that do as they are told where algorithms are to
be deterministic: some refuse, others fill the memory that nobody has written to.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import torch
from torch.fx import Node

aten = torch.ops.aten

_BOOL = frozenset({torch.bool})
_INTEGERS = _BOOL | {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
_SHORT = frozenset({torch.bfloat16, torch.float16})

_ROWS: tuple[tuple[frozenset[torch.dtype], tuple[Any, ...]], ...] = (
    (
        _BOOL,
        (
            aten.argmax.default,
            aten.argmin.default,
            aten.linalg_cross.default,
            aten.reflection_pad1d.default,
            aten.reflection_pad2d.default,
            aten.reflection_pad3d.default,
            aten.trace.default,
        ),
    ),
    (_SHORT, (aten.avg_pool3d.default,)),
    (
        _INTEGERS,
        (
            aten._log_softmax.default,
            aten._native_batch_norm_legit.default,
            aten._native_batch_norm_legit.no_stats,
            aten._native_batch_norm_legit_functional.default,
            aten._native_batch_norm_legit_no_training.default,
            aten._prelu_kernel.default,
            aten._safe_softmax.default,
            aten._softmax.default,
            aten.binary_cross_entropy.default,
            aten.glu.default,
            aten.hardswish.default,
            aten.huber_loss.default,
            aten.log_sigmoid_forward.default,
            aten.mse_loss.default,
            aten.native_batch_norm.default,
            aten.native_group_norm.default,
            aten.native_layer_norm.default,
            aten.nll_loss2d_forward.default,
            aten.nll_loss_forward.default,
            aten.smooth_l1_loss.default,
            aten.soft_margin_loss.default,
            aten.std.correction,
            aten.std_mean.correction,
            aten.var.correction,
            aten.var_mean.correction,
        ),
    ),
)
_REFUSED = MappingProxyType({op: types for types, ops in _ROWS for op in ops})

#: Operators that ask whether algorithms are to be deterministic.
_DETERMINISTIC = frozenset(
    {
        aten.empty.memory_format,
        aten.empty_like.default,
        aten.empty_permuted.default,
        aten.empty_strided.default,
        aten.new_empty.default,
        aten.new_empty_strided.default,
        aten.max_unpool2d.default,
        aten.max_unpool3d.default,
        aten.put.default,
    }
)


def minds_determinism(node: Node) -> bool:
    """Whether the operator does something else now than it does in general: guards hold the graph to that."""
    return node.target in _DETERMINISTIC and torch.are_deterministic_algorithms_enabled()


def is_refused(node: Node) -> bool:
    """Whether the operator raises for the type of its first tensor."""
    types = _REFUSED.get(node.target)
    return types is not None and node.args[0].meta["val"].dtype in types  # type: ignore[union-attr]
