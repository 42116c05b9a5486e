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
    offset: int
    size: int
    link: int
    info: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """`section` is 0 for what is defined elsewhere."""

    name: str
    kind: int
    section: int


def symbols_of(code: bytes) -> tuple[Symbol, ...]:
    """The symbols of an object file for this processor, whose tables stay within it.

    Raises:
        ValueError: for anything else.
    """
    try:
        return _symbols(code)
    except (struct.error, IndexError) as error:
        raise ValueError(f"this is no object file: {error}") from None


def _symbols(code: bytes) -> tuple[Symbol, ...]:
    sections = _sections(code)
    found: tuple[Symbol, ...] = ()
    counts: dict[int, int] = {}
    for number, section in enumerate(sections):
        if section.kind == SYMBOLS:
            names = _content(code, sections[section.link])
            found = tuple(_symbol(code, section, names, len(sections)))
            counts[number] = len(found)
    for section in sections:
        if section.kind == RELOCATIONS:
            size, count = sections[section.info].size, counts.get(section.link, 0)
            for offset, info, _ in RELOCATION.iter_unpack(_content(code, section)):
                if offset >= size or info >> 32 >= count:
                    raise ValueError("this is no object file: a relocation leads out of it")
    return found


def _sections(code: bytes) -> tuple[Section, ...]:
    magic, kind, machine, _, _, _, start, _, _, _, _, size, count, _ = HEADER.unpack_from(code)
    if not magic.startswith(MAGIC) or kind != RELOCATABLE or machine != MACHINES.get(platform.machine(), machine):
        raise ValueError("this is no object file for this processor")
    if size != SECTION.size or start + count * size > len(code):
        raise ValueError("this is no object file: it has not all of its sections")
    rows = SECTION.iter_unpack(code[start : start + count * size])
    sections = tuple(Section(row[1], row[4], row[5], row[6], row[7]) for row in rows)
    if any(each.kind != NOTHING and each.offset + each.size > len(code) for each in sections):
        raise ValueError("this is no object file: it has not all of its sections")
    return sections


def _content(code: bytes, section: Section) -> bytes:
    return code[section.offset : section.offset + section.size]


def _symbol(code: bytes, section: Section, names: bytes, sections: int) -> Iterator[Symbol]:
    for at, info, _, where, _, _ in SYMBOL.iter_unpack(_content(code, section)):
        end = names.find(b"\0", at)
        if end < 0 or sections <= where < RESERVED:
            raise ValueError("this is no object file: a symbol leads out of it")
        yield Symbol(names[at:end].decode(), info & 15, where)
