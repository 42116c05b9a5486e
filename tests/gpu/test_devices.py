"""Programs on devices, in a process of its own, whose torch has simulated ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = HERE.parent


@pytest.mark.skipif(shutil.which("g++") is None, reason="the devices are built with g++")
def test_on_simulated_devices() -> None:
    """`python -m gpu.simulated tests/gpu/simulated/on_state.py -k streams` runs some of them."""
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    files = map(str, sorted((HERE / "simulated").glob("on_*.py")))
    command = [sys.executable, "-m", "gpu.simulated", *files, "--color=no"]
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths})
    assert run.returncode == 0, f"{run.stdout}{run.stderr}"
