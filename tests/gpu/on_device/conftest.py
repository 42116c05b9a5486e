"""Programs on a real GPU: these tests are there where one is. `make bench-gpu` runs them first."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    if find_spec("torch") is None:
        return True
    import torch  # which is not there for all tests

    return None if torch.cuda.is_available() else True
