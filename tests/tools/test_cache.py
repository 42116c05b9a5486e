"""`onegraph cache`, and cache artifacts: what is kept on disk is shown, removed, and carried to another folder."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import onegraph
from onegraph.base import bundle, disk_cache
from onegraph.base.bundle import Artifact, Bundle, packed, unpacked
from onegraph.base.disk_cache import DiskCache, key_of
from onegraph.compiler.made_with import facts
from onegraph.tools.cache import artifacts
from onegraph.tools.cli import main

PROGRAM = """
import sys, torch, onegraph
from pathlib import Path
from onegraph.base.events import KernelsCompiled, StageTimed
from onegraph.compile import EVENTS
from onegraph.tools.cache.artifacts import CacheInfo
made = []
EVENTS.subscribe(lambda event: made.append(type(event)) if isinstance(event, KernelsCompiled) and not event.cached
                 or isinstance(event, StageTimed) and event.stage == "compile: lower" else None)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.GELU(), torch.nn.LayerNorm(96)).eval()
x = torch.randn(64, 64)
path = Path(sys.argv[1])
with onegraph.install():
    if path.exists():
        info = torch.compiler.load_cache_artifacts(path.read_bytes())
        assert isinstance(info, CacheInfo) and not info.empty()
    else:
        assert torch.compiler.save_cache_artifacts() is None
    with torch.no_grad():
        compiled = torch.compile(model, fullgraph=True)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
    data, saved = torch.compiler.save_cache_artifacts()
    if path.exists():
        assert saved == info and data == path.read_bytes()
    else:
        path.write_bytes(data)
print(len(made), *sorted(saved.artifacts))
"""


def run(folder: Path, data: Path) -> str:
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": ":".join(sys.path),
        "ONEGRAPH_CACHE_DIR": str(folder),
        "ONEGRAPH_LIBRARY_CALLS": "onednn",  # on a busy machine times do not settle, and are not kept
    }
    done = subprocess.run([sys.executable, "-c", PROGRAM, data], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a process has saved, beside its cache."""
    folder = tmp_path_factory.mktemp("saved")
    made, *kinds = run(folder / "one", folder / "data").split()
    assert int(made) > 0 and {"objects", "plans"} <= {*kinds}
    return folder / "data"


def test_artifacts_serve_in_an_empty_folder(saved: Path, tmp_path: Path) -> None:
    made, *kinds = run(tmp_path / "two", saved).split()
    assert made == "0" and {"objects", "plans"} <= {*kinds}
    names = [{path.name for path in folder.glob("*/*")} for folder in (saved.parent / "one", tmp_path / "two")]
    assert names[0] == names[1]


@pytest.fixture
def cache(tmp_path: Path):
    with onegraph.config.patch(cache_dir=tmp_path / "cache", cache=True):
        yield tmp_path / "cache"


def loaded(data: bytes, caplog: pytest.LogCaptureFixture, cache: Path) -> str:
    """Why they are refused; nothing is written then."""
    with caplog.at_level(logging.WARNING, "onegraph"):
        caplog.clear()
        assert onegraph.load_cache_artifacts(data) is None
    assert not cache.exists()
    (record,) = caplog.records
    head, _, why = record.getMessage().partition(": ")
    assert head == "onegraph does not load these cache artifacts"
    return why


