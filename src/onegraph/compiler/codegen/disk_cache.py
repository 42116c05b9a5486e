"""Compiled modules on disk, found by their content.

A file is named by a hash of everything that its code depends on, holds a checksum of its own, and appears by a rename:
readers see all of it or nothing. The folder belongs to the user alone; if somebody else could write there, it is not
used, because what it holds is run. Whatever goes wrong with the cache, the module is compiled.
"""

from __future__ import annotations

import os
import stat
import tempfile
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

MAGIC = b"onegraph object 1\n"
DIGEST = 32
LIMIT = 256 << 20  # bytes, of all files together
PRUNE_EVERY = 64  # stores


@dataclass(slots=True)
class DiskCache:
    """Objects by key, in a folder that is made when the first one is stored."""

    folder: Path
    _stores: int = 0

    def load(self, key: str) -> bytes | None:
        """The object of this key, or None if there is none that is whole."""
        path = self.folder / key
        try:
            if not _is_private(self.folder):
                return None
            data = path.read_bytes()
            os.utime(path)  # the least recently used go first
        except OSError:
            return None
        head, content = data[: len(MAGIC) + DIGEST], data[len(MAGIC) + DIGEST :]
        return content if head == MAGIC + _digest(content) else None

    def store(self, key: str, content: bytes) -> None:
        """Keep an object. A cache that cannot be written is no error."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_private(self.folder):
                return
            handle, name = tempfile.mkstemp(dir=self.folder, prefix=".new")
            with os.fdopen(handle, "wb") as file:
                file.write(MAGIC + _digest(content) + content)
            os.replace(name, self.folder / key)
            self._stores += 1
            if self._stores % PRUNE_EVERY == 1:
                self._prune()
        except OSError:
            return

    def _prune(self) -> None:
        """Remove the least recently used files until the rest is within the limit."""
        with os.scandir(self.folder) as entries:  # closed also where another process has removed a file meanwhile
            files = sorted(((entry.stat(), entry.path) for entry in entries), key=lambda f: -f[0].st_mtime)
        total = 0
        for status, path in files:
            total += status.st_size
            if total > LIMIT:
                os.unlink(path)


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=DIGEST).digest()


def _is_private(folder: Path) -> bool:
    """Whether the folder is the user's own, and nobody else can write to it."""
    status = folder.stat()
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def key_of(*parts: str) -> str:
    """The name of what depends on these texts and on nothing else."""
    return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()
