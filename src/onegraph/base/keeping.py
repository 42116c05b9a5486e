"""What a backend does to have its graphs on disk, beside the captures that they are of."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from onegraph.base.config import Config
from onegraph.base.context import Context, Store
from onegraph.base.dataclass import dataclass

#: Makes what runs of the bytes that a backend has put into `Context.made`, for a graph of so many outputs (0: nobody
#: counts them); None where its code is gone. The last argument is called when that turns out to need the graph, which
#: is not kept.
Reload = Callable[[bytes, Context, int, Callable[[], object]], Callable[..., Any] | None]


@dataclass(frozen=True, slots=True)
class Keeping:
    """`identity` says what the code of graphs depends on besides the program."""

    identity: Callable[[Config], str]
    reload: Reload


@dataclass(slots=True)
class Kept:
    """Where a capture is on disk. `frame` says of what frame it is, in any process; `digest` is that of its entry."""

    frame: str
    disk: Store
    name: str
    digest: bytes = b""

    def store(self, data: bytes) -> bool:
        """Whether it was written: a disk may be full, or can only be read."""
        self.digest = digest_of(data)
        return self.disk.store(self.name, data)

    def load(self) -> bytes | None:
        """The entry; None where another one has taken its place, or it is gone."""
        data = self.disk.load(self.name)
        return data if data is not None and digest_of(data) == self.digest else None


def digest_of(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()
