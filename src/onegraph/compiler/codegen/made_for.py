"""What native code depends on besides its text: the processor as LLVM sees it, and LLVM's version.

LLVM is asked once for each of its installations and kind of processor: the answer is an entry of the cache whose name
says where LLVM stands, its size and its times, and what the system says of the processor.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from onegraph.base.config import Config
from onegraph.base.disk_cache import cache_of, key_of
from onegraph.base.late import late_module

if TYPE_CHECKING:
    from onegraph.compiler.codegen import native
else:  # which imports LLVM
    native = late_module("onegraph.compiler.codegen.native")

LLVM = "binding/libllvmlite.so"
CPUINFO = "/proc/cpuinfo"
#: What the system says of a processor that LLVM looks at.
FACTS = frozenset(
    {
        "vendor_id", "cpu family", "model", "model name", "stepping", "flags", "CPU implementer", "CPU architecture",
        "CPU variant", "CPU part", "CPU revision", "Features",
    }
)  # fmt: skip


def identity(config: Config) -> str:
    """What native code depends on besides its text, for the processor that the configuration names."""
    cpu, disk = config.target_cpu, cache_of(config, "sources")
    asked = None if disk is None or "llvmlite.binding" in sys.modules else question()
    if disk is None or asked is None:
        return native.identity(cpu)
    key = key_of("LLVM", cpu, asked)
    known = disk.load(key)
    if known is not None and known.isascii():
        return known.decode()
    found = native.identity(cpu)
    disk.store(key, found.encode())
    return found


def question() -> str | None:
    """What another answer of LLVM would depend on; None where that is not known."""
    with suppress(OSError, UnicodeDecodeError):
        spec = find_spec("llvmlite")
        for home in (spec and spec.submodule_search_locations) or ():
            at = os.stat(os.path.join(home, LLVM))
            with open(CPUINFO, encoding="ascii") as file:
                facts = first_processor(iter(file.readline, ""))
            return f"{home} {at.st_size} {at.st_mtime_ns} {at.st_ctime_ns} {facts}" if facts else None
    return None


def first_processor(lines: Iterable[str]) -> list[str]:
    """The facts of the first processor. The others are not asked for: of hundreds that takes long."""
    found = []
    for line in lines:
        if line == "\n":
            break
        if line.partition(":")[0].strip() in FACTS:
            found.append(line.strip())
    return found
