"""What was compiled, on disk, found by what it depends on.

A file is named by a hash of everything that its code depends on, holds a checksum of its name and content, and appears
by a rename: readers see all of it or nothing. What it holds is run, so it is used only if nobody but the user, or the
system, can have put it there. Whatever goes wrong with the cache, it is made again.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
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
KINDS = ("captures", "objects", "plans", "sources", "times")  # what is kept, each in a folder of its own
LOCAL = frozenset({"sources"})  # kinds that say something of this machine, and nothing to another one
KEY = re.compile(r"[0-9a-f]{32}")
UNFINISHED = re.compile(r"\.new.*")
LOCK = ".lock"
WAIT = 30  # seconds for what another process makes: it may have been stopped
POLL = 0.001, 0.02  # seconds, at first and at most, between two looks whether it is made
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_STORES = count(randbelow(PRUNE_EVERY))  # of this process, from anywhere: most processes end before they make so many
#: What this process has found or stored: folders and names.
USED: set[tuple[Path, str]] = set()


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
#: When it was imported, in nanoseconds since the epoch: of files that are newer nobody knows what is in this process.
IMPORTED = time.time_ns()
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
        content = content_of(key, data)
        if content is not None:
            self._note(key)
        return content

    def store(self, key: str, content: bytes) -> bool:
        """Keep an object, and say whether that was done. A cache that cannot be written is no error."""
        data = MAGIC + _digest(key, content) + content
        if len(data) > LARGEST:
            return False
        try:
            with open_folder(self.folder, make=True) as folder:
                _write(folder, key, data)
                self._note(key)
                if next(_STORES) % PRUNE_EVERY == 0 or len(data) > LARGE:
                    _prune(folder)
        except Untrusted as why:
            _tell(f"{why} (in {self.folder})")
            return False
        except OSError:
            return False
        return True

    def _note(self, key: str) -> None:
        if self.folder.name not in LOCAL:
            USED.add((self.folder, key))

    @contextmanager
    def find_or_make(self, key: str) -> Iterator[bytes | None]:
        """The object of this key; where it is None, the block is to make and store it.

        Threads and processes that look for it meanwhile wait for the end of the block, but not for ever, and only once:
        where nothing was stored, those that have waited make it side by side.
        """
        found = self.load(key)
        if found is not None:
            yield found
            return
        with self.turn(key):
            yield self.load(key)

    @contextmanager
    def turn(self, key: str) -> Iterator[bool]:
        """Threads and processes that come here for this key, too, wait for the end of the block, but not for ever, and
        only once. Gives whether this one has waited."""
        with ExitStack() as opened:
            lock, waited = None, False
            with suppress(OSError, Untrusted):  # where nothing can be locked nobody waits
                file = opened.enter_context(_lock_file(self.folder.parent))
                waited = not _locked(file, key)
                lock = None if waited else file
            try:
                yield waited
            finally:
                if lock is not None:  # a process that was forked meanwhile has the same open file
                    with suppress(OSError):
                        _lock(lock, fcntl.F_UNLCK, key)


def content_of(key: str, data: bytes) -> bytes | None:
    """What is in the file of this name, or None where it is not whole."""
    head, content = data[: len(MAGIC) + DIGEST], data[len(MAGIC) + DIGEST :]
    return content if head == MAGIC + _digest(key, content) else None


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


@contextmanager
def _lock_file(folder: Path) -> Iterator[int]:
    """The file in which each key has a byte to lock. The kernel takes the locks of a process back when it ends."""
    with open_folder(folder, make=True) as opened:
        file = os.open(LOCK, _LOCK, 0o600, dir_fd=opened)
    try:
        yield file
    finally:
        os.close(file)


def _locked(file: int, key: str) -> bool:
    """Lock the key, or wait for who has it, and leave it unlocked."""
    if _lock(file, fcntl.F_WRLCK, key):
        return True
    until, pause = time.monotonic() + WAIT, POLL[0]
    while time.monotonic() < until and not _lock(file, fcntl.F_RDLCK, key):  # which those that wait can share
        time.sleep(pause)
        pause = min(2 * pause, POLL[1])
    _lock(file, fcntl.F_UNLCK, key)
    return False


def _lock(file: int, kind: int, key: str) -> bool:
    """Whether the byte of this key could be locked, or unlocked, for this open file: other threads have other ones.

    Source of the structure: fcntl_locking(2), "Open file description locks"; struct flock of 64-bit Linux.
    """
    what = struct.pack("hhqqi4x", kind, os.SEEK_SET, int(key[:15], 16), 1, 0)
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, what)
    except BlockingIOError:
        return False
    return True


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
                if KEY.fullmatch(entry.name):
                    kept.append((status.st_mtime, status.st_size, entry.name))
                elif UNFINISHED.fullmatch(entry.name) and abs(time.time() - status.st_mtime) > ABANDONED:
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
