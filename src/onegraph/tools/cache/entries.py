"""What stands in the folder of the cache: entries by kind, and their removal."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from onegraph.base.config import Config
from onegraph.base.dataclass import dataclass
from onegraph.base.disk_cache import ABANDONED, KEY, KINDS, UNFINISHED
from onegraph.base.errors import OnegraphError
from onegraph.base.settings import config as settings
from onegraph.base.trusted_folder import Untrusted, open_folder


@dataclass(frozen=True, slots=True)
class Entry:
    """`used` is when it was last read or written, in seconds since the epoch."""

    kind: str
    key: str
    size: int
    used: float


def configured() -> Config:
    """The settings of this process."""
    return settings.over(Config.from_environment())


def cache_folder() -> Path:
    """Where the cache of this process is.

    Raises:
        OnegraphError: where it has none.
    """
    found = configured().cache_dir
    if found is None:
        raise OnegraphError("there is no home folder to keep a cache in; ONEGRAPH_CACHE_DIR names another one")
    return found


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    """A descriptor of a folder of the cache.

    Raises:
        OnegraphError: where there is none, or it is not trusted.
    """
    try:
        with open_folder(folder) as found:
            yield found
    except Untrusted as why:
        raise OnegraphError(f"the cache in {folder} is not used: {why}") from None
    except FileNotFoundError:
        raise OnegraphError(f"there is no cache in {folder}: nothing has been kept there") from None
    except OSError as error:
        raise OnegraphError(f"the cache in {folder} cannot be used: {error.strerror}") from None


def entries_in(folder: Path, kinds: Iterable[str] = KINDS) -> list[Entry]:
    """The entries of a cache, the most recently used first. Other files are passed over.

    Raises:
        OnegraphError: where there is no cache, or it is not trusted.
    """
    with opened(folder):
        present = [kind for kind in kinds if (folder / kind).is_dir()]
    found = []
    for kind in present:
        with opened(folder / kind) as inner, os.scandir(inner) as files:
            for file in files:
                with suppress(OSError):  # another process has removed it meanwhile
                    status = file.stat(follow_symlinks=False)
                    if KEY.fullmatch(file.name):
                        found.append(Entry(kind, file.name, status.st_size, status.st_mtime))
    return sorted(found, key=lambda entry: (-entry.used, entry.kind, entry.key))


def removed(folder: Path, entries: Sequence[Entry]) -> list[Entry]:
    """Remove entries; those that went.

    Raises:
        OnegraphError: where the cache cannot be written.
    """
    gone = []
    for kind in sorted({entry.kind for entry in entries}):
        with opened(folder / kind) as inner:
            for entry in entries:
                if entry.kind == kind:
                    with suppress(FileNotFoundError):  # another process was faster
                        os.unlink(entry.key, dir_fd=inner)
                    gone.append(entry)
    return gone


def sweep(folder: Path, kinds: Iterable[str], age: float = ABANDONED) -> None:
    """Remove what processes that were killed have left half written, if it is that many seconds old.

    Raises:
        OnegraphError: where the cache cannot be written.
    """
    for kind in kinds:
        if not (folder / kind).is_dir():
            continue
        with opened(folder / kind) as inner:
            for name in os.listdir(inner):
                if UNFINISHED.fullmatch(name):
                    with suppress(FileNotFoundError):
                        if abs(time.time() - os.stat(name, dir_fd=inner, follow_symlinks=False).st_mtime) >= age:
                            os.unlink(name, dir_fd=inner)
