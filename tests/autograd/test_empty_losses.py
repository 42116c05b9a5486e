"""Losses of an empty batch, and their gradients: nan, zeros and errors as eager gives them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import onegraph

Loss = Callable[..., Tensor]

LIKE_INPUT: dict[str, Loss] = {
    "l1": F.l1_loss,
    "mse": F.mse_loss,
    "smooth_l1": F.smooth_l1_loss,
    "huber": F.huber_loss,
    "soft_margin": F.soft_margin_loss,
    "bce": lambda x, y, reduction: F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), reduction=reduction),
    "bce_with_logits": F.binary_cross_entropy_with_logits,
    "kl_div": F.kl_div,
    "poisson": F.poisson_nll_loss,
    "gaussian": lambda x, y, reduction: F.gaussian_nll_loss(x, y, torch.ones_like(y), reduction=reduction),
    "hinge": F.hinge_embedding_loss,
    "margin_ranking": lambda x, y, reduction: F.margin_ranking_loss(x, y, torch.ones_like(y), reduction=reduction),
    "multilabel_soft_margin": F.multilabel_soft_margin_loss,
    "triplet": lambda x, y, reduction: F.triplet_margin_loss(x, y, y + 1, reduction=reduction),
    "cross_entropy_soft": F.cross_entropy,
    "cosine": lambda x, y, reduction: F.cosine_embedding_loss(x, y, torch.ones(x.shape[0]), reduction=reduction),
}
OF_CLASSES: dict[str, Loss] = {
    "nll": lambda x, y, reduction: F.nll_loss(x.log_softmax(-1), y, reduction=reduction),
    "cross_entropy": F.cross_entropy,
    "cross_entropy_smooth": lambda x, y, reduction: F.cross_entropy(x, y, label_smoothing=0.1, reduction=reduction),
    "cross_entropy_weighted": lambda x, y, reduction: F.cross_entropy(x, y, weight=torch.ones(4), reduction=reduction),
}
OPTIONS = {"raise_compiler_errors": True}


def trained(loss: Loss, rows: int, classes: bool, reduction: str, backward: bool) -> list[Tensor] | str:
    x = torch.linspace(-1, 1, rows * 4).reshape(rows, 4).requires_grad_(backward)
    y = torch.zeros(rows, dtype=torch.int64) if classes else torch.zeros(rows, 4)
    try:
        value = loss(x, y, reduction=reduction)
        if not backward:
            return [value]
        (gradient,) = torch.autograd.grad(value, x, torch.ones_like(value))
    except (RuntimeError, IndexError, ValueError) as error:
        return str(error).splitlines()[0]
    return [value.detach(), gradient]


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", [*LIKE_INPUT, *OF_CLASSES])
def test_losses_of_nothing(name: str, reduction: str) -> None:
    loss = (LIKE_INPUT | OF_CLASSES)[name]

    def f(x: Tensor, y: Tensor, reduction: str) -> Tensor:
        return loss(x, y, reduction=reduction)

    for dynamic in (None, True):
        compiled = onegraph.compile(f, dynamic=dynamic, options=OPTIONS)
        for backward in (False, True):
            for rows in (0, 3, 2) if dynamic else (3, 0, 2):
                expected = trained(f, rows, name in OF_CLASSES, reduction, backward)
                result = trained(compiled, rows, name in OF_CLASSES, reduction, backward)
                if isinstance(expected, str):
                    assert result == expected
                else:
                    torch.testing.assert_close(result, expected, equal_nan=True)
