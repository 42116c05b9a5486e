"""Entries of captures that somebody else has written, with the right checksum, are refused, and run nothing.

Each turn is a process of its own: one that ends otherwise than it should is seen.
"""

from __future__ import annotations

import base64
import json
import os
import random
import resource
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from capture.kept.children import in_child, listening
from capture.kept.hostile_captures import (
    DEEDS,
    HUNGRY,
    MODULE,
    TRACE,
    Parts,
    closed,
    hungry_table,
    is_graph,
    is_untouched,
    opened,
)
from capture.kept.test_processes import PROGRAMS
from compiler.hostile_entries import places

import onegraph
from onegraph.base.bundle import Artifact, Bundle, packed
from onegraph.base.disk_cache import DIGEST, KEY, MAGIC, DiskCache
from onegraph.compiler.made_with import facts
from onegraph.tools.cache.artifacts import MAGIC as ARTIFACTS

#: What it is done to: graph breaks with handlers, sizes that change, training.
SECONDS, MEMORY = 15, 1 << 30
TRIED = ("graph breaks among handlers", "sizes that change", "training")


def run(name: str, folder: Path, beside: Path) -> list[str]:
    """What is said of captures; the results are eager's."""
    torch.set_num_threads(1)
    os.chdir(beside)
    sys.path.append(str(beside))
    said = listening()
    options = {"verify": False, "cache_dir": folder, "smallest_recorded_graph": 0}
    got = PROGRAMS[name](lambda target: onegraph.compile(target, options=options))
    torch.testing.assert_close(got, PROGRAMS[name](lambda target: target))
    assert MODULE not in sys.modules
    return said


def bounded(name: str, folder: Path, beside: Path) -> list[str]:
    """The same, with a bound of time and memory: what it takes to refuse the hungriest entry, and what runs then."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    said = run(name, folder, beside)
    after = resource.getrusage(resource.RUSAGE_SELF)
    seconds, memory = after.ru_utime - before.ru_utime, (after.ru_maxrss - before.ru_maxrss) * 1024
    assert seconds < SECONDS and memory < MEMORY, (seconds, memory)
    return said


def search(count: int, seed: int, root: Path) -> Counter[tuple[str, bool]]:
    """Do so many things, each to an entry of a whole cache: what was done, and whether an entry was refused.

    Raises:
        AssertionError: results were wrong, a call has raised, or a process has died; it says of each of them.
    """
    chance, done, wrong = random.Random(seed), Counter[tuple[str, bool]](), []
    (root / f"{MODULE}.py").write_text(f"open({TRACE!r}, 'w').close()\nvalue = 1\n")
    for name in TRIED:
        PROGRAMS[name](
            lambda target: onegraph.compile(target, options={"cache": False})
        )  # imports what each child would
        onegraph.reset()
        in_child(run, name, root / name, root)
    while done.total() < count:
        name, deed = chance.choice(TRIED), chance.choice(DEEDS)
        entry = chance.choice(sorted(path for path in (root / name / "captures").iterdir() if KEY.fullmatch(path.name)))
        parts = opened(entry.read_bytes()[len(MAGIC) + DIGEST :])
        if not deed(chance, parts):
            continue
        turn = root / "turn"
        shutil.rmtree(turn, ignore_errors=True)
        shutil.copytree(root / name, turn)
        turn.chmod(0o700)
        assert DiskCache(turn / "captures").store(entry.name, closed(parts))
        said: list[str] = []
        try:
            said = in_child(bounded, name, turn, root)
        except AssertionError as error:
            wrong.append(f"turn {done.total()}, {deed.__name__} of {name}: {error}")
        assert is_untouched(root), (deed.__name__, done.total())
        done[deed.__name__, "CaptureMissed" in said] += 1
    assert not wrong, f"{len(wrong)} of {count}:\n" + "\n".join(wrong)
    return done


@pytest.mark.timeout(2000)
@pytest.mark.parametrize(("count", "seed"), [(6, 3), pytest.param(1000, 4, marks=pytest.mark.slow)])
def test_entries_that_somebody_else_has_written(count: int, seed: int, tmp_path: Path) -> None:
    done = search(count, seed, tmp_path)
    assert done.total() == count
    if count == 1000:
        assert {name for name, refused in done if refused} == {deed.__name__ for deed in DEEDS}
        for name in ("foreign_row", "caller", "pointer", "guard", "constants", "compiled"):  # which cannot but be seen
            assert done[name, False] == 0, (name, done)


def with_plan(parts: Parts, change: Callable[[list[Any]], bool]) -> bool:
    """The entry with another plan in it: the first whose steps can be changed so."""
    whole = json.loads(base64.b64decode(parts["made"] or "bnVsbA=="))
    for container, index in [] if whole is None else [each for each in places(whole) if is_graph(each)]:
        graph = json.loads(base64.b64decode(container[index]))
        if change(graph["KeptGraph"][0]["ExecPlan"][5]):
            container[index] = base64.b64encode(json.dumps(graph).encode()).decode()
            parts["made"] = base64.b64encode(json.dumps(whole).encode()).decode()
            return True
    return False


def number_of(kind: str, *path: int, number: int, which: int = 0) -> Callable[[list[Any]], bool]:
    """Another number in a step of this kind, there."""

    def change(steps: list[Any]) -> bool:
        found = [step[kind] for step in steps if kind in step]
        try:
            *outer, last = path
            at: Any = found[which]
            for each in outer:
                at = at[each]
            at[last] = number
        except (IndexError, TypeError):
            return False
        return True

    return change


#: What only the first call shows: where a view of an input lies, what an operator is given and gives, computed sizes.
SHOWN_BY_CALLS = {
    "a view with a far stride": ("training", number_of("ViewOf", 3, 0, number=1 << 40)),
    "a view that begins outside": ("training", number_of("ViewOf", 4, number=1 << 30)),
    "a view with other sizes": ("training", number_of("ViewOf", 2, 0, number=3)),
    "a result with far strides": ("training", number_of("ExternCall", 4, 0, 1, 0, number=1 << 33)),
    "gradients of other sizes": ("training", number_of("ViewOf", 2, 0, number=2, which=-1)),
    "a size that is nothing": ("sizes that change", number_of("Compute", 3, number=1 << 40)),
    "memory of another size": ("sizes that change", number_of("Alloc", 2, 0, number=0)),
    "memory without end": ("sizes that change", number_of("Alloc", 3, 1, number=1 << 45)),
}


@pytest.mark.parametrize("what", SHOWN_BY_CALLS)
def test_what_a_call_shows_is_refused_in_it(what: str, tmp_path: Path) -> None:
    """The results are eager's, and the entry is made anew."""
    name, change = SHOWN_BY_CALLS[what]
    in_child(run, name, tmp_path / "whole", tmp_path)
    changed = 0
    for entry in sorted(path for path in (tmp_path / "whole" / "captures").iterdir() if KEY.fullmatch(path.name)):
        parts = opened(entry.read_bytes()[len(MAGIC) + DIGEST :])
        if not with_plan(parts, change):
            continue
        changed += 1
        turn = tmp_path / f"turn {changed}"
        shutil.copytree(tmp_path / "whole", turn)
        turn.chmod(0o700)
        assert DiskCache(turn / "captures").store(entry.name, closed(parts))
        said = in_child(run, name, turn, tmp_path)
        assert "CaptureMissed" in said and set(said) <= {"CaptureMissed", "CaptureKept", "CaptureLoaded"}, said
        in_child(run, name, turn, tmp_path)
        said = in_child(run, name, turn, tmp_path)
        assert "CaptureLoaded" in said and "CaptureKept" not in said
    assert changed


