"""Recurrent networks over sequences that are long, or whose length is a symbol: a call for each layer and direction.

LSTMs are those of oneDNN. aten asks how many elements there are before it chooses it, which a fake of symbolic sizes
cannot tell it. Source: `use_mkldnn` and `lstm_mkldnn` in ATen/native/RNN.cpp and ATen/native/mkldnn/RNN.cpp. Other
networks run step by step: their layers are operators of our own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from onegraph.torchlib import recurrent_layer as recurrent_layer  # which defines the operator
from onegraph.torchlib.onednn import multiplies

State = TypeVar("State")

#: The number of the LSTM among the kinds of networks of oneDNN.
_LSTM = 2


#: The steps of all layers that are worth a graph of their own: its compilation takes a tenth of a second for each.
FEW_STEPS = 16


def is_of_layers(x: Any, hx: Any = None, params: Any = None, *rest: Any) -> bool:
    """Whether these are arguments of `torch.gru`, `rnn_tanh` or `rnn_relu` of which each layer is better one call."""
    if not isinstance(x, Tensor) or not isinstance(hx, Tensor) or not isinstance(params, Sequence) or len(rest) != 6:
        return False  # a packed sequence has its lengths in a tensor
    tensors = [x, hx, *params]
    if any(t.device.type != "cpu" or t.dtype is not x.dtype for t in tensors) or torch.is_autocast_enabled("cpu"):
        return False
    _, layers, _, _, bidirectional, batch_first = rest
    steps = x.shape[1] if batch_first else x.shape[0]
    known = isinstance(steps, int)
    return all(n > 0 for n in x.shape) and not (known and steps * layers * (1 + bidirectional) <= FEW_STEPS)


def of_layers(
    kind: str,
    x: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor]:
    """As `torch.gru` or another network of this kind: the output, and the states after the last step."""

    def run(values: Tensor, at: int, weights: Sequence[Tensor], reverse: bool) -> tuple[Tensor, Tensor]:
        biases = (None, None) if len(weights) == 2 else weights[2:]
        output = torch.ops.onegraph.recurrent.default(kind, values, hx[at], *weights[:2], *biases, reverse)
        return output, output[0 if reverse else -1]

    values = x.transpose(0, 1) if batch_first else x
    result, states = over_layers(run, values, params, has_biases, num_layers, dropout, train, bidirectional)
    return result.transpose(0, 1) if batch_first else result, torch.stack(states)


def over_layers(
    run: Callable[[Tensor, int, Sequence[Tensor], bool], tuple[Tensor, State]],
    values: Tensor,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Tensor, list[State]]:
    """The output of a network, and what `run` gives for its layers and directions besides their outputs."""
    directions = 2 if bidirectional else 1
    each = 4 if has_biases else 2
    states = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            at = layer * directions + direction
            output, state = run(values, at, params[at * each : (at + 1) * each], direction == 1)
            outputs.append(output)
            states.append(state)
        values = outputs[0] if directions == 1 else torch.cat(outputs, -1)
        if dropout and train and layer < num_layers - 1:
            values = F.dropout(values, dropout)
    return values, states


def is_lstm_of_symbols(x: Any, hx: Any = None, params: Any = None, *rest: Any) -> bool:
    """Whether these are arguments of `torch.lstm`, with symbolic sizes, that eager mode hands to oneDNN."""
    if not isinstance(x, Tensor) or isinstance(hx, Tensor) or not isinstance(params, Sequence):
        return False  # a packed sequence has its lengths in a tensor
    tensors = [x, *hx, *params]
    if not any(t._has_symbolic_sizes_strides for t in (x, *hx)) or not torch.backends.mkldnn.enabled:
        return False
    if torch.is_autocast_enabled("cpu") or any(t.device.type != "cpu" for t in tensors):
        return False
    if any(t.dtype is not x.dtype for t in tensors) or not multiplies(x.dtype):
        return False
    projected = hx[0].shape[2] != hx[1].shape[2]
    return not projected and all(n > 0 for n in x.shape)


def lstm(
    x: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """As `torch.lstm`: the output, and the states of all layers and directions after the last step."""
    values = (x.transpose(0, 1) if batch_first else x).contiguous()
    h, c = (state.contiguous() for state in hx)

    def run(values: Tensor, at: int, weights: Sequence[Tensor], reverse: bool) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        inner, outer, *biases = weights
        biases = biases or [torch.zeros(weight.shape, dtype=weight.dtype) for weight in (inner, outer)]
        output, new_h, new_c, _ = torch.ops.aten.mkldnn_rnn_layer.default(
            values,
            inner,
            outer,
            *biases,
            h[at],
            c[at],
            reverse,
            [],
            _LSTM,
            h.shape[2],
            num_layers,
            has_biases,
            bidirectional,
            batch_first,
            train,
        )
        return output, (new_h, new_c)

    values, states = over_layers(run, values, params, has_biases, num_layers, dropout, train, bidirectional)
    last_h, last_c = zip(*states, strict=True)
    return values.transpose(0, 1) if batch_first else values, torch.stack(last_h), torch.stack(last_c)
