"""Results in float32 are as near to the truth as eager's: `python -m tests.opinfo accuracy` asks all operators."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from opinfo.accuracy import Accuracy, accuracies, errors, inputs_of, spacing, wrong
from opinfo.harness import operators

POINTWISE = """
    acos acosh asin asinh atan atan2 atanh cos cosh erf erfc exp exp2 expm1 fmod hypot lgamma log log10 log1p log2
    nn_functional_gelu nn_functional_silu nn_functional_softplus pow remainder rsqrt sigmoid sin sinh
    sqrt tan tanh xlogy
""".split()
OTHERS = "cumsum log_softmax logsumexp mean nn_functional_layer_norm softmax std sum var".split()
PATTERNS = 1 << 16


def named(op: Any) -> str:
    return op.formatted_name


@pytest.mark.parametrize("op", [op for op in operators() if op.formatted_name in POINTWISE + OTHERS], ids=named)
def test_operator_is_as_exact_as_eager(op: Any) -> None:
    found = accuracies(op, limit=3, patterns=PATTERNS)
    assert len(found) > (op.formatted_name in POINTWISE), "it is not found to work element by element"
    assert all(item.is_good for item in found), found


def test_what_is_worse_is_seen() -> None:
    truth = torch.tensor([1.0, 100.0, 0.0], dtype=torch.float64)
    assert errors(torch.tensor([1.0, 100.00001, 0.0]), truth, spacing(truth)).tolist() == pytest.approx([0, 1, 0])
    assert not Accuracy("f", ours=2.5, eager=1.0).is_good
    assert Accuracy("f", ours=2.5, eager=2.5).is_good


def test_special_values_are_eagers_or_the_truth() -> None:
    nan, infinite, big = float("nan"), float("inf"), 3e38
    ours, theirs = torch.tensor([nan, 1.0, 0.0, infinite]), torch.tensor([1.0, nan, -0.0, infinite])
    truth = torch.tensor([1.0, nan, -0.0, 2 * big], dtype=torch.float64)
    assert wrong(ours, theirs, truth).tolist() == [True, True, True, False]
    assert not wrong(torch.tensor([big]), torch.tensor([infinite]), torch.tensor([big], dtype=torch.float64)).any()


def test_numbers_of_all_kinds_are_tried() -> None:
    (x,) = inputs_of(1, PATTERNS)
    assert x.isnan().any() and x.isinf().any() and (x == 0).any()
    assert set(torch.frexp(x[x.isfinite()])[1].tolist()) >= set(range(-125, 129))
    left, right = inputs_of(2, PATTERNS)
    assert ((left == float("inf")) & (right == 0)).any() and left.shape == right.shape
