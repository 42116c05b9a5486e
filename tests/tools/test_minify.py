"""Planted faults of every stage shrink to a few operators, in a program that fails alone."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule

import onegraph
from onegraph import backends
from onegraph.autograd.decompose import DECOMPOSITIONS, batch_norm
from onegraph.base.context import Context
from onegraph.base.errors import InvalidArgument
from onegraph.base.pipeline import Pass
from onegraph.compiler.cpu import CPU
from onegraph.compiler.lower import registry
from onegraph.ir.loop import Program
from onegraph.ir.loop_text import format_program, parse_program
from onegraph.tools.minify import Minified

aten = torch.ops.aten


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
    return torch.exp(y).sum(0) * 2 + long(x, w)[0]


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


def normalized(x: Tensor, w: Tensor) -> Tensor:
    for _ in range(3):
        x = torch.tanh(x @ w) + x
    y = torch.nn.functional.batch_norm(x, None, None, training=True)
    return (y * 2).cos().sum(1)


LOWERINGS = registry._TABLE
#: A table, an entry, what is planted there, whether gradients are recorded, and which operators are left.
FAULTS: dict[str, tuple[Any, Any, Any, bool, set[str]]] = {
    "a lowering that is wrong": (LOWERINGS, aten.exp.default, lowered_as(aten.expm1.default), False, {"exp"}),
    "a lowering that raises": (LOWERINGS, aten.exp.default, crash, False, {"exp"}),
    "a reduction that is wrong": (LOWERINGS, aten.amax.default, lowered_as(aten.amin.default), False, {"amax"}),
    "a reduction that raises": (LOWERINGS, aten.amax.default, crash, False, {"amax"}),
    "a lowering in training that is wrong": (
        LOWERINGS,
        aten.exp.default,
        lowered_as(aten.sin.default),
        True,
        {"exp"},
    ),
    "a lowering in training that raises": (LOWERINGS, aten.log1p.default, crash, True, {"log1p"}),
}


def names(found: Minified) -> set[str]:
    return {line.partition("(")[0].rpartition(".")[2] for line in found.code.splitlines() if " = " in line}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_shrinks(fault: str, tmp_path: Path) -> None:
    table, key, value, gradients, left = FAULTS[fault]
    with planted(table, key, value):
        found = onegraph.minify(long, file=tmp_path / "small.py", options={"verify": False})(*inputs(gradients))
    assert found and found.left <= 2 < found.operators
    assert left <= names(found)
    assert any(name in location.source_line() for location in found.lines for name in left)
    assert found.file == tmp_path / "small.py" and "raises" in found.failure or "differs" in found.failure


def scaled(*args: Any) -> Any:
    out, *others = batch_norm(*args)
    return out * 1.5, *others


@pytest.mark.parametrize(("rule", "gradients"), [(scaled, False), (scaled, True), (crash, False)])
def test_a_decomposition(rule: Callable[..., Any], gradients: bool) -> None:
    with planted(DECOMPOSITIONS, aten.native_batch_norm.default, rule):
        found = onegraph.minify(normalized)(*inputs(gradients))
    assert found.left == 1 and "batch_norm" in found.code


def wrong_pass(program: Program, cx: Context) -> Program:
    return parse_program(format_program(program).replace("tanh(", "sin("))


def failing_pass(program: Program, cx: Context) -> Program:
    text = format_program(program)
    assert not ("tanh(" in text and "max over" in text), "this pass does not know both"
    return program


@pytest.mark.parametrize(
    ("run", "most", "gradients"), [(wrong_pass, 1, False), (wrong_pass, 1, True), (failing_pass, 2, False)]
)
def test_a_pass(
    run: Callable[[Program, Context], Program], most: int, gradients: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Pass("planted", run, "it is planted")
    monkeypatch.setattr(backends, "CPU", dataclasses.replace(CPU, passes=(*CPU.passes, step)))
    found = onegraph.minify(long)(*inputs(gradients))
    assert 0 < found.left <= most and "tanh" in found.code


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


PLANT = """
import torch
from onegraph.compiler.lower import registry
registry._TABLE[torch.ops.aten.exp.default] = registry._TABLE[torch.ops.aten.expm1.default]
"""


def test_the_program_fails_alone_as_long_as_the_fault_is_there(tmp_path: Path) -> None:
    with planted(LOWERINGS, aten.exp.default, lowered_as(aten.expm1.default)):
        found = onegraph.minify(long, file=tmp_path / "small.py")(*inputs(False))
    assert found.file is not None
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path), "ONEGRAPH_CACHE": "0"}
    program = found.file.read_text()
    (tmp_path / "planted.py").write_text(PLANT + program.replace('with_suffix(".pt")', 'with_name("small.pt")'))
    codes = [
        subprocess.run([sys.executable, tmp_path / name], env=environment, capture_output=True, check=False).returncode
        for name in ("small.py", "planted.py")
    ]
    assert codes == [0, 1]
