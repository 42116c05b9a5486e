"""One layer, in one direction, of a GRU or an RNN over a whole sequence, as an operator of its own.

aten runs it step by step, and so a graph of its operators has all steps of one length. The operator calls aten's layer.
Its gradient has products of all steps at once, but for what goes from step to step:

    gates   i = x W_i + b_i,  h = h_before W_h + b_h
    GRU     r = sigmoid(i_r + h_r),  z = sigmoid(i_z + h_z),  n = tanh(i_n + r h_n),  output = (1 - z) n + z h_before
    RNN     output = tanh(i + h) or relu(i + h)

Source of the formulas: `GRUCell` and `SimpleCell` in ATen/native/RNN.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from onegraph.torchlib.aten import LIBRARY, define

_WEIGHTS = "Tensor inner, Tensor outer, Tensor? inner_bias, Tensor? outer_bias, bool reverse"
_LAYER = f"recurrent(str kind, Tensor x, Tensor h, {_WEIGHTS}) -> Tensor"
_BACKWARD = (
    f"recurrent_backward(Tensor gradient, Tensor output, str kind, Tensor x, Tensor h, {_WEIGHTS})"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
#: What aten calls the networks that have such layers.
LAYERS: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
    "gru": torch.gru,
    "rnn_tanh": torch.rnn_tanh,
    "rnn_relu": torch.rnn_relu,
}


def run(
    kind: str,
    x: Tensor,
    h: Tensor,
    inner: Tensor,
    outer: Tensor,
    inner_bias: Tensor | None,
    outer_bias: Tensor | None,
    reverse: bool,
) -> Tensor:
    """The states after each step: `x` is [steps, batch, features], `h` and each state [batch, states]."""
    weights = [weight for weight in (inner, outer, inner_bias, outer_bias) if weight is not None]
    given = x.flip(0) if reverse else x
    output, _ = LAYERS[kind](given, h[None], weights, inner_bias is not None, 1, 0.0, False, False, False)
    return output.flip(0) if reverse else output


def run_on_fakes(kind: str, x: Tensor, h: Tensor, *weights: Any) -> Tensor:
    return x.new_empty(x.shape[0], *h.shape)


def run_backward(
    gradient: Tensor,
    output: Tensor,
    kind: str,
    x: Tensor,
    h: Tensor,
    inner: Tensor,
    outer: Tensor,
    inner_bias: Tensor | None,
    outer_bias: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, ...]:
    """The gradients of `x`, `h` and the four weights, from those of the states after each step.

    The caller may differentiate it again, as all that it calls."""
    if reverse:
        gradient, output, x = gradient.flip(0), output.flip(0), x.flip(0)
    before = torch.cat([h[None], output[:-1]])
    if kind == "gru":
        gates_of_x, gates_of_h = F.linear(x, inner, inner_bias), F.linear(before, outer, outer_bias)
        from_x, from_h, kept = _slopes_of_gru(gates_of_x, gates_of_h, before)
    else:
        from_x = from_h = (1 - output * output if kind == "rnn_tanh" else (output > 0).to(output.dtype))[:, :, None]
        kept = None
    states, scaled, carried = [], [], torch.zeros_like(h)
    for step in range(len(x) - 1, -1, -1):
        state = gradient[step] + carried
        states.append(state)
        scaled.append((from_h[step] * state[:, None]).flatten(1))
        carried = scaled[-1] @ outer if kept is None else torch.addmm(state * kept[step], scaled[-1], outer)
    of_h = torch.stack(scaled[::-1])
    of_x = of_h if kept is None else torch.cat([of_h[:, :, : -h.shape[1]], torch.stack(states[::-1]) * from_x], 2)
    flat_x, flat_h = of_x.flatten(0, 1), of_h.flatten(0, 1)
    of_input = of_x @ inner
    return (
        of_input.flip(0) if reverse else of_input,
        carried,
        flat_x.t() @ x.flatten(0, 1),
        flat_h.t() @ before.flatten(0, 1),
        flat_x.sum(0),
        flat_h.sum(0),
    )


def _slopes_of_gru(gates_of_x: Tensor, gates_of_h: Tensor, before: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What a state's gradient is multiplied by: for `i_n`, for all gates of the state, for the state before."""
    (x_r, x_z, x_n), (h_r, h_z, h_n) = gates_of_x.chunk(3, 2), gates_of_h.chunk(3, 2)
    r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
    n = torch.tanh(x_n + r * h_n)
    of_n = (1 - z) * (1 - n * n)
    return of_n, torch.stack([of_n * h_n * r * (1 - r), (before - n) * z * (1 - z), of_n * r], 2), z


def run_backward_on_fakes(
    gradient: Tensor, output: Tensor, kind: str, x: Tensor, h: Tensor, inner: Tensor, outer: Tensor, *others: Any
) -> tuple[Tensor, ...]:
    shapes = (x.shape, h.shape, inner.shape, outer.shape, inner.shape[:1], inner.shape[:1])
    return tuple(x.new_empty(shape) for shape in shapes)


def keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.kind, *tensors, ctx.reverse = inputs
    ctx.save_for_backward(output, *tensors)


def differentiate(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    output, *tensors = ctx.saved_tensors
    *found, of_inner, of_outer = torch.ops.onegraph.recurrent_backward(
        gradient, output, ctx.kind, *tensors, ctx.reverse
    )
    biases = (of_inner, of_outer) if tensors[-1] is not None else (None, None)
    return None, *found, *biases, None


if define(_BACKWARD, CPU=run_backward, Meta=run_backward_on_fakes, Autograd=torch.library.fallthrough_kernel):
    define(_LAYER, CPU=run, Meta=run_on_fakes)
    torch.library.register_autograd("onegraph::recurrent", differentiate, setup_context=keep, lib=LIBRARY)
