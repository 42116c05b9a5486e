"""Hosted workflows run what a person runs, and the page of a release says what the CHANGELOG says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from import_graph import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def commands(workflow: Path) -> list[str]:
    jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_scripts_that_exist(workflow: Path) -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    ours = [line.split() for line in commands(workflow) if line.startswith(("make ", ".ci/"))]
    assert ours
    for program, *arguments in ours:
        if program == "make":
            assert arguments[0] in targets
        else:
            assert os.access(ROOT / program, os.X_OK), program


def test_hosted_pairs_are_those_of_the_script() -> None:
    script = (ROOT / ".ci" / "torches").read_text()
    pairs = re.search(r"^pairs=\((.*)\)", script, re.MULTILINE)[1].split()
    (workflow,) = (path for path in WORKFLOWS if path.stem == "tests")
    matrix = yaml.safe_load(workflow.read_text())["jobs"]["torches"]["strategy"]["matrix"]["include"]
    assert [f"{pair['python']}-{pair['torch']}" for pair in matrix] == pairs


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A place with the script, and a CHANGELOG of two releases."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "release-notes", tmp_path / ".ci")
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## 0.2.0 (in development)\n\n- New.\n\n## 0.1.0 (2027-01-31)\n\n### Programs\n\n"
        "- They run ([how](docs/how.md)).\n\n## 0.0.1 (2026-01-01)\n\n- Old.\n"
    )
    return tmp_path


def notes(clone: Path, tag: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([clone / ".ci" / "release-notes", tag], capture_output=True, text=True, timeout=60)


def test_notes_are_the_section_of_the_release(clone: Path) -> None:
    assert notes(clone, "v0.1.0").stdout.strip() == "### Programs\n\n- They run (how)."
    assert notes(clone, "0.0.1").stdout.strip() == "- Old."


def test_no_release_without_a_dated_section(clone: Path) -> None:
    unfinished, missing = notes(clone, "v0.2.0"), notes(clone, "v0.1")
    assert (unfinished.returncode, missing.returncode) == (1, 1)
    assert "0.2.0 is in development: give its section a date" in unfinished.stderr
    assert "CHANGELOG.md has no section on 0.1" in missing.stderr
