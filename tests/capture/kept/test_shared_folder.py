"""Captures in one folder: of processes that begin together, that are killed, whose disk is full or can only be read."""

from __future__ import annotations

import errno
import itertools
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from capture.kept.children import begun, in_child, in_children
from capture.kept.test_processes import PROGRAMS, outcome, plainly

import onegraph
from onegraph.base.disk_cache import KEY, DiskCache

NAMES = ("graph breaks among handlers", "sizes that change", "training")


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """What each child would import."""
    for name in NAMES:
        PROGRAMS[name](lambda target: onegraph.compile(target, options={"cache": False}))
    onegraph.reset()


def entries(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*/*") if KEY.fullmatch(path.name)]


def is_whole(folder: Path) -> bool:
    return all(DiskCache(path.parent).load(path.name) is not None for path in entries(folder))


def finds_all(name: str, folder: Path) -> bool:
    right, said = in_child(outcome, PROGRAMS[name], folder)
    return right is True and set(said) == {"CaptureLoaded"}


@pytest.mark.parametrize("count", [2, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NAMES)
def test_processes_that_begin_together(name: str, count: int, tmp_path: Path) -> None:
    for _ in range(2):  # they make entries, and they find them
        assert all(right is True for right, _ in in_children(count, outcome, PROGRAMS[name], tmp_path))
        assert entries(tmp_path) and is_whole(tmp_path)
    assert finds_all(name, tmp_path)


def others(number: int) -> list[Callable[..., Any]]:
    """Functions whose captures nobody has."""
    names: dict[str, Any] = {}
    exec(f"import os\ndef f(x):\n    y = x * {number}.5\n    os.getpid()\n    return y.sin() + 1", names)
    return [plainly(names["f"]), *(PROGRAMS[name] for name in NAMES)]


def endlessly(kill: int, folder: Path) -> None:
    for number in itertools.count():
        for program in others(1000 * kill + number):
            outcome(program, folder)


@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_processes_that_are_killed(kills: int, tmp_path: Path) -> None:
    chance = random.Random(0)
    for kill in range(kills):
        process, read = begun(endlessly, kill, tmp_path)
        wanted = len(entries(tmp_path)) + chance.randint(1, 3)
        while len(entries(tmp_path)) < wanted:
            time.sleep(0.002)
        time.sleep(0.05 * chance.random())
        os.kill(process, signal.SIGKILL)
        assert os.waitpid(process, 0)[1] == signal.SIGKILL
        os.close(read)
        assert is_whole(tmp_path)
    for name in NAMES:
        assert in_child(outcome, PROGRAMS[name], tmp_path)[0] is True
        assert finds_all(name, tmp_path)


def on_a_full_disk(name: str, folder: Path) -> Any:
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - may be a file, too
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
    return outcome(PROGRAMS[name], folder)


@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk(name: str, tmp_path: Path) -> None:
    right, said = in_child(on_a_full_disk, name, tmp_path)
    assert right is True and said and set(said) == {"CaptureUnkept"}
    assert is_whole(tmp_path) and all(path.stat().st_size <= 64 for path in entries(tmp_path))
    right, said = in_child(outcome, PROGRAMS[name], tmp_path)
    assert right is True and "CaptureKept" in said
    before = {path: path.read_bytes() for path in entries(tmp_path)}
    right, said = in_child(on_a_full_disk, name, tmp_path)  # what is there is found
    assert right is True and set(said) == {"CaptureLoaded"}
    assert {path: path.read_bytes() for path in entries(tmp_path)} == before


def where_nothing_can_be_written(name: str, folder: Path) -> Any:
    def refused(*args: Any, **named: Any) -> Any:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    opened = os.open

    def read_only(path: Any, flags: int, *args: Any, **named: Any) -> int:
        return refused() if flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR) else opened(path, flags, *args, **named)

    if os.geteuid() == 0:  # for whom nothing can only be read
        os.open = read_only
        for call in ("utime", "replace", "unlink", "mkdir"):
            setattr(os, call, refused)
    return outcome(PROGRAMS[name], folder)


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_that_can_only_be_read(name: str, tmp_path: Path) -> None:
    assert in_child(outcome, PROGRAMS[name], tmp_path)[0] is True
    kept = {path: path.read_bytes() for path in entries(tmp_path)}
    gone = next(path for path in kept if path.parent.name == "captures")
    for wanted in ({"CaptureLoaded"}, {"CaptureLoaded", "CaptureUnkept"}):
        for folder in (*tmp_path.iterdir(), tmp_path):
            folder.chmod(0o500)
        right, said = in_child(where_nothing_can_be_written, name, tmp_path)
        assert right is True and set(said) <= wanted
        assert {path: path.read_bytes() for path in entries(tmp_path)} == kept
        for folder in (tmp_path, *tmp_path.iterdir()):
            folder.chmod(0o700)
        kept.pop(gone, None)
        gone.unlink(missing_ok=True)
