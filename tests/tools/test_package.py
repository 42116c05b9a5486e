"""The public surface: what `import onegraph` gives, and what it does not load."""

from __future__ import annotations

import subprocess
import sys

import onegraph


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)


def test_importing_the_package_loads_neither_torch_nor_llvm() -> None:
    done = run(
        "import sys, onegraph, onegraph.base.config, onegraph.base.arguments;"
        "onegraph.InvalidArgument;"
        "print([m for m in ('torch', 'llvmlite', 'rich', 'onegraph.compile') if m in sys.modules])"
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_every_public_name_exists() -> None:
    assert all(getattr(onegraph, name) is not None for name in onegraph.__all__)
    assert set(onegraph.__all__) <= set(dir(onegraph))


def test_compile_stays_the_function_when_the_driver_is_imported() -> None:
    done = run("import onegraph.compile, onegraph; print(type(onegraph.compile).__name__)")
    assert done.stdout.strip() == "function", done.stderr
