"""Random functions of tensors, for comparing compiled graphs with eager: shapes with 0 and 1, strides, types."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

TYPES = [torch.float32] * 6 + [torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.int64]
SIZES = [1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 64, 70]
LIMIT = 100_000  # elements of a tensor
SHORT = (torch.bfloat16, torch.float16)


class Unfit(Exception):
    """The graph that was drawn is none: eager refuses it."""


@dataclass
class RandomGraph:
    """`function(*inputs)` gives a tuple of tensors; everything follows from the seed."""

    seed: int
    dtype: torch.dtype = torch.float32
    inputs: list[Tensor] = field(default_factory=list)
    choices: list[tuple[float, float, float, float]] = field(default_factory=list)
    products: ClassVar[float] = 0.0  # the share of products with weights

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        torch.manual_seed(self.seed)
        self.dtype = self.random.choice(TYPES)
        shape = self._shape()
        self.inputs.append(self._tensor(shape))
        for _ in range(self.random.randint(0, 2)):
            kept = self.random.randint(0, len(shape))
            self.inputs.append(self._tensor([self.random.choice([1, n]) for n in shape[len(shape) - kept :]]))
        for _ in range(self.random.randint(1, 10)):
            self.choices.append(tuple(self.random.random() for _ in range(4)))

    def _shape(self) -> list[int]:
        sizes = [self.random.choice(SIZES) for _ in range(self.random.randint(0, 4))]
        if sizes and self.random.random() < 0.05:
            sizes[self.random.randrange(len(sizes))] = 0
        while torch.Size(sizes).numel() > LIMIT // 3:
            sizes[sizes.index(max(sizes))] = 2
        return sizes

    def _tensor(self, shape: list[int]) -> Tensor:
        if self.dtype.is_floating_point:
            tensor = torch.randn(shape).to(self.dtype)
        else:
            tensor = torch.randint(-5, 6, shape).to(self.dtype)
        layout = self.random.random()
        if tensor.dim() >= 2 and layout < 0.3:
            order = self.random.sample(range(tensor.dim()), tensor.dim())
            inverse = sorted(range(tensor.dim()), key=lambda k: order[k])
            return tensor.permute(order).contiguous().permute(inverse)
        if tensor.dim() >= 1 and tensor.numel() and layout < 0.5:
            dim = self.random.randrange(tensor.dim())
            return torch.stack([tensor, tensor], -1)[..., 0] if layout < 0.4 else tensor.narrow(dim, 0, 1).expand(shape)
        return tensor

    def expected(self) -> tuple[Tensor, ...]:
        """Eager's results; raises `Unfit` where an operator does not take what it was given."""
        try:
            return self.function(*self.inputs)
        except (RuntimeError, IndexError, NotImplementedError, ValueError) as error:
            raise Unfit(str(error)) from None

    def together(self, x: Tensor, y: Tensor, where: float) -> tuple[Tensor, Tensor]:
        """The operands of a step, where it can be done."""
        return x, y

    def function(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Where a rounding may decide (comparisons, positions), only what is the same in every bit is looked at."""
        values = list(inputs)
        exact = [True] * len(values)
        results: list[Tensor] = []
        for family, which, operand, keep in self.choices:
            at = len(values) - 1 if keep < 0.7 else int(keep * 997) % len(values)
            other = int(operand * 997) % len(values)
            x, y = self.together(values[at], values[other], operand)
            keeps = exact[at]
            if family < 0.2:
                result, keeps = _binary(x, y, which), keeps and exact[other] and x.dtype not in SHORT
            elif family < 0.35:
                result, keeps = _unary(x, which), False
            elif x.dim() == 0:
                result = x + 1
            elif operand < self.products:
                result, keeps = self._product(x, which, operand), False
            elif family < 0.5:
                result, keeps = _reduction(x, which, int(operand * 997) % x.dim(), keep < 0.4), False
            elif family < 0.7:
                result = _move(x, which, int(operand * 997) % x.dim())
            elif family < 0.8:
                result, keeps = _indexed(x, which, int(operand * 997) % x.dim()), False
            elif family < 0.9:
                result, keeps = _windowed(x, which, int(operand * 997) % x.dim()), False
            elif keeps:
                result = _decided(x, which, int(operand * 997) % x.dim())
            else:
                result, keeps = x.to((torch.float32, torch.float64, self.dtype)[int(which * 3)]), False
            if result.dim() > 5 or result.numel() > LIMIT:
                result = result.reshape(-1)[: LIMIT // 4]
            values.append(result)
            exact.append(keeps or not (x.is_floating_point() or result.is_floating_point()))
            if operand > 0.8:
                results.append(result)
        results.append(values[-1])
        return tuple(result + 0 for result in results)

    def _product(self, x: Tensor, which: float, operand: float) -> Tensor:
        raise NotImplementedError


class RandomNetwork(RandomGraph):
    """A random graph with products, convolutions and attention; the weights are inputs behind the others.

    They are drawn where the function is called with the other inputs alone. `calls` is how they are to be computed.
    """

    products = 0.4

    def __post_init__(self) -> None:
        super().__post_init__()
        self.dtype = self.dtype if self.dtype.is_floating_point else torch.float32
        self.inputs = [x.to(self.dtype) for x in self.inputs]
        self.first = len(self.inputs)
        self.calls = self.random.choice(("onednn", "packed", "packed"))
        self.expected()

    @property
    def parameters(self) -> frozenset[int]:
        return frozenset(range(self.first, len(self.inputs)))

    def function(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        self.weights = iter(inputs[self.first :]) if len(inputs) > self.first else None
        return super().function(*inputs[: self.first])

    def _weight(self, x: Tensor, *shape: int, scale: float = 1.0) -> Tensor:
        if self.weights is None:
            drawn = torch.rand(shape) + 0.5 if scale < 0 else torch.randn(shape) * scale
            self.inputs.append(drawn.to(x.dtype))
            return self.inputs[-1]
        return next(self.weights).to(x.dtype)  # which is another one in double precision alone

    def _product(self, x: Tensor, which: float, operand: float) -> Tensor:
        if not x.is_floating_point() or not x.numel() or x.dim() > 4:
            return x + 1
        n, out = x.shape[-1], SIZES[int(operand / self.products * len(SIZES))]
        scale = n**-0.5
        rows = x.reshape(-1, n)
        batch = x.reshape(-1, min(x.shape[-2], 8) if x.dim() > 1 and x.shape[-2] <= 8 else 1, n)
        image = x.reshape(1, 1, -1, n)[:, :, :40]
        channels = rows[: min(len(rows), 24)].reshape(1, -1, 1, n)
        linear = lambda x, bias: F.linear(  # noqa: E731
            x, self._weight(x, out, n, scale=scale), self._weight(x, out) if bias else None
        )

        def normed(x: Tensor) -> Tensor:
            found = F.conv2d(x, self._weight(x, out, x.shape[1], 1, 3, scale=0.3), None, 1, (0, 1))
            mean, var = self._weight(x, out), self._weight(x, out, scale=-1)
            return F.batch_norm(found, mean, var, self._weight(x, out), self._weight(x, out))

        return _pick(
            [
                lambda: linear(x, True),
                lambda: linear(rows, False),
                lambda: linear(rows[:1], True),
                lambda: rows @ self._weight(x, n, out, scale=scale),
                lambda: torch.bmm(batch, batch.transpose(1, 2)) * scale**2,
                lambda: torch.baddbmm(batch, torch.bmm(batch, batch.mT) * scale**2, batch, beta=0.5, alpha=0.25),
                lambda: F.conv2d(image, self._weight(x, out, 1, 3, 2), self._weight(x, out), 2, 1),
                lambda: F.conv2d(channels, self._weight(x, out, channels.shape[1], 1, 1, scale=0.3)),
                lambda: normed(channels),
                lambda: F.conv1d(channels[0], self._weight(x, out, channels.shape[1], 1, scale=0.3)),
                lambda: F.scaled_dot_product_attention(batch[None], batch[None], batch[None])[0],
            ],
            which,
        )


def _pick(functions: list[Callable[[], Tensor]], which: float) -> Tensor:
    return functions[int(which * len(functions))]()


def _binary(x: Tensor, y: Tensor, which: float) -> Tensor:
    try:
        shape = torch.broadcast_shapes(x.shape, y.shape)
    except RuntimeError:
        shape = torch.Size([LIMIT + 1])
    if shape.numel() > LIMIT:
        y = x
    return _pick(
        [
            lambda: x + y,
            lambda: x * y,
            lambda: x - y,
            lambda: torch.maximum(x, y),
            lambda: torch.where(x > y, x, y),
            lambda: torch.minimum(x, y) * 2,
        ],
        which,
    )


def _unary(x: Tensor, which: float) -> Tensor:
    if not x.is_floating_point():
        return _pick([lambda: x.abs(), lambda: x * 3, lambda: -x, lambda: x.float() * 0.25, lambda: x.sign()], which)
    return _pick(
        [
            lambda: x.clamp(-5, 5).exp(),
            lambda: x.tanh(),
            lambda: x.sigmoid(),
            lambda: x.relu(),
            lambda: x * 0.5 + 1,
            lambda: x.sin(),
            lambda: F.gelu(x),
        ],
        which,
    )


def _reduction(x: Tensor, which: float, dim: int, keep: bool) -> Tensor:
    real = x.is_floating_point()
    return _pick(
        [
            lambda: x.sum(dim, keepdim=keep),
            lambda: x.amax(dim, keepdim=keep) if x.shape[dim] else x,
            lambda: x.mean(dim, keepdim=keep) if real else x.sum(dim),
            lambda: x.sum(),
            lambda: torch.softmax(x, dim) if real and x.numel() else x + 1,
            lambda: x.sum((0, x.dim() - 1), keepdim=keep) if x.dim() > 1 else x.sum(0),
        ],
        which,
    )


def _move(x: Tensor, which: float, dim: int) -> Tensor:
    rows = x.shape[0]
    return _pick(
        [
            lambda: x.transpose(0, dim),
            lambda: x.unsqueeze(dim),
            lambda: x.reshape(-1),
            lambda: x.flip(dim),
            lambda: x[(slice(None),) * dim + (slice(1, None, 2),)],
            lambda: x.select(dim, -1) if x.shape[dim] else x,
            lambda: torch.cat([x, x * 2], dim),
            lambda: F.pad(x, [1, 2]),
            lambda: x.flatten(0, 1) if x.dim() > 1 else x.reshape(-1, 1),
            lambda: x.unflatten(0, (rows // 2, 2)) if rows and rows % 2 == 0 else x.contiguous(),
        ],
        which,
    )


def _places(n: int, size: int) -> Tensor:
    """Positions along a dimension, some of them several times."""
    return torch.arange(n) * 7 % 11 % size


def _indexed(x: Tensor, which: float, dim: int) -> Tensor:
    """Reads and writes at positions that a tensor holds, and scans."""
    size = x.shape[dim]
    if not x.numel():
        return x
    index = _places(size, size)
    shape = [1] * x.dim()
    shape[dim] = size
    wide = index.reshape(shape).expand(x.shape)
    return _pick(
        [
            lambda: x.index_select(dim, index),
            lambda: x.gather(dim, wide),
            lambda: x.scatter_add(dim, wide, x),
            lambda: x.scatter(dim, wide, x * 2),
            lambda: x.index_add(dim, index, x),
            lambda: x.index_put([index[: x.shape[0]] % x.shape[0]], x[:1], True) if dim == 0 else x,
            lambda: x.cumsum(dim),
            lambda: x.scatter_reduce(dim, wide, x, "amax", include_self=False),
            lambda: x.index_copy(dim, index, x),
            lambda: x[index % x.shape[0]],
        ],
        which,
    )


def _windowed(x: Tensor, which: float, dim: int) -> Tensor:
    """Operators that look at neighbours, and norms."""
    if not x.numel() or not x.is_floating_point() or x.dim() > 4:
        return x.roll(1, dim)
    image = x.reshape(1, 1, -1, x.shape[-1])
    return _pick(
        [
            lambda: F.max_pool2d(image, 2, 1, 1),
            lambda: F.avg_pool2d(image, 3, 2, 1),
            lambda: F.adaptive_avg_pool2d(image, (3, 2)),
            lambda: F.interpolate(image, scale_factor=2.0, mode="bilinear"),
            lambda: F.pad(image, [1, 1, 0, 1], mode="replicate"),
            lambda: F.layer_norm(x, x.shape[-1:]) if x.shape[-1] > 4 else x,
            lambda: x.var(dim, correction=0, keepdim=True),
            lambda: F.unfold(image, 2, padding=1),
            lambda: x.roll(-2, dim),
            lambda: x.tril() if x.dim() > 1 else x,
        ],
        which,
    )


def _decided(x: Tensor, which: float, dim: int) -> Tensor:
    """Where one bit decides."""
    if not x.numel():
        return x
    return _pick(
        [
            lambda: x.argmax(dim),
            lambda: x > 0,
            lambda: x.max(dim)[1],
            lambda: x.masked_fill(x < 0, 3),
            lambda: x.cummax(dim)[0] if x.dtype is not torch.bool else x,
            lambda: torch.where(x == x.flip(dim), x, x + 1),
            lambda: (x != 0).any(dim),
            lambda: (x > 1).to(torch.int32) + 2,
            lambda: x.to(torch.int64).remainder(3),
            lambda: x.argmin(dim, keepdim=True),
        ],
        which,
    )


def symbolic_dims(graph: RandomGraph) -> dict[tuple[int, int], str]:
    """Every size of 2 or more as one that is known at the call only; equal sizes are one symbol."""
    return {
        (number, dim): f"n{size}"
        for number, tensor in enumerate(graph.inputs)
        for dim, size in enumerate(tensor.shape)
        if size >= 2 and tensor.is_contiguous()
    }
