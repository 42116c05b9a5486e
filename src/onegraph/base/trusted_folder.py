"""Folders that can be trusted: what stands in them was put there by the user, or by the system.

What a path leads to may change between two looks at it. So every folder on the way is opened once, from the one before
it and without following links, and judged by what was opened.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LINKS = 40  # on one way: as many as Linux follows
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # a pipe is not waited for


class Untrusted(Exception):
    """Somebody else could have put there what a path leads to, or it is not what is read. The message says why."""


@contextmanager
def open_folder(path: Path, make: bool = False) -> Iterator[int]:
    """A descriptor of a folder that the user alone can write, like every folder that leads there.

    On the way, folders of the system and folders with the sticky bit will do. Links are read, and judged by their
    owner. A group that may write counts as others, even a group of one.

    Args:
        make: make the folders that are missing, for the user alone.

    Raises:
        Untrusted: a folder or a link on the way belongs to somebody else, or others can write there.
        OSError: there is no such folder, or it cannot be opened.
    """
    folder = _walk(path.absolute(), make)
    try:
        yield folder
    finally:
        os.close(folder)


@contextmanager
def open_file(folder: int, name: str) -> Iterator[int]:
    """A descriptor, for reading, of a plain file in an open folder, which the user alone can write.

    Raises:
        Untrusted: it is a link, a pipe or a device, belongs to somebody else, or others can write to it.
        OSError: there is no such file, or it cannot be opened.
    """
    try:
        file = os.open(name, _READ, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Untrusted(f"{name} is a link") from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise Untrusted(f"{name} is no plain file")
        _judge(file, Path(name))
        yield file
    finally:
        os.close(file)


def _walk(path: Path, make: bool) -> int:
    names = [*reversed(path.parts)]
    seen = Path(names[-1])
    links = 0
    folder = os.open(seen, _LOOK)
    try:
        while names:
            name = names.pop()
            found = _enter(folder, name, make)
            try:
                if stat.S_ISLNK(os.fstat(found).st_mode):
                    _judge(found, seen / name, shared=True)
                    links += 1
                    if links > LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(seen / name))
                    names.extend(reversed(Path(os.readlink("", dir_fd=found)).parts))  # "/" leads to the root again
                else:
                    seen /= name
                    _judge(found, seen, shared=bool(names))
                    folder, found = found, folder
            finally:
                os.close(found)
        return os.open(".", _LIST, dir_fd=folder)
    finally:
        os.close(folder)


def _enter(folder: int, name: str, make: bool) -> int:
    try:
        return os.open(name, _LOOK, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):  # another process was first
        os.mkdir(name, 0o700, dir_fd=folder)
    return os.open(name, _LOOK, dir_fd=folder)


def _judge(opened: int, path: Path, shared: bool = False) -> None:
    """Refuse what is not the user's or the system's, and what others can write to.

    Args:
        shared: others may write here if the sticky bit lets each remove only what is theirs.
    """
    status = os.fstat(opened)
    if status.st_uid not in (0, os.geteuid()):
        raise Untrusted(f"{path} belongs to user {status.st_uid}")
    if stat.S_ISLNK(status.st_mode) or not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return
    if not (shared and status.st_mode & stat.S_ISVTX):
        raise Untrusted(f"others can write to {path} (mode {stat.S_IMODE(status.st_mode):o})")
