"""Every operator of torch's operator database, compiled, against eager.

The fast slice takes the first samples of each operator that programs commonly use; the slow part takes every sample of
every operator. Run this file with `-s` to see the share of operators that need no library call.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from opinfo.common import COMMON
from opinfo.harness import Report, channels_last, check_operator, operators, run_graph_eagerly, transposed

from onegraph.autograd.graphs import FunctionalGraph
from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.compiler import compile_graph
from onegraph.compiler.cpu import CPU

LOWERED: list[Report] = []


def native(graph: FunctionalGraph) -> Any:
    compiled = compile_graph(graph.module, Context(Config(cache_plans=False)), CPU)
    return compiled, compiled.fallbacks


@pytest.fixture(scope="module", autouse=True)
def _share() -> Any:
    """Tell, after the tests, how many operators ran as kernels alone."""
    LOWERED.clear()
    yield
    if LOWERED:
        count = sum(report.is_lowered for report in LOWERED)
        print(f"\n{count} of {len(LOWERED)} operators ran without a library call ({100 * count // len(LOWERED)} %)")


def named(op: Any) -> str:
    return op.formatted_name


@pytest.mark.parametrize("op", [op for op in operators() if op.formatted_name in COMMON], ids=named)
def test_common_operator(op: Any) -> None:
    LOWERED.append(check_operator(op, native, limit=2))


@pytest.mark.parametrize("op", [op for op in operators() if op.formatted_name in COMMON], ids=named)
def test_common_operator_with_symbolic_sizes(op: Any) -> None:
    check_operator(op, native, limit=1, symbolic=True)


@pytest.mark.slow
@pytest.mark.parametrize("op", operators(), ids=named)
def test_operator_with_symbolic_sizes(op: Any) -> None:
    check_operator(op, native, limit=4, symbolic=True)


@pytest.mark.slow
@pytest.mark.parametrize("op", operators(), ids=named)
def test_operator(op: Any) -> None:
    LOWERED.append(check_operator(op, native))


TYPES = (torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("op", operators(), ids=named)
def test_operator_on_other_types(op: Any, dtype: torch.dtype) -> None:
    if dtype in op.supported_dtypes("cpu"):
        check_operator(op, native, limit=2, dtype=dtype)


@pytest.mark.slow
@pytest.mark.parametrize("op", operators(), ids=named)
def test_functional_graph(op: Any) -> None:
    """The functional graph before compilation: also that every fake result describes the real one."""
    check_operator(op, run_graph_eagerly)


@pytest.mark.slow
@pytest.mark.parametrize("op", operators(), ids=named)
def test_functional_graph_of_other_layouts(op: Any) -> None:
    """Transposed inputs, and images with their channels last."""
    for layout in (transposed, channels_last):
        check_operator(op, run_graph_eagerly, limit=20, layout=layout)


def test_the_common_operators_exist() -> None:
    assert set(COMMON) - {op.formatted_name for op in operators()} == set()


@pytest.fixture(autouse=True)
def _two_threads() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)
