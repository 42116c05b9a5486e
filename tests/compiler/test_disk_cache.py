"""The cache of compiled modules: found again, checked, private, bounded; never a reason to fail."""

from __future__ import annotations

import gc
import os
import warnings
from pathlib import Path

import pytest

from onegraph.compiler.codegen import disk_cache
from onegraph.compiler.codegen.disk_cache import DiskCache, key_of
from onegraph.compiler.codegen.native import compile_text

TEXT = "define i64 @answer(i64 %x) {{\n  %r = add i64 %x, {}\n  ret i64 %r\n}}\n"


def test_what_was_stored_is_found(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "objects")
    assert cache.load("key") is None
    cache.store("key", b"content")
    assert DiskCache(tmp_path / "objects").load("key") == b"content"
    assert cache.load("other") is None
    assert os.stat(tmp_path / "objects").st_mode & 0o077 == 0
    assert [path.name for path in (tmp_path / "objects").iterdir()] == ["key"]


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: b"x" + d[1:], lambda d: d[:-1] + b"!", lambda d: b""])
def test_what_is_not_whole_is_not_used(tmp_path: Path, damage) -> None:
    cache = DiskCache(tmp_path)
    tmp_path.chmod(0o700)
    cache.store("key", b"content")
    (tmp_path / "key").write_bytes(damage((tmp_path / "key").read_bytes()))
    assert cache.load("key") is None
    cache.store("key", b"content")
    assert cache.load("key") == b"content"


def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "objects"
    cache = DiskCache(folder)
    cache.store("key", b"content")
    folder.chmod(0o777)
    assert cache.load("key") is None
    cache.store("new", b"content")
    assert not (folder / "new").exists()


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = DiskCache(tmp_path / "file" / "objects")
    cache.store("key", b"content")
    assert cache.load("key") is None


def test_the_least_recently_used_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setattr(disk_cache, "LIMIT", 350)
    monkeypatch.setattr(disk_cache, "PRUNE_EVERY", 1)
    cache = DiskCache(tmp_path, 1)
    for number in range(3):
        cache.store(f"k{number}", bytes(50))
        os.utime(tmp_path / f"k{number}", (number, number))
    cache.load("k0")
    monkeypatch.setattr(disk_cache, "PRUNE_EVERY", 4)
    cache.store("k3", bytes(50))
    assert {path.name for path in tmp_path.iterdir()} == {"k0", "k2", "k3"}


def test_a_file_that_goes_meanwhile_leaves_nothing_open(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    os.symlink("gone", tmp_path / "another")
    cache = DiskCache(tmp_path)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        cache.store("key", b"content")
        gc.collect()
    assert not warned
    assert cache.load("key") == b"content"


def test_a_module_is_compiled_once(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    cache = DiskCache(tmp_path)
    first = compile_text(TEXT.format(1), ["answer"], kept=cache)
    second = compile_text(TEXT.format(1), ["answer"], kept=cache)
    other = compile_text(TEXT.format(2), ["answer"], kept=cache)
    assert [first.cached, second.cached, other.cached] == [False, True, False]
    assert all(code.addresses["answer"] for code in (first, second, other))
    assert key_of("a", "b") != key_of("ab")
