"""The table of instructions: a row is all that there is to say of one, and rows say what CPython and handlers do."""

from __future__ import annotations

import dis
from types import FunctionType
from typing import Any

import pytest
from capture.interp.outcome import observe
from capture.interp.test_programs import PROGRAMS

from onegraph.capture.bytecode import Instr, decode, encode, ops
from onegraph.capture.bytecode.decode import decode_once, reader_of
from onegraph.capture.bytecode.flow import falls_through, kinds_behind, stack_effect
from onegraph.capture.bytecode.frame import Frame
from onegraph.capture.bytecode.opcode import opcode
from onegraph.capture.bytecode.ops import OPCODES
from onegraph.capture.bytecode.rows import Operand
from onegraph.capture.interp.machine import Machine


def two(xs):
    match xs:
        case [a, b]:
            return a + b
    return None


def test_an_instruction_is_added_by_one_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(OPCODES, "GET_LEN")
    with pytest.raises(ValueError, match="unknown instruction GET_LEN"):
        decode_once(two.__code__)
    seen = []

    @opcode("GET_LEN: subject -- subject length")
    def get_len(machine: Any, frame: Frame, instr: Instr) -> None:
        seen.append(frame.stack[-1])
        frame.stack.append(len(frame.stack[-1]))

    bytecode = decode_once(two.__code__)
    at = next(instr for instr in bytecode.instrs if instr.op == "GET_LEN")
    assert stack_effect(at) == 1 and falls_through(at) and kinds_behind(at, ("value",)) == ("value", "value")
    assert FunctionType(encode(bytecode), {})([1, 2]) == 3
    machine = Machine()
    assert machine.run_frame(machine.make_frame(bytecode, two, {"xs": [3, 4]})) == 7 and seen == [[3, 4]]


def test_an_instruction_is_declared_once() -> None:
    nop = OPCODES["NOP"]
    with pytest.raises(AssertionError, match="NOP is declared twice"):
        opcode("NOP: -- value")(nop.handler)
    assert OPCODES["NOP"] is nop


def operand(arg: int) -> Operand:
    x = Operand()
    x.arg, x.next, x.names, x.slots, x.consts = arg, 100, ("a",) * 9, ("a",) * 9, (("a",),) * 9
    x.cells = x.saved = frozenset()
    x.keywords, x.previous, x.following = None, "", ""
    return x


#: Of these `dis` counts slots that normal form counts elsewhere.
COUNTED_ELSEWHERE = {"RETURN_GENERATOR", "RETURN_VALUE", "CALL_KW"} | ({"CALL"} if "PRECALL" in dis.opmap else set())


@pytest.mark.parametrize("name", sorted(name for name, code in dis.opmap.items() if code < 256))
def test_effects_on_the_stack_are_those_of_cpython(name: str) -> None:
    read, code = reader_of(name), dis.opmap[name]
    for arg in (2, 3):
        pieces = read(operand(arg)) if read and name not in COUNTED_ELSEWHERE else ()
        if pieces:
            effect = dis.stack_effect(code, arg if code >= dis.HAVE_ARGUMENT else None, jump=False)
            assert sum(stack_effect(Instr(op, value)) for op, value, _ in pieces) == effect


class Counting(Machine):
    """Notes the instructions that ran, and those that did something else to the stack than their row says."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: set[str] = set()
        self.wrong: list[tuple[Instr, list[Any], list[Any]]] = []

    def make_frame(self, *args: Any, **kwargs: Any) -> Frame:
        frame = super().make_frame(*args, **kwargs)
        frame.program = [(self.counted, instr) for instr in frame.bytecode.instrs]
        return frame

    def counted(self, _: Machine, frame: Frame, instr: Instr) -> Any:
        before = list(frame.stack)
        following = OPCODES[instr.op].handler(self, frame, instr)
        self.ran.add(instr.op)
        takes, gives = OPCODES[instr.op].slots(instr.arg, instr.target is not None and following == instr.target)
        base = len(before) - len(takes)
        known = dict(zip(takes, before[base:], strict=True)) if base >= 0 else {}
        found = [known.get(name, value) is value for name, value in zip(gives, frame.stack[base:], strict=False)]
        ends = instr.op in ("RETURN_VALUE", "YIELD_VALUE")  # they end the run of the frame, which goes on elsewhere
        if not ends and (base < 0 or len(frame.stack) != base + len(gives) or not all(found)):
            self.wrong.append((instr, before, list(frame.stack)))
        return following


def test_handlers_do_to_the_stack_what_rows_say() -> None:
    ran = set()
    for program in PROGRAMS:
        machine = Counting()
        observe(lambda program=program, machine=machine: machine.call(program, (), {}))
        assert not machine.wrong, (program, machine.wrong)
        ran |= machine.ran
    decoded = {instr.op for program in PROGRAMS for instr in decode(program.__code__).instrs}
    assert decoded <= ran | {"RAISE_VARARGS", "RERAISE"} and len(ran) > 70, sorted(OPCODES.keys() - ran)


def test_the_table_is_documented() -> None:
    assert "BUILD_SLICE number: bound*number -- slice" in ops.__doc__
