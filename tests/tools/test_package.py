"""The public surface: what `import onegraph` gives, and what it does not load."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

import onegraph


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


def test_importing_the_package_loads_neither_torch_nor_llvm() -> None:
    done = run(
        "import sys, onegraph, onegraph.base.config, onegraph.base.arguments;"
        "onegraph.InvalidArgument;"
        "print([m for m in ('torch', 'llvmlite', 'rich', 'onegraph.compile') if m in sys.modules])"
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_public_names_are_listed() -> None:
    assert set(onegraph.__all__) <= set(dir(onegraph))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'onegraph' has no attribute 'kompile'"):
        onegraph.kompile  # noqa: B018 - the access is what is tested


def test_the_version_is_that_of_what_is_installed() -> None:
    try:
        expected = version("onegraph")
    except PackageNotFoundError:
        expected = "0.0.0"
    assert onegraph.__version__ == expected
    assert "__version__" in dir(onegraph)


def test_source_that_nobody_has_installed_has_a_version(tmp_path: Path) -> None:
    (tmp_path / "onegraph").symlink_to(Path(onegraph.__file__).parent)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import onegraph; print(onegraph.__version__)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "0.0.0", done.stderr
