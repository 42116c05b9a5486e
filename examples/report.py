"""A small training run with what a report is there to find: a graph break, recompilations, calls of libraries.

onegraph report examples/report.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Attention(nn.Module):
    """One layer of attention over words, with the loudest word in front."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(100, width)
        self.mixed = nn.Linear(width, 3 * width)
        self.scores = nn.Linear(width, 10)

    def forward(self, tokens: Tensor) -> Tensor:
        query, key, value = self.mixed(self.words(tokens)).chunk(3, dim=-1)
        hidden = F.scaled_dot_product_attention(query, key, value)
        if hidden.abs().max() > 4.0:  # only the data say
            hidden = hidden / hidden.abs().max()
        return self.scores(hidden.sort(dim=1, descending=True).values[:, 0])


@torch.compile
def rescaled(loss: Tensor, step: int) -> Tensor:
    return loss / (1.0 + 0.1 * step)


def main() -> None:
    torch.manual_seed(0)
    model = Attention(32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    compiled = torch.compile(model)
    for step, length in enumerate((12, 12, 20, 9)):
        tokens, labels = torch.randint(0, 100, (8, length)), torch.randint(0, 10, (8,))
        loss = rescaled(F.cross_entropy(compiled(tokens), labels), step)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
