"""Names of kernels for `perf`: it reads `/tmp/perf-PID.map`, a line for each function that a process has made.

Source of the format: the Linux kernel, tools/perf/Documentation/jit-interface.txt.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Iterator, Mapping

import llvmlite.binding as llvm

LOGGER = logging.getLogger("onegraph")
NOT_WRITTEN = "perf is not told the names of kernels: %s"
_FUNCTION = 2  # the type of a symbol, in the lower half of its byte
_OPEN = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


def tell_perf(code: bytes, addresses: Mapping[str, int]) -> None:
    """Add the functions of an object file, of which some are at these addresses. What goes wrong is one log line."""
    lines = "".join(f"{address:x} {size:x} {name}\n" for address, size, name in functions(code, addresses))
    try:
        file = os.open(f"/tmp/perf-{os.getpid()}.map", _OPEN, 0o600)
        try:
            os.write(file, lines.encode())
        finally:
            os.close(file)
    except OSError as error:
        LOGGER.warning(NOT_WRITTEN, error)


def functions(code: bytes, addresses: Mapping[str, int]) -> Iterator[tuple[int, int, str]]:
    """Address, size and name of each function. Those that only the object knows lie in the section of the others."""
    sections = {section.name(): section.data() for section in llvm.ObjectFileRef.from_data(code).sections()}
    names, symbols = sections.get(b".strtab", b""), sections.get(b".symtab", b"")
    found = {
        names[at : names.index(b"\0", at)].decode(): (section, value, size)
        for at, info, _, section, value, size in struct.iter_unpack("<IBBHQQ", symbols)
        if info & 15 == _FUNCTION
    }
    begins = {found[name][0]: address - found[name][1] for name, address in addresses.items() if name in found}
    for name, (section, value, size) in found.items():
        if section in begins:
            yield begins[section] + value, size, name
