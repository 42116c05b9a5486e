"""Names of kernels for `perf`: it reads `/tmp/perf-PID.map`, a line for each function that a process has made.

Source of the format: the Linux kernel, tools/perf/Documentation/jit-interface.txt.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping

from onegraph.compiler.codegen.elf import FUNCTION, symbols_of

LOGGER = logging.getLogger("onegraph")
NOT_WRITTEN = "perf is not told the names of kernels: %s"
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
    found = [symbol for symbol in symbols_of(code) if symbol.kind == FUNCTION and symbol.section]
    begins = {each.section: addresses[each.name] - each.value for each in found if each.name in addresses}
    for each in found:
        if each.section in begins:
            yield begins[each.section] + each.value, each.size, each.name
