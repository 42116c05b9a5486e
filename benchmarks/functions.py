"""The functions of the suite `transforms`, with their arguments: each once, without any of the contenders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._higher_order_ops import scan
from torch.func import functional_call, grad, jvp, vmap

Case = tuple[Callable[..., object], tuple[Any, ...]]


def perceptron(*widths: int) -> nn.Sequential:
    """Linear layers with tanh between."""
    pairs = list(zip(widths, widths[1:], strict=False))
    layers = [layer for inputs, outputs in pairs for layer in (nn.Linear(inputs, outputs), nn.Tanh())]
    return nn.Sequential(*layers[:-1])


def per_sample_gradients() -> Case:
    """The gradients of a classifier for each of 64 samples, as differential privacy needs them."""
    model = perceptron(64, 128, 10)
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(parameters: dict[str, Tensor], x: Tensor, label: Tensor) -> Tensor:
        return nn.functional.cross_entropy(functional_call(model, parameters, (x,)), label)

    def run(parameters: dict[str, Tensor], x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, labels)

    return run, (parameters, torch.randn(64, 64), torch.randint(10, (64,)))


def hessian_vector_product() -> Case:
    """Of the loss of a regression, by forward over reverse mode."""
    model = perceptron(32, 64, 1)
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    direction = {name: torch.randn_like(p) for name, p in parameters.items()}

    def run(parameters: dict[str, Tensor], direction: dict[str, Tensor], x: Tensor, y: Tensor) -> dict[str, Tensor]:
        loss = lambda p: (functional_call(model, p, (x,)) - y).square().mean()  # noqa: E731
        return jvp(grad(loss), (parameters,), (direction,))[1]

    return run, (parameters, direction, torch.randn(128, 32), torch.randn(128, 1))


def residual_of_a_wave() -> Case:
    """A physics-informed network: the wave equation's residual at 256 points, of second derivatives."""
    model = perceptron(2, 32, 32, 1)

    def u(point: Tensor) -> Tensor:
        return model(point).squeeze()

    def residual(point: Tensor) -> Tensor:
        x, t = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
        along = lambda direction: jvp(lambda p: jvp(u, (p,), (direction,))[1], (point,), (direction,))[1]  # noqa: E731
        return along(t) - along(x)

    def run(points: Tensor) -> Tensor:
        return vmap(residual)(points).square().mean()

    return run, (torch.rand(256, 2),)


def kmeans() -> Case:
    """A step of Lloyd's algorithm in NumPy: 4,000 points of 8 dimensions, 16 means."""
    rng = np.random.default_rng(0)

    def run(points: Any, means: Any) -> Any:
        distances = ((points[:, None, :] - means) ** 2).sum(-1)
        chosen = np.argmin(distances, axis=1)
        members = (chosen[:, None] == np.arange(len(means))).astype(points.dtype)
        return members.T @ points / np.maximum(members.sum(0), 1)[:, None]

    return run, (rng.standard_normal((4000, 8)), rng.standard_normal((16, 8)))


def mandelbrot() -> Case:
    """Twenty iterations in NumPy, of 400 by 300 points, with real and imaginary parts apart."""
    real, imaginary = np.meshgrid(np.linspace(-2.0, 0.5, 400), np.linspace(-1.2, 1.2, 300))

    def run(real: Any, imaginary: Any) -> Any:
        x, y = np.zeros_like(real), np.zeros_like(imaginary)
        counts = np.zeros(real.shape, dtype=np.int64)
        for _ in range(20):
            xx, yy = x * x, y * y
            inside = xx + yy <= 4
            x, y = np.where(inside, xx - yy + real, x), np.where(inside, 2 * x * y + imaginary, y)
            counts = counts + inside
        return counts

    return run, (real, imaginary)


def graph_layer() -> Case:
    """A graph network: 2,000 nodes take the means of their neighbours over those of 16,000 edges that a mask keeps."""
    layer = nn.Linear(64, 64)

    def run(x: Tensor, edges: Tensor, weights: Tensor) -> Tensor:
        sources, targets = edges[:, weights > 0.3]
        total = torch.zeros_like(x).index_add_(0, targets, x[sources])
        count = torch.zeros(len(x)).index_add_(0, targets, torch.ones(targets.shape[0]))
        return torch.relu(layer(total / count.clamp(min=1)[:, None]) + x)

    return run, (torch.randn(2000, 64), torch.randint(2000, (2, 16000)), torch.rand(16000))


def routed_experts() -> Case:
    """A mixture of experts: 512 tokens of 128 numbers, each through 2 of 8 experts, by the places of masks."""
    inner, outer = nn.Parameter(torch.randn(8, 128, 256) / 12), nn.Parameter(torch.randn(8, 256, 128) / 16)
    gate = nn.Linear(128, 8)

    def run(x: Tensor) -> Tensor:
        weights, chosen = torch.topk(gate(x).softmax(-1), 2)
        result = torch.zeros_like(x)
        for number in range(8):
            rows, place = torch.where(chosen == number)
            own = nn.functional.gelu(x[rows] @ inner[number]) @ outer[number]
            result.index_add_(0, rows, own * weights[rows, place, None])
        return result

    return run, (torch.randn(512, 128),)


def recurrence() -> Case:
    """A scan of 1,000 steps of a recurrent layer."""
    weight = torch.randn(64, 64) / 8

    def step(state: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        state = torch.tanh(state @ weight + x)
        return state, state * 2

    return (lambda state, xs: scan(step, state, xs)), (torch.zeros(8, 64), torch.randn(1000, 8, 64))


CASES: tuple[Callable[[], Case], ...] = (
    per_sample_gradients,
    hessian_vector_product,
    residual_of_a_wave,
    graph_layer,
    routed_experts,
    recurrence,
    kmeans,
    mandelbrot,
)
