"""Operators of torch's database as kernels for GPUs, forward and backward, whose accesses are looked at, too.

`python -m tests.opinfo run --triton` and `gradients --triton` ask all of them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from gpu.interpreted.interpreter import CHECKED, INTERPRETED, native
from opinfo.common import COMMON
from opinfo.gradients import check_gradients
from opinfo.harness import check_operator, operators

from onegraph.compiler.targets import TARGETS


def named(op: Any) -> str:
    return op.formatted_name


CHOSEN = [op for op in operators() if op.formatted_name in COMMON]
TRAINED = [op for op in CHOSEN if torch.float32 in op.supported_backward_dtypes("cpu")]
TYPES = (torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool)


@pytest.mark.parametrize("op", CHOSEN, ids=named)
def test_common_operator(op: Any) -> None:
    check_operator(op, native, limit=1)


@pytest.mark.parametrize("op", TRAINED, ids=named)
def test_gradients_of_common_operator(op: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "cpu", lambda device: INTERPRETED)
    assert check_gradients(op, torch.float32, 1, **CHECKED) == 1


@pytest.mark.slow
@pytest.mark.parametrize("op", CHOSEN, ids=named)
def test_common_operator_with_symbolic_sizes(op: Any) -> None:
    """Nothing says which sizes are equal, so accesses are not proven here, but looked at."""
    check_operator(op, partial(native, verify=False), limit=1, symbolic=True)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("op", operators(), ids=named)
def test_operator_on_other_types(op: Any, dtype: torch.dtype) -> None:
    if dtype in op.supported_dtypes("cpu"):
        check_operator(op, native, limit=2, dtype=dtype)
