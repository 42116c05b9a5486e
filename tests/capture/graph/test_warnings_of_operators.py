"""Warnings that PyTorch gives once in a process: compiled code gives them once, too, for the line that eager names."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

PROGRAM = """
import sys, warnings, torch, onegraph

def program(x):
    y = x.T
    return y.sin(), torch.cross(x[:, :, :3], x[:, :, :3])

def other(x):
    return program(x)[0] + 1

backend = sys.argv[1]
functions = [f if backend == "none" else onegraph.compile(f, backend=backend) for f in (program, other)]
for always in (False, True):
    torch.set_warn_always(always)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for size in (3, 3, 4):
            for function in functions:
                function(torch.randn(3, size, 3))
    print([(each.category.__name__, each.lineno, str(each.message)[:40]) for each in seen])
"""


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_warnings_are_given_as_often_as_by_eager(backend: str) -> None:
    assert not torch.is_warn_always_enabled()
    said = [subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True).stdout
            for how in ("none", backend)]  # fmt: skip
    assert said[0] == said[1] and said[0].count("UserWarning") == 2 + 2 * 6, said
