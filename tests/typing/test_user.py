"""Type checkers accept a user's program, and know of each public name what comes of it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import mypy
from import_graph import ROOT

import onegraph

PROGRAM = Path(__file__).with_name("user.py")


def strictly_checked(program: Path) -> subprocess.CompletedProcess[str]:
    """mypy, as a user runs it: what it has against onegraph itself is not told."""
    options = ["--config-file=", "--strict", "--follow-imports=silent", f"--cache-dir={ROOT / '.mypy_cache' / 'user'}"]
    return subprocess.run(
        [sys.executable, "-m", mypy.__name__, *options, str(program)],
        env=os.environ | {"MYPYPATH": str(ROOT / "src")},
        cwd=program.parent,
        capture_output=True,
        text=True,
        timeout=250,
    )


def test_every_public_name_is_in_the_program() -> None:
    used = {
        node.attr
        for node in ast.walk(ast.parse(PROGRAM.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "onegraph"
    }
    assert set(onegraph.__all__) - used == set()


def test_the_program_is_accepted() -> None:
    done = strictly_checked(PROGRAM)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_call_is_found(tmp_path: Path) -> None:
    program = tmp_path / "wrong.py"
    program.write_text(
        "import onegraph\n\n\n@onegraph.compile(fullgraph=True)\ndef f(x: int) -> int:\n    return x\n\n\nf('text')\n"
        "onegraph.compile(f, fullgraf=True)\nonegraph.kompile(f)\n"
    )
    done = strictly_checked(program)
    found = [line.rpartition("[")[2] for line in done.stdout.splitlines() if ": error: " in line]
    assert found == ["arg-type]", "call-overload]", "call-overload]", "attr-defined]"], done.stdout + done.stderr
