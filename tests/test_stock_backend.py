"""Torch's own compiler captures, and its graphs are compiled here."""

from __future__ import annotations

import tomllib
from importlib.metadata import EntryPoint

import pytest
import torch
from import_graph import ROOT

import onegraph
from onegraph.base import events as ev
from onegraph.compile import EVENTS
from onegraph.tools.record import recording


@pytest.fixture
def backend():
    """As torch finds it: by the entry point of the package."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    (name,) = points["torch_dynamo_backends"]
    assert name == "onegraph"
    return EntryPoint(name, points["torch_dynamo_backends"][name], "torch_dynamo_backends").load()


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_a_model_trains_as_in_eager(backend) -> None:
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2))
    compiled = torch.compile(model, backend=backend)
    with recording(EVENTS, [ev.KernelsCompiled, ev.GraphBroken]) as recorded:
        for rows in (3, 4, 5, 6):
            x = torch.randn(rows, 4)
            results = []
            for each in (model, compiled):
                loss = each(x).square().sum()
                results.append((loss, *torch.autograd.grad(loss, tuple(model.parameters()))))
            torch.testing.assert_close(*results)
    # Forward and backward, for the sizes that torch takes for constants first and then for symbols; there, a size that
    # is passed on its own is one number at first.
    assert [type(each.event) for each in recorded] == [ev.KernelsCompiled] * 6


def test_mode_and_options_are_those_of_ours(backend) -> None:
    f = torch.compile(lambda x: x.sin() + 1, backend=backend, options={"cache": False})
    torch.testing.assert_close(f(torch.ones(3)), torch.ones(3).sin() + 1)
    with pytest.raises(Exception, match="unknown option 'cachee'"):
        torch.compile(lambda x: x.sin() + 1, backend=backend, options={"cachee": False})(torch.ones(3))


def test_graphs_between_breaks(backend) -> None:
    def f(x):
        y = x * 2
        print("between")
        return y.sin()

    torch.testing.assert_close(torch.compile(f, backend=backend)(torch.ones(3)), (torch.ones(3) * 2).sin())


def test_a_backend_by_name_compiles_under_torch() -> None:
    f = torch.compile(lambda x: x.sin() + 1, backend=onegraph.lookup_backend("native"))
    with recording(EVENTS, [ev.KernelsCompiled]) as recorded:
        torch.testing.assert_close(f(torch.ones(3)), torch.ones(3).sin() + 1)
    assert len(recorded) == 1
