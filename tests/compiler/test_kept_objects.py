"""Native code on disk: found again, in the place of other code never."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from compiler.hostile_cache import race, search

import onegraph
from onegraph.base.disk_cache import DiskCache
from onegraph.compiler.codegen.native import compile_text

TEXT = "define i64 @answer(i64 %x) {{\n  %r = add i64 %x, {}\n  ret i64 %r\n}}\n"


def test_a_module_is_compiled_once(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "objects")
    first = compile_text(TEXT.format(1), ["answer"], kept=cache)
    second = compile_text(TEXT.format(1), ["answer"], kept=cache)
    other = compile_text(TEXT.format(2), ["answer"], kept=cache)
    assert [first.cached, second.cached, other.cached] == [False, True, False]
    assert all(code.addresses["answer"] for code in (first, second, other))


def test_a_program_whose_entries_were_swapped_is_compiled_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEGRAPH_CACHE_DIR", str(tmp_path))
    x = torch.randn(8, 9)
    functions = (lambda x: x.sin() * 2.125, lambda x: (x.exp() + 3.125).sum(0))

    def run() -> None:
        onegraph.reset()
        gc.collect()  # what was compiled before is freed
        for f in functions:
            torch.testing.assert_close(onegraph.compile(f)(x), f(x))

    run()
    one, other = (tmp_path / "objects").iterdir()
    swapped = other.read_bytes(), one.read_bytes()
    one.write_bytes(swapped[0])
    other.write_bytes(swapped[1])
    run()
    assert (one.read_bytes(), other.read_bytes()) == (swapped[1], swapped[0])


def test_without_a_home_nothing_is_kept_and_one_line_says_so() -> None:
    program = """
import os, pwd
os.environ["HOME"] = ""
import torch, onegraph
x = torch.ones(8)
for k in range(3):
    assert torch.equal(onegraph.compile(lambda x: x * (k + 3.0625))(x), x * (k + 3.0625))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == [
        "onegraph does not use its cache on disk: there is no home folder; ONEGRAPH_CACHE_DIR names another one"
    ]


def test_hostile_entries_and_folders(tmp_path: Path) -> None:
    found = search(60, 1, tmp_path)
    assert (found.foreign, found.used, found.lost) == (0, 0, 0)
    assert sum(found.done.values()) == 60 and len(found.done) > 12


def test_a_folder_that_is_swapped_while_it_is_read(tmp_path: Path) -> None:
    served, wrong = race(2000, tmp_path)
    assert served and not wrong
