from __future__ import annotations

import sys
from pathlib import Path

import pytest

from onegraph.base.errors import InvalidArgument
from onegraph.tools.target import load

SOURCE = """
SCALE = 3

def f(x, y=1):
    return x * y

f_inputs = (2, 5)

def g(x):
    return x

def g_inputs():
    return SCALE

def h():
    return 0

class Thing:
    @staticmethod
    def method(x):
        return x
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of what is loaded is searched first from then on: here, until the end of the test."""
    monkeypatch.setattr(sys, "path", sys.path.copy())
    path = tmp_path / "random.py"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize(
    ("name", "inputs", "args"),
    [
        ("f", None, (2, 5)),
        ("f", "SCALE", (3,)),
        ("f", "1, SCALE", (1, 3)),
        ("g", None, (3,)),
        ("h", None, ()),
        ("Thing.method", "0", (0,)),
    ],
)
def test_functions_and_their_arguments(file: Path, name: str, inputs: str | None, args: tuple[object, ...]) -> None:
    target = load(f"{file}::{name}", inputs)
    assert target.function.__name__ == name.rpartition(".")[2]
    assert target.args == args


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{}", "does not name a function: write file.py::function"),
        ("{}::nope", "has no 'nope'; it has: f, g, g_inputs, h, Thing"),
        ("{}::Thing.method", "Thing.method needs arguments: define method_inputs"),
        ("{}.missing::f", "is not a file"),
    ],
)
def test_what_is_wrong_is_named(file: Path, spec: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        load(spec.format(file))
