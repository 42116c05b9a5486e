"""What is left of a call that fails. Faults of every stage are planted in `test_planted_faults`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule

import onegraph
from onegraph.base.errors import InvalidArgument
from onegraph.compiler.lower import registry
from onegraph.tools.minify import Minified

aten = torch.ops.aten
LOWERINGS = registry._TABLE


def long(x: Tensor, w: Tensor) -> Tensor:
    for _ in range(4):
        x = torch.tanh(x @ w) + x
    y = torch.exp(x - 1)
    z = torch.nn.functional.gelu(y) - torch.log1p(y.abs())
    for _ in range(4):
        z = torch.relu(z - z.mean(0)) * 0.5
    return z.sum(1) + y.amax(1)


def broken(x: Tensor, w: Tensor) -> Tensor:
    y = (x @ w).sin()
    print(end="")
    return (torch.exp(y) - 1).relu().sum(0) * 2


def inputs(gradients: bool) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(12, 8), torch.randn(8, 8).requires_grad_(gradients)


def crash(*_: object, **__: object) -> Any:
    raise RuntimeError("planted")


def lowered_as(other: Any) -> Callable[..., Any]:
    return lambda g, *args, **kwargs: registry.LOWERINGS[other](g, *args, **kwargs)


@contextmanager
def planted(table: Any, key: Any, value: Any) -> Iterator[None]:
    before = table[key]
    table[key] = value
    try:
        yield
    finally:
        table[key] = before


def names(found: Minified) -> set[str]:
    return {line.partition("(")[0].rpartition(".")[2] for line in found.code.splitlines() if " = " in line}


def refusing(*needed: Any) -> Callable[..., Any]:
    """A backend of a user that raises for graphs with all of these operators."""

    def backend(module: GraphModule, examples: list[Any]) -> Callable[..., Any]:
        if {*needed} <= {node.target for node in module.graph.nodes}:
            raise ValueError("not both of them")
        return module.forward

    return backend


def test_a_backend_that_refuses_two_operators_together() -> None:
    found = onegraph.minify(long, backend=refusing(torch.exp, torch.relu))(*inputs(False))
    assert found.left == 2 and names(found) == {"exp", "relu"} and "not both of them" in found.failure
    assert found.file is None  # nobody can name the backend


def forgetful(module: GraphModule, examples: list[Any]) -> Callable[..., Any]:
    """A backend that computes everything with noise, if there is a mean."""
    has_mean = any(node.target == "mean" for node in module.graph.nodes)
    return lambda *args: [r + 1 if has_mean else r for r in module.forward(*args)]


def test_a_backend_whose_results_differ() -> None:
    found = onegraph.minify(long, backend=forgetful)(*inputs(False))
    assert found.left == 1 and "mean" in found.code and found.failure.startswith("differs from eager mode: ")


def test_the_graph_behind_a_break() -> None:
    with planted(LOWERINGS, aten.exp.default, crash):
        found = onegraph.minify(broken)(*inputs(False))
    assert (found.number, found.graphs, found.left) == (2, 2, 1)


def test_a_call_that_does_not_fail() -> None:
    found = onegraph.minify(broken)(*inputs(True))
    assert not found and str(found).strip() == "broken: of 2 graphs, none fails alone."


@pytest.mark.parametrize(
    ("arguments", "match"),
    [({"tests": 0}, "'tests' expects a positive integer"), ({"file": 3}, "'file' expects a path or None")],
)
def test_wrong_arguments(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidArgument, match=match):
        onegraph.minify(long, **arguments)


def test_the_stage_and_what_avoids_it_are_told() -> None:
    with planted(LOWERINGS, aten.exp.default, lowered_as(aten.expm1.default)):
        found = onegraph.minify(broken)(*inputs(False))
        options = dict(found.step.avoiding)
        assert str(found.step) == "lowering (aten.exp.default)" and found.left == 1
        assert options == {"skipped_lowerings": ("aten.exp.default",)} and f"options={options}" in str(found)
        torch.testing.assert_close(onegraph.compile(broken, options=options)(*inputs(False)), broken(*inputs(False)))


def test_open_transforms_are_searched_behind_differentiation() -> None:
    def mapped(x: Tensor, w: Tensor) -> Tensor:
        return torch.vmap(lambda row: (row @ w).exp() + 1)(x)

    with planted(LOWERINGS, aten.exp.default, lowered_as(aten.expm1.default)):
        found = onegraph.minify(mapped)(*inputs(False))
    assert found.left == 1 and "aten.exp.default" in found.code
    assert "exp()" in found.lines[0].source_line()