def test_other_bytes_are_refused_with_the_reason(saved: Path, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = saved.read_bytes()
    assert loaded(b"", caplog, cache) == "they are none of onegraph's"
    assert loaded(b"onegraph artifacts 2\n" + data[21:], caplog, cache) == "they are of another format"
    for damaged in (data[:-1], data + b"!", data[:200] + b"?" + data[201:], data[: len(artifacts.MAGIC)]):
        assert loaded(damaged, caplog, cache) == "they are damaged"
    artifacts_in = unpacked(artifacts.MAGIC, data).artifacts
    for name in facts():
        other = packed(artifacts.MAGIC, Bundle({"made with": {**facts(), name: "another"}}, artifacts_in))
        assert loaded(other, caplog, cache).startswith(f"they were made with {name} another, and here is {name} ")
    with pytest.raises(onegraph.InvalidArgument, match="expects bytes, got str"):
        onegraph.load_cache_artifacts("text")  # type: ignore[arg-type]


def of_entries(*entries: Artifact) -> bytes:
    return packed(artifacts.MAGIC, Bundle({"made with": facts()}, entries))


@pytest.mark.parametrize(
    ("kind", "key", "content"),
    [
        ("objects", key_of("a"), b"no code"),
        ("plans", key_of("a"), b'{"eval": []}'),
        ("plans", key_of("a"), b"[" * 100_000),
        ("times", key_of("a"), b'{"aten": "fast"}'),
        ("times", "../../etc/passwd", b'{"aten": 1.0}'),
        ("../times", key_of("a"), b'{"aten": 1.0}'),
    ],
)
def test_entries_are_checked_before_any_is_written(
    kind: str, key: str, content: bytes, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good = Artifact("times", key_of("good"), b'{"aten": 1.0}')
    data = of_entries(good, Artifact(kind, key, content))
    assert loaded(data, caplog, cache) != "they are damaged"
    info = onegraph.load_cache_artifacts(of_entries(good))
    assert info is not None and info.artifacts == {"times": (good.key,)}
    assert DiskCache(cache / "times").load(good.key) == good.content


@pytest.mark.parametrize("head", [b"{}", b"[]", b"nonsense", b'{"made with": {}, "entries": [["times", "a", -1]]}'])
def test_a_head_that_is_none(head: bytes, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    rest = head + b"\n"
    loaded(artifacts.MAGIC + bundle.digest_of(rest) + b"\n" + rest, caplog, cache)


def test_a_cache_that_is_off_takes_none(saved: Path, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    with onegraph.config.patch(cache=False):
        assert loaded(saved.read_bytes(), caplog, cache).startswith("the cache on disk is switched off")


# ---- the command -----------------------------------------------------------------------------------------------------


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["cache", *arguments]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["cache", *arguments]) == 1
    return capsys.readouterr().err.removeprefix("onegraph: ").rstrip()


@pytest.fixture
def filled(saved: Path, cache: Path) -> Path:
    assert onegraph.load_cache_artifacts(saved.read_bytes()) is not None
    DiskCache(cache / "times").store(key_of("times"), b'{"aten": 0.000001, "packed": 0.0000025}')
    return cache


def test_it_shows_what_there_is(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, head, *rows = command(capsys, "show").splitlines()
    assert first == f"The cache is in {filled}" and head.split() == ["kind", "entries", "size", "oldest", "newest"]
    assert [row.split()[0] for row in rows] == ["captures", "objects", "plans", "times", "all"]
    told = json.loads(command(capsys, "show", "--json"))
    assert told["folder"] == str(filled) and told["on"] is True
    for kind, about in told["kinds"].items():
        assert {*about["names"]} == {path.name for path in (filled / kind).iterdir()}
        assert about["bytes"] == sum(path.stat().st_size for path in (filled / kind).iterdir())


def test_it_shows_an_entry(filled: Path, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = {}
    for kind in ("objects", "plans", "times"):
        path = min((filled / kind).iterdir())
        said[kind] = command(capsys, "show", path.name)
        assert said[kind] == command(capsys, "show", path.name[:12]) == command(capsys, "show", str(path))
        assert json.loads(command(capsys, "show", path.name, "--json"))["kind"] == kind
    assert "native code: " in said["objects"] and "  calls GOMP_parallel" in said["objects"]
    assert "plan(s0, s1" in said["plans"] and "return (" in said["plans"]
    assert "aten" in said["times"] and " us" in said["times"]
    told = command(capsys, "show", str(saved))
    assert "; can be loaded here" in told and f"torch               {torch.__version__}" in told
    assert command(capsys, "show", "--json", str(saved)).startswith("{")


def test_what_cannot_be_shown_is_said(filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = next((filled / "plans").iterdir()).name
    assert "no entry of that name" in refused(capsys, "show", "0123456789")
    assert "4 characters at least" in refused(capsys, "show", "ab")
    (tmp_path / "file").write_text("text")
    assert refused(capsys, "show", str(tmp_path / "file")).endswith("they are none of onegraph's")
    DiskCache(filled / "plans").store(key, b'{"KeptPlan": []}')
    assert "cannot be read, and is not used: KeptPlan has 8 fields" in refused(capsys, "show", key)
    (filled / "plans" / key).write_bytes(b"damaged")
    assert "is damaged or not trusted" in refused(capsys, "show", key)


def test_where_there_is_no_cache(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["show"], ["prune"], ["clear"]):
        assert refused(capsys, *arguments) == f"there is no cache in {cache}: nothing has been kept there"
    cache.mkdir(0o777)
    cache.chmod(0o777)
    assert refused(capsys, "show") == f"the cache in {cache} is not used: others can write to {cache} (mode 777)"
    with onegraph.config.patch(cache=False):
        cache.chmod(0o700)
        assert "switched off here (ONEGRAPH_CACHE=0)" in command(capsys, "show")


def named(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_it_prunes(cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [key_of(str(number)) for number in range(6)]
    now = time.time()
    for number, key in enumerate(keys):  # each older than the one before
        kind = ("times", "plans")[number % 2]
        DiskCache(cache / kind).store(key, bytes(1000))
        os.utime(cache / kind / key, (now - 86400 * number, now - 86400 * number))
    (cache / "plans" / ".new1").write_bytes(bytes(10))
    os.utime(cache / "plans" / ".new1", (now - 2 * disk_cache.ABANDONED,) * 2)
    (cache / "plans" / "thesis.tex").write_text("of the user")
    size = (cache / "times" / keys[0]).stat().st_size
    told = command(capsys, "prune", "--older-than", "4.5d")
    assert told == f"removed 1 entry, 1.1 kB (plans: 1); 5 entries left, {5 * size / 1000:.1f} kB\n"
    assert named(cache / "plans") == {keys[1], keys[3], "thesis.tex"}
    assert command(capsys, "prune", "--max-size", f"{3 * size}").startswith("removed 2 entries")
    assert named(cache / "times") | named(cache / "plans") == {*keys[:3], "thesis.tex"}
    assert command(capsys, "prune").startswith("removed 0 entries, 0 B; 3 entries left")
    monkeypatch.setattr("onegraph.tools.cache.command.LIMIT", size)
    assert command(capsys, "prune").startswith("removed 1 entry, 1.1 kB (times: 1)")
    for wrong in (["--max-size", "large"], ["--older-than", "30"]):
        with pytest.raises(SystemExit):
            main(["cache", "prune", *wrong])


def test_it_clears(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (filled / "objects" / ".new2").write_bytes(bytes(10))
    before = {kind: len(named(filled / kind)) for kind in ("objects", "plans", "times")}
    assert command(capsys, "clear", "--kind", "plans").startswith(f"removed {before['plans']} entr")
    assert not named(filled / "plans") and len(named(filled / "objects")) == before["objects"]
    assert command(capsys, "clear").rstrip().endswith(f"from {filled}")
    assert not named(filled / "objects") | named(filled / "times")
    assert command(capsys, "clear") == f"removed 0 entries, 0 B from {filled}\n"
