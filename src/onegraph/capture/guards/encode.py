"""The last step to a guard program: instructions become words that C runs without looking whether they are right.

csrc/guard_ops.def has a row for each instruction: its operands, and whether it may run Python code.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from weakref import ReferenceType

from onegraph import _C

Instruction = tuple[Any, ...]

Layout = tuple[int, int, str, tuple[tuple[int, str], ...], tuple[int, str] | None]

OPS = {name: (number, operands, runs_code) for number, (name, operands, runs_code) in enumerate(_C.GUARD_OPS)}


def layout_of(number: int, operands: str) -> Layout:
    """Of an instruction: its number, the length of its tuple, of which kind the register is that it writes, and where
    the tuple has the registers that it reads, and the number or constant that it has; each with its kind."""
    places = list(enumerate(operands, 1))
    other = next((each for each in places if each[1] not in "desi"), None)
    reads = tuple(each for each in places if each[1] in "si")
    return number, 1 + len(operands), operands[:1] if operands[:1] in ("d", "e") else "", reads, other


LAYOUTS = {name: layout_of(number, operands) for name, (number, operands, _) in OPS.items() if name != "END"}
#: `GuardInstruction` of csrc/onegraph.h.
WORDS = "BBHHHq"
MOST_REGISTERS = 65_535
CONSTANTS: dict[str, type] = {
    "k": object,
    "A": str,
    "C": object,
    "F": _C.Fact,
    "G": _C.GlobalState,
    "K": tuple,
    "M": tuple,
    "R": bytes,
    "T": _C.TensorSpec,
    "W": ReferenceType,
    "Y": type,
}
#: Comparing with a constant of such a type runs no Python code, whatever the other side is.
PLAIN = {type(None), type(...), bool, int, float, complex, str, bytes, type}
#: What makes a register of its own, which is released at the end, and what stays alive with the frame or the program.
MAKES = {"ATTR", "CALL", "PAIR"}
KEPT = {"ARG", "GLOBALS", "CONST"}


def encode(instructions: Sequence[Instruction], consts: Sequence[Any] = ()) -> _C.GuardProgram:
    """The program of these instructions: tuples of a name and operands, which are registers, numbers, or indices of
    `consts`. ValueError: it reads what was not written, or gives an instruction what it does not take."""
    encoding = Encoding(consts)
    for at, instruction in enumerate(instructions):
        encoding.add(at, instruction)
    owned = encoding.owned(instructions)
    words: list[int] = []
    for at, row in enumerate([*encoding.rows, (OPS["END"][0], 0, 0, 0, 0)]):
        words += (row[0], at in owned, *row[1:])
    registers = array("H", [encoding.rows[at][1] for at in sorted(owned)])
    counts = tuple(max(used, default=-1) + 1 for used in (encoding.objects, encoding.integers))
    packed = struct.pack("=" + WORDS * (len(encoding.rows) + 1), *words)
    return _C.GuardProgram(packed, registers.tobytes(), tuple(consts), counts)


class Encoding:
    """Rows of numbers: of the instruction, of the registers that it writes and reads, and of its constant.

    `objects` and `integers` have the last instruction that uses each register.
    """

    def __init__(self, consts: Sequence[Any]) -> None:
        self.consts = consts
        self.rows: list[tuple[int, ...]] = []
        self.objects: dict[int, int] = {}
        self.integers: dict[int, int] = {}

    def add(self, at: int, instruction: Instruction) -> None:
        layout = LAYOUTS.get(instruction[0])
        if layout is None:
            raise wrong(at, instruction, f"a known name is expected, not {instruction[0]!r}")
        number, length, target_kind, reads, other = layout
        if len(instruction) != length:
            raise wrong(at, instruction, "another number of operands is expected")
        read = [0, 0]
        for nth, (place, kind) in enumerate(reads):
            read[nth] = self.read(at, instruction, self.objects if kind == "s" else self.integers, instruction[place])
        value = 0
        if other is not None:
            place, kind = other
            value = instruction[place]
            if kind == "n":
                if not 0 <= value < 2**31:
                    raise wrong(at, instruction, f"a small number from 0 is expected, not {value}")
            elif kind == "v":
                if not -(2**63) <= value < 2**63:
                    raise wrong(at, instruction, f"a 64-bit number is expected, not {value}")
            else:
                value = self.constant(at, instruction, kind, value)
        target = 0
        if target_kind:  # registers are written after the others are read
            target, uses = instruction[1], self.objects if target_kind == "d" else self.integers
            if not 0 <= target < MOST_REGISTERS or target in uses:
                raise wrong(at, instruction, f"a register that is written once is expected, not {target!r}")
            uses[target] = at
        self.rows.append((number, target, *read, value))

    def read(self, at: int, instruction: Instruction, uses: dict[int, int], register: int) -> int:
        if register not in uses:
            raise wrong(at, instruction, f"a register that was written before is expected, not {register!r}")
        uses[register] = at
        return register

    def constant(self, at: int, instruction: Instruction, kind: str, index: int) -> int:
        """The index of a constant of this kind, and the registers in it as read."""
        if not 0 <= index < len(self.consts):
            raise wrong(at, instruction, f"the index of a constant is expected, not {index}")
        constant, expected = self.consts[index], CONSTANTS[kind]
        if expected is not object and not issubclass(type(constant), expected):
            raise wrong(at, instruction, f"a constant of type {expected.__name__} is expected, not {constant!r}")
        if kind == "M" and not (constant and type(constant[0]) is _C.Memory):
            raise wrong(at, instruction, f"a tuple that begins with a Memory is expected, not {constant!r}")
        if kind in "MR":
            for register in constant[1:] if kind == "M" else array("H", constant):
                self.read(at, instruction, self.objects, register)
        return index

    def owned(self, instructions: Sequence[Instruction]) -> set[int]:
        """The instructions whose result must be kept alive: a new one, and what code might drop before its last use."""
        reads_in_python = _C.tensor_abi() == "python"
        namespaces = {each[1] for each in instructions if each[0] in ("DICTOF", "GLOBALS")}
        depends = self.runs_code
        runners = [
            at
            for at, each in enumerate(instructions)
            if (runs := OPS[each[0]][2]) == 1 or (runs and depends(each, namespaces, reads_in_python))
        ]
        #: For each instruction, the next one that runs code.
        following: list[int] = []
        for before, runner in pairwise([-1, *runners, len(instructions)]):
            following += [runner] * (runner - before)
        return {
            at
            for at, each in enumerate(instructions)
            if LAYOUTS[each[0]][2] == "d"
            and (each[0] in MAKES or (each[0] not in KEPT and following[at + 1] <= self.objects[each[1]]))
        }

    def runs_code(self, instruction: Instruction, namespaces: set[int], reads_in_python: bool) -> bool:
        name, *operands = instruction
        match name:
            case "EQ" | "KEYS":
                return not is_plain(self.consts[operands[1]])
            case "ITEM" | "HAS" | "LACKS":
                # Looking up a string runs code only if another key has its hash and a Python __eq__. In the dicts that
                # hold attributes and globals, keys are strings.
                *_, register, key = operands
                return type(self.consts[key]) is not str or register not in namespaces
            case "TENSOR" | "MEMORY" | "ISIZE" | "ISTRIDE" | "STATE":
                return reads_in_python
        return bool(OPS[name][2])


def wrong(at: int, instruction: Instruction, what: str) -> ValueError:
    return ValueError(f"instruction {at} {instruction}: {what}")


def is_plain(value: Any) -> bool:
    return type(value) in PLAIN or type(value) is tuple and all(map(is_plain, value))
