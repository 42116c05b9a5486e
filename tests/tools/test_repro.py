"""Programs that are left of graphs which fail while a program runs."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule

import onegraph
from onegraph.base.config import Config
from onegraph.base.errors import BackendError
from onegraph.compiler.lower import registry
from tests.tools.planted_faults import crash, lowered_as

aten = torch.ops.aten


def program(x: Tensor, w: Tensor) -> Tensor:
    for _ in range(2):
        x = torch.tanh(x @ w) + x
    return torch.sigmoid(torch.exp(x - 1)).sum()


def careless(module: GraphModule, examples: list[Any]) -> Callable[..., Any]:
    if any(node.target is torch.exp for node in module.graph.nodes):
        raise NotImplementedError("no powers")
    return module.forward


def failing_late(module: GraphModule, examples: list[Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        if any(node.target is torch.exp for node in module.graph.nodes):
            raise NotImplementedError("no powers")
        return module.forward(*args)

    return run


def called(folder: Path, gradients: bool = False, **options: Any) -> list[Path]:
    """The programs that are written while the program runs."""
    torch.manual_seed(0)
    x, w = torch.randn(16, 8), torch.randn(8, 8).requires_grad_(gradients)
    backend = options.pop("backend", None)
    settings = {"debug_dir": folder, "raise_compiler_errors": False, "cache": False, "verify": False, **options}
    result = onegraph.compile(program, backend=backend, options=settings)(x, w)
    if gradients:
        result.backward()
    return sorted(folder.glob("run_*/minifier/*.py"))


def exit_status(file: Path) -> Any:
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(file), run_name="__main__")
    return left.value.code


def operators(file: Path) -> int:
    return file.read_text().partition("def forward(")[2].partition("return")[0].count(" = ")


def lowering(operator: Any, other: Any) -> Any:
    return patch.dict(registry._TABLE, {operator: other})


@pytest.mark.parametrize("after", ["dynamo", "aot"])
def test_a_graph_that_does_not_compile(
    after: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, defects: list[str]
) -> None:
    with lowering(aten.exp.default, crash):
        (file,) = called(tmp_path, repro_after=after)
        assert exit_status(file) == 1
    assert defects.pop() and operators(file) == 1 and exit_status(file) == 0
    assert f"raises RuntimeError: planted: a program that does so, too, is in {file}" in caplog.text
    assert not file.with_suffix(".pt").exists() and "torch.tensor(" in file.read_text()


@pytest.mark.parametrize("after", ["dynamo", "aot"])
def test_a_gradient_that_differs(after: str, tmp_path: Path) -> None:
    with lowering(aten.sigmoid_backward.default, lowered_as(aten.tanh_backward.default)):
        assert called(tmp_path, True, repro_after=after) == []  # nothing raises
        (file,) = called(tmp_path, True, repro_after=after, repro_level=4)
        assert exit_status(file) == 1 and operators(file) == 1
    assert exit_status(file) == 0 and ("sigmoid_backward" in file.read_text()) == (after == "aot")


def test_gradients_are_left_out(tmp_path: Path) -> None:
    with lowering(aten.sigmoid_backward.default, lowered_as(aten.tanh_backward.default)):
        assert called(tmp_path, True, repro_after="dynamo", repro_level=4, repro_forward_only=True) == []


def test_the_whole_graph(tmp_path: Path, defects: list[str]) -> None:
    with lowering(aten.exp.default, crash):
        (file,) = called(tmp_path, repro_after="dynamo", repro_level=1)
        assert operators(file) > 5 and file.with_suffix(".pt").exists() and exit_status(file) == 1
    assert defects.pop()


def test_every_graph(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    forward, backward = called(tmp_path, True, repro_after="aot", repro_level=3)
    assert "aten.exp.default" in forward.read_text() and "sigmoid_backward" in backward.read_text()
    assert exit_status(backward) == 0 and "as it is before it is compiled, is in" in caplog.text


def test_a_backend_of_the_program(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="no powers"):
        called(tmp_path, backend=careless, repro_after="dynamo")
    (file,) = tmp_path.glob("run_*/minifier/repro.py")
    assert operators(file) == 1 and "def careless(module" in file.read_text() and exit_status(file) == 1


def test_a_backend_whose_code_fails(tmp_path: Path) -> None:
    (file,) = called(tmp_path, backend=failing_late, repro_after="dynamo")
    assert operators(file) == 1 and exit_status(file) == 1


def test_what_eager_refuses_is_no_fault(tmp_path: Path) -> None:
    options = {"repro_after": "dynamo", "debug_dir": tmp_path}
    with pytest.raises(IndexError):
        onegraph.compile(lambda x, i: x[i] * 2, options=options)(torch.ones(3), torch.tensor([5]))
    assert not list(tmp_path.iterdir())


def test_the_names_of_torch() -> None:
    environment = {"TORCHDYNAMO_REPRO_AFTER": "aot", "TORCHDYNAMO_REPRO_LEVEL": "4"}
    config = Config.from_environment(environment)
    assert (config.repro_after, config.repro_level) == ("aot", 4)
    assert Config.from_environment({"TORCHDYNAMO_REPRO_AFTER": ""}).repro_after is None
    with pytest.raises(onegraph.InvalidArgument, match="'repro_level' expects an integer from 1 to 4"):
        Config().replace(repro_level=5)
    with onegraph.config.patch(repro_after="dynamo", repro_level=3, repro_tolerance=1e-2):
        assert onegraph.config.repro_after == "dynamo"
