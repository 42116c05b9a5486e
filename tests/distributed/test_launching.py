"""Processes that torchrun starts, and starts again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from import_graph import ROOT
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from tests.distributed.launched import WAYS, work


def launched(folder: Path, fault: str, ways: tuple[str, ...], restarts: int) -> None:
    """Processes of torchrun's agent that are forked: they have imported what this one has."""
    config = LaunchConfig(1, 1, 2, run_id="test", rdzv_backend="c10d", rdzv_endpoint="localhost:0",
                          max_restarts=restarts, start_method="fork")  # fmt: skip
    pid = os.fork()
    if not pid:  # the agent has handlers of signals
        try:
            elastic_launch(config, work)(f"{folder}", fault, ways)
        except BaseException as error:
            (folder / "error").write_text(f"{type(error).__name__}: {error}")
        os._exit(0)
    os.waitpid(pid, 0)
    assert not (folder / "error").exists(), (folder / "error").read_text()


def reports(folder: Path, restart: int) -> list[dict[str, Any]]:
    return [json.loads((folder / f"{restart}.{rank}.json").read_text()) for rank in range(2)]


def check(folder: Path, restart: int, ways: tuple[str, ...]) -> None:
    """Both have eager's parameters, and of what both compile one has done so; in a second round none has."""
    both = reports(folder, restart)
    for way in ways:
        assert all(max(report[way]["differences"]) < 1e-5 for report in both), (way, both)
        assert all(report[way]["frames"] > 0 for report in both), (way, both)
        if way != "backend":  # torch captures anew in each process
            said = [name for report in both for name in report[way]["said"]]
            assert "CaptureLoaded" in said and set(said) <= {"CaptureLoaded", "CaptureKept"}, (way, both)
            assert ("CaptureKept" in said) == (restart == 0), (way, both)


@pytest.mark.parametrize("fault", ["raises", "is killed"])
def test_a_restart_finds_all_that_was_compiled(fault: str, tmp_path: Path) -> None:
    launched(tmp_path, fault, ("import",), 1)
    check(tmp_path, 0, ("import",))
    check(tmp_path, 1, ("import",))


def test_all_ways_in(tmp_path: Path) -> None:
    launched(tmp_path, "", WAYS, 0)
    check(tmp_path, 0, WAYS)


def torchrun(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *args]
    path = os.pathsep.join([f"{ROOT / 'src'}", f"{ROOT}"])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_torchrun(tmp_path: Path) -> None:
    """The command itself: a rank hangs, the other one says so and ends, and both are started again."""
    done = torchrun("--max-restarts", "1", "-m", "tests.distributed.launched", "--folder", f"{tmp_path}",
                    "--fault", "hangs")  # fmt: skip
    assert done.returncode == 0, done.stderr
    check(tmp_path, 0, WAYS)
    check(tmp_path, 1, WAYS)
    assert re.search(r"\[rank0\]: this is rank 0 of 2, at .*launched.py:\d+ in fail. Of the others:", done.stderr)
    assert re.search(r"\[rank0\]:   rank 1 \(process \d+ on .*\) has not failed: it is elsewhere", done.stderr)
