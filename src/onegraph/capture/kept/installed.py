"""What a capture depends on besides the program: this package, Python, torch and NumPy, as they are installed.

Files are compared by what they hold, so that what one machine has kept is found by another one, wherever and whenever
the same was installed there. They are not read in each process: the digest of their contents is an entry of the cache
whose name says where they stand, their sizes and their times.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from hashlib import blake2b

import numpy
import torch

from onegraph.base.config import Config
from onegraph.base.dataclass import dataclass
from onegraph.base.disk_cache import IMPORTED, KEY, DiskCache, cache_of, key_of

#: Where torch has the functions that programs run, and those that run while a graph is made.
_TORCH = """
. _decomp _dispatch _functorch _higher_order_ops _library _prims _prims_common _refs _refs/linalg _refs/nn
_refs/nn/functional _refs/special _subclasses amp autograd backends backends/cpu backends/cuda backends/mkldnn cpu
distributed distributed/tensor distributed/tensor/_ops distributed/tensor/parallel distributions fft func linalg masked
masked/maskedtensor nested nested/_internal nn nn/attention nn/modules nn/parallel nn/utils optim signal/windows sparse
special utils
""".split()
#: How files of sources end.
SOURCES = (".py", ".so")
#: What may change of what code does with the flags of Python. (What reads one has its value compared.)
_FLAGS = ("optimize", "bytes_warning", "utf8_mode", "int_max_str_digits")


@dataclass(frozen=True, slots=True)
class Sources:
    """The files in some folders of a package. `stamp` is another one whenever one of them was written or exchanged;
    `latest` is when that was, in nanoseconds since the epoch."""

    paths: tuple[str, ...]
    stamp: str
    latest: int


def versions(config: Config) -> str | None:
    """What a capture depends on besides the program, the backend and the settings. (Names of entries say more of this
    package, see `base.disk_cache`.)

    Returns:
        None where files have changed since they were imported: nobody knows what runs.
    """
    own, of_torch = digests(cache_of(config, "sources"))
    if own is None or of_torch is None:
        return None
    return f"{own} {sys.version} {flags()} {torch.__version__} {of_torch} {numpy.__version__}"


def flags() -> list[int]:
    """The flags of Python that change what code does."""
    return [getattr(sys.flags, name) for name in _FLAGS]


@cache
def digests(disk: DiskCache | None) -> tuple[str | None, str | None]:
    """What the files of this package and of torch hold, as this process has found them at first."""
    own = os.path.dirname(sys.modules["onegraph"].__file__ or "")
    layers = [path for layer in ("capture", "autograd") for path in folders(own, layer)]
    return digest_of(own, [".", *layers], disk), digest_of(os.path.dirname(torch.__file__), _TORCH, disk)


def digest_of(home: str, names: Iterable[str], disk: DiskCache | None) -> str | None:
    """A digest of what the files in these folders hold; None where one is newer than this process."""
    found = sources_in(home, names)
    if found.latest > IMPORTED:
        return None
    key = key_of("sources", home, found.stamp)
    known = None if disk is None else disk.load(key)
    if known is not None and KEY.fullmatch(known.decode("latin-1")):
        return known.decode()
    digest = contents(home, found.paths)
    if disk is not None:
        disk.store(key, digest.encode())
    return digest


def folders(home: str, layer: str) -> list[str]:
    """The folder of a layer, and those in it."""
    with os.scandir(os.path.join(home, layer)) as entries:
        inner = [entry.name for entry in entries if "." not in entry.name and entry.is_dir()]
    return [layer, *[each for name in inner if name != "__pycache__" for each in folders(home, f"{layer}/{name}")]]


def sources_in(home: str, names: Iterable[str]) -> Sources:
    """The sources in these folders. Nobody can set the time of the last change of any kind (`ctime`)."""
    facts = []
    for name in names:
        with suppress(FileNotFoundError), os.scandir(os.path.join(home, name)) as entries:
            files = [(file.name, file.stat()) for file in entries if file.name.endswith(SOURCES)]
            facts += [(f"{name}/{file}", at.st_size, at.st_mtime_ns, at.st_ctime_ns) for file, at in files]
    facts.sort()
    stamp = blake2b(repr(facts).encode(), digest_size=16).hexdigest()
    return Sources(tuple([fact[0] for fact in facts]), stamp, max([fact[3] for fact in facts], default=0))


def contents(home: str, paths: Iterable[str]) -> str:
    """A digest of what these files hold."""
    digest = blake2b(digest_size=16)
    for path in paths:
        with open(os.path.join(home, path), "rb") as file:
            content = file.read()
        digest.update(f"{path} {len(content)}\n".encode() + content)
    return digest.hexdigest()
