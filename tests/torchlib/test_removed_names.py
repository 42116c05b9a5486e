"""Each private name of torch that the package uses is taken away, one at a time."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch  # noqa: F401 - what is run in processes of their own needs it


@pytest.mark.timeout(900)
def test_without_a_name_results_are_eagers() -> None:
    program = Path(__file__).with_name("removed_names.py")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=850)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert not [line for line in lines if line.startswith("wrong")]
    kinds = Counter(line.split()[0] for line in lines)
    # how many there are of each kind, torch decides
    assert kinds["eager"] > 30 and kinds["sentence"] > 90 and kinds["fixed"] < 20, kinds
