"""Planted faults of every stage: verify names stage, pass and operator; what is left is small, and fails alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

import onegraph
from tests.tools.planted_faults import CRASHES, FAULTS, WRONG, inputs

#: Those that are tried in every run; the others are of the same kinds.
QUICK = ("wrong: capture", "wrong: code", "raises: decomposition in training")
OPTIONS = {"verify": False}  # a checker would find some before they do anything
SPELLED = {"matmul": "@", "sub": "-", "add": "+"}
HERE = Path(__file__).parents[2]


def narrowed(name: str, file: Path) -> None:
    """Plant a fault, and have its program written. What is compiled with it is kept for it alone."""
    fault = FAULTS[name]
    with fault.plant(), patch.dict(os.environ, {"ONEGRAPH_CACHE_DIR": str(file.with_suffix(""))}):
        call = inputs(fault.gradients)
        options = {**OPTIONS, "raise_compiler_errors": True}
        found = onegraph.verify(fault.program, backend=fault.backend, options=options, file=file)(*call)
    assert not found and found.fault is not None, name
    assert (found.stage, found.fault.step) == (fault.stage, fault.step), f"{name}: {found}"
    assert found.operator == (fault.operator or found.operator), f"{name}: {found}"
    assert found.location is not None and found.location.filename.endswith("planted_faults.py")
    operator = found.operator.rpartition(".")[2]
    assert SPELLED.get(operator, operator) in found.location.source_line() or not fault.operator
    body = file.read_text().partition("def forward(")[2].partition("return")[0]
    assert 1 <= len(re.findall(r"^    \w+ = ", body, flags=re.MULTILINE)) <= 10, f"{name}: {body}"


def exits(programs: dict[str, Path]) -> list[str]:
    """How the programs exit in a process of their own, with the fault and without."""
    arguments = [part for name, file in programs.items() for part in (name, str(file))]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{HERE}/src:{HERE}", "ONEGRAPH_CACHE": "0"}
    command = [sys.executable, "-m", "tests.tools.planted_faults", *arguments]
    done = subprocess.run(command, env=environment, cwd=HERE, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if ": exits with " in line]


def test_the_stages_are_those_that_there_are() -> None:
    stages = {"capture", "functionalization", "differentiation", "decomposition", "graph passes", "partition"}
    stages |= {"lowering", "code", "library calls", "passes", "memory plan", "backend"}
    assert len(WRONG) >= 10 and {each.stage for each in WRONG.values()} == stages
    assert len(CRASHES) >= 10 and {each.stage for each in CRASHES.values()} == stages
    assert {True} < {each.gradients for each in FAULTS.values()}


def test_faults_that_are_tried_in_every_run(tmp_path: Path) -> None:
    programs = {name: tmp_path / f"{number}.py" for number, name in enumerate(QUICK)}
    for name, file in programs.items():
        narrowed(name, file)
    backends = [name for name in programs if FAULTS[name].stage == "backend"]  # whose fault is in the program
    assert exits(programs) == [f"{name}: exits with 1, {int(name in backends)} without it" for name in programs]


@pytest.mark.slow
def test_all_faults(tmp_path: Path) -> None:
    programs = {name: tmp_path / f"{number}.py" for number, name in enumerate(FAULTS)}
    for name, file in programs.items():
        narrowed(name, file)
    backends = [name for name in programs if FAULTS[name].stage == "backend"]
    assert exits(programs) == [f"{name}: exits with 1, {int(name in backends)} without it" for name in programs]
