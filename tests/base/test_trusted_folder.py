"""Folders and files are opened once, and trusted by who could have put them there."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from onegraph.base.trusted_folder import Untrusted, open_file, open_folder


def names(folder: Path, make: bool = False) -> list[str]:
    with open_folder(folder, make) as opened:
        return os.listdir(opened)


def content(folder: Path, name: str) -> bytes:
    with open_folder(folder) as opened, open_file(opened, name) as file:
        return os.read(file, 100)


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Let it belong to another user: really, or, where only the system may do that, by being another one."""
    if os.geteuid() == 0:
        os.chown(path, 12345, -1, follow_symlinks=False)
        return 12345
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    return owner


@pytest.fixture
def descriptors():
    """Every descriptor that was opened is closed."""
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) == before


def test_missing_folders_are_made_for_the_user_alone(tmp_path: Path, descriptors: None) -> None:
    before = os.umask(0)
    try:
        with pytest.raises(FileNotFoundError):
            names(tmp_path / "a" / "b")
        assert names(tmp_path / "a" / "b", make=True) == []
    finally:
        os.umask(before)
    assert [os.stat(tmp_path / name).st_mode & 0o777 for name in ("a", "a/b")] == [0o700, 0o700]
    assert names(tmp_path / "a", make=True) == ["b"]


def test_a_relative_path_is_judged_from_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, descriptors: None
) -> None:
    (tmp_path / "open" / "inner").mkdir(parents=True)
    (tmp_path / "open").chmod(0o757)
    monkeypatch.chdir(tmp_path / "open" / "inner")
    with pytest.raises(Untrusted, match=r"others can write to .*/open \(mode 757\)"):
        names(Path("."))
    (tmp_path / "open").chmod(0o755)
    assert names(Path("..")) == ["inner"]


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
@pytest.mark.parametrize("where", ["a", "a/b"])
def test_a_folder_that_others_can_write_is_refused(tmp_path: Path, mode: int, where: str, descriptors: None) -> None:
    names(tmp_path / "a" / "b", make=True)
    (tmp_path / where).chmod(mode)
    for make in (False, True):
        with pytest.raises(Untrusted, match=rf"others can write to {tmp_path / where} \(mode {mode:o}\)"):
            names(tmp_path / "a" / "b", make)


def test_a_sticky_folder_may_be_on_the_way_and_not_at_its_end(tmp_path: Path, descriptors: None) -> None:
    names(tmp_path / "a" / "b", make=True)
    (tmp_path / "a").chmod(0o1777)
    assert names(tmp_path / "a" / "b") == []
    with pytest.raises(Untrusted, match="others can write"):
        names(tmp_path / "a")


@pytest.mark.parametrize("where", ["a", "a/b"])
def test_a_folder_of_another_user_is_refused(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch, descriptors: None
) -> None:
    names(tmp_path / "a" / "b", make=True)
    owner = give_away(tmp_path / where, monkeypatch)
    with pytest.raises(Untrusted, match=f"belongs to user {owner}"):
        names(tmp_path / "a" / "b")


def test_links_are_read_and_what_they_lead_to_is_judged(tmp_path: Path, descriptors: None) -> None:
    (tmp_path / "disk" / "caches" / "mine").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "absolute").symlink_to(tmp_path / "disk" / "caches")
    (tmp_path / "home" / "relative").symlink_to("../disk/./caches")
    (tmp_path / "home" / "of_a_link").symlink_to("relative")
    for link in ("absolute", "relative", "of_a_link"):
        assert names(tmp_path / "home" / link) == ["mine"]
        assert names(tmp_path / "home" / link / "mine" / "..") == ["mine"]
    (tmp_path / "disk").chmod(0o777)
    for link in ("absolute", "relative", "of_a_link"):
        with pytest.raises(Untrusted, match="others can write to .*/disk "):
            names(tmp_path / "home" / link / "mine")


def test_a_link_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, descriptors: None) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "link").symlink_to("mine")
    owner = give_away(tmp_path / "link", monkeypatch)
    with pytest.raises(Untrusted, match=f"belongs to user {owner}"):
        names(tmp_path / "link")


def test_links_in_a_circle_end(tmp_path: Path, descriptors: None) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        names(tmp_path / "one")


def test_what_is_no_folder_is_no_folder(tmp_path: Path, descriptors: None) -> None:
    (tmp_path / "file").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    for name in ("file", "pipe", "file/inner", "pipe/inner"):
        for make in (False, True):
            with pytest.raises(NotADirectoryError):
                names(tmp_path / name, make)


def test_only_a_plain_file_of_the_user_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, descriptors: None
) -> None:
    for name in ("plain", "writable", "given"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "writable").chmod(0o620)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("plain")
    os.mkfifo(tmp_path / "pipe")
    assert content(tmp_path, "plain") == b"plain"
    refused = {"writable": "others can write", "folder": "no plain file", "link": "is a link", "pipe": "no plain file"}
    for name, why in refused.items():
        with pytest.raises(Untrusted, match=why):
            content(tmp_path, name)
    with pytest.raises(FileNotFoundError):
        content(tmp_path, "missing")
    with open_folder(tmp_path) as opened:
        give_away(tmp_path / "given", monkeypatch)
        with pytest.raises(Untrusted, match="belongs to user"), open_file(opened, "given"):
            pass


def test_a_socket_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, descriptors: None) -> None:
    monkeypatch.chdir(tmp_path)  # a name of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with pytest.raises(OSError):
            content(tmp_path, "socket")
