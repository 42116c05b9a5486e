"""ONEGRAPH_INSTALL: onegraph is installed by torch's own import, in programs that are not edited."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from import_graph import ROOT

LOADED = "print(sorted(name for name in sys.modules if name == 'torch' or name.startswith('onegraph')))"
PROGRAM = """
import sys
import torch

f = torch.compile(lambda x: x + 1)
print(torch.__version__, hasattr(f, "onegraph_region"), f(torch.ones(2)).tolist(), "torch._dynamo" in sys.modules)
import torch._dynamo
import onegraph

torch._dynamo.config.cache_size_limit = 5
print(torch._dynamo.reset is onegraph.reset, onegraph.config.recompile_limit)
onegraph.uninstall()
print(torch.compile.__module__)
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the package and what an installation says of its entry points."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    text = "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in of.items()) for group, of in points.items()
    )
    described = tmp_path / "onegraph-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.4\nName: onegraph\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(text)
    (tmp_path / "onegraph").symlink_to(ROOT / "src" / "onegraph")
    return tmp_path


def run(folder: Path, program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "ONEGRAPH_INSTALL"}
    environment |= {"PYTHONPATH": str(folder), **variables}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=200)


def test_torch_compile_is_ours(installed: Path) -> None:
    done = run(installed, PROGRAM, ONEGRAPH_INSTALL="1")
    assert done.stdout.splitlines() == [f"{torch.__version__} True [2.0, 2.0] False", "True 5", "torch"], done.stderr


@pytest.mark.parametrize("variables", [{}, {"ONEGRAPH_INSTALL": ""}])
def test_without_the_variable_nothing_is_loaded(installed: Path, variables: dict[str, str]) -> None:
    done = run(installed, f"import sys, torch; {LOADED}", **variables)
    assert done.stdout == "['onegraph', 'onegraph.autoload', 'torch']\n", done.stderr


def test_no_is_no(installed: Path) -> None:
    done = run(installed, "import torch; print(torch.compile.__module__)", ONEGRAPH_INSTALL="off")
    assert done.stdout == "torch\n", done.stderr


def test_a_process_without_torch_has_nothing_to_do_with_it(installed: Path) -> None:
    done = run(installed, f"import sys; {LOADED}", ONEGRAPH_INSTALL="1")
    assert done.stdout == "[]\n", done.stderr


def test_another_value_is_an_error(installed: Path) -> None:
    done = run(installed, "import torch", ONEGRAPH_INSTALL="maybe")
    assert "ONEGRAPH_INSTALL='maybe' is not accepted: expected True or False" in done.stderr


@pytest.mark.parametrize("first", ["import onegraph; onegraph.compile", "import onegraph.tools.cli"])
def test_onegraph_may_be_imported_before_torch(installed: Path, first: str) -> None:
    done = run(installed, f"{first}\nimport torch\nprint(torch.compile.__module__)", ONEGRAPH_INSTALL="1")
    assert (done.stdout, done.stderr) == ("onegraph.install\n", "")


def test_a_module_of_ours_that_imports_torch_is_too_early(installed: Path) -> None:
    program = "import onegraph.compile, torch; print(torch.compile.__module__, onegraph.compile.__module__)"
    done = run(installed, program, ONEGRAPH_INSTALL="1")
    assert done.stdout == "torch onegraph.compile\n"
    assert done.stderr.startswith("ONEGRAPH_INSTALL does nothing in this process: onegraph.compile was imported before")


def test_torch_says_what_is_logged(installed: Path) -> None:
    """torch sets its loggers up behind this."""
    program = "import torch; torch.compile(lambda x: x + 1)(torch.ones(2))"
    done = run(installed, program, ONEGRAPH_INSTALL="1", TORCH_LOGS="graph_code")
    assert "captured a graph of 1 operation and 1 input" in done.stderr
