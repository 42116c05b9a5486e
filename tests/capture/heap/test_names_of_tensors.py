"""What a tensor from outside has in Python is read and written in one graph."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

import onegraph


class Sampled(torch.nn.Module):
    """Keeps on its weight how often it ran, and what came of each row: as libraries for private training do."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(4))

    def forward(self, x: Tensor) -> Tensor:
        if not hasattr(self.weight, "runs"):
            self.weight.runs, self.weight.samples = 0, []
        self.weight.runs += 1
        y = x * self.weight
        self.weight.samples.append(y.detach().sum(-1))
        return y.sin()


def test_a_module_that_writes_to_its_parameters_is_one_graph() -> None:
    eager = Sampled()
    ours = copy.deepcopy(eager)
    compiled = onegraph.compile(ours, fullgraph=True)
    x = torch.rand(3, 4)
    for _ in range(4):
        expected, found = eager(x), compiled(x)
        expected.sum().backward()
        found.sum().backward()
        torch.testing.assert_close(found, expected)
    torch.testing.assert_close(ours.weight.grad, eager.weight.grad)
    torch.testing.assert_close(vars(ours.weight), vars(eager.weight))
    assert ours.weight.runs == 4 and all(type(each) is Tensor for each in ours.weight.samples)


def test_what_was_written_is_guarded_only_where_it_is_read() -> None:
    weight = torch.nn.Parameter(torch.rand(4))

    def program(x: Tensor) -> Any:
        weight.last = x
        return weight.last + 1

    compiled = onegraph.compile(program, fullgraph=True)
    compiled(torch.rand(4))
    with onegraph.set_stance("fail_on_recompile"):
        for value in (0, "text", None, [1]):
            weight.last = value
            torch.testing.assert_close(compiled(x := torch.rand(4)), x + 1)
            assert weight.last is x
