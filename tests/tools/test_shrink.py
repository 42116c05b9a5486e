"""Small cases of what fails: as few operators as it takes, with the values that they had."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule

import onegraph
from onegraph.tools.shrink import Case, Values, shrink, smallest


def case_of(function: Callable[..., Any], *inputs: Tensor) -> Case:
    """The graph that is captured of a function."""
    graphs: list[GraphModule] = []

    def keep(module: GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
        graphs.append(module)
        return module.forward

    onegraph.compile(function, backend=keep, fullgraph=True)(*inputs)
    return Case(graphs[0], inputs)


def runs(case: Case) -> Any:
    try:
        with torch.no_grad():
            return case.module(*[x.clone() if isinstance(x, Tensor) else x for x in case.inputs])
    except (RuntimeError, IndexError, TypeError):
        return None


def targets(case: Case) -> list[str]:
    return [getattr(node.target, "__name__", str(node.target)) for node in case.operators]


def long(x: Tensor, w: Tensor) -> Tensor:
    for _ in range(10):
        x = torch.tanh(x @ w) + x
    y = torch.exp(x - 1)
    for _ in range(10):
        y = torch.relu(y - y.mean(0)) * 0.5
    return y


def test_one_operator_is_left_with_its_values() -> None:
    torch.manual_seed(0)
    case = case_of(long, torch.randn(16, 8), torch.randn(8, 8))
    seen: list[int] = []

    def fails(case: Case) -> bool:
        seen.append(len(case.operators))
        return runs(case) is not None and "exp" in targets(case)

    small = shrink(case, fails)
    assert targets(small) == ["exp"] and small.inputs[0].shape == (1, 1)
    assert len(seen) < 60


def test_what_fails_only_together_is_left_together() -> None:
    case = case_of(long, torch.randn(16, 8), torch.randn(8, 8))
    small = shrink(case, lambda case: runs(case) is not None and {"exp", "matmul"} <= {*targets(case)})
    assert sorted(targets(small)) == ["exp", "matmul"]


def test_values_are_those_of_the_whole_graph() -> None:
    """A failure that only one value shows: it is the input of what is left."""
    torch.manual_seed(1)
    case = case_of(long, torch.randn(6, 4), torch.randn(4, 4))
    values = Values(case)
    node = next(node for node in case.operators if node.target is torch.exp)
    alone = values.case([node])
    torch.testing.assert_close(alone.module(*alone.inputs)[0], values.of[node])


def test_values_are_as_they_were_before_writes() -> None:
    def program(x: Tensor) -> Tensor:
        y = x * 2
        z = y + 1
        y.mul_(10)
        return z * y

    x = torch.ones(3)
    values = Values(case_of(program, x))
    first, add, write, last = values.case_of_all.operators
    assert torch.equal(values.of[first], torch.full((3,), 2.0))
    assert torch.equal(values.of[write], torch.full((3,), 20.0))
    assert torch.equal(runs(values.case([add]))[0], torch.full((3,), 3.0))
    assert torch.equal(runs(values.case([write, last]))[0], torch.full((3,), 60.0))
    assert torch.equal(x, torch.ones(3))


def test_sizes_that_the_graph_needs_stay() -> None:
    case = case_of(lambda x, w: (x @ w).view(4, -1).sin(), torch.randn(12, 8), torch.randn(8, 6))
    small = shrink(case, lambda case: {"matmul", "view"} <= {*targets(case)} and runs(case) is not None)
    assert sorted(targets(small)) == ["matmul", "view"]
    rows, inner = small.inputs[0].shape
    assert (rows * small.inputs[1].shape[1]) % 4 == 0 and inner == 1 and rows < 12


def test_the_budget_is_kept() -> None:
    asked: list[Case] = []

    def fails(case: Case) -> bool:
        asked.append(case)
        return False

    case = case_of(long, torch.randn(16, 8), torch.randn(8, 8))
    assert targets(shrink(case, fails, tests=7)) == targets(case) and len(asked) == 7


@pytest.mark.parametrize("seed", range(20))
def test_no_part_can_be_left_out(seed: int) -> None:
    rng = random.Random(seed)
    items = [*range(rng.randint(1, 40))]
    needed = {*rng.sample(items, rng.randint(1, min(4, len(items))))}
    found = smallest(items, lambda part: needed <= {*part})  # type: ignore[arg-type,type-var]
    assert {*found} == needed
