"""Kernels for GPUs in Triton's interpreter, against eager: `.ci/triton` runs these tests, in processes of their own.

Triton decides when it is imported whether it interprets, so they are collected with `TRITON_INTERPRET=1` alone.
"""

from __future__ import annotations

import os
from pathlib import Path


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return None if os.environ.get("TRITON_INTERPRET") == "1" else True
