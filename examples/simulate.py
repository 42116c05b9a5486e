"""A step of training, for `onegraph simulate`: how long it would take on hundreds of ranks.

onegraph simulate examples/simulate.py::step --bucket-cap-mb 8 --ranks 8,64,1024 -o simulated.svg
"""

from __future__ import annotations

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(1024, 1024), nn.GELU())])
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def step(rows: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(rows), rows)
    loss.backward()
    optimizer.step()
    return loss.detach()


def step_inputs() -> tuple[torch.Tensor]:
    return (torch.randn(64, 1024),)
