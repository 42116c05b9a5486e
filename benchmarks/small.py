"""Thirty small models of different families: what is measured is mostly the way to the operators, and between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.contenders import CONTENDERS, reset
from benchmarks.measure import Result, Settings, interleaved

WIDTH = 64
Case = tuple[Callable[..., object], tuple[Tensor, ...]]


class Applied(nn.Module):
    """Layers, and a function of them and of the inputs."""

    def __init__(self, function: Callable[..., object], **layers: nn.Module) -> None:
        super().__init__()
        for name, layer in layers.items():
            self.add_module(name, layer)
        self.function = function

    def forward(self, *inputs: Tensor) -> object:
        return self.function(self, *inputs)


def stack(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers)


def linear(inputs: int = WIDTH, outputs: int = WIDTH) -> nn.Linear:
    return nn.Linear(inputs, outputs)


# ---- multilayer perceptrons ------------------------------------------------------------------------------------------


def regression() -> Case:
    return linear(32, 1), (torch.randn(64, 32),)


def perceptron() -> Case:
    return stack(linear(), nn.ReLU(), linear(), nn.ReLU(), linear(WIDTH, 10), nn.Softmax(-1)), (torch.randn(32, WIDTH),)


def normalized_perceptron() -> Case:
    blocks = [layer for _ in range(4) for layer in (linear(), nn.LayerNorm(WIDTH), nn.GELU())]
    return stack(*blocks), (torch.randn(32, WIDTH),)


def gated() -> Case:
    run = lambda m, x: m.down(F.silu(m.gate(x)) * m.up(x)) + x  # noqa: E731
    return Applied(run, gate=linear(64, 128), up=linear(64, 128), down=linear(128, 64)), (torch.randn(16, 64),)


def highway() -> Case:
    def run(m: Applied, x: Tensor) -> Tensor:
        t = torch.sigmoid(m.carry(x))
        return torch.tanh(m.value(x)) * t + x * (1 - t)

    return Applied(run, carry=linear(), value=linear()), (torch.randn(32, WIDTH),)


def sine_network() -> Case:
    def run(m: Applied, x: Tensor) -> Tensor:
        for layer in (m.a, m.b, m.c):
            x = torch.sin(30 * layer(x))
        return m.last(x)

    return Applied(run, a=linear(2), b=linear(), c=linear(), last=linear(64, 3)), (torch.rand(256, 2),)


def radiance_field() -> Case:
    def run(m: Applied, x: Tensor) -> tuple[Tensor, Tensor]:
        scaled = x[..., None, :] * (2.0 ** torch.arange(6))[:, None]
        encoded = torch.cat([x, scaled.sin().flatten(-2), scaled.cos().flatten(-2)], -1)
        hidden = F.relu(m.b(F.relu(m.a(encoded))))
        return torch.sigmoid(m.color(hidden)), F.softplus(m.density(hidden))

    layers = {"a": linear(39), "b": linear(), "color": linear(64, 3), "density": linear(64, 1)}
    return Applied(run, **layers), (torch.rand(128, 3),)


def autoencoder() -> Case:
    return stack(linear(64, 32), nn.ReLU(), linear(32, 8), linear(8, 32), nn.ReLU(), linear(32, 64), nn.Sigmoid()), (
        torch.rand(32, 64),
    )


def variational() -> Case:
    def run(m: Applied, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        mean, log = m.encoder(x).chunk(2, -1)
        divergence = -0.5 * (1 + log - mean.square() - log.exp()).sum(-1)
        return torch.sigmoid(m.decoder(mean + noise * (0.5 * log).exp())), divergence.mean()

    return Applied(run, encoder=linear(64, 32), decoder=linear(16, 64)), (torch.rand(32, 64), torch.randn(32, 16))


def coupling_flow() -> Case:
    def run(m: Applied, x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = x.chunk(2, -1)
        total = torch.zeros(x.shape[0])
        for layer in (m.a, m.b, m.c):
            scale, shift = layer(a).chunk(2, -1)
            scale = torch.tanh(scale)
            a, b = b * scale.exp() + shift, a
            total = total + scale.sum(-1)
        return torch.cat([a, b], -1), total

    return Applied(run, a=linear(16, 32), b=linear(16, 32), c=linear(16, 32)), (torch.randn(64, 32),)


def mixture_of_experts() -> Case:
    def run(m: Applied, x: Tensor) -> Tensor:
        gates = F.softmax(m.gate(x), -1)
        experts = torch.stack([F.gelu(e(x)) for e in (m.a, m.b, m.c, m.d)], -1)
        return (experts * gates.unsqueeze(-2)).sum(-1)

    return Applied(run, gate=linear(64, 4), a=linear(), b=linear(), c=linear(), d=linear()), (torch.randn(16, 64),)


def radial_basis() -> Case:
    centers = nn.Embedding(24, 8)
    run = lambda m, x: m.out(torch.exp(-(x[:, None] - m.centers.weight).square().sum(-1)))  # noqa: E731
    return Applied(run, centers=centers, out=linear(24, 4)), (torch.randn(64, 8),)


def siamese() -> Case:
    def run(m: Applied, x: Tensor, y: Tensor) -> Tensor:
        a, b = (F.normalize(m.tower(z), dim=-1) for z in (x, y))
        return (a * b).sum(-1)

    return Applied(run, tower=stack(linear(), nn.ReLU(), linear())), (torch.randn(32, 64), torch.randn(32, 64))


# ---- recommendation and control --------------------------------------------------------------------------------------


def wide_and_deep() -> Case:
    def run(m: Applied, ids: Tensor, x: Tensor) -> Tensor:
        deep = m.deep(torch.cat([m.table(ids).flatten(1), x], -1))
        return torch.sigmoid(m.wide(x) + deep)

    deep = stack(linear(4 * 16 + 13, 64), nn.ReLU(), linear(64, 1))
    inputs = torch.randint(100, (32, 4)), torch.randn(32, 13)
    return Applied(run, table=nn.Embedding(100, 16), deep=deep, wide=linear(13, 1)), inputs


def dot_interaction() -> Case:
    def run(m: Applied, ids: Tensor, x: Tensor) -> Tensor:
        features = torch.cat([m.table(ids), m.bottom(x).unsqueeze(1)], 1)
        pairs = (features @ features.transpose(1, 2)).flatten(1)
        return torch.sigmoid(m.top(pairs))

    inputs = torch.randint(100, (32, 7)), torch.randn(32, 13)
    return Applied(run, table=nn.Embedding(100, 16), bottom=linear(13, 16), top=linear(64, 1)), inputs


def factorization_machine() -> Case:
    def run(m: Applied, ids: Tensor) -> Tensor:
        v = m.table(ids)
        return 0.5 * (v.sum(1).square() - v.square().sum(1)).sum(-1) + m.bias(ids).squeeze(-1).sum(-1)

    return Applied(run, table=nn.Embedding(500, 16), bias=nn.Embedding(500, 1)), (torch.randint(500, (64, 10)),)


def dueling_values() -> Case:
    def run(m: Applied, x: Tensor) -> Tensor:
        hidden = F.relu(m.body(x))
        advantage = m.advantage(hidden)
        return m.value(hidden) + advantage - advantage.mean(-1, keepdim=True)

    return Applied(run, body=linear(8), value=linear(64, 1), advantage=linear(64, 4)), (torch.randn(1, 8),)


def actor_critic() -> Case:
    def run(m: Applied, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden = torch.tanh(m.body(x))
        logits = F.log_softmax(m.actor(hidden), -1)
        return logits, -(logits.exp() * logits).sum(-1), m.critic(hidden)

    return Applied(run, body=linear(8), actor=linear(64, 6), critic=linear(64, 1)), (torch.randn(16, 8),)


def kalman_step() -> Case:
    def run(state: Tensor, cov: Tensor, move: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        state, cov = move @ state, move @ cov @ move.t() + 0.1 * torch.eye(4)
        gain = cov / (cov.diagonal() + 0.5)
        return state + gain @ (seen - state), cov - gain @ cov

    return run, (torch.randn(4), torch.eye(4), torch.randn(4, 4), torch.randn(4))


# ---- sequences -------------------------------------------------------------------------------------------------------


def gru() -> Case:
    return nn.GRUCell(32, 64), (torch.randn(8, 32), torch.randn(8, 64))


def lstm() -> Case:
    run = lambda m, x, h, c: m.cell(x, (h, c))  # noqa: E731
    return Applied(run, cell=nn.LSTMCell(32, 64)), (torch.randn(8, 32), torch.randn(8, 64), torch.randn(8, 64))


def attention() -> Case:
    def run(m: Applied, x: Tensor) -> Tensor:
        q, k, v = (part.view(2, 16, 4, 16).transpose(1, 2) for part in m.qkv(x).chunk(3, -1))
        out = F.scaled_dot_product_attention(q, k, v)
        return m.out(out.transpose(1, 2).reshape(2, 16, 64)) + x

    return Applied(run, qkv=linear(64, 192), out=linear()), (torch.randn(2, 16, 64),)


def rotary_attention() -> Case:
    def run(m: Applied, x: Tensor) -> Tensor:
        q, k, v = (part.view(1, 16, 4, 16).transpose(1, 2) for part in m.qkv(x).chunk(3, -1))
        angle = torch.arange(16.0)[:, None] / 10000 ** (torch.arange(8.0) / 8)
        cos, sin = angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)
        q, k = (t * cos + torch.cat([-t[..., 8:], t[..., :8]], -1) * sin for t in (q, k))
        weights = F.softmax((q @ k.transpose(-1, -2)) / math.sqrt(16), -1)
        return m.out((weights @ v).transpose(1, 2).reshape(1, 16, 64))

    return Applied(run, qkv=linear(64, 192), out=linear()), (torch.randn(1, 16, 64),)


def transformer_layer() -> Case:
    def run(m: Applied, x: Tensor) -> Tensor:
        q, k, v = (part.view(2, 16, 4, 16).transpose(1, 2) for part in m.qkv(m.first(x)).chunk(3, -1))
        x = x + m.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 16, 64))
        return x + m.down(F.gelu(m.up(m.second(x))))

    layers: dict[str, nn.Module] = {"qkv": linear(64, 192), "out": linear(), "up": linear(64, 256)}
    layers |= {"down": linear(256, 64), "first": nn.LayerNorm(64), "second": nn.LayerNorm(64)}
    return Applied(run, **layers), (torch.randn(2, 16, 64),)


def mlp_mixer() -> Case:
    def run(m: Applied, x: Tensor) -> Tensor:
        x = x + m.tokens(m.first(x).transpose(1, 2)).transpose(1, 2)
        return x + m.channels(m.second(x))

    tokens, channels = (
        stack(linear(16, 32), nn.GELU(), linear(32, 16)),
        stack(linear(64, 128), nn.GELU(), linear(128, 64)),
    )
    layers = {"tokens": tokens, "channels": channels, "first": nn.LayerNorm(64), "second": nn.LayerNorm(64)}
    return Applied(run, **layers), (torch.randn(2, 16, 64),)


def temporal_convolution() -> Case:
    layers = [nn.Conv1d(8, 16, 3, padding=1), nn.ReLU(), nn.Conv1d(16, 16, 3, padding=2, dilation=2), nn.ReLU()]
    return stack(*layers), (torch.randn(4, 8, 64),)


def gated_convolution() -> Case:
    def run(m: Applied, x: Tensor) -> Tensor:
        a, b = m.conv(F.pad(x, (2, 0))).chunk(2, 1)
        return x + m.out(torch.tanh(a) * torch.sigmoid(b))

    return Applied(run, conv=nn.Conv1d(16, 32, 3), out=nn.Conv1d(16, 16, 1)), (torch.randn(2, 16, 64),)


def graph_convolution() -> Case:
    def run(m: Applied, x: Tensor, edges: Tensor) -> Tensor:
        edges = edges + torch.eye(32)
        scale = edges.sum(-1).rsqrt()
        edges = edges * scale[:, None] * scale
        return F.log_softmax(edges @ m.b(F.relu(edges @ m.a(x))), -1)

    inputs = torch.randn(32, 16), (torch.rand(32, 32) > 0.8).float()
    return Applied(run, a=nn.Linear(16, 32, bias=False), b=nn.Linear(32, 7, bias=False)), inputs


# ---- images ----------------------------------------------------------------------------------------------------------


def lenet() -> Case:
    features = [nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2)]
    return stack(*features, nn.Flatten(), linear(256, 120), nn.Tanh(), linear(120, 10)), (torch.randn(4, 1, 28, 28),)


def residual_block() -> Case:
    run = lambda m, x: F.relu(x + m.b(F.relu(m.a(x))))  # noqa: E731
    make = lambda: stack(nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16))  # noqa: E731
    return Applied(run, a=make(), b=make()), (torch.randn(2, 16, 16, 16),)


CASES: tuple[Callable[[], Case], ...] = (
    regression,
    perceptron,
    normalized_perceptron,
    gated,
    highway,
    sine_network,
    radiance_field,
    autoencoder,
    variational,
    coupling_flow,
    mixture_of_experts,
    radial_basis,
    siamese,
    wide_and_deep,
    dot_interaction,
    factorization_machine,
    dueling_values,
    actor_critic,
    kalman_step,
    gru,
    lstm,
    attention,
    rotary_attention,
    transformer_layer,
    mlp_mixer,
    temporal_convolution,
    gated_convolution,
    graph_convolution,
    lenet,
    residual_block,
)


def run(settings: Settings) -> Iterator[Result]:
    for case in CASES[:3] if settings.quick else CASES:
        name = case.__name__.replace("_", " ")
        if not settings.wants(case.__name__):
            continue
        torch.manual_seed(0)
        target, args = case()
        if isinstance(target, nn.Module):
            target.eval()
        with torch.no_grad():
            runs = {key: partial(compile(target), *args) for key, compile in CONTENDERS.items()}
            yield Result("small", name, "us", interleaved(runs, settings.rounds(15), settings.clock))
        reset()
