"""Captures are found wherever the same is installed; files that hold something else are seen, whatever their times."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from capture.kept.children import in_child, listening

import onegraph
from onegraph.base.disk_cache import USED, DiskCache
from onegraph.capture.kept import installed
from onegraph.capture.kept.installed import digest_of

NAMES = (".", "inner", "nothing")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Installed before this process has begun, as it believes."""
    monkeypatch.setattr(installed, "IMPORTED", time.time_ns() + 10**12)
    home = tmp_path / "package"
    (home / "inner").mkdir(parents=True)
    (home / "__init__.py").write_text("ONE = 1\n")
    (home / "inner" / "module.py").write_text("TWO = 2\n")
    return home


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The packages whose files were read."""
    found: list[str] = []
    read = installed.contents

    def noted(home: str, paths: Any) -> str:
        found.append(os.path.basename(home))
        return read(home, paths)

    monkeypatch.setattr(installed, "contents", noted)
    return found


def test_files_are_read_once_for_each_installation(package: Path, reads: list[str], tmp_path: Path) -> None:
    disk = DiskCache(tmp_path / "sources")
    first = digest_of(str(package), NAMES, disk)
    assert first is not None and digest_of(str(package), NAMES, disk) == first and reads == ["package"]
    other = shutil.copytree(package, tmp_path / "elsewhere")
    os.utime(other / "__init__.py", (1, 1))
    assert [digest_of(str(other), NAMES, disk) for _ in range(2)] == [first, first]
    assert reads == ["package", "elsewhere"]
    assert digest_of(str(package), NAMES, None) == first


def test_an_edit_is_seen_that_keeps_size_and_time(package: Path, tmp_path: Path) -> None:
    disk, file = DiskCache(tmp_path / "sources"), package / "inner" / "module.py"
    first, about = digest_of(str(package), NAMES, disk), file.stat()
    file.write_text("TWO = 3\n")
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))
    second = digest_of(str(package), NAMES, disk)
    (package / "inner" / "more.py").write_text("")
    third = digest_of(str(package), NAMES, disk)
    (package / "notes.txt").write_text("no source")
    assert digest_of(str(package), NAMES, disk) == third
    assert len({first, second, third}) == 3


def test_an_entry_that_is_no_digest_is_made_anew(package: Path, reads: list[str], tmp_path: Path) -> None:
    disk = DiskCache(tmp_path / "sources")
    first = digest_of(str(package), NAMES, disk)
    (entry,) = (each for each in (tmp_path / "sources").iterdir() if not each.name.startswith("."))
    for number, content in enumerate((b"", b"\xff" * 32, b"0" * 31, b"0" * 33, b"[1, 2]")):
        assert disk.store(entry.name, content)
        assert digest_of(str(package), NAMES, disk) == first and len(reads) == number + 2
    entry.write_bytes(b"damaged")
    assert digest_of(str(package), NAMES, disk) == first and disk.load(entry.name) is not None


def test_nothing_is_known_of_files_that_are_newer_than_the_process(package: Path) -> None:
    assert digest_of(str(package), NAMES, None) is not None
    installed.IMPORTED = (package / "__init__.py").stat().st_ctime_ns - 1
    assert digest_of(str(package), NAMES, None) is None


def outcome(folder: Path, change: Callable[[], object]) -> list[str]:
    torch.set_num_threads(1)
    change()
    said = listening()
    options = {"verify": False, "cache_dir": folder, "smallest_recorded_graph": 0}
    compiled = onegraph.compile(lambda x: x.sin() + 1, options=options)
    torch.testing.assert_close(compiled(torch.ones(3)), torch.ones(3).sin() + 1)
    return said


def nothing() -> None:
    pass


def other_times(stamp: str = "of another machine") -> None:
    """As on another machine that has the same torch."""
    found = installed.sources_in
    installed.sources_in = lambda home, names: replace(found(home, names), stamp=stamp)


def other_contents() -> None:
    other_times("of an edited file")
    found = installed.contents
    installed.contents = lambda home, paths: f"{found(home, paths)[1:]}{'torch' in home:d}"


def exchanged_while_running() -> None:
    installed.IMPORTED = 0


def test_captures_are_found_on_another_machine(tmp_path: Path) -> None:
    assert in_child(outcome, tmp_path / "first", nothing) == ["CaptureKept"]
    shutil.copytree(tmp_path / "first", tmp_path / "second", ignore=shutil.ignore_patterns(".lock"))
    assert in_child(outcome, tmp_path / "second", other_times) == ["CaptureLoaded"]
    assert in_child(outcome, tmp_path / "second", other_contents) == ["CaptureKept"]
    assert in_child(outcome, tmp_path / "second", exchanged_while_running) == []
    assert in_child(outcome, tmp_path / "second", nothing) == ["CaptureLoaded"]


def artifacts(folder: Path) -> tuple[list[str], bytes, list[str]]:
    USED.clear()  # what other tests have found
    said = outcome(folder, nothing)
    found = onegraph.save_cache_artifacts()
    assert found is not None
    return said, found[0], sorted(found[1].artifacts)


def with_artifacts(folder: Path, data: bytes) -> list[str]:
    onegraph.config.cache_dir = folder
    assert onegraph.load_cache_artifacts(data) is not None
    return outcome(folder, other_times)


def test_artifacts_are_found_on_another_machine(tmp_path: Path) -> None:
    """Digests of files stay where the files are."""
    said, data, kinds = in_child(artifacts, tmp_path / "first")
    assert said == ["CaptureKept"] and {"captures", "objects", "plans"} <= {*kinds} and "sources" not in kinds
    assert in_child(with_artifacts, tmp_path / "second", data) == ["CaptureLoaded"]
