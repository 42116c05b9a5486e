"""What eager refuses or warns of, compiled: some operators; `python -m tests.opinfo errors` looks at all of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from opinfo.errors import differences
from opinfo.harness import operators

import onegraph

SOME = """
    softmax log_softmax nn_functional_softmin cat max_reduction_no_dim max_reduction_with_dim min_reduction_no_dim
    aminmax complex cummax cummin cholesky empty_strided index_reduce_amax
    amax argmax std var_mean index_put diagonal_scatter select_scatter slice_scatter gather index_select sum
    index_add index_copy index_fill multinomial native_group_norm native_layer_norm new_empty_strided
    nn_functional_pixel_unshuffle nn_functional_smooth_l1_loss nn_functional_soft_margin_loss
    nn_functional_upsample_nearest nn_functional_huber_loss roll scatter
    scatter_reduce_sum searchsorted triangular_solve unflatten
""".split()


@pytest.mark.parametrize(
    "op", [op for op in operators() if op.formatted_name in SOME], ids=lambda op: op.formatted_name
)
def test_wrong_calls_end_as_in_eager(op: Any) -> None:
    count, found = differences(op, limit=2)
    assert count and not found, "\n".join(found)


@pytest.mark.parametrize("shape", [(3, 5), (3, 5, 2, 2)])
def test_weights_of_a_loss_are_one_for_each_class(shape: tuple[int, ...]) -> None:
    target = torch.zeros((shape[0], *shape[2:]), dtype=torch.int64)
    compiled = onegraph.compile(torch.nn.functional.nll_loss)
    with pytest.raises(RuntimeError, match="weight tensor should be defined either for all"):
        compiled(torch.randn(shape), target, torch.ones(1))
