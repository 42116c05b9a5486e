"""The cache on disk: found again, checked, private, bounded; never a reason to fail."""

from __future__ import annotations

import errno
import gc
import itertools
import logging
import os
import random
import resource
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from threading import Thread

import pytest

import onegraph
from onegraph.base import disk_cache
from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.base.disk_cache import DiskCache, cache_of, key_of, source_digest

KEY, OTHER = key_of("one"), key_of("other")


@pytest.fixture(autouse=True)
def _counted_from_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a process begins to count is drawn by chance, and one store in so many removes what a test has laid out."""
    monkeypatch.setattr(disk_cache, "_STORES", itertools.count(1))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "objects"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_was_stored_is_found(folder: Path) -> None:
    cache = DiskCache(folder)
    assert cache.load(KEY) is None
    cache.store(KEY, b"content")
    assert DiskCache(folder).load(KEY) == b"content"
    assert cache.load(OTHER) is None
    assert os.stat(folder).st_mode & 0o077 == 0
    assert names(folder) == {KEY}


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: b"x" + d[1:], lambda d: d[:-1] + b"!", lambda d: b""])
def test_what_is_not_whole_is_not_used(folder: Path, damage) -> None:
    cache = DiskCache(folder)
    cache.store(KEY, b"content")
    (folder / KEY).write_bytes(damage((folder / KEY).read_bytes()))
    assert cache.load(KEY) is None
    cache.store(KEY, b"content")
    assert cache.load(KEY) == b"content"


def test_an_entry_under_the_name_of_another_is_not_used(folder: Path) -> None:
    """A restored backup, a file manager that gave them names."""
    cache = DiskCache(folder)
    cache.store(KEY, b"content")
    cache.store(OTHER, b"another content")
    os.replace(folder / OTHER, folder / KEY)
    assert cache.load(KEY) is None


@pytest.mark.parametrize("place", ["objects", "."])
def test_a_folder_that_others_can_write_is_not_used(folder: Path, place: str, caplog: pytest.LogCaptureFixture) -> None:
    cache = DiskCache(folder)
    cache.store(KEY, b"content")
    (folder.parent / place).chmod(0o777)
    for _ in range(3):
        assert cache.load(KEY) is None
        cache.store(OTHER, b"content")
    assert not (folder / OTHER).exists()
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("onegraph", logging.WARNING)
    assert f"others can write to {folder.parent / place} (mode 777)" in record.getMessage()


def test_what_is_no_entry_is_refused_and_replaced(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is waited for: a pipe, a file that is larger than any entry."""
    cache = DiskCache(folder)
    cache.store(KEY, b"content")
    (folder / KEY).unlink()
    os.mkfifo(folder / KEY)
    cache.store(OTHER, b"content")
    os.truncate(folder / OTHER, 4 << 30)
    for key in (KEY, OTHER):
        assert cache.load(key) is None
        cache.store(key, b"again")
        assert cache.load(key) == b"again"
    assert [f"{KEY} is no plain file" in caplog.text, f"{OTHER} has {4 << 30} bytes" in caplog.text] == [True, True]


def test_what_is_larger_than_an_entry_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "LARGEST", 1000)
    DiskCache(folder).store(KEY, bytes(1000))
    assert not folder.exists()


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = DiskCache(tmp_path / "file" / "objects")
    cache.store(KEY, b"content")
    assert cache.load(KEY) is None


def test_a_folder_that_can_only_be_read_is_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer of an image: neither times of files nor new files are written."""
    cache = DiskCache(folder)
    cache.store(KEY, b"content")

    def refused(*args: object, **named: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for name in ("utime", "replace", "unlink", "mkdir"):
        monkeypatch.setattr(os, name, refused)
    assert cache.load(KEY) == b"content"
    cache.store(OTHER, b"content")
    assert cache.load(OTHER) is None


def test_a_full_disk_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DiskCache(folder)
    cache.store(KEY, b"content")
    for error in (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()):

        def fail(*args: object, error: BaseException = error, **named: object) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", fail)
            try:
                cache.store(OTHER, b"content")
            except KeyboardInterrupt:
                assert isinstance(error, KeyboardInterrupt)
        assert names(folder) == {KEY}


def pruning(monkeypatch: pytest.MonkeyPatch, stores: int = 0) -> None:
    """The next store but so many looks for what can be removed."""
    monkeypatch.setattr(disk_cache, "_STORES", itertools.count(-stores))


def test_the_least_recently_used_go_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "LIMIT", 350)
    pruning(monkeypatch, 3)
    cache = DiskCache(folder)
    keys = [key_of(str(number)) for number in range(4)]
    for number, key in enumerate(keys[:3]):
        cache.store(key, bytes(50))
        os.utime(folder / key, (number, number))
    cache.load(keys[0])
    cache.store(keys[3], bytes(50))
    assert names(folder) == {keys[0], keys[2], keys[3]}


def test_stores_are_counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking through the folder takes as long as there are entries."""
    looked: list[int] = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda *args: (looked.append(1), scan(*args))[1])
    monkeypatch.setattr(disk_cache, "LARGE", 1000)
    pruning(monkeypatch, 10)
    for number in range(10):
        DiskCache(folder).store(key_of(str(number)), b"content")
    assert len(looked) == 0
    for number in range(2 * disk_cache.PRUNE_EVERY):
        DiskCache(folder).store(key_of(str(number)), b"content")
    assert len(looked) == 2
    DiskCache(folder).store(KEY, bytes(1000))
    assert len(looked) == 3