def tuples(first: int) -> list[Any]:
    """Values that double with each row, of equal halves that are other objects."""
    rows: list[Any] = [["int", 1], ["int", 2]]
    for n in range(first, first + 200, 2):
        rows += [["tuple", n, n + 1], ["tuple", n + 1, n]]
    return [*rows, ["frozenset", first + len(rows) - 1]]


@pytest.mark.parametrize("what", [*HUNGRY, "doubling", "table"])
def test_what_is_hungry_is_refused_with_a_bound(what: str, tmp_path: Path) -> None:
    name = "graph breaks among handlers"
    in_child(run, name, tmp_path / "whole", tmp_path)
    for entry in sorted(path for path in (tmp_path / "whole" / "captures").iterdir() if KEY.fullmatch(path.name)):
        parts = opened(entry.read_bytes()[len(MAGIC) + DIGEST :])
        rows = parts["rows"]
        if what == "table" and not hungry_table(random.Random(0), parts):
            continue  # the names of entries, and so their order, depend on where the program stands
        if what != "table":
            rows += tuples(len(rows)) if what == "doubling" else [["tuple", what]]
        assert DiskCache(entry.parent).store(entry.name, closed(parts))
        assert "CaptureMissed" in in_child(bounded, name, tmp_path / "whole", tmp_path)
        return
    pytest.fail("no entry has a graph")


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def increased(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def both(folder: Path, **options: Any) -> list[str]:
    said = listening()
    options |= {"verify": False, "cache_dir": folder, "smallest_recorded_graph": 0}
    for function in (doubled, increased):
        x = torch.linspace(0, 1, 5)
        torch.testing.assert_close(onegraph.compile(function, options=options)(x), function(x))
    return said


@pytest.mark.parametrize("kind", ["captures", "plans"])
def test_whole_entries_under_each_other_s_names_are_refused(kind: str, tmp_path: Path) -> None:
    """They are of the same inputs, and the code of their kernels is there."""
    options = {"cache_captures": kind == "captures"}
    in_child(both, tmp_path, **options)
    names = [path.name for path in sorted((tmp_path / kind).iterdir()) if KEY.fullmatch(path.name)]
    assert len(names) == 2
    disk = DiskCache(tmp_path / kind)
    contents = [disk.load(name) for name in names]
    for name, content in zip(names, contents[::-1], strict=True):
        assert content is not None and disk.store(name, content)
    said = in_child(both, tmp_path, **options)
    assert kind == "plans" or said == ["CaptureMissed", "CaptureKept"] * 2
    assert [disk.load(name) for name in names] == contents


def test_an_entry_of_other_settings_is_refused(tmp_path: Path) -> None:
    for fast in (False, True):
        in_child(both, tmp_path / f"{fast}", memory_budget=0.5 if fast else 1.0)
    one, other = (DiskCache(tmp_path / f"{fast}" / "captures") for fast in (False, True))
    names = [sorted(p.name for p in disk.folder.iterdir() if KEY.fullmatch(p.name)) for disk in (one, other)]
    assert not {*names[0]} & {*names[1]}
    for name in names[0]:
        for content in filter(None, map(other.load, names[1])):
            one.store(name, content)
        assert "CaptureMissed" in in_child(both, tmp_path / "False", memory_budget=1.0)


def test_files_of_artifacts_are_looked_at(tmp_path: Path) -> None:
    """A capture in them is text at least; what it says is looked at when a frame asks for it."""

    def load(content: bytes) -> bool:
        onegraph.config.cache_dir = tmp_path
        entries = Bundle({"made with": facts()}, (Artifact("captures", "0" * 32, content),))
        return onegraph.load_cache_artifacts(packed(ARTIFACTS, entries)) is not None

    for content in (b"", b"noise", closed({}), closed({"format": 1}), closed({"rows": "nested"})):
        assert in_child(load, content) is False
