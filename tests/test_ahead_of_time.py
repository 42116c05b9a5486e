"""`onegraph.save` and `onegraph.load`: what was compiled in one process runs in another, which captures nothing."""

from __future__ import annotations

import errno
import io
import itertools
import json
import os
import random
import resource
import signal
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from capture.kept.children import begun, in_child, in_children
from torch import nn

import onegraph
from onegraph import ahead_of_time
from onegraph.ahead_of_time import MAGIC
from onegraph.base import events as ev
from onegraph.base.bundle import Bundle, digest_of, packed, unpacked
from onegraph.base.errors import LoadError, SaveError
from onegraph.compile import EVENTS
from onegraph.compiler.codegen import native
from onegraph.compiler.made_with import needs_of
from onegraph.tools.cli import main

FACTOR = 2.0


class Net(nn.Module):
    """Breaks its graph at a branch on data."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.second = nn.Linear(width, 2)
        self.calls = 0

    def forward(self, x: torch.Tensor, *, scale: float = 1.0) -> dict[str, torch.Tensor]:
        hidden = self.activated(self.first(x))
        if hidden.sum() > 1e9:
            hidden = hidden / 2
        self.calls += 1
        return {"out": self.second(hidden) * scale * FACTOR, "hidden": hidden}

    def activated(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)


def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


def inputs(rows: int) -> torch.Tensor:
    return torch.linspace(-1, 1, 4 * rows).reshape(rows, 4)


def called(model: Any) -> list[Any]:
    """Calls with sizes that change, another number, and with gradients."""
    found = []
    with torch.no_grad():
        found += [model(inputs(2)), model(inputs(3)), model(inputs(5)), model(inputs(2), scale=0.5)]
    result = model(inputs(3))
    result["out"].square().sum().backward()
    return [*found, result, *(parameter.grad for parameter in model.parameters())]


def options(folder: Path) -> dict[str, Any]:
    return {"verify": False, "cache_dir": folder / "cache", "smallest_recorded_graph": 0}


def save(folder: Path, target: Callable[[], Any] = net, call: Callable[[Any], Any] = called, limit: int = 8) -> None:
    torch.set_num_threads(1)
    compiled = onegraph.compile(target(), options=options(folder), dynamic=None, recompile_limit=limit)
    call(compiled)
    onegraph.save(compiled, folder / "saved")


def load(folder: Path, target: Callable[[], Any] = net, stance: str = "fail_on_recompile") -> Any:
    """The loaded program in a process without a cache on disk, in which nothing may be compiled."""
    torch.set_num_threads(1)
    onegraph.config.patch(cache=False, verify=False).__enter__()
    onegraph.set_stance(stance)
    return onegraph.load(folder / "saved", target())


def compiling(*args: Any) -> Any:
    raise AssertionError("LLVM is asked to compile something")


def the_same(folder: Path, call: Callable[[Any], Any] = called, target: Callable[[], Any] = net) -> list[str]:
    """Calls what is loaded, compares with eager, and gives the events that tell of work."""
    native.optimized = compiling
    told: list[str] = []
    EVENTS.subscribe(lambda event: told.append(type(event).__name__) if isinstance(event, WORK) else None)
    loaded = load(folder, target)
    torch.testing.assert_close(call(loaded), call(target()))
    return told


WORK = (ev.FrameStarted, ev.KernelsCompiled, ev.LoweringDone)


def test_another_process_captures_and_compiles_nothing(tmp_path: Path) -> None:
    in_child(save, tmp_path)
    assert in_child(the_same, tmp_path) == []


def test_other_weights_are_used(tmp_path: Path) -> None:
    """The file has none."""
    in_child(save, tmp_path)
    data = (tmp_path / "saved").read_bytes()
    assert net().first.weight.detach().numpy().tobytes() not in data

    def run() -> None:
        model = net()
        loaded = load(tmp_path, lambda: model)
        with torch.no_grad():
            model.first.weight.fill_(0.5)
            torch.testing.assert_close(loaded(inputs(2)), model(inputs(2)))

    in_child(run)


def scaled(x: torch.Tensor, factors: dict[str, float]) -> list[torch.Tensor]:
    return [x * factor for factor in factors.values()]


def test_a_function_with_containers(tmp_path: Path) -> None:
    def call(function: Any) -> Any:
        return [function(inputs(2), {"a": 1.5, "b": 2.5}), function(inputs(2), {"a": 1.5})]

    in_child(save, tmp_path, lambda: scaled, call)
    assert in_child(the_same, tmp_path, call, lambda: scaled) == []


def test_more_calls_than_eight(tmp_path: Path) -> None:
    """Many inputs in one file: as many as the frame may have versions."""

    def call(function: Any) -> Any:
        return [function(torch.ones([2] * dims), {"a": 2.0}) for dims in range(1, 13)]

    in_child(save, tmp_path, lambda: scaled, call, 16)
    assert in_child(the_same, tmp_path, call, lambda: scaled) == []


def training() -> Any:
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def test_a_step_of_training_with_its_optimizer(tmp_path: Path) -> None:
    def call(step: Any) -> Any:
        return [step(torch.linspace(-1, 1, 80).reshape(2, 5, 8)) for _ in range(4)]

    in_child(save, tmp_path, training, call)
    assert in_child(the_same, tmp_path, call, training) == []


def test_what_is_loaded_can_be_saved_again(tmp_path: Path) -> None:
    in_child(save, tmp_path)

    def again() -> None:
        loaded = load(tmp_path)
        called(loaded)
        onegraph.save(loaded, tmp_path / "again")

    in_child(again)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "saved").read_bytes()


def test_code_for_another_processor(tmp_path: Path) -> None:
    def run() -> None:
        older = options(tmp_path) | {"target_cpu": "x86-64-v2"}
        compiled = onegraph.compile(net(), options=older)
        called(compiled)
        onegraph.save(compiled, tmp_path / "saved")

    in_child(run)
    assert "avx" not in str(unpacked(MAGIC, (tmp_path / "saved").read_bytes()).about["needs"])
    assert in_child(the_same, tmp_path) == []


def test_settings_come_with_the_file(tmp_path: Path) -> None:
    def run() -> None:
        compiled = onegraph.compile(scaled, fullgraph=True, dynamic=False, options=options(tmp_path))
        compiled(inputs(2), {"a": 2.0})
        onegraph.save(compiled, tmp_path / "saved")

    def again() -> None:
        loaded = load(tmp_path, lambda: scaled)
        assert (loaded.onegraph_region.fullgraph, loaded.onegraph_region.dynamic) == (True, False)
        assert loaded.onegraph_maker.keywords["options"] == {"verify": False, "smallest_recorded_graph": 0}

    in_child(run)
    in_child(again)


# ---- other calls -----------------------------------------------------------------------------------------------------


def test_what_was_not_saved_is_compiled_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    in_child(save, tmp_path, lambda: scaled, lambda function: function(inputs(2), {"a": 2.0}))

    def run() -> str:
        loaded = load(tmp_path, lambda: scaled, "default")
        result = loaded(inputs(2).double(), {"a": 2.0})
        torch.testing.assert_close(result, scaled(inputs(2).double(), {"a": 2.0}))
        (record,) = caplog.records
        return record.getMessage()

    said = in_child(run)
    assert said.startswith(f"{tmp_path / 'saved'} has nothing for this call of scaled (")
    assert said.endswith("which is compiled now: `x` was torch.float32, is torch.float64")


def test_under_stances(tmp_path: Path) -> None:
    in_child(save, tmp_path, lambda: scaled, lambda function: function(inputs(2), {"a": 2.0}))

    def fails() -> None:
        with pytest.raises(onegraph.FailOnRecompileError, match="nothing that was saved fits the call of scaled"):
            load(tmp_path, lambda: scaled)(inputs(2).double(), {"a": 2.0})

    def eagerly() -> None:
        loaded = load(tmp_path, lambda: scaled, "eager_on_recompile")
        wanted = scaled(inputs(2).double(), {"a": 2.0})
        torch.testing.assert_close(loaded(inputs(2).double(), {"a": 2.0}), wanted)
        assert not [*loaded.onegraph_region.compiled()]
        loaded(inputs(2), {"a": 2.0})
        assert len([*loaded.onegraph_region.compiled()]) == 1

    in_child(fails)
    in_child(eagerly)


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ahead")
    in_child(save, folder)
    return folder / "saved"


def refused(path: Path, target: Any = None) -> str:
    with pytest.raises(LoadError) as caught:
        onegraph.load(path, net() if target is None else target)
    head, _, why = str(caught.value).partition(": ")
    assert head.startswith(str(path))
    return why


def test_damaged_and_foreign_files(saved: Path, tmp_path: Path) -> None:
    data, path = saved.read_bytes(), tmp_path / "file"
    assert "No such file" in str(pytest.raises(LoadError, onegraph.load, path, net()).value)
    for content in (b"", b"nonsense", data[:-1], data + b"x", data[:100] + b"?" + data[101:], b"onegraph program 9\n"):
        path.write_bytes(content)
        assert refused(path) in ("they are damaged", "they are none of onegraph's", "they are of another format")
    for head in (b"{}", b"[]", b'{"made with": {}, "entries": [["captures", "a", -1]]}', b"[" * 9999):
        rest = head + b"\n"
        path.write_bytes(MAGIC + digest_of(rest) + b"\n" + rest)
        assert refused(path)


def changed(saved: Path, path: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """The file with something else in its head."""
    bundle = unpacked(MAGIC, saved.read_bytes())
    about = json.loads(json.dumps(dict(bundle.about)))
    change(about)
    path.write_bytes(packed(MAGIC, Bundle(about, bundle.artifacts)))
    return path


@pytest.mark.parametrize(
    "name",
    [
        "onegraph",
        "source of onegraph",
        "torch",
        "Python",
        "LLVM",
        "NumPy",
        "files of onegraph",
        "files of torch",
        "flags of Python",
    ],
)
def test_other_versions(name: str, saved: Path, tmp_path: Path) -> None:
    path = changed(saved, tmp_path / "file", lambda about: about["made with"].update({name: "0.0"}))
    assert refused(path).startswith(f"they were made with {name} 0.0, and here is {name} ")


def test_other_machines(saved: Path, tmp_path: Path) -> None:
    def why(**needs: Any) -> str:
        return refused(changed(saved, tmp_path / "file", lambda about: about["needs"].update(needs)))

    assert "its code is for Linux on mips, and this is Linux on " in why(architecture="mips")
    assert why(features=["avx1024", "sse2"]).endswith("lacks avx1024")
    assert "its code is for z13, and this processor is " in why(processor="z13", features=[])


def test_less_than_this_machine_has_is_enough(saved: Path, tmp_path: Path) -> None:
    path = changed(saved, tmp_path / "file", lambda about: about["needs"].update(features=["sse2"], processor="old"))
    onegraph.load(path, net())
    assert needs_of("x86-64-v3").features[-1] == "movbe" and needs_of("").missing() == ""


def test_another_program(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(saved, nn.Linear(2, 2)).endswith("Net, and this is torch.nn.modules.linear.Linear")
    assert refused(saved, Net(9)).endswith("first.weight was float32 [8, 4], is float32 [9, 4]")
    assert refused(saved, net().double()).endswith("first.weight was float32 [8, 4], is float64 [8, 4]")
    with monkeypatch.context() as patched:
        patched.setattr(Net, "forward", lambda self, x, *, scale=1.0: {"out": x})
        assert refused(saved).endswith("Net is another than it was")
    with monkeypatch.context() as patched:
        patched.setattr(Net, "activated", lambda self, x: torch.relu(x) + 1)
        assert "Net.activated was function" in refused(saved)


def test_other_settings(saved: Path) -> None:
    with onegraph.config.patch(memory_budget=0.25):
        assert refused(saved).endswith("the option memory_budget was 1.0, is 0.25")


def test_entries_that_are_none(saved: Path, tmp_path: Path) -> None:
    """With the right checksum."""
    bundle = unpacked(MAGIC, saved.read_bytes())
    for content in (b"", b"noise", zlib.compress(b"{}"), zlib.compress(b"[" * 99999)):
        changed = [replace(each, content=content) if each.kind == "captures" else each for each in bundle.artifacts]
        (tmp_path / "file").write_bytes(packed(MAGIC, Bundle(bundle.about, tuple(changed))))
        assert refused(tmp_path / "file")


def test_a_file_is_written_as_a_whole(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    monkeypatch.setattr(os, "replace", compiling)
    with pytest.raises(AssertionError):
        ahead_of_time.write(path, saved.read_bytes())
    assert path.read_bytes() == b"before" and [*tmp_path.iterdir()] == [path]


def test_a_full_disk(saved: Path, tmp_path: Path) -> None:
    """The error is the system's, and what stood there stays."""
    path = tmp_path / "file"
    path.write_bytes(saved.read_bytes())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            ahead_of_time.write(path, saved.read_bytes() * 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == saved.read_bytes() and [*tmp_path.iterdir()] == [path]


def test_a_folder_that_can_only_be_read(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(saved.read_bytes())
    opened = io.open

    def read_only(file: Any, mode: str = "r", *args: Any, **named: Any) -> Any:
        if "r" not in mode:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return opened(file, mode, *args, **named)

    monkeypatch.setattr(io, "open", read_only)
    with pytest.raises(OSError, match="Read-only"):
        ahead_of_time.write(path, saved.read_bytes() * 2)
    assert ahead_of_time.opened(path).artifacts and [*tmp_path.iterdir()] == [path]


def written_again_and_again(path: Path, contents: list[bytes]) -> None:
    for content in itertools.cycle(contents):
        ahead_of_time.write(path, content)


def test_who_is_killed_leaves_a_whole_file(saved: Path, tmp_path: Path) -> None:
    path, chance = tmp_path / "file", random.Random(0)
    contents = [saved.read_bytes(), saved.read_bytes() * 20]
    path.write_bytes(contents[0])
    for _ in range(20):
        process, read = begun(written_again_and_again, path, contents)
        time.sleep(0.02 * chance.random())
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(read)
        assert path.read_bytes() in contents


@pytest.mark.parametrize("count", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_processes_that_save_and_load_one_file_together(count: int, tmp_path: Path) -> None:
    in_children(count, save, tmp_path)
    assert in_children(count, the_same, tmp_path) == [[]] * count


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(onegraph.InvalidArgument, match="expects what onegraph.compile has given, got function"):
        onegraph.save(scaled, tmp_path / "file")
    with pytest.raises(onegraph.InvalidArgument, match="expects the path of a file, got 3"):
        onegraph.load(3, scaled)  # type: ignore[arg-type]
    with pytest.raises(onegraph.InvalidArgument, match="got an object of type 'int', which cannot be called"):
        onegraph.load(tmp_path / "file", 3)  # type: ignore[type-var]
    compiled = onegraph.compile(scaled, options=options(tmp_path))
    with pytest.raises(SaveError, match="scaled has not been called yet: call it with each kind of input"):
        onegraph.save(compiled, tmp_path / "file")
    off = onegraph.compile(scaled, options={"cache_captures": False})
    off(inputs(2), {"a": 2.0})
    with pytest.raises(SaveError, match=r"scaled \(.*\): captures were not kept then: the cache was off, a setting"):
        onegraph.save(off, tmp_path / "file")
    assert not (tmp_path / "file").exists()


@onegraph.allow_in_graph
def allowed(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def half(x: torch.Tensor) -> torch.Tensor:
    x = x.sin()
    sys.getswitchinterval()
    if x.sum() > 1e9:
        return x
    return allowed(x)


def test_a_part_that_cannot_be_kept(tmp_path: Path) -> None:
    def run() -> None:
        compiled = onegraph.compile(half, options=options(tmp_path))
        compiled(inputs(2))
        with pytest.raises(SaveError, match=r"cannot be saved as a whole; strict=False leaves these out:\n  half"):
            onegraph.save(compiled, tmp_path / "saved")
        onegraph.save(compiled, tmp_path / "saved", strict=False)

    in_child(run)

    def again() -> int:
        loaded = load(tmp_path, lambda: half, "default")
        torch.testing.assert_close(loaded(inputs(2)), half(inputs(2)))
        return onegraph.counters["disk"]["capture"]

    assert in_child(again) >= 1


def test_the_command_shows_it(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "show", str(saved)]) == 0
    shown = capsys.readouterr().out
    assert "Net, compiled (captures: " in shown and "can be loaded here, with the same program" in shown
    assert "\n  args[0] is a float32 tensor on cpu of size [2, 4] and strides [4, 1]\n" in shown
    other = changed(saved, tmp_path / "file", lambda about: about["made with"].update(torch="1.0"))
    assert main(["cache", "show", str(other)]) == 0
    assert "cannot be loaded here: they were made with torch 1.0" in capsys.readouterr().out
