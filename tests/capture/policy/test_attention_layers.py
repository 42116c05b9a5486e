"""Layers of attention, which choose between ways with other results: the one that eager mode takes is taken."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules import module as hooks

import onegraph
from tests.capture.bisimulation import Bisimulation

PADDING = torch.tensor([[0, 0, 1, 1], [0, 0, 0, 1], [0, 1, 1, 1]]).bool()
SPREAD = torch.tensor([[0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 0]]).bool()
AHEAD = torch.ones(4, 4).triu(1).bool()
GRAD = {"no_grad": torch.no_grad, "inference": torch.inference_mode, "grad": torch.enable_grad}


class OwnFunction:
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return NotImplemented


def layouts(function: Any, x: torch.Tensor, calls: int = 2) -> list[Any]:
    results = [function(x + number) for number in range(calls)]
    return [(result, torch.utils._pytree.tree_map(lambda part: part.stride(), result)) for result in results]


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("grad", GRAD)
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"need_weights": False},
        {"average_attn_weights": False},
        {"key_padding_mask": PADDING},
        {"attn_mask": AHEAD},
        {"attn_mask": AHEAD, "key_padding_mask": PADDING, "need_weights": False},
        {"attn_mask": AHEAD, "is_causal": True, "need_weights": False},
    ],
    ids="-".join,
)
def test_attention_of_a_batch(given: dict[str, Any], grad: str, backend: str) -> None:
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()

    def program(x: torch.Tensor) -> Any:
        result, weights = attention(x, x, x, **given)
        return result, (x[:0] if weights is None else weights)

    with GRAD[grad]():
        x = torch.linspace(-1, 1, 96).reshape(3, 4, 8)
        found = layouts(onegraph.compile(program, backend=backend, fullgraph=True), x)
        assert Bisimulation().difference(layouts(program, x), found) is None


@pytest.mark.parametrize("grad", GRAD)
@pytest.mark.parametrize("layer", [{}, {"norm_first": True}, {"activation": "gelu"}], ids="-".join)
def test_a_layer_of_an_encoder(layer: dict[str, Any], grad: str) -> None:
    made = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **layer).eval()
    with GRAD[grad]():
        for dynamic in (None, True):
            compiled = onegraph.compile(made, fullgraph=True, dynamic=dynamic)
            for length in (4, 5, 3):
                x = torch.linspace(-1, 1, 16 * length).reshape(2, length, 8)
                assert Bisimulation().difference(layouts(made, x), layouts(compiled, x)) is None


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("grad", GRAD)
@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("padding", [PADDING, SPREAD], ids=["at the end", "anywhere"])
def test_what_is_padded_is_zero_where_eager_gives_zeros(nested: bool, grad: str, padding: torch.Tensor) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested).eval()

    def program(x: torch.Tensor) -> torch.Tensor:
        return encoder(x, src_key_padding_mask=padding)

    with GRAD[grad]():
        x = torch.linspace(-1, 1, 96).reshape(3, 4, 8)
        assert Bisimulation().difference(layouts(program, x), layouts(onegraph.compile(program), x)) is None


def test_who_has_a_function_of_its_own_in_the_place_of_torchs() -> None:
    own, overrides = OwnFunction(), torch.overrides

    def program(x: torch.Tensor) -> Any:
        several, one = overrides.has_torch_function_variadic, overrides.has_torch_function_unary
        asked = [overrides.has_torch_function(values) for values in ((x,), [own], (OwnFunction,), ())]
        return x + 1, asked, one(x), one(own), one(3), several(x, own), several(x, 3), several()

    compiled = onegraph.compile(program, fullgraph=True)
    for place in (None, "cpu", None, "cpu"):
        with torch.device(place) if place else torch.enable_grad():
            for x in (torch.ones(2), nn.Parameter(torch.ones(2))):
                assert Bisimulation().difference(program(x), compiled(x)) is None


def test_hooks_that_are_always_called() -> None:
    class Raising(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("no")

    seen: list[int] = []
    raising = Raising()

    def program(x: torch.Tensor) -> torch.Tensor:
        try:
            return raising(x)
        except ValueError:
            return x + len(seen)

    def run(function: Any) -> list[Any]:
        seen.clear()
        raising.register_forward_hook(lambda *_: seen.append(1), always_call=True)
        everywhere = hooks.register_module_forward_hook(lambda *_: seen.append(2), always_call=True)
        results = [(function(torch.ones(2)), list(seen)) for _ in range(3)]
        everywhere.remove()
        raising._forward_hooks.clear()
        raising._forward_hooks_always_called.clear()
        return results

    assert Bisimulation().difference(run(program), run(onegraph.compile(program))) is None
