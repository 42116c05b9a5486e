"""Programs on a real GPU: these tests are there where one is. `make bench-gpu` runs them first."""

from __future__ import annotations

from pathlib import Path

import torch


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return None if torch.cuda.is_available() else True
