"""python -m gpu.simulated PYTEST-ARGUMENTS: run tests in this process, whose torch gets the simulated devices."""

from __future__ import annotations

import sys

from gpu import simulated

LOG = simulated.install()

import pytest  # noqa: E402  # behind the devices: its plugins may import torch

sys.modules["gpu.simulated.__main__"] = sys.modules["__main__"]
sys.exit(pytest.main([*sys.argv[1:], "-p", "no:cacheprovider", "-p", "no:xdist"]))
