"""Object files of ELF, as far as a reader must look at them before they are linked: LLVM trusts what it is given.

Source of the format: System V ABI, chapter 4, "Object Files"; the processor's supplement for relocations.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Iterator

from onegraph.base.dataclass import dataclass

HEADER, SECTION, SYMBOL, RELOCATION = (
    struct.Struct(text) for text in ("<16sHHIQQQIHHHHHH", "<IIQQQQIIQQ", "<IBBHQQ", "<QQq")
)
#: The first bytes of 64-bit files with the low byte first, and the numbers of processors in them.
MAGIC = b"\x7fELF\x02\x01"
RELOCATABLE = 1
MACHINES = {"x86_64": 62, "aarch64": 183}
SYMBOLS, RELOCATIONS, NOTHING = 2, 4, 8  # kinds of sections
RESERVED = 0xFF00  # numbers of sections from here on mean something else
FUNCTION = 2  # kind of a symbol


@dataclass(frozen=True, slots=True)
class Section:
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """`section` is 0 for what is defined elsewhere; `value` is where it begins in its section."""

    name: str
    kind: int
    section: int
    value: int
    size: int


@dataclass(frozen=True, slots=True)
class Relocation:
    """At `offset` in a section is what its kind says of the symbol of that number."""

    section: int
    offset: int
    kind: int
    symbol: int
    addend: int


@dataclass(frozen=True, slots=True)
class ObjectFile:
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...]


def symbols_of(code: bytes) -> tuple[Symbol, ...]:
    """The symbols of an object file. Raises ValueError as `object_of` does."""
    return object_of(code).symbols


def object_of(code: bytes) -> ObjectFile:
    """An object file for this processor, whose tables stay within it.

    Raises:
        ValueError: for anything else.
    """
    try:
        return _object(code)
    except (struct.error, IndexError) as error:
        raise ValueError(f"this is no object file: {error}") from None


def _object(code: bytes) -> ObjectFile:
    sections = _sections(code)
    symbols: tuple[Symbol, ...] = ()
    relocations: list[Relocation] = []
    counts: dict[int, int] = {}
    for number, section in enumerate(sections):
        if section.kind == SYMBOLS:
            names = content(code, sections[section.link])
            symbols = tuple(_symbol(code, section, names, len(sections)))
            counts[number] = len(symbols)
    for section in sections:
        if section.kind == RELOCATIONS:
            size, count = sections[section.info].size, counts.get(section.link, 0)
            for offset, info, addend in RELOCATION.iter_unpack(content(code, section)):
                if offset >= size or info >> 32 >= count:
                    raise ValueError("this is no object file: a relocation leads out of it")
                relocations.append(Relocation(section.info, offset, info & 0xFFFFFFFF, info >> 32, addend))
    if len(counts) > 1:
        raise ValueError("this is no object file: it has several tables of symbols")
    return ObjectFile(sections, symbols, tuple(relocations))


def _sections(code: bytes) -> tuple[Section, ...]:
    magic, kind, machine, _, _, _, start, _, _, _, _, size, count, _ = HEADER.unpack_from(code)
    if not magic.startswith(MAGIC) or kind != RELOCATABLE or machine != MACHINES.get(platform.machine(), machine):
        raise ValueError("this is no object file for this processor")
    if size != SECTION.size or start + count * size > len(code):
        raise ValueError("this is no object file: it has not all of its sections")
    rows = SECTION.iter_unpack(code[start : start + count * size])
    sections = tuple(Section(row[1], row[2], row[4], row[5], row[6], row[7], row[8]) for row in rows)
    if any(each.kind != NOTHING and each.offset + each.size > len(code) for each in sections):
        raise ValueError("this is no object file: it has not all of its sections")
    return sections


def content(code: bytes, section: Section) -> bytes:
    return code[section.offset : section.offset + section.size]


def _symbol(code: bytes, section: Section, names: bytes, sections: int) -> Iterator[Symbol]:
    for at, info, _, where, value, size in SYMBOL.iter_unpack(content(code, section)):
        end = names.find(b"\0", at)
        if end < 0 or sections <= where < RESERVED:
            raise ValueError("this is no object file: a symbol leads out of it")
        yield Symbol(names[at:end].decode(), info & 15, where, value, size)