def test_processes_start_to_count_anywhere() -> None:
    """Most end before they have made as many stores as lie between two looks."""
    program = "from onegraph.base import disk_cache; print(next(disk_cache._STORES))"
    starts = [int(subprocess.check_output([sys.executable, "-c", program])) for _ in range(2)]
    assert all(0 <= start < disk_cache.PRUNE_EVERY for start in starts)


def test_what_was_never_finished_is_swept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed leaves the file that it was writing."""
    cache = DiskCache(folder)
    cache.store(KEY, b"content")
    old, future = time.time() - 2 * disk_cache.ABANDONED, time.time() + 2 * disk_cache.ABANDONED
    for name, when in ((".new1", old), (".newabc", future), (".newer", time.time()), ("old", old)):
        (folder / name).write_bytes(bytes(50))
        os.utime(folder / name, (when, when))
    pruning(monkeypatch)
    cache.store(OTHER, b"content")
    assert names(folder) == {KEY, OTHER, ".newer", "old"}


def test_files_of_others_in_the_folder_stay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that was named for the cache may have been in use."""
    monkeypatch.setattr(disk_cache, "LIMIT", 100)
    pruning(monkeypatch)
    (folder / "inner").mkdir(parents=True)
    (folder / "thesis.tex").write_bytes(bytes(1000))
    (folder / OTHER).mkdir()
    DiskCache(folder).store(KEY, b"content")
    assert names(folder) == {KEY, OTHER, "inner", "thesis.tex"}


