"""What compiled programs depend on that another machine may have otherwise."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from hashlib import blake2b

import torch
from llvmlite.binding import llvm_version_info

from onegraph.base.dataclass import dataclass
from onegraph.base.disk_cache import RELEASE
from onegraph.compiler.codegen.native import description

#: Features of processors that operating systems and special libraries use, and LLVM by itself never does.
UNUSED = frozenset({
    "cldemote", "clflushopt", "clwb", "clzero", "enqcmd", "fsgsbase", "fxsr", "hreset", "invpcid", "kl", "mwaitx",
    "pconfig", "pku", "prefetchi", "ptwrite", "rdpid", "rdpru", "rdrnd", "rdseed", "rtm", "serialize", "sgx", "shstk",
    "tsxldtrk", "uintr", "usermsr", "waitpkg", "wbnoinvd", "widekl", "xsave", "xsavec", "xsaveopt", "xsaves",
})  # fmt: skip
_V2 = ("64bit", "cmov", "cx16", "cx8", "mmx", "popcnt", "sahf", "sse", "sse2", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
#: The levels of the x86-64 psABI, which LLVM has as names of processors.
LEVELS = {
    "x86-64": ("64bit", "cmov", "cx8", "mmx", "sse", "sse2"),
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"),
}


def versions() -> dict[str, str]:
    """The versions of all parts."""
    version, source = RELEASE.split()
    return {
        "onegraph": version,
        "source of onegraph": source,
        "torch": torch.__version__,
        "Python": f"{platform.python_implementation()} {'.'.join(platform.python_version_tuple()[:2])}",
        "LLVM": ".".join(map(str, llvm_version_info)),
    }


def facts() -> dict[str, str]:
    """The versions, and this processor."""
    processor, instructions = description()
    digest = blake2b(instructions.encode(), digest_size=8).hexdigest()
    return {**versions(), "processor": processor, "instructions": digest}


def check_facts(given: Mapping[str, str], here: Mapping[str, str]) -> None:
    """Raise ValueError where things were made with something else than what is here."""
    for name, fact in here.items():
        if given.get(name) != fact:
            raise ValueError(f"they were made with {name} {given.get(name)}, and here is {name} {fact}")


@dataclass(frozen=True, slots=True)
class Needs:
    """What a machine must have to run native code: `processor` is the one that it was compiled for."""

    system: str
    architecture: str
    processor: str
    features: tuple[str, ...]

    def missing(self) -> str:
        """What this machine lacks; empty if it is nothing."""
        if (self.system, self.architecture) != (platform.system(), platform.machine()):
            here = f"{platform.system()} on {platform.machine()}"
            return f"its code is for {self.system} on {self.architecture}, and this is {here}"
        name, features = description()
        lacking = sorted({*self.features} - {*enabled(features)})
        if lacking:
            return f"its code is for {self.processor}, and this processor ({name}) lacks {', '.join(lacking)}"
        if not self.features and self.processor != name:
            return f"its code is for {self.processor}, and this processor is {name}"
        return ""


def needs_of(cpu: str) -> Needs:
    """What code for a cpu needs: one that is named, or the one of this machine."""
    name, features = description(cpu)
    needed = LEVELS.get(name, tuple(each for each in enabled(features) if each not in UNUSED))
    return Needs(platform.system(), platform.machine(), name, needed)


def enabled(features: str) -> Iterator[str]:
    return (each[1:] for each in features.split(",") if each.startswith("+"))
