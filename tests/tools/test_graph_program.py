"""A captured graph as a program that runs by itself."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base.events import GraphCaptured
from onegraph.compile import EVENTS
from onegraph.tools.debugging.graph_program import graph_program


def program(function: Callable[..., Any], *args: Any, dynamic: bool | None = None) -> str:
    """Of the one graph of a call."""
    texts: list[str] = []

    def keep(event: object) -> None:
        if isinstance(event, GraphCaptured):
            texts.append(graph_program(event.module, str(event.frame)))

    unsubscribe = EVENTS.subscribe(keep)
    try:
        onegraph.compile(function, backend="eager", dynamic=dynamic)(*args)
    finally:
        unsubscribe()
    (text,) = texts
    return text


def loaded(text: str, folder: Path) -> dict[str, Any]:
    file = folder / "graph.py"
    file.write_text(text)
    return runpy.run_path(str(file), run_name="__main__")


def test_inputs_lie_as_they_were_captured(tmp_path: Path) -> None:
    def f(*inputs: torch.Tensor) -> torch.Tensor:
        return torch.stack([x.to(torch.float32).sum() for x in inputs])

    inputs = [
        torch.ones(4, 6)[:, ::2],
        torch.ones(1, 3).expand(5, 3),
        torch.ones(2, 3, dtype=torch.bfloat16).t(),
        torch.ones(3, dtype=torch.int16),
        torch.ones(2, dtype=torch.bool),
        torch.ones(0, 3),
        torch.ones(()),
        torch.ones(2, requires_grad=True),
    ]
    given = loaded(program(f, *inputs), tmp_path)["inputs"]()
    for made, captured in zip(given, inputs, strict=True):
        assert (made.shape, made.stride(), made.dtype) == (captured.shape, captured.stride(), captured.dtype)
        assert made.requires_grad == captured.requires_grad


def test_symbols_are_the_numbers_of_the_call(tmp_path: Path) -> None:
    text = program(lambda x: x[: x.size(0) - 2] * x.size(0), torch.ones(5, 2), dynamic=True)
    made = loaded(text, tmp_path)
    assert [getattr(value, "shape", value) for value in made["inputs"]()] == [(5, 2)]
    assert made["graph"](*made["inputs"]())[0].shape == (3, 2)


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 2


def test_what_no_import_gives_is_named(tmp_path: Path) -> None:
    text = program(lambda x: Twice.apply(x) + 1, torch.ones(2, requires_grad=True))
    with pytest.raises(NotImplementedError, match="Twice is a CustomFunction, which this file cannot hold"):
        loaded(text, tmp_path)


def test_operators_of_other_libraries_are_named() -> None:
    with torch.library._scoped_library("graph_program_test", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        text = program(lambda x: torch.ops.graph_program_test.twice(x) + 1, torch.ones(2))
    assert "# Import here what defines torch.ops.graph_program_test." in text
    assert "import onegraph" not in text


def test_operators_of_onegraph_come_with_it(tmp_path: Path) -> None:
    text = program(torch.nn.GRU(2, 3), torch.ones(4, 1, 2), dynamic=True)
    assert "import onegraph.compile" in text
    assert loaded(text, tmp_path)["inputs"]()
