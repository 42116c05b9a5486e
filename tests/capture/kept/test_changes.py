"""What a process has left on disk is used by another one where nothing has changed that matters, and only there."""

from __future__ import annotations

import random
import shutil
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from capture.kept.changing_program import CHANGES, Change, texts
from capture.kept.children import in_child, listening

import onegraph

#: A change of each kind in the fast suite; all of them, with many numbers, in the slow one.
QUICK = 8
SLOW = 1000


def run_program(change: Change | None, number: float, folder: Path, training: bool) -> tuple[bool, list[str]]:
    """Whether the program with a change gives what eager gives, and what is said of captures on disk."""
    torch.set_num_threads(1)
    library, program = texts(change, number)
    made = []
    for name, text in (("changing_library", library), ("changing_text", program)):
        module = sys.modules[name] = types.ModuleType(name)
        exec(compile(text, f"{name}.py", "exec"), vars(module))
        made.append(module)
    said = listening()
    torch.manual_seed(0)
    code: Any = made[1]
    layer = code.prepared().to(code.x.dtype)
    options = {"verify": False, "cache_dir": folder, "smallest_recorded_graph": 0}
    compiled = onegraph.compile(code.run, options=options)

    def results(function: Any) -> list[Any]:
        if not training:
            with torch.no_grad():
                return [function(code.x, layer)]
        x = code.x.clone().requires_grad_()
        layer.zero_grad()
        result = function(x, layer)
        result.sum().backward()
        return [result.detach(), x.grad, *[parameter.grad for parameter in layer.parameters()]]

    got, wanted = results(compiled), results(code.run)
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)
    return True, said


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, Path]]:
    """What a process has left, by whether it trains."""
    made = {training: tmp_path_factory.mktemp(f"left{training}") for training in (False, True)}
    for training, folder in made.items():
        assert in_child(run_program, None, 0.0, folder, training) == (True, ["CaptureKept"])
    yield made


def check_change(change: Change, number: float, training: bool, left: dict[bool, Path], folder: Path) -> None:
    shutil.copytree(left[training], folder, dirs_exist_ok=True)
    right, said = in_child(run_program, change, number, folder, training)
    assert right is True, (change.name, right)
    assert ("CaptureLoaded" in said) is not change.matters, (change.name, number, training, said)


def test_nothing_is_captured_where_nothing_has_changed(left: dict[bool, Path]) -> None:
    for training, folder in left.items():
        assert in_child(run_program, None, 0.0, folder, training) == (True, ["CaptureLoaded"])


@pytest.mark.parametrize("change", CHANGES[:: len(CHANGES) // QUICK], ids=lambda change: change.name)
def test_a_change_that_matters_is_seen(change: Change, left: dict[bool, Path], tmp_path: Path) -> None:
    check_change(change, 1.375, len(change.name) % 2 == 0, left, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(2000)
@pytest.mark.parametrize("seed", [7, 31])
def test_a_thousand_changes_are_seen(seed: int, left: dict[bool, Path], tmp_path: Path) -> None:
    chance = random.Random(seed)
    for count in range(SLOW):
        change, number = CHANGES[count % len(CHANGES)], round(chance.uniform(0.1, 3.9), 3)
        check_change(change, number, chance.random() < 0.4, left, tmp_path / str(count))
        shutil.rmtree(tmp_path / str(count))
