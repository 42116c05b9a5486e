"""What was compiled, on disk, found by what it depends on.

A file is named by a hash of everything that its code depends on, holds a checksum of its name and content, and appears
by a rename: readers see all of it or nothing. What it holds is run, so it is used only if nobody but the user, or the
system, can have put it there. Whatever goes wrong with the cache, it is made again.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from itertools import count
from pathlib import Path
from secrets import randbelow, token_hex

from onegraph.base.config import Config
from onegraph.base.dataclass import dataclass
from onegraph.base.trusted_folder import Untrusted, open_file, open_folder

MAGIC = b"onegraph object 2\n"
DIGEST = 32
LIMIT = 256 << 20  # bytes, of all files together
LARGEST = 64 << 20  # bytes, of one file
PRUNE_EVERY = 64  # stores, and whenever one is large
LARGE = 1 << 20  # bytes
ABANDONED = 3600  # seconds, after which nobody is still writing a file
_KEY = re.compile(r"[0-9a-f]{32}")
_NEW = re.compile(r"\.new.*")
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_STORES = count(randbelow(PRUNE_EVERY))  # of this process, from anywhere: most processes end before they make so many


def source_digest(*layers: str) -> str:
    """A digest of the source of layers of this package."""
    package = Path(__file__).parents[1]
    digest = blake2b(digest_size=16)
    for layer in layers:
        for folder, _, names in sorted(os.walk(package / layer)):
            if folder.endswith("__pycache__"):
                continue
            for name in sorted(name for name in names if name.endswith((".py", ".pyc"))):
                with open(os.path.join(folder, name), "rb") as file:
                    content = file.read()
                digest.update(f"{os.path.relpath(folder, package)} {name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


#: As it was imported: another version may be installed while this process runs. The source of the compiler and of what
#: it is built on is part of it: what that does with a text is not in the text.
RELEASE = f"{sys.modules['onegraph'].__version__} {source_digest('base', 'ir', 'torchlib', 'compiler')}"
LOGGER = logging.getLogger("onegraph")
REFUSED = "onegraph does not use its cache on disk: %s"


@dataclass(frozen=True, slots=True)
class DiskCache:
    """Objects by key, in a folder that is made when the first one is stored."""

    folder: Path

    def load(self, key: str) -> bytes | None:
        """The object of this key, or None if there is none that is whole and trusted."""
        try:
            with open_folder(self.folder) as folder, open_file(folder, key) as file:
                size = os.fstat(file).st_size
                if size > LARGEST:
                    raise Untrusted(f"{key} has {size} bytes")
                with os.fdopen(file, "rb", closefd=False) as reader:
                    data = reader.read(LARGEST)
                with suppress(OSError):  # a folder that can only be read
                    os.utime(file)  # the least recently used go first
        except Untrusted as why:
            _tell(f"{why} (in {self.folder})")
            return None
        except OSError:
            return None
        head, content = data[: len(MAGIC) + DIGEST], data[len(MAGIC) + DIGEST :]
        return content if head == MAGIC + _digest(key, content) else None

    def store(self, key: str, content: bytes) -> None:
        """Keep an object. A cache that cannot be written is no error."""
        data = MAGIC + _digest(key, content) + content
        if len(data) > LARGEST:
            return
        try:
            with open_folder(self.folder, make=True) as folder:
                _write(folder, key, data)
                if next(_STORES) % PRUNE_EVERY == 0 or len(data) > LARGE:
                    _prune(folder)
        except Untrusted as why:
            _tell(f"{why} (in {self.folder})")
        except OSError:
            return


def cache_of(config: Config, kind: str) -> DiskCache | None:
    """Where objects of this kind are kept, if they are to be and there is a place for them."""
    if not config.cache:
        return None
    if config.cache_dir is None:
        _tell("there is no home folder; ONEGRAPH_CACHE_DIR names another one")
        return None
    return DiskCache(config.cache_dir / kind)


def key_of(*parts: str) -> str:
    """The name of what depends on these texts and on this onegraph, and on nothing else."""
    return blake2b("\0".join((RELEASE, *parts)).encode(), digest_size=16).hexdigest()


@cache
def _tell(why: str) -> None:
    """Say it once in a process."""
    LOGGER.warning(REFUSED, why)


def _write(folder: int, key: str, data: bytes) -> None:
    new = f".new{token_hex(8)}"
    file = os.open(new, _WRITE, 0o600, dir_fd=folder)
    try:
        with os.fdopen(file, "wb") as writer:
            writer.write(data)
        os.replace(new, key, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:  # a full disk, an interrupt
        with suppress(OSError):
            os.unlink(new, dir_fd=folder)
        raise


def _prune(folder: int) -> None:
    """Remove what was never finished, and the least recently used files until the rest is within the limit.

    Only what has such a name: the folder that was chosen for the cache may hold other things.
    """
    kept = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # another process has removed it meanwhile
                status = entry.stat(follow_symlinks=False)
                if _KEY.fullmatch(entry.name):
                    kept.append((status.st_mtime, status.st_size, entry.name))
                elif _NEW.fullmatch(entry.name) and abs(time.time() - status.st_mtime) > ABANDONED:
                    os.unlink(entry.name, dir_fd=folder)
    total = 0
    for _, size, name in sorted(kept, reverse=True):
        if size > LARGEST or total + size > LIMIT:
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
        else:
            total += size


def _digest(key: str, content: bytes) -> bytes:
    return blake2b(content, digest_size=DIGEST, key=key.encode()).digest()
