"""Layers of a library that asks for sizes itself: one graph more serves all sizes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch


def strides(tensor: Tensor) -> list[int]:
    """Where there is more than one place to step to: the others depend on the library, which depends on the size."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def check(module: nn.Module, inputs: Sequence[Tensor], graphs: int = 2) -> None:
    """Results and gradients are eager's at all sizes, of so many graphs."""
    compiled = onegraph.compile(module, fullgraph=True)
    parameters = list(module.parameters())

    def run(function: nn.Module, x: Tensor) -> list[Tensor]:
        torch.manual_seed(0)
        results = function(x)
        results = [results] if isinstance(results, Tensor) else [results[0], *results[1]]
        return [*results, *torch.autograd.grad([r.sum() for r in results], parameters)]

    with Watch() as watch:
        for x in inputs:
            for ours, theirs in zip(run(compiled, x), run(module, x), strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
                assert strides(ours) == strides(theirs)
    assert len(watch.of(ev.GraphCaptured)) == graphs


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_a_long_memory_takes_any_length(bias: bool, bidirectional: bool, batch_first: bool, train: bool) -> None:
    module = nn.LSTM(4, 5, 2, bias=bias, batch_first=batch_first, dropout=0.5, bidirectional=bidirectional)
    shapes = [(3, n, 4) if batch_first else (n, 3, 4) for n in (7, 2, 12, 31)]
    check(module.train(train), [torch.randn(shape) for shape in shapes])


def test_a_long_memory_takes_any_batch() -> None:
    check(nn.LSTM(4, 5), [torch.randn(3, n, 4) for n in (7, 2, 12, 31)])


def recurrent(kind: str, **settings: bool) -> nn.Module:
    made = nn.GRU if kind == "gru" else nn.RNN
    how = {} if kind == "gru" else {"nonlinearity": kind}
    return made(4, 5, 2, dropout=0.5, **how, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", ["gru", "tanh", "relu"])
def test_recurrent_networks_take_any_length(
    kind: str, bias: bool, bidirectional: bool, batch_first: bool, train: bool
) -> None:
    """A long sequence, and one whose length changes, is a call for each layer: no step is a part of the graph."""
    module = recurrent(kind, bias=bias, batch_first=batch_first, bidirectional=bidirectional).train(train)
    shapes = [(3, n, 4) if batch_first else (n, 3, 4) for n in (41, 2, 12, 31)]
    inputs = [torch.randn(shape) for shape in shapes]
    compiled = onegraph.compile(module, fullgraph=True)
    states = torch.randn(4 if bidirectional else 2, 3, 5, requires_grad=True)

    def run(function: nn.Module, x: Tensor) -> list[Tensor]:
        torch.manual_seed(0)
        x = x.clone().requires_grad_()
        results = function(x, states)
        weighted = sum((r * torch.linspace(1, 2, r.numel()).view_as(r)).sum() for r in results)
        return [*results, *torch.autograd.grad(weighted, [x, states, *module.parameters()])]

    with Watch() as watch:
        for x in inputs:
            for ours, theirs in zip(run(compiled, x), run(module, x), strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
                assert strides(ours) == strides(theirs)
    assert len(watch.of(ev.GraphCaptured)) == 2
    assert max(event.operations for event in watch.of(ev.GraphCaptured)) < 60


@pytest.mark.parametrize("kind", ["gru", "tanh", "relu"])
def test_recurrent_networks_are_differentiated_twice(kind: str) -> None:
    module = recurrent(kind).double().eval()
    x = torch.randn(24, 2, 4, dtype=torch.float64, requires_grad=True)

    def twice(function: nn.Module) -> Tensor:
        (first,) = torch.autograd.grad(function(x)[0].square().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x)
        return second

    torch.testing.assert_close(twice(onegraph.compile(module)), twice(module))


def test_short_sequences_are_compiled_step_by_step() -> None:
    module = nn.GRU(4, 5)
    with Watch() as watch, torch.no_grad():
        for steps in (5, 40):
            onegraph.compile(module, fullgraph=True, dynamic=False)(torch.randn(steps, 2, 4))
    assert ["onegraph.recurrent" in event.text() for event in watch.of(ev.LoweringDone)] == [False, True]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    "layers",
    [
        (nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2)),
        (nn.Conv2d(4, 4, 3, groups=4, padding=1), nn.Conv2d(4, 8, 3, dilation=2)),
        (nn.ConvTranspose2d(4, 8, 3, stride=2), nn.Conv2d(8, 4, 3)),
    ],
)
def test_images_of_any_size(layers: tuple[nn.Module, ...], last: bool) -> None:
    """Of small ones and of large ones, which another library takes."""
    order = torch.channels_last if last else torch.contiguous_format
    images = [torch.randn(1, 4, *size).to(memory_format=order) for size in ((9, 9), (80, 70), (10, 12), (8, 65))]
    check(nn.Sequential(*layers), images)


def test_rows_of_any_length() -> None:
    check(
        nn.Sequential(nn.Conv1d(4, 8, 3), nn.ReLU(), nn.Conv1d(8, 4, 5)), [torch.randn(2, 4, n) for n in (9, 800, 11)]
    )


def test_a_long_memory_of_two_types_is_an_error_at_any_length() -> None:
    module = nn.LSTM(4, 5)
    module.weight_hh_l0.data = module.weight_hh_l0.data.double()
    compiled = onegraph.compile(module)
    for n in (7, 2, 12):
        for function in (module, compiled):
            with pytest.raises((RuntimeError, ValueError)):
                function(torch.randn(n, 3, 4))
