"""Structured traces: `TORCH_TRACE`, the option `trace_dir`."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from onegraph.base.config import Config
from onegraph.base.events import Location
from onegraph.tools.debugging.trace import Trace

SCALE = torch.nn.Linear(4, 4)
HEADER = re.compile(r"V\d{4} \d{2}:\d{2}:\d{2}\.\d{6} (\d+) [^:]+:\d+\] (\{.*\})")
TLPARSE = shutil.which("tlparse")


def broken(x: torch.Tensor) -> torch.Tensor:
    y = torch.nn.functional.gelu(SCALE(x)).sum(-1)
    return y / y.abs().max().item()


@dataclass(frozen=True)
class Parsed:
    """A record: its facts by names, and its payload."""

    facts: dict[str, Any]
    payload: str | None

    @property
    def name(self) -> str:
        return next(iter(self.facts))

    @property
    def compile_id(self) -> str:
        return f"{self.facts['frame_compile_id']}_{self.facts['attempt']}"


def parsed(file: Path) -> list[Parsed]:
    """The records of a file, of which each line must belong to one."""
    found: list[tuple[dict[str, Any], list[str]]] = []
    for line in file.read_text().split("\n")[:-1]:
        if line.startswith("\t"):
            found[-1][1].append(line[1:])
        else:
            match = HEADER.fullmatch(line)
            assert match is not None and match[1] == str(os.getpid()), line
            found.append((json.loads(match[2]), []))
    return [Parsed(facts, "\n".join(lines) if "has_payload" in facts else None) for facts, lines in found]


def file_of(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a function with a break that is trained, in two sizes."""
    folder = tmp_path_factory.mktemp("trace")
    options = {"trace_dir": folder, "smallest_recorded_graph": 0, "share_versions": False}
    compiled = onegraph.compile(broken, options=options)
    for size in (2, 3):
        compiled(torch.randn(size, 4)).sum().backward()
    return file_of(folder)


def test_a_record_is_a_header_with_json_and_the_lines_of_its_payload(trace: Path) -> None:
    assert re.fullmatch(r"dedicated_log_torch_trace_\w+\.log", trace.name)
    for record in parsed(trace):
        if record.payload is not None:
            assert hashlib.md5(record.payload.encode()).hexdigest() == record.facts["has_payload"]


def test_names_of_files_are_numbered_before_they_are_used(trace: Path) -> None:
    names: dict[int, str] = {}
    for record in parsed(trace):
        if record.name == "str":
            name, number = record.facts["str"]
            assert number == len(names)
            names[number] = name
        if record.name == "dynamo_start":
            stack = record.facts["dynamo_start"]["stack"]
            assert {frame["filename"] for frame in stack} <= names.keys()
            assert [frame["name"] for frame in stack][-2:] == ["trace", "broken"]
            assert not any("/src/onegraph/" in names[frame["filename"]] for frame in stack)
            assert stack[-1]["loc"] in (
                "def broken(x: torch.Tensor) -> torch.Tensor:",
                "return y / y.abs().max().item()",
            )


def test_each_piece_has_its_records(trace: Path) -> None:
    records = [record for record in parsed(trace) if record.name != "str"]
    pieces = dict.fromkeys((record.facts["frame_id"], record.compile_id) for record in records)
    assert [*pieces] == [(0, "0_0"), (1, "0_0"), (0, "1_0"), (1, "1_0")]
    for frame, version in pieces:
        of_piece = [r for r in records if (r.facts["frame_id"], r.compile_id) == (frame, version)]
        names = [record.facts["artifact"]["name"] if record.name == "artifact" else record.name for record in of_piece]
        assert names[0] == "dynamo_start" and names[-1] == "compilation_metrics"
        assert {"dynamo_output_graph", "aot_joint_graph", "aot_forward_graph", "aot_backward_graph"} <= {*names}
        assert {"inductor_output_code", "dynamo_guards", "dynamo_cpp_guards_str"} <= {*names}
        assert {"bytecode", "residual_code", "loops", "fused_loops", "memory_plan"} <= {*names}
        assert ("recompile_reasons" in names) == (version == "1_0")
        assert ("dynamo_graph_break_reason" in names) == (frame == 0)


def test_metrics_say_what_became_of_it(trace: Path) -> None:
    metrics = [record.facts["compilation_metrics"] for record in parsed(trace) if record.name == "compilation_metrics"]
    assert [len(each["restart_reasons"]) for each in metrics] == [1, 0, 1, 0]
    assert "Tensor.item" in metrics[0]["restart_reasons"][0]
    assert metrics[0]["co_name"] == "broken" and metrics[0]["graph_op_count"] == 5
    assert all(0 < each["inductor_compile_time_s"] < each["entire_frame_compile_time_s"] for each in metrics)
    assert all(each["fail_type"] is None for each in metrics)


def test_a_failure_is_said_with_its_line(tmp_path: Path) -> None:
    trace, frame = Trace(), Location("f.py", 1, "f")
    trace.note(ev.FrameStarted(frame, 0, 0, 1, Config(trace_dir=tmp_path)))
    trace.note(ev.GraphBroken(frame, "print", "call of print", user_stack=(frame, Location("g.py", 7, "g"))))
    trace.note(ev.FrameEnded(frame, 0.5, "GraphBreakError: call of print"))
    *_, last = parsed(file_of(tmp_path))
    metrics = last.facts["compilation_metrics"]
    assert (metrics["fail_type"], metrics["fail_reason"]) == ("GraphBreakError", "call of print")
    assert (metrics["fail_user_frame_filename"], metrics["fail_user_frame_lineno"]) == ("g.py", 7)


def test_a_frame_that_is_skipped_says_why(tmp_path: Path) -> None:
    def raising(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        onegraph.compile(raising, options={"trace_dir": tmp_path})(torch.ones(2))
    *_, last = parsed(file_of(tmp_path))
    metrics = last.facts["compilation_metrics"]
    assert metrics["fail_type"] == "FrameSkipped" and "it raises ValueError: no" in metrics["fail_reason"]


def test_ranks_and_processes_have_files_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "2")
    trace, config = Trace(), Config(trace_dir=tmp_path / "new")
    trace.note(ev.FrameStarted(Location("f.py", 1, "f"), 0, 0, 1, config))
    child = os.fork()
    if not child:
        trace.note(ev.FrameStarted(Location("f.py", 1, "f"), 1, 0, 1, config))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    files = list((tmp_path / "new").iterdir())
    assert len(files) == 2 and all(file.name.startswith("dedicated_log_torch_trace_rank_2_") for file in files)
    assert all('"rank": 2' in file.read_text() for file in files)


def test_torchs_variable() -> None:
    assert Config.from_environment({"TORCH_TRACE": "/a"}).trace_dir == Path("/a")
    assert Config.from_environment({"TORCH_TRACE": "/a", "ONEGRAPH_TRACE": "/b"}).trace_dir == Path("/b")
    assert Config.from_environment({}).trace_dir is None


if TLPARSE is not None:  # it is no dependency

    def test_tlparse_knows_each_record(trace: Path, tmp_path: Path) -> None:
        command = [str(TLPARSE), trace, "-o", tmp_path / "out", "--no-browser", "--strict", "--strict-compile-id"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert "dynamo_output_graph" in (tmp_path / "out" / "index.html").read_text()
