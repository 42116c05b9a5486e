from __future__ import annotations

from pathlib import Path

import pytest
import torch

import onegraph
from onegraph.tools.cli import main

SOURCE = """
import torch

def f(x):
    return (x + 1).relu()

def broken(x):
    if x.sum() > 0:
        return x + 1
    return x - 1

def f_inputs():
    return (torch.ones(4),)

broken_inputs = f_inputs
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(SOURCE)
    return path


def test_dump_prints_every_stage(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", f"{file}::f"]) == 0
    printed = capsys.readouterr().out
    stages = [line.split()[1] for line in printed.splitlines() if line.startswith("====")]
    assert {"source", "bytecode", "graph", "guards", "residual", "aten", "loops", "fused", "memory", "code"} == set(
        stages
    )


def test_dump_prints_only_the_chosen_stages(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", f"{file}::f", "--stages", "graph", "--inputs", "torch.ones(2, 2)"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("==== graph ==== f (")
    assert printed.count("====") == 2


def test_explain_says_whether_it_is_one_graph(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", f"{file}::f"]) == 0
    assert capsys.readouterr().out.startswith("onegraph produced 1 graph, with 0 graph breaks and 2 ops, behind ")


def test_profile_names_the_slowest_stage(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onegraph.reset()
    assert main(["profile", f"{file}::f", "--cold", "--inputs", "torch.ones(7, 13)"]) == 0
    headline, head, *rows = capsys.readouterr().out.splitlines()
    stages = [row.split("  ")[0] for row in rows]
    assert head.split() == ["stage", "runs", "seconds", "share"]
    assert {"capture", "functionalize: trace", "compile: lower", "schedule: fuse", "run"} <= set(stages)
    assert "compile: make kernels" in stages  # no kernel comes from the disk
    assert headline.endswith(f"; the slowest is '{next(stage for stage in stages if stage != 'run')}'.")


def test_explain_names_the_line_that_breaks(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", f"{file}::broken"]) == 0
    printed = capsys.readouterr().out
    assert "with 1 graph break and" in printed
    assert "if x.sum() > 0:" in printed
    assert "Hint: " in printed


def test_errors_are_one_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", f"{file}::g"]) == 1
    assert capsys.readouterr().err.startswith(f"onegraph: {file} has no 'g'; it has: ")


def test_config_lists_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config"]) == 0
    assert "ONEGRAPH_RECOMPILE_LIMIT 8 versions of one code" in " ".join(capsys.readouterr().out.split())


def test_config_says_what_a_setting_of_torch_means(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--torch"]) == 0
    assert "cache_size_limit another spelling of recompile_limit" in " ".join(capsys.readouterr().out.split())
    assert main(["config", "triton.cudagraph_trees"]) == 0
    assert capsys.readouterr().out.startswith("triton.cudagraph_trees: accepted, no meaning here: ")
    assert main(["config", "threads"]) == 0
    assert "ONEGRAPH_THREADS 0 threads for kernels" in " ".join(capsys.readouterr().out.split())
    assert main(["config", "thread"]) == 1
    assert "no setting has the name 'thread' (did you mean 'threads'?)" in capsys.readouterr().err


def test_explain_takes_both_spellings() -> None:
    def f(x):
        return x * 2

    assert str(onegraph.explain(f)(torch.ones(2))) == str(onegraph.explain(f, torch.ones(2)))


def test_the_versions_that_a_report_needs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f"onegraph {onegraph.__version__}", f"torch {torch.__version__}"]
