"""Custom operators: registered once in the process, so that twin worlds share them."""

from __future__ import annotations

import torch


@torch.library.custom_op("twins::scaled", mutates_args=())
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by


@scaled.register_fake
def _(x: torch.Tensor, by: float) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("twins::fill", mutates_args={"x"})
def fill(x: torch.Tensor, by: float) -> None:
    x.fill_(by)


@fill.register_fake
def _(x: torch.Tensor, by: float) -> None:
    return None


@torch.library.custom_op("twins::cube", mutates_args=())
def cube(x: torch.Tensor) -> torch.Tensor:
    return x * x * x


@cube.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def save_input(ctx, inputs, output) -> None:
    ctx.save_for_backward(inputs[0])


def cube_backward(ctx, gradient):
    (x,) = ctx.saved_tensors
    return 3 * x * x * gradient


cube.register_autograd(cube_backward, setup_context=save_input)


@torch.library.custom_op("twins::cube_in_place", mutates_args={"out"})
def cube_in_place(out: torch.Tensor, x: torch.Tensor) -> None:
    out.copy_(x * x * x)


@cube_in_place.register_fake
def _(out: torch.Tensor, x: torch.Tensor) -> None:
    return None


@torch.library.custom_op("twins::halves", mutates_args=())
def halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x / 2, x.clone() * 0.5


@halves.register_fake
def _(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), torch.empty_like(x)


halves.register_autograd(lambda ctx, a, b: (a + b) / 2)


@torch.library.custom_op("twins::offset_and_count", mutates_args=())
def offset_and_count(x: torch.Tensor, by: float) -> tuple[torch.Tensor, torch.Tensor]:
    return x + by, torch.tensor(x.numel())


@offset_and_count.register_fake
def _(x: torch.Tensor, by: float) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), torch.empty((), dtype=torch.int64)


offset_and_count.register_autograd(lambda ctx, a, count: (a, None))
