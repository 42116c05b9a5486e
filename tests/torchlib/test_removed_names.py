"""Private names of torch that the package uses are taken away, one at a time."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch  # noqa: F401 - what is run in processes of their own needs it


@pytest.mark.timeout(900)
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_without_a_name_results_are_eagers(every: int) -> None:
    program = Path(__file__).with_name("removed_names.py")
    done = subprocess.run([sys.executable, program, str(every)], capture_output=True, text=True, timeout=850)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert not [line for line in lines if line.startswith("wrong")]
    kinds = Counter(line.split()[0] for line in lines)
    # how many there are of each kind, torch decides
    assert kinds["eager"] > 30 / every and kinds["sentence"] > 90 / every and kinds["fixed"] < 20, kinds
