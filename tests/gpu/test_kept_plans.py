"""Captures and plans for GPUs on disk: a process that finds them imports no Triton, and compiles nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]


@pytest.fixture
def child(tmp_path: Path) -> Callable[..., Any]:
    """Runs the program in a process where a Triton is installed that cannot be imported."""
    (tmp_path / "site" / "triton").mkdir(parents=True)
    (tmp_path / "site" / "triton" / "__init__.py").write_text("raise AssertionError('nobody needs it')\n")

    def run(
        device: str = "cuda", begin: int = 0, version: str = "3.7.1", captures: bool = False, **settings: str
    ) -> Any:
        about = tmp_path / "site" / "triton-1.dist-info"
        about.mkdir(exist_ok=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: triton\nVersion: {version}\n")
        paths = [str(tmp_path / "site"), str(TESTS), str(TESTS.parent), *os.environ.get("PYTHONPATH", "").split(":")]
        own = {
            "PYTHONPATH": os.pathsep.join(paths),
            "ONEGRAPH_VERIFY": "0",
            "ONEGRAPH_CACHE_DIR": str(tmp_path / "kept"),
            "ONEGRAPH_CACHE_CAPTURES": str(int(captures)),
        }
        command = [sys.executable, "-m", "gpu.simulated.kept_plans", device, str(begin)]
        env = {**os.environ, **own, **settings}
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_a_second_process_compiles_nothing(child: Callable[..., Any]) -> None:
    first, second = child(), child()
    assert not first["complaints"] and not second["complaints"] and not first["triton"] and not second["triton"]
    assert first["plans"] == [False, False] and second["plans"] == [True, True]
    assert first["plans with tables"] == [False] and second["plans with tables"] == [True]
    assert len(first["compiled"]) == 2 and second["compiled"] == []
    assert first["launches"] == second["launches"] and len(second["launches"]) == 2


def test_a_second_process_captures_nothing(child: Callable[..., Any]) -> None:
    first, second = (child(captures=True) for _ in range(2))
    assert not first["complaints"] and not second["complaints"] and not second["triton"]
    assert first["captures"] == [False] and second["captures"] == [True]
    assert second["plans"] == second["plans with tables"] == second["compiled"] == []
    assert first["launches"] == second["launches"] and len(second["launches"]) == 2


def test_what_captures_depend_on(child: Callable[..., Any]) -> None:
    assert child(captures=True)["captures"] == [False]
    assert child(captures=True, version="3.8.0")["compiled"] != []
    assert child(captures=True, device="cuda:1")["plans"] == [False, False]
    assert child(captures=True, ONEGRAPH_CUDA_GRAPHS="1")["captures"] == [False]


def test_what_is_needed_for_other_pointers_is_made_of_what_is_kept(child: Callable[..., Any]) -> None:
    names = [name for name, aligned in child()["compiled"] if aligned]
    for compiled in ([[names[0], False]], []):
        odd = child(begin=1)
        assert odd["compiled"] == compiled and not odd["complaints"] and odd["launches"] == names


def test_what_plans_depend_on(child: Callable[..., Any]) -> None:
    assert not any(child()["plans"])
    for other in ({"version": "3.8.0"}, {"device": "cuda:1"}, {"ONEGRAPH_CACHE": "0"}, {"ONEGRAPH_CACHE_PLANS": "0"}):
        assert not any(child(**other)["plans"]), other
