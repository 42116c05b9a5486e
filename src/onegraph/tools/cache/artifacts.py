"""What this process has found or stored in the cache on disk, as one value of bytes for another machine.

    found = onegraph.save_cache_artifacts()
    if found is not None:
        data, info = found
    ...
    onegraph.load_cache_artifacts(data)

The bytes are a line that names the format, a checksum of the rest, a line of JSON that says what they were made with
and which entries they have, and the contents of the entries. Reading them runs no code; what they hold is run when a
program is compiled that it fits: load only what you have made.
"""

from __future__ import annotations

import json
import platform
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import field
from hashlib import blake2b
from itertools import accumulate
from types import MappingProxyType

import torch
from llvmlite.binding import llvm_version_info

from onegraph.base.dataclass import dataclass
from onegraph.base.disk_cache import KEY, KINDS, LARGEST, LOGGER, RELEASE, USED, DiskCache, cache_of
from onegraph.base.errors import InvalidArgument
from onegraph.base.text import plural
from onegraph.capture.directives.hatches import beside
from onegraph.compiler.codegen.native import description
from onegraph.tools.cache.entries import configured
from onegraph.tools.cache.kinds import text_of

MAGIC = b"onegraph artifacts 1\n"
DIGEST = 64  # characters
REFUSED = "onegraph does not load these cache artifacts: %s"


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """The names of entries, by kind: objects, plans, times, captures."""

    artifacts: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))

    def empty(self) -> bool:
        return not any(self.artifacts.values())

    def __str__(self) -> str:
        return ", ".join(f"{kind}: {len(keys)}" for kind, keys in self.artifacts.items()) or "nothing"


@dataclass(frozen=True, slots=True)
class Artifact:
    kind: str
    key: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Bundle:
    """`facts` say what the entries were made with."""

    facts: Mapping[str, str]
    artifacts: tuple[Artifact, ...]

    @property
    def info(self) -> CacheInfo:
        return info_of(self.artifacts)


@beside
def save_cache_artifacts() -> tuple[bytes, CacheInfo] | None:
    """What this process has found or stored in the cache on disk, in the spelling of `torch.compiler`.

    Returns:
        The bytes, for `load_cache_artifacts` on a machine with the same processor and the same versions, and the names
        of the entries in them. None where there is nothing.
    """
    found = {(folder.name, key): DiskCache(folder).load(key) for folder, key in sorted(USED)}
    artifacts = tuple(Artifact(kind, key, content) for (kind, key), content in found.items() if content is not None)
    return (packed(facts(), artifacts), info_of(artifacts)) if artifacts else None


@beside
def load_cache_artifacts(serialized_artifacts: bytes) -> CacheInfo | None:
    """Put what `save_cache_artifacts` has given into the cache on disk of this machine.

    What is compiled from then on, in any process, finds it there. Load only bytes of your own: the code in them is run.

    Args:
        serialized_artifacts: the bytes.

    Returns:
        The names of the entries that are in the cache now. None where the bytes are not used: a line of the log says
        why.

    Raises:
        InvalidArgument: for what is no bytes.
    """
    if not isinstance(serialized_artifacts, bytes | bytearray | memoryview):
        raise InvalidArgument(f"load_cache_artifacts expects bytes, got {type(serialized_artifacts).__name__}")
    config = configured()
    try:
        bundle = unpacked(bytes(serialized_artifacts))
        check_facts(bundle.facts)
        for artifact in bundle.artifacts:
            check(artifact)
    except ValueError as why:
        LOGGER.warning(REFUSED, why)
        return None
    stored = []
    for artifact in bundle.artifacts:
        disk = cache_of(config, artifact.kind)
        if disk is not None and disk.store(artifact.key, artifact.content):
            stored.append(artifact)
    if not stored:
        LOGGER.warning(REFUSED, "the cache on disk is switched off, or cannot be written")
        return None
    return info_of(stored)


def facts() -> dict[str, str]:
    """What entries depend on that another machine may have otherwise."""
    version, source = RELEASE.split()
    processor, instructions = description()
    return {
        "onegraph": version,
        "source of onegraph": source,
        "torch": torch.__version__,
        "Python": f"{platform.python_implementation()} {'.'.join(platform.python_version_tuple()[:2])}",
        "LLVM": ".".join(map(str, llvm_version_info)),
        "processor": processor,
        "instructions": blake2b(instructions.encode(), digest_size=8).hexdigest(),
    }


def check_facts(given: Mapping[str, str]) -> None:
    """Raise ValueError where entries were made with something else than what is here."""
    for name, here in facts().items():
        if given.get(name) != here:
            raise ValueError(f"they were made with {name} {given.get(name)}, and here is {name} {here}")


def check(artifact: Artifact) -> None:
    """Raise ValueError unless this can be an entry of the cache."""
    if artifact.kind not in KINDS or not KEY.fullmatch(artifact.key) or len(artifact.content) > LARGEST:
        raise ValueError(f"{artifact.key!r} is no entry of a cache")
    try:
        text_of(artifact.kind, artifact.content)
    except ValueError as why:
        raise ValueError(f"{artifact.key}, of {artifact.kind}, is not used: {why}") from None


def info_of(artifacts: Iterable[Artifact]) -> CacheInfo:
    keys: defaultdict[str, list[str]] = defaultdict(list)
    for artifact in artifacts:
        keys[artifact.kind].append(artifact.key)
    return CacheInfo(MappingProxyType({kind: tuple(sorted(names)) for kind, names in sorted(keys.items())}))


def packed(about: Mapping[str, str], artifacts: Iterable[Artifact]) -> bytes:
    kept = sorted(artifacts, key=lambda each: (each.kind, each.key))
    head = {"made with": dict(about), "entries": [[each.kind, each.key, len(each.content)] for each in kept]}
    rest = b"\n".join([json.dumps(head).encode(), b"".join(each.content for each in kept)])
    return MAGIC + _digest(rest) + b"\n" + rest


def unpacked(data: bytes) -> Bundle:
    """What the bytes hold.

    Raises:
        ValueError: where they are of another format, or damaged.
    """
    if not data.startswith(MAGIC):
        other = data.startswith(MAGIC.rpartition(b" ")[0])
        raise ValueError("they are of another format" if other else "these are no artifacts of onegraph")
    digest, rest = data[len(MAGIC) : len(MAGIC) + DIGEST], data[len(MAGIC) + DIGEST + 1 :]
    if digest != _digest(rest):
        raise ValueError("they are damaged")
    line, _, contents = rest.partition(b"\n")
    try:
        head = json.loads(line)
        about = {str(name): str(value) for name, value in head["made with"].items()}
        rows = [(str(kind), str(key), int(size)) for kind, key, size in head["entries"]]
    except (KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        raise ValueError("their first lines are not those of artifacts") from None
    sizes = [size for _, _, size in rows]
    if min(sizes, default=0) < 0 or sum(sizes) != len(contents):
        raise ValueError(f"they should have {plural(sum(sizes), 'byte')} of entries, and have {len(contents)}")
    ends = [*accumulate(sizes, initial=0)]
    artifacts = (
        Artifact(kind, key, contents[begin:end])
        for (kind, key, _), begin, end in zip(rows, ends, ends[1:], strict=False)
    )
    return Bundle(about, tuple(artifacts))


def _digest(rest: bytes) -> bytes:
    return blake2b(rest, digest_size=DIGEST // 2).hexdigest().encode()
