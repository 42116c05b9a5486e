"""Native code of an object file, put in its place without LLVM: importing that takes longer than all else in a process
whose code is on disk.

What LLVM makes for this process has whole sections and absolute addresses; of anything else nothing is known here.
Source of the numbers: System V ABI, "AMD64 Architecture Processor Supplement", section 4.4.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
from collections.abc import Mapping, Sequence

from onegraph.base.dataclass import dataclass
from onegraph.compiler.codegen.elf import FUNCTION, NOTHING, ObjectFile, Symbol, content, object_of, symbols_of
from onegraph.compiler.codegen.vector_library import is_vector_function, torch_library

#: Threads are those of the OpenMP library that torch itself runs on, so that there is one pool of them in the process.
OPENMP = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
WRITE, ALLOCATE, EXECUTE = 1, 2, 4  # flags of sections
ADDRESS = 1  # a relocation: the address of the symbol, in 64 bits
UNWINDING = 0x70000001  # kind of the section for exceptions: nothing raises one through a kernel
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Compiled:
    """Native code; it lives as long as `engine`. `addresses` are those of the functions asked for.

    `code` is an object file. `kept` is its name on disk, empty where it is not kept there.
    """

    addresses: Mapping[str, int]
    engine: object
    code: bytes
    cached: bool
    kept: str


def has_functions(code: bytes, names: Sequence[str]) -> bool:
    """Whether this is an object file for this processor with these functions."""
    try:
        return {*names} <= {symbol.name for symbol in symbols_of(code) if symbol.kind == FUNCTION and symbol.section}
    except ValueError:
        return False


def placed(code: bytes, names: Sequence[str], key: str) -> Compiled | None:
    """The functions of these names, of an object file that is kept as `key`; None if it has something that is not known
    here, or this system allows no code that a process has written.

    Raises:
        ValueError: it is no object file for this processor.
    """
    found = object_of(code)
    places, sizes = _places(found)
    if platform.machine() != "x86_64" or places is None or sum(sizes) > len(code) + len(found.sections) * mmap.PAGESIZE:
        return None
    memory = mmap.mmap(-1, sum(sizes), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # unmapped when nobody has it
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for number, place in places.items():
        section = found.sections[number]
        memory[place : place + section.size] = content(code, section)
    addresses = [_address(symbol, places, start) for symbol in found.symbols]
    for each in found.relocations:
        if each.section not in places:
            continue
        address, place = addresses[each.symbol], places[each.section] + each.offset
        if each.kind != ADDRESS or address is None or each.offset + 8 > found.sections[each.section].size:
            return None
        memory[place : place + 8] = (address + each.addend & _MASK).to_bytes(8, "little")
    for at, size, rights in ((start, sizes[0], mmap.PROT_EXEC), (start + sizes[0], sizes[1], 0)):
        if size and ctypes.CDLL(None).mprotect(ctypes.c_void_p(at), ctypes.c_size_t(size), mmap.PROT_READ | rights):
            return None
    functions = {
        symbol.name: address
        for symbol, address in zip(found.symbols, addresses, strict=True)
        if symbol.kind == FUNCTION and symbol.section in places and address is not None
        if found.sections[symbol.section].flags & EXECUTE and symbol.value < found.sections[symbol.section].size
    }
    wanted = {name: functions[name] for name in names if name in functions}
    return Compiled(wanted, memory, code, True, key) if len(wanted) == len({*names}) else None


def _places(found: ObjectFile) -> tuple[dict[int, int] | None, tuple[int, int]]:
    """Where the sections go that a process has in memory, code first, and the bytes of whole pages of code and of
    constants; None if one is of a kind that is not known here."""
    places: dict[int, int] = {}
    sizes, end = [], 0
    for wanted in (EXECUTE, 0):
        begin = end
        for number, section in enumerate(found.sections):
            if not section.flags & ALLOCATE or section.kind == UNWINDING or section.flags & EXECUTE != wanted:
                continue
            align = max(section.align, 1)
            if section.kind == NOTHING or section.flags & WRITE or align & align - 1 or align > mmap.PAGESIZE:
                return None, (0, 0)
            places[number] = -(-end // align) * align
            end = places[number] + section.size
        end = -(-end // mmap.PAGESIZE) * mmap.PAGESIZE
        sizes.append(end - begin)
    return places if end else None, (sizes[0], sizes[1])


def _address(symbol: Symbol, places: Mapping[int, int], start: int) -> int | None:
    """Where a symbol is; None where nothing in this process has it."""
    if symbol.section in places:
        return start + places[symbol.section] + symbol.value
    if symbol.section or not symbol.name:
        return None
    of_torch = symbol.name in OPENMP or is_vector_function(symbol.name)
    function = getattr(torch_library() if of_torch else ctypes.CDLL(None), symbol.name, None)
    return None if function is None else ctypes.cast(function, ctypes.c_void_p).value
