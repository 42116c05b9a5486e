"""What this process has found or stored in the cache on disk, as one value of bytes for another machine.

    found = onegraph.save_cache_artifacts()
    if found is not None:
        data, info = found
    ...
    onegraph.load_cache_artifacts(data)

Reading the bytes runs no code; what they hold is run when a program is compiled that it fits: load only what you have
made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import field
from types import MappingProxyType

from onegraph.base.bundle import Artifact, Bundle, packed, texts_of, unpacked
from onegraph.base.dataclass import dataclass
from onegraph.base.disk_cache import KEY, KINDS, LARGEST, LOCAL, LOGGER, USED, DiskCache, cache_of
from onegraph.base.errors import InvalidArgument
from onegraph.capture.directives.hatches import beside
from onegraph.compiler.made_with import check_facts, facts
from onegraph.tools.cache.entries import configured
from onegraph.tools.cache.kinds import text_of

MAGIC = b"onegraph artifacts 1\n"
CARRIED = frozenset(KINDS) - LOCAL
REFUSED = "onegraph does not load these cache artifacts: %s"


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """The names of entries, by kind: objects, plans, times, captures."""

    artifacts: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))

    def empty(self) -> bool:
        return not any(self.artifacts.values())

    def __str__(self) -> str:
        return ", ".join(f"{kind}: {len(keys)}" for kind, keys in self.artifacts.items()) or "nothing"


@beside
def save_cache_artifacts() -> tuple[bytes, CacheInfo] | None:
    """What this process has found or stored in the cache on disk, in the spelling of `torch.compiler`.

    Returns:
        The bytes, for `load_cache_artifacts` on a machine with the same processor and the same versions, and the names
        of the entries in them. None where there is nothing.
    """
    found = {(folder.name, key): DiskCache(folder).load(key) for folder, key in sorted(USED)}
    artifacts = tuple(Artifact(kind, key, content) for (kind, key), content in found.items() if content is not None)
    return (packed(MAGIC, Bundle({"made with": facts()}, artifacts)), info_of(artifacts)) if artifacts else None


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
        bundle = unpacked(MAGIC, bytes(serialized_artifacts))
        check_facts(texts_of(bundle.about, "made with"), facts())
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


def check(artifact: Artifact) -> None:
    """Raise ValueError unless this can be an entry of the cache."""
    if artifact.kind not in CARRIED or not KEY.fullmatch(artifact.key) or len(artifact.content) > LARGEST:
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