def test_a_file_that_goes_meanwhile_leaves_nothing_open(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DiskCache(folder)
    cache.store(OTHER, b"content")
    pruning(monkeypatch)
    before = len(os.listdir("/proc/self/fd"))
    scan = os.scandir

    class Scan:
        """Each entry is gone before it is looked at."""

        def __init__(self, folder: int) -> None:
            self.entries = scan(folder)

        def __enter__(self):
            return (os.unlink(entry.name, dir_fd=folder) or entry for entry in self.entries for folder in [opened[0]])

        def __exit__(self, *error: object) -> None:
            self.entries.close()

    opened: list[int] = []
    monkeypatch.setattr(os, "scandir", lambda folder: (opened.append(folder), Scan(folder))[1])
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        cache.store(KEY, b"content")
        gc.collect()
    assert not warned and opened and names(folder) == set()
    assert len(os.listdir("/proc/self/fd")) == before


def test_another_release_compiles_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The passes are not in the text of a module: its key has the version, and what the compiler's source is."""
    version, source = disk_cache.RELEASE.split()
    assert (version, source) == (onegraph.__version__, source_digest("base", "ir", "torchlib", "compiler"))
    before = key_of("a")
    assert key_of("a", "b") != key_of("ab")
    for other in (f"99 {source}", f"{version} changed"):
        monkeypatch.setattr(disk_cache, "RELEASE", other)
        assert key_of("a") != before


def test_the_digest_of_the_source_sees_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "base" / "disk_cache.py"
    (tmp_path / "compiler" / "lower" / "__pycache__").mkdir(parents=True)
    (tmp_path / "compiler" / "codegen").mkdir()
    monkeypatch.setattr(disk_cache, "__file__", str(file))
    digests = [source_digest("compiler")]
    for name in ("codegen/native.py", "lower/sums.py", "lower/sums.pyc"):
        for text in ("a = 1", "a = 2"):
            (tmp_path / "compiler" / name).write_text(text)
            digests.append(source_digest("compiler"))
    (tmp_path / "compiler" / "lower" / "sums.py").rename(tmp_path / "compiler" / "lower" / "means.py")
    digests.append(source_digest("compiler"))
    assert len(set(digests)) == len(digests)
    (tmp_path / "compiler" / "lower" / "__pycache__" / "sums.cpython-311.pyc").write_text("made by any import")
    assert source_digest("compiler") == digests[-1]


def test_where_the_cache_is(tmp_path: Path) -> None:
    assert cache_of(Config(cache_dir=tmp_path), "objects") == DiskCache(tmp_path / "objects")
    assert cache_of(Config(cache_dir=None), "objects") is None
    assert cache_of(Context(Config(cache=False)).config, "objects") is None


# ---- made once -------------------------------------------------------------------------------------------------------


def make(folder: Path, made: list[str], name: str, pause: float = 0.0, content: bytes | None = b"made") -> bytes | None:
    with DiskCache(folder).find_or_make(KEY) as found:
        if found is None:
            made.append(name)
            time.sleep(pause)
            if content is not None:
                DiskCache(folder).store(KEY, content)
        return found


def test_who_looks_for_what_is_being_made_waits_and_finds_it(folder: Path) -> None:
    made: list[str] = []
    found: list[bytes | None] = []
    threads = [Thread(target=lambda k=k: found.append(make(folder, made, f"{k}", 0.2))) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and found.count(b"made") == 7
    with DiskCache(folder).find_or_make(KEY) as again:
        assert again == b"made"


def test_other_entries_are_not_waited_for(folder: Path) -> None:
    with DiskCache(folder).find_or_make(OTHER):
        assert make(folder, [], "in the midst of another one") is None


def test_where_nothing_was_stored_it_is_made_side_by_side(folder: Path) -> None:
    """Each waits once: what cannot be kept is not made by one after the other."""
    made: list[str] = []
    start = time.monotonic()
    threads = [Thread(target=make, args=(folder, made, f"{k}", 0.2, None)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8 and time.monotonic() - start < 1.0


def test_it_does_not_wait_for_ever(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "WAIT", 0.1)
    with DiskCache(folder).find_or_make(KEY):
        made: list[str] = []
        thread = Thread(target=make, args=(folder, made, "meanwhile"))
        thread.start()
        thread.join(5)
        assert made == ["meanwhile"]


HOLDER = """
import sys, time
from pathlib import Path
from threading import Thread
from onegraph.base.disk_cache import DiskCache
with DiskCache(Path(sys.argv[1])).find_or_make(sys.argv[2]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_process_that_is_killed_holds_nothing(folder: Path) -> None:
    held = subprocess.Popen([sys.executable, "-c", HOLDER, folder, KEY], stdout=subprocess.PIPE, text=True)
    assert held.stdout is not None and held.stdout.readline() == "held\n"
    made: list[str] = []
    thread = Thread(target=make, args=(folder, made, "behind it"))
    thread.start()
    thread.join(0.1)
    assert not made
    held.kill()
    thread.join(5)
    assert made == ["behind it"]
    held.wait()
    held.stdout.close()


def test_a_forked_child_does_not_keep_what_its_parent_held(folder: Path) -> None:
    with DiskCache(folder).find_or_make(KEY):
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
    try:
        start = time.monotonic()
        made: list[str] = []
        make(folder, made, "behind it")
        assert made and time.monotonic() - start < 5
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_where_nothing_can_be_locked_nobody_waits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(disk_cache.fcntl, "fcntl", refused)
    made: list[str] = []
    with DiskCache(folder).find_or_make(KEY):
        make(folder, made, "side by side")
    assert made == ["side by side"] and make(folder, [], "") == b"made"


def test_a_full_disk_says_that_nothing_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert DiskCache(folder).store(KEY, b"content")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        assert not DiskCache(folder).store(OTHER, bytes(2000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert names(folder) == {KEY} and DiskCache(folder).load(KEY) == b"content"


STORES = """
import itertools, os, sys
from pathlib import Path
from threading import Thread
from onegraph.base.disk_cache import DiskCache, key_of
cache = DiskCache(Path(sys.argv[1]))
for number in itertools.count():
    cache.store(key_of(str(number % 20)), bytes([number % 20]) * 200_000)
    if number == 3:
        print("stores", flush=True)
"""


@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_what_a_killed_process_leaves_is_whole_or_absent(folder: Path, kills: int) -> None:
    chance = random.Random(0)
    for _ in range(kills):
        process = subprocess.Popen([sys.executable, "-c", STORES, folder], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None and process.stdout.readline() == "stores\n"
        time.sleep(chance.random() * 0.03)
        process.kill()
        process.wait()
        process.stdout.close()
        for number in range(20):
            if (folder / key_of(f"{number}")).exists():
                assert DiskCache(folder).load(key_of(f"{number}")) == bytes([number]) * 200_000
    assert any(disk_cache.KEY.fullmatch(name) for name in names(folder))
