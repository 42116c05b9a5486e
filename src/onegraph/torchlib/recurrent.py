"""LSTM over sequences whose length is a symbol: the calls that aten makes for each layer and direction.

aten asks how many elements there are before it chooses oneDNN, which a fake of symbolic sizes cannot tell it. Source:
`use_mkldnn` and `lstm_mkldnn` in ATen/native/RNN.cpp and ATen/native/mkldnn/RNN.cpp. Other recurrent operators run step
by step: for them, the length must be known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from onegraph.torchlib.onednn import multiplies

#: The number of the LSTM among the kinds of networks of oneDNN.
_LSTM = 2


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
    directions = 2 if bidirectional else 1
    last_h, last_c = [], []
    each = 4 if has_biases else 2
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            at = layer * directions + direction
            inner, outer, *biases = params[at * each : (at + 1) * each]
            biases = biases or [torch.zeros(weight.shape, dtype=weight.dtype) for weight in (inner, outer)]
            output, new_h, new_c, _ = torch.ops.aten.mkldnn_rnn_layer.default(
                values,
                inner,
                outer,
                *biases,
                h[at],
                c[at],
                direction == 1,
                [],
                _LSTM,
                h.shape[2],
                num_layers,
                has_biases,
                bidirectional,
                batch_first,
                train,
            )
            outputs.append(output)
            last_h.append(new_h)
            last_c.append(new_c)
        values = outputs[0] if directions == 1 else torch.cat(outputs, -1)
        if dropout and train and layer < num_layers - 1:
            values = F.dropout(values, dropout)
    result = values.transpose(0, 1) if batch_first else values
    return result, torch.stack(last_h), torch.stack(last_c)
