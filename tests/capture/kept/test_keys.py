"""What another process has otherwise: versions, processor, flags of Python, seeds of hashes. Captures are never stale,
and found where it does not matter."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
import torch
from capture.kept.children import in_child, listening

import onegraph
from onegraph.compiler.codegen import native

KEPT, LOADED = ["CaptureKept"], ["CaptureLoaded"]


def asking(x: torch.Tensor) -> torch.Tensor:
    """Knows versions and flags."""
    scale = 2.0 if torch.__version__.startswith("9.") else 3.0
    return x.sin() * scale + (1 if sys.flags.verbose else 0) + sys.flags.optimize


def plain(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 3


def outcome(function: Callable[[torch.Tensor], torch.Tensor], folder: Path, change: Callable[[], object]) -> list[str]:
    torch.set_num_threads(1)
    options = {"verify": False, "cache_dir": folder, "smallest_recorded_graph": 0}
    options |= change() or {}  # type: ignore[operator]
    said = listening()
    torch.testing.assert_close(onegraph.compile(function, options=options)(torch.ones(3)), function(torch.ones(3)))
    return said


def nothing() -> None:
    pass


def other_torch() -> None:
    torch.__version__ = torch.torch_version.TorchVersion("9.9.0")  # type: ignore[attr-defined]


def other_numpy() -> None:
    numpy.__version__ = "9.9.0"


def other_python() -> None:
    sys.version += " of another build"


def other_processor() -> dict[str, str]:
    return {"target_cpu": "x86-64-v2"}


def other_machine() -> None:
    """With another name, and a processor that has other instructions."""
    name, instructions = native.description()
    native.description = lambda *args: (f"other {name}", instructions)


def flags(**values: int) -> Callable[[], None]:
    def change() -> None:
        known = {name: getattr(sys.flags, name) for name in dir(sys.flags) if not name.startswith("_")}
        sys.flags = types.SimpleNamespace(**known | values)  # type: ignore[misc, assignment]

    return change


MATTERS = {
    "torch": other_torch, "NumPy": other_numpy, "Python": other_python, "target_cpu": other_processor,
    "optimized": flags(optimize=1), "bytes": flags(bytes_warning=2), "digits": flags(int_max_str_digits=700),
}  # fmt: skip
DOES_NOT = {
    "verbose": flags(verbose=1), "no bytecode": flags(dont_write_bytecode=1 - sys.flags.dont_write_bytecode),
    "isolated": flags(isolated=1, no_user_site=1, ignore_environment=1), "interactive": flags(inspect=1, interactive=1),
}  # fmt: skip


@pytest.mark.parametrize("name", MATTERS)
def test_what_matters_is_seen(name: str, tmp_path: Path) -> None:
    assert in_child(outcome, plain, tmp_path, nothing) == KEPT
    assert in_child(outcome, plain, tmp_path, MATTERS[name]) == KEPT
    assert in_child(outcome, plain, tmp_path, nothing) == LOADED


def test_what_does_not_matter_leaves_it_valid(tmp_path: Path) -> None:
    assert in_child(outcome, plain, tmp_path, nothing) == KEPT
    assert {name: in_child(outcome, plain, tmp_path, change) for name, change in DOES_NOT.items()} == dict.fromkeys(
        DOES_NOT, LOADED
    )


def test_a_program_that_asks_for_versions_and_flags_is_never_stale(tmp_path: Path) -> None:
    """Results are compared with eager's in each child."""
    for change in (nothing, *MATTERS.values(), *DOES_NOT.values(), nothing):
        in_child(outcome, asking, tmp_path, change)


SEEDED = """
import sys, torch, onegraph
from pathlib import Path
sys.path.append(sys.argv[1])
from capture.kept.children import listening
names = {"alpha", "beta", "gamma", "delta", "epsilon"}
table = dict.fromkeys(sorted(names))
def ordered(x):
    for number, name in enumerate(names):
        x = x * (number + len(name))
    return x, "".join(names)
def unordered(x):
    return x * len(table) if "alpha" in table else x
said = listening()
for function in (ordered, unordered):
    found = onegraph.compile(function)(torch.ones(2)), function(torch.ones(2))
    torch.testing.assert_close(*found) if function is unordered else None
    assert str(found[0]) == str(found[1]), found
print(*said)
"""


@pytest.mark.slow  # processes of their own: the seed is that of a process
def test_the_seed_of_hashes(tmp_path: Path) -> None:
    tests = Path(__file__).parents[2]
    said = []
    for seed in "0", "1", "0":
        environment = os.environ | {"PYTHONHASHSEED": seed, "ONEGRAPH_CACHE_DIR": str(tmp_path), "ONEGRAPH_VERIFY": "0"}
        done = subprocess.run(
            [sys.executable, "-c", SEEDED, str(tests)], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.split())
    assert said[0] == ["CaptureKept", "CaptureKept"] and said[2] == ["CaptureLoaded", "CaptureLoaded"]
    assert said[1] == ["CaptureMissed", "CaptureKept", "CaptureLoaded"]
