"""What depends on constants only is computed at once, unless it raises: then it does so in each call."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

import onegraph

PROGRAMS = {
    "class": lambda x: F.one_hot(torch.tensor([0, 5]), 3) + x,
    "index": lambda x: torch.arange(3)[torch.tensor([9])] + x,
    "range": lambda x: torch.histc(torch.tensor([float("nan")])) + x,
    "matrix": lambda x: torch.linalg.cholesky(torch.tensor([[1.0, 2.0], [2.0, 1.0]])) + x,
    "division": lambda x: torch.tensor([1]) // torch.tensor([0]) + x,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_constants_that_are_wrong(name: str, caplog: pytest.LogCaptureFixture) -> None:
    def run(function: Callable[[torch.Tensor], torch.Tensor]) -> list[str]:
        found = []
        for number in range(3):
            with pytest.raises((RuntimeError, IndexError)) as raised:
                function(torch.tensor(number))
            found.append(f"{raised.type.__name__}: {raised.value}")
        return found

    assert run(onegraph.compile(PROGRAMS[name])) == run(PROGRAMS[name])
    assert not caplog.records
