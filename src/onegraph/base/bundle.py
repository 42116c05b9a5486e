"""Entries of the cache in one value of bytes, with what is said of them.

The bytes are a line that names the format, a checksum of the rest, a line of JSON, and the contents of the entries.
Reading them runs no code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from itertools import accumulate
from typing import Any

from onegraph.base.dataclass import dataclass
from onegraph.base.text import plural

DIGEST = 64  # characters


@dataclass(frozen=True, slots=True)
class Artifact:
    """An entry: `kind` and `key` say where it stands in a cache."""

    kind: str
    key: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Bundle:
    """`about` is what is said of the entries, as JSON holds it."""

    about: Mapping[str, Any]
    artifacts: tuple[Artifact, ...]


def packed(magic: bytes, bundle: Bundle) -> bytes:
    """The bytes of a bundle; `magic` is a line that names the format."""
    kept = sorted(bundle.artifacts, key=lambda each: (each.kind, each.key))
    head = {**bundle.about, "entries": [[each.kind, each.key, len(each.content)] for each in kept]}
    rest = b"\n".join([json.dumps(head).encode(), b"".join(each.content for each in kept)])
    return magic + digest_of(rest) + b"\n" + rest


def unpacked(magic: bytes, data: bytes) -> Bundle:
    """What the bytes hold.

    Raises:
        ValueError: where they are of another format, or damaged; the message goes on after "they".
    """
    if not data.startswith(magic):
        other = data.startswith(magic.rpartition(b" ")[0])
        raise ValueError("they are of another format" if other else "they are none of onegraph's")
    digest, rest = data[len(magic) : len(magic) + DIGEST], data[len(magic) + DIGEST + 1 :]
    if digest != digest_of(rest):
        raise ValueError("they are damaged")
    line, _, contents = rest.partition(b"\n")
    try:
        about = dict(json.loads(line))
        rows = [(str(kind), str(key), int(size)) for kind, key, size in about.pop("entries")]
    except (KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        raise ValueError("their first lines are not those of such bytes") from None
    sizes = [size for _, _, size in rows]
    if min(sizes, default=0) < 0 or sum(sizes) != len(contents):
        raise ValueError(f"they should have {plural(sum(sizes), 'byte')} of entries, and have {len(contents)}")
    ends = [*accumulate(sizes, initial=0)]
    artifacts = (
        Artifact(kind, key, contents[begin:end])
        for (kind, key, _), begin, end in zip(rows, ends, ends[1:], strict=False)
    )
    return Bundle(about, tuple(artifacts))


def texts_of(about: Mapping[str, Any], name: str) -> dict[str, str]:
    """The texts under a name.

    Raises:
        ValueError: there are none.
    """
    found = about.get(name)
    if not isinstance(found, dict):
        raise ValueError(f"they do not say what they were {name}")
    return {str(key): str(value) for key, value in found.items()}


def digest_of(rest: bytes) -> bytes:
    """What stands behind the first line, for the bytes of the other lines."""
    return blake2b(rest, digest_size=DIGEST // 2).hexdigest().encode()
