"""Object files are looked at before they are linked: what is not whole is none."""

from __future__ import annotations

import random
import struct

import pytest

from onegraph.compiler.codegen import elf, native
from onegraph.compiler.codegen.elf import symbols_of

TEXT = """
declare double @cos(double)
declare i32 @printf(i8*, ...)
define internal double @inner(double %x) noinline { %y = call double @cos(double %x) ret double %y }
define double @outer(double %x) { %y = call double @inner(double %x) ret double %y }
"""


@pytest.fixture(scope="module")
def code() -> bytes:
    target = native.machine()
    made: bytes = target.emit_object(native.optimized(TEXT, target))
    return made


def test_symbols_are_those_of_the_text(code: bytes) -> None:
    symbols = {symbol.name: symbol for symbol in symbols_of(code)}
    assert symbols["outer"].kind == elf.FUNCTION and symbols["outer"].section
    assert not symbols["cos"].section
    assert native.has_functions(code, ["outer"])
    assert not native.has_functions(code, ["outer", "cos"]) and not native.has_functions(code, ["other"])


def test_what_is_cut_is_none(code: bytes) -> None:
    for size in range(0, len(code), 7):
        with pytest.raises(ValueError, match="this is no object file"):
            symbols_of(code[:size])


@pytest.mark.parametrize(("field", "value"), [(1, 2), (1, 3), (2, 8), (6, 1 << 40), (11, 32), (12, 65_535)])
def test_other_headers_are_none(code: bytes, field: int, value: int) -> None:
    head = [*elf.HEADER.unpack_from(code)]
    head[field] = value
    with pytest.raises(ValueError, match="this is no object file"):
        symbols_of(elf.HEADER.pack(*head) + code[elf.HEADER.size :])


def test_damaged_tables_lead_nowhere(code: bytes) -> None:
    """They are refused, or say the same of other places: nothing else is raised."""
    chance = random.Random(0)
    start = elf.HEADER.unpack_from(code)[6]
    for _ in range(3000):
        data = bytearray(code)
        at = chance.choice([chance.randrange(len(data)), chance.randrange(start, len(data)), chance.randrange(64)])
        struct.pack_into("<B", data, at, chance.randrange(256))
        native.has_functions(bytes(data), ["outer"])
