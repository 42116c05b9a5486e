"""What this machine reaches at most: how fast it copies memory, and multiplies matrices."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import torch

from onegraph.tools.html_report.data import Limits

COPIED = 64 << 20  # bytes: more than caches hold
ROWS = 1024  # of a square matrix
TURNS = 3


def machine_limits() -> Limits | None:
    """Measured now, with torch's threads, in about a tenth of a second; None where there is no memory for it."""
    try:
        source = torch.zeros(COPIED // 4, dtype=torch.float32, device="cpu")
        target, square = torch.empty_like(source), torch.zeros(ROWS, ROWS, dtype=torch.float32, device="cpu")
        copied, multiplied = best(lambda: target.copy_(source)), best(lambda: square @ square)
    except (RuntimeError, MemoryError):
        return None
    return Limits(2 * COPIED / copied, 2 * ROWS**3 / multiplied)


def best(run: Callable[[], object]) -> float:
    """Seconds of the fastest of a few turns."""
    found = []
    for _ in range(TURNS):
        begun = perf_counter()
        run()
        found.append(perf_counter() - begun)
    return max(min(found), 1e-9)
