"""The interpreter does what CPython does: result, output, exceptions with their chains and lines."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from capture.interp.outcome import observe
from capture.interp.programs import (
    PROGRAMS,
    calls,
    exceptions,
    generators,
    managers,
    new_syntax,
    objects,
    operators,
    scopes,
    statements,
)

from onegraph.capture.interp.machine import Machine

MODULES = (calls, exceptions, generators, managers, objects, operators, scopes, statements)

assert {p.__module__ for p in PROGRAMS} == {module.__name__ for module in MODULES}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: f"{p.__module__.rpartition('.')[2]}-{p.__name__}")
def test_same_as_native(program: Callable[[], object]) -> None:
    expected = observe(program)
    assert observe(lambda: Machine().call(program, (), {})) == expected


@pytest.mark.parametrize("source", new_syntax.sources())
def test_new_syntax(source: str) -> None:
    def run() -> Callable[[], object]:
        namespace: dict[str, object] = {"__name__": "program"}
        exec(source, namespace)
        return namespace["f"]

    expected = observe(run())
    assert observe(lambda: Machine().call(run(), (), {})) == expected
    assert expected.error is None


def test_whole_module_is_interpreted() -> None:
    """A module's body, run as a function's frame would be."""
    from onegraph.capture.bytecode import decode

    source = "import math\nx = [i for i in range(3)]\nclass C:\n  y = x\ndef f(): return math.pi, C.y\nz: int = f()\n"
    code = compile(source, "<module>", "exec")
    native: dict[str, object] = {"__name__": "m"}
    exec(code, native)
    mine: dict[str, object] = {"__name__": "m"}
    machine = Machine()
    function = type(run_module)(code, mine)
    frame = machine.make_frame(decode(code), function, {})
    frame.namespace = mine
    machine.run_frame(frame)
    assert mine["z"] == native["z"] and mine["x"] == native["x"]
    assert mine["__annotations__"] == native["__annotations__"]


def run_module() -> None:
    """Lends its type: a function."""
