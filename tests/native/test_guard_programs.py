"""Guard programs as a whole: what is refused, what stays alive, what is released."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import pytest
from native.guarding import Plain, check, frame, program

from onegraph import _C
from onegraph.capture.guards.encode import encode


def test_the_first_failing_instruction_is_named() -> None:
    made = program(("ARG", 0, 0), ("TYPE_IS", 0, 0), ("EQ", 0, 1), consts=[int, 1])
    assert [made.failing(frame, (v, _C.NULL)) for v in (1, 2, "x", _C.NULL)] == [-1, 2, 1, 0]
    assert len(made) == 3
    assert program().check(frame, ()) and len(program()) == 0


@pytest.mark.parametrize(
    ("instructions", "consts", "message"),
    [
        ([("NOP",)], [], "instruction 0 .*: a known name is expected, not 'NOP'"),
        ([("END",)], [], "a known name is expected"),
        ([("ARG", 0)], [], "another number of operands is expected"),
        ([("ARG", -1, 0)], [], "a register that is written once is expected, not -1"),
        ([("ARG", 2**16, 0)], [], "a register that is written once is expected"),
        ([("ARG", 0, 0), ("ARG", 0, 1)], [], "a register that is written once is expected, not 0"),
        ([("ARG", 0, -1)], [], "a small number from 0 is expected, not -1"),
        ([("ICONST", 0, 2**63)], [], "a 64-bit number is expected"),
        ([("IS", 0, 0)], [1], "a register that was written before is expected, not 0"),
        ([("ARG", 0, 0), ("IADD", 1, 0, 0)], [], "a register that was written before is expected"),
        ([("CONST", 0, 1)], [1], "the index of a constant is expected, not 1"),
        ([("ARG", 0, 0), ("TYPE_IS", 0, 0)], [1], "a constant of type type is expected, not 1"),
        ([("ARG", 0, 0), ("ATTR", 1, 0, 0)], [1], "a constant of type str is expected, not 1"),
        ([("ARG", 0, 0), ("KEYS", 0, 0)], [["k"]], "a constant of type tuple is expected"),
        ([("ARG", 0, 0), ("TENSOR", 0, 0)], [1], "a constant of type TensorSpec is expected, not 1"),
        ([("STATE", 0)], [1], "a constant of type GlobalState is expected, not 1"),
    ],
)
def test_a_wrong_program_is_refused_with_the_reason(instructions: Any, consts: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode(instructions, consts)


def test_wrong_calls_are_refused() -> None:
    with pytest.raises(TypeError, match="guards must be a GuardProgram or None, not int"):
        _C.Entry(frame.__code__, 1, _C.Context(lambda *args: None))
    with pytest.raises(TypeError):
        program().check(len, ())
    with pytest.raises(TypeError):
        program().check(frame, [])


def test_many_registers() -> None:
    count = 3000
    loads = [("CONST", i, 0) for i in range(count)]
    checks = [("SAME", i, i + 1) for i in range(count - 1)]
    assert program(*loads, *checks, ("ICONST", 700, 1), ("ICHECK", 700), consts=["x"]).check(frame, ())
    deep: Any = Plain(end=True)
    for _ in range(600):
        deep = Plain(next=deep)
    steps = [("ATTR", i + 1, i, 0) for i in range(600)]
    assert check(deep, *steps, ("ATTR", 601, 600, 1), ("IS", 601, 2), consts=["next", "end", True])


def test_what_is_loaded_stays_alive_while_guards_run_python() -> None:
    holder = {"x": [Plain(name=1), 2]}

    def destroy(value):
        holder["x"] = None
        gc.collect()
        return True

    consts = [holder, "x", 0, destroy, "name", 1, Plain]
    made = program(
        ("CONST", 0, 0), ("ITEM", 1, 0, 1), ("ITEM", 2, 1, 2), ("DICTOF", 3, 2), ("CHECK", 3, 1), ("ITEM", 4, 3, 4),
        ("EQ", 4, 5), ("TYPE", 5, 2), ("IS", 5, 6), ("LEN", 1, 2), consts=consts,
    )  # fmt: skip
    assert made.check(frame, ()) and holder["x"] is None
    assert made.failing(frame, ()) == 2


def test_nothing_is_leaked_by_passing_failing_and_raising() -> None:
    class Thing:
        @property
        def made(self):
            return [tracked]

    tracked, thing = object(), Thing()
    consts = ["made", 0, tracked, lambda value: 1 / 0, {"k": tracked}, "k"]
    prefix = [("ATTR", 1, 0, 0), ("ITEM", 2, 1, 1), ("IS", 2, 2), ("CONST", 3, 4), ("ITEM", 4, 3, 5), ("LEN", 1, 1)]
    passing = program(("ARG", 0, 0), *prefix, consts=consts)
    failing = program(("ARG", 0, 0), *prefix, ("IS", 4, 1), consts=consts)
    raising = program(("ARG", 0, 0), *prefix, ("CHECK", 3, 4), consts=consts)
    before = sys.getrefcount(tracked), sys.getrefcount(thing)
    for _ in range(100):
        assert passing.check(frame, (thing, 1))
        assert failing.failing(frame, (thing, 1)) == 7 and raising.failing(frame, (thing, 1)) == 7
    assert (sys.getrefcount(tracked), sys.getrefcount(thing)) == before


def test_a_program_is_collected_with_its_constants() -> None:
    holder = Plain()
    holder.program = program(("ARG", 0, 0), ("IS", 0, 0), consts=[holder])
    reference = weakref.ref(holder)
    del holder
    gc.collect()
    assert reference() is None
