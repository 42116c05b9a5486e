"""A message that says that onegraph has a defect fails the test in which it is said, if that test did not make it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import logging

def say():
    logging.getLogger("onegraph").warning("%s. This is a defect of onegraph: please report it.", "KeyError")

def test_that_has_one():
    say()

def test_that_makes_one(defects):
    say()
    assert "KeyError" in defects.pop()

def test_behind_both():
    pass
"""


def test_a_defect_that_was_not_made_fails_the_test(tmp_path: Path) -> None:
    (tmp_path / "test_program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "-q", "test_program.py"],
        capture_output=True, text=True, cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert "ERROR test_program.py::test_that_has_one" in done.stdout
    assert "3 passed, 1 error" in done.stdout
