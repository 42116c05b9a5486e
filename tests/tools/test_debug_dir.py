"""The debug directory: `TORCH_COMPILE_DEBUG=1`, the option `debug`."""

from __future__ import annotations

import logging
import os
import runpy
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from import_graph import ROOT

import onegraph
from onegraph.base import events as ev
from onegraph.base.config import Config
from onegraph.base.events import Location
from onegraph.tools.debugging.attach import Writers
from onegraph.tools.debugging.debug_dir import DebugDir
from onegraph.tools.debugging.debug_files import FILES
from onegraph.tools.debugging.writing import Careful

SCALE = torch.nn.Linear(4, 4)


def broken(x: torch.Tensor) -> torch.Tensor:
    y = torch.nn.functional.gelu(SCALE(x)).sum(-1)
    return y / y.abs().max().item()


def run_of(folder: Path) -> Path:
    """The folder of the one run."""
    (found,) = folder.iterdir()
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a function with a break that is trained, in two sizes."""
    folder = tmp_path_factory.mktemp("debug")
    options = {"debug": True, "debug_dir": folder, "smallest_recorded_graph": 0, "share_versions": False}
    compiled = onegraph.compile(broken, options=options)
    for size in (2, 3):
        compiled(torch.randn(size, 4)).sum().backward()
    return run_of(folder)


def test_each_piece_has_a_folder_and_a_line_of_the_index(run: Path) -> None:
    folders = sorted(path.name for path in run.iterdir() if path.is_dir())
    index = (run / "index.txt").read_text()
    rows = [line for line in index.splitlines() if line[:1].isdigit()]
    assert sorted(row.split()[0] for row in rows) == folders
    assert folders == ["000_0_broken", "000_1_broken", "001_0_broken", "001_1_broken"]
    assert "def broken(x: torch.Tensor)" in rows[0] and "return y / y.abs().max().item()" in rows[1]
    assert all(file.name.partition("{")[0] in index for file in FILES)


def test_a_piece_has_what_each_stage_made(run: Path) -> None:
    first, *_ = sorted(run.iterdir())
    files = {path.name for path in first.iterdir()}
    once = {file.name for file in FILES} - {"sizes.txt", "aten_{part}.txt"}
    assert files >= {*once, "aten_forward.txt", "aten_backward.txt", "kernels_2.ll", "log.txt", "times.txt"}
    assert "def broken(x)" in (first / "residual.py").read_text()
    assert "define" in (first / "kernels.ll").read_text() and ".cfi_endproc" in (first / "kernels.s").read_text()
    assert "graph break: the program needs the number" in (first / "log.txt").read_text()
    assert "translate" in (first / "times.txt").read_text()


def test_another_version_says_why(run: Path) -> None:
    _, second, *_ = sorted(run.iterdir())
    assert (second / "log.txt").read_text().startswith("version 1 is needed, because `x` had size [2, 4], has [3, 4]")
    assert (second / "sizes.txt").read_text()


def test_the_graph_runs_by_itself(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    programs = sorted(run.glob("*/graph.py"))
    assert len(programs) == 4
    for program in programs:
        made = runpy.run_path(str(program), run_name="__main__")
        assert "tensor(" in capsys.readouterr().out
        given = made["inputs"]()
        torch.testing.assert_close(onegraph.compile(made["graph"])(*given), made["graph"](*given))


def test_files_are_chosen_while_the_process_runs(tmp_path: Path) -> None:
    compiled = onegraph.compile(lambda x: x + 1, options={"share_versions": False})
    with onegraph.config.patch(debug=True, debug_dir=tmp_path, debug_files=("guards", "residual")):
        compiled(torch.ones(2))
    (piece,) = (path for path in run_of(tmp_path).iterdir() if path.is_dir())
    assert {path.name for path in piece.iterdir()} == {"guards.txt", "residual.py", "log.txt"}


def test_torchs_names(tmp_path: Path) -> None:
    options = {"trace.enabled": True, "trace.debug_dir": str(tmp_path), "share_versions": False}
    onegraph.compile(lambda x: x + 2, options=options)(torch.ones(2))
    assert (run_of(tmp_path) / "index.txt").exists()
    with onegraph.config.patch(debug_dir_root="/a/b"):
        assert onegraph.config.debug_dir == Path("/a/b") and onegraph.config.debug_dir_root == "/a/b"


def test_nothing_is_written_unasked(tmp_path: Path) -> None:
    onegraph.compile(lambda x: x + 3, options={"debug_dir": tmp_path, "share_versions": False})(torch.ones(2))
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_costs_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    debug = Careful("the debug directory", DebugDir().note)
    config = Config(debug=True, debug_dir=tmp_path / "file")
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            debug.note(ev.FrameStarted(Location("f.py", 1, "f"), 0, number, 1, config))
    (message,) = caplog.messages
    assert message.startswith("the debug directory is not written any further: NotADirectoryError: ")


def test_each_process_has_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    debug, config = DebugDir(), Config(debug=True, debug_dir=tmp_path)
    debug.note(ev.FrameStarted(Location("f.py", 1, "f"), 0, 0, 1, config))
    child = os.fork()
    if not child:
        debug.note(ev.FrameStarted(Location("f.py", 1, "f"), 1, 0, 1, config))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    runs = {
        run.name.split("_", 7)[-1]: [path.name for path in run.iterdir() if path.is_dir()] for run in tmp_path.iterdir()
    }
    assert runs == {f"{os.getpid()}_rank_3": ["000_0_f"], f"{child}_rank_3": ["000_1_f"]}


DEBUGGED = """
import pdb, torch, onegraph

