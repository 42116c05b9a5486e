"""`python -m gpu.simulated FILES -p gpu.simulated.all_kernels`: programs of any test run kernels of their own.

A plugin of pytest, where Triton interprets. What tells operators apart in a log finds kernels in their place.
"""

from __future__ import annotations

import os

import pytest
from gpu.simulated import kernels

DRIVER = kernels.installed()
DRIVER.set(devices=2, capability=90, shared=232448, quiet=0)
os.environ["ONEGRAPH_CUDA_DRIVER"] = DRIVER.path


@pytest.fixture(autouse=True)
def _nothing_to_complain_of() -> object:
    yield
    assert not DRIVER.complaints()
