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