@onegraph.compile
def f(x, log):
    log.append(x.size(0))
    return x + 1

f(torch.ones(2), [])
pdb.Pdb(nosigint=True).set_trace()
print(f(torch.ones(2), []))
print(f(torch.ones(2), []))
"""


def test_a_debugger_stops_in_residual_code(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(DEBUGGED)
    commands = ["step", "step", "break 5", "continue", "list", "p (x.shape, log)", "continue", "where"]
    done = subprocess.run(
        [sys.executable, program],
        env=os.environ | {"TORCH_COMPILE_DEBUG": "1", "TORCH_COMPILE_DEBUG_DIR": str(tmp_path / "debug")},
        input="\n".join([*commands, "clear 1", "continue", ""]),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "> <onegraph residual of f #1>(1)f()\n-> def f(x, log):" in done.stdout
    assert "Breakpoint 1 at <onegraph residual of f #1>:5" in done.stdout
    assert "  4  \t    o0_, = k1_(x)\n  5 B->\t    k0_(log, [2])" in done.stdout
    assert "(torch.Size([2]), [])" in done.stdout
    assert "program.py(12)<module>()" in done.stdout and done.stdout.count("tensor([2., 2.])") == 2
    residual = run_of(tmp_path / "debug") / "000_0_f" / "residual.py"
    assert residual.read_text().splitlines()[4] == "    k0_(log, [2])"


LATER = """
import sys, torch, onegraph

def told():
    return [name for name in sys.modules if name.startswith("onegraph.tools.debugging.debug")]

f = onegraph.compile(lambda x: x.sin() + 1, dynamic=False)
f(torch.ones(2))
print(told())
onegraph.config.debug = True
f(torch.ones(3))
print(len(told()))
"""


def test_writers_are_imported_for_the_first_version_that_is_written(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "ONEGRAPH_DEBUG_DIR": str(tmp_path / "debug")}
    done = subprocess.run([sys.executable, "-c", LATER], env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "[]\n2\n"), done.stderr
    (piece,) = (path for path in run_of(tmp_path / "debug").iterdir() if path.is_dir())
    assert "version 1 is needed, because `x` had size [2], has [3]" in (piece / "log.txt").read_text()


def test_what_led_to_a_version_stays_with_its_thread(tmp_path: Path) -> None:
    writers, places = Writers(), [Location("t.py", number, f"f{number}") for number in range(8)]
    config = Config(debug=True, debug_dir=tmp_path / "debug")
    ready = threading.Barrier(len(places))

    def compile_again(place: Location) -> None:
        ready.wait()
        writers.note(ev.Recompiled(place, f"because of {place.line}"))
        ready.wait()
        writers.note(ev.FrameStarted(place, 1, place.line, 1, config))

    threads = [threading.Thread(target=compile_again, args=(place,)) for place in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    logs = {path.parent.name[-2:]: path.read_text() for path in run_of(tmp_path / "debug").glob("*/log.txt")}
    assert len(logs) == len(places)
    assert all(logs[place.function].count(f"because of {place.line}") == 1 for place in places)
