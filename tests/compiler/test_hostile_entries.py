"""Damaged, exchanged and hostile entries of every kind are refused, with nothing lost; processes share one folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from compiler.hostile_entries import DAMAGE, SEALED, search

from onegraph.base.disk_cache import KEY, DiskCache


@pytest.mark.parametrize("count", [12, pytest.param(1000, marks=pytest.mark.slow)])
def test_entries_that_were_damaged_or_made_up_are_refused(count: int, tmp_path: Path) -> None:
    found = search(count, 7, tmp_path)
    assert found.used == [] and sum(found.done.values()) == count
    if count == 1000:
        assert found.done.keys() == {deed.__name__ for deed in DAMAGE + SEALED}


PROGRAM = """
import sys, torch, onegraph
from onegraph.base.events import KernelsCompiled, StageTimed
from onegraph.compile import EVENTS
made = []
def note(event):
    if isinstance(event, KernelsCompiled) and not event.cached:
        made.append("compiled")
    if isinstance(event, StageTimed) and event.stage == "compile: lower":
        made.append("lowered")
EVENTS.subscribe(note)
torch.manual_seed(0)
x = torch.randn(40, 30)
def f(x): return (x.sin() * 2 + x.exp()).sum(0)
def g(x): return torch.where(x > 0, x.cos(), x.tanh() * 3)
compiled = [onegraph.compile(each, fullgraph=True) for each in (f, g)]
input()
for one, each in zip(compiled, (f, g)):
    torch.testing.assert_close(one(x), each(x))
print(*made)
"""


def environment(folder: Path) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "ONEGRAPH_CACHE_DIR": str(folder), "PYTHONPATH": ":".join(sys.path)}


def together(count: int, folder: Path) -> list[Counter[str]]:
    """What each of so many processes makes that begin to compile at the same time."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM], env=environment(folder), stdin=-1, stdout=-1, stderr=-1, text=True
        )
        for _ in range(count)
    ]
    said = []
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in started:
        printed, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        assert not errors
        said.append(Counter(printed.split()))
    return said


def is_whole(folder: Path) -> bool:
    entries = [path for path in folder.glob("*/*") if KEY.fullmatch(path.name)]
    return bool(entries) and all(DiskCache(path.parent).load(path.name) is not None for path in entries)


@pytest.mark.slow  # tests of the store have it in short
def test_processes_that_start_together_compile_once(tmp_path: Path) -> None:
    made = sum(together(8, tmp_path), Counter())
    assert made == {"compiled": 2, "lowered": 2}
    assert is_whole(tmp_path)
    assert sum(together(1, tmp_path), Counter()) == {}


KILLED = """
import itertools, os, random, signal, sys, time, torch, onegraph
from pathlib import Path
from onegraph.base.disk_cache import KEY, DiskCache
chance = random.Random(0)
x = torch.randn(40, 30)
def compiled(number):
    names = {}
    exec(f"def f(x): return (x * {number}).sin() + 1", names)
    torch.testing.assert_close(onegraph.compile(names["f"], fullgraph=True)(x), names["f"](x))
def kept():
    return [path for path in Path(os.environ["ONEGRAPH_CACHE_DIR"]).glob("*/*") if KEY.fullmatch(path.name)]
compiled(1.5)
kills = 0
for kill in range(50):
    child = os.fork()
    if child == 0:
        for number in itertools.count(2):
            compiled(number + kill / 64)
    wanted = len(kept()) + chance.randint(1, 2)
    while len(kept()) < wanted:
        time.sleep(0.002)
    time.sleep(0.05 * chance.random())
    os.kill(child, signal.SIGKILL)
    kills += os.waitpid(child, 0)[1] == signal.SIGKILL
    assert all(DiskCache(path.parent).load(path.name) is not None for path in kept())
compiled(2)
print(kills, len(kept()))
"""


@pytest.mark.slow
def test_processes_that_are_killed_while_they_compile(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", KILLED]
    done = subprocess.run(arguments, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    kills, entries = map(int, done.stdout.split())
    assert kills == 50 and entries > 50
    assert is_whole(tmp_path)


LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))
"""


#: For the system nothing can only be read: its calls are refused.
NOBODY = """
import errno, os
def refused(*args, **named):
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))
for name in ("utime", "replace", "unlink", "mkdir"):
    setattr(os, name, refused)
"""


def run(folder: Path, before: str = "") -> Counter[str]:
    done = subprocess.run(
        [sys.executable, "-c", before + PROGRAM], env=environment(folder), input="\n", capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return Counter(done.stdout.split())


@pytest.mark.slow  # tests of the store have it in short
def test_a_disk_that_is_full_and_one_that_can_only_be_read(tmp_path: Path) -> None:
    whole = {"compiled": 2, "lowered": 2}
    assert run(tmp_path, LIMITED) == whole
    assert [path for path in tmp_path.glob("*/*") if path.stat().st_size > 512] == []
    assert run(tmp_path) == whole
    before = {path: path.read_bytes() for path in tmp_path.glob("*/*")}
    for folder in (*tmp_path.glob("*"), tmp_path):
        folder.chmod(0o555)
    assert run(tmp_path, NOBODY if os.geteuid() == 0 else "") == {}
    assert {path: path.read_bytes() for path in tmp_path.glob("*/*")} == before
