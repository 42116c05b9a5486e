from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from import_graph import ROOT


def demo(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "examples" / "demo.py"), *args]
    environment = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)


@pytest.mark.slow
def test_a_real_model_is_one_graph_in_the_demo() -> None:
    done = demo("resnet", "--rounds", "1")
    assert done.returncode == 0, done.stderr
    row = next(line.split() for line in done.stdout.splitlines() if line.startswith(" ResNet-50"))
    assert row[1:3] == ["1", "0"]
    assert float(row[-1]) < 1e-5


def test_an_unknown_model_is_named() -> None:
    done = demo("alexnet")
    assert done.returncode == 2
    assert "unknown model 'alexnet'; accepted: gpt2, bert, vit, resnet" in done.stderr
