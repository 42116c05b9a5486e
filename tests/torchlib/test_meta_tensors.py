"""Functions of torch that look into an argument before they call any operator are refused on fakes of all sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onegraph
from onegraph.torchlib.fake import DATA_DEPENDENT_ERRORS, FakeMode


def packed(kind: type[nn.RNNBase], name: str) -> Callable[[FakeMode, Tensor], Any]:
    def call(mode: FakeMode, lengths: Tensor) -> Any:
        x, h = mode.fakeify(torch.zeros(5, 3)), mode.fakeify(torch.zeros(1, 2, 4))
        weights = [mode.fakeify(weight) for weight in kind(3, 4).parameters()]
        hx = (h, h) if kind is nn.LSTM else h
        return getattr(torch, name)(x, lengths, hx, weights, True, 1, 0.0, False, False)

    return call


READING: dict[str, Callable[[FakeMode, Tensor], Any]] = {
    "gru": packed(nn.GRU, "gru"),
    "lstm": packed(nn.LSTM, "lstm"),
    "rnn_tanh": packed(nn.RNN, "rnn_tanh"),
    "rnn_relu": packed(nn.RNN, "rnn_relu"),
    "pad": lambda m, lengths: torch._C._VariableFunctions._pad_packed_sequence(
        m.fakeify(torch.zeros(5, 3)), lengths, True, 0.0, 3
    ),
    "pack": lambda m, lengths: torch._C._VariableFunctions._pack_padded_sequence(
        m.fakeify(torch.zeros(3, 3, 2)), lengths, True
    ),
    "tensor_split": lambda m, lengths: torch.tensor_split(m.fakeify(torch.zeros(5, 3)), lengths),
}

MADE: dict[str, Callable[[Tensor], Tensor]] = {
    "given": lambda b: b,
    "computed": lambda b: b + 0,
    "copied": lambda b: b.clone(),
    "detached": lambda b: b.detach(),
    "view": lambda b: b[0:].view(-1),
    "row": lambda b: torch.stack([b, b])[0],
    "converted": lambda b: b.to(torch.int32).to(torch.int64),
    "sorted": lambda b: b.sort(descending=True)[0],
    "filled": lambda b: torch.full((b.shape[0],), 1),
}


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("reading", READING)
@pytest.mark.parametrize("symbolic", [False, True], ids=["constant", "symbolic"])
def test_what_is_read_is_refused(reading: str, made: str, symbolic: bool) -> None:
    mode = FakeMode()
    lengths = mode.fakeify(torch.tensor([2, 2, 1]), {0: mode.sizes.new(3, "steps")} if symbolic else {})
    with mode, pytest.raises((RuntimeError, *DATA_DEPENDENT_ERRORS)):
        READING[reading](mode, MADE[made](lengths))


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, nn.RNN])
def test_packed_sequences_of_changing_lengths(kind: type[nn.RNNBase], dynamic: bool | None) -> None:
    network = kind(3, 4, batch_first=True)

    def f(x: Tensor, lengths: Tensor) -> Any:
        given = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        output, state = network(given)
        return nn.utils.rnn.pad_packed_sequence(output, batch_first=True), state

    compiled = onegraph.compile(f, dynamic=dynamic)
    for lengths in ([3, 2], [5, 1], [4, 4, 2], [1]):
        x, given = torch.randn(len(lengths), lengths[0], 3), torch.tensor(lengths)
        torch.testing.assert_close(compiled(x, given), f(x, given), rtol=0, atol=0)
