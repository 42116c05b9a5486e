"""Our hook and that of torch's own compiler in one process, around and within each other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from native.swap import Swapper


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def triple(x: torch.Tensor) -> torch.Tensor:
    return x * 3


def test_around_and_within_each_other() -> None:
    stock_calls = []

    def backend(graph: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Any:
        stock_calls.append(len(graph.graph.nodes))
        return graph.forward

    @torch.compile(backend=backend)
    def stock(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    swapper = Swapper({double: triple})
    region = swapper.region(double)
    both = swapper.region(lambda x: double(stock(double(x))))
    around = torch.compile(lambda x: region(x) + 1, backend=backend)
    x = torch.ones(3)
    for _ in range(3):
        assert stock(x).tolist() == [2.0] * 3
        assert region(x).tolist() == [3.0] * 3
        assert both(x).tolist() == [12.0] * 3
        assert around(x).tolist() == [4.0] * 3
    assert stock_calls and "double" in swapper.names
