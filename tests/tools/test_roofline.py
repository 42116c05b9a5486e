"""Times of kernels against what the machine could do."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import onegraph
from onegraph.base.errors import InvalidArgument
from onegraph.base.events import Location
from onegraph.tools.cli import main
from onegraph.tools.html_report.data import KernelRow, Limits
from onegraph.tools.roofline import Roofline, limits, roofline, with_checks_together

PLACE = Location("model.py", 3, "forward")
LIMITS = Limits(10e9, 100e9)


def row(name: str, milliseconds: float, moved: float = 0, flops: float = 0, runs: int = 2) -> KernelRow:
    return KernelRow(name, PLACE, False, runs, round(milliseconds * 1e6), round(moved), round(flops))


def test_what_loses_most_comes_first() -> None:
    rows = (row("add", 4, moved=20e6), row("dot_add", 10, moved=1e6, flops=500e6), row("unknown", 1))
    assert (
        str(Roofline(rows, LIMITS, 2, 0.016, 1))
        == """\
8.000 ms a call; the machine needs 3.500 (44%).
7.500 in 3 kernels and calls of libraries, 0.500 between them. It moves 10.0 GB/s and computes 100 GFLOP/s in float32 \
with 1 thread. What lies in caches may be faster than memory.

kernel   runs  ms     at least  by          of it  lost ms  GB/s  GFLOP/s
dot_add  1     5.000  2.500     arithmetic  50%    2.500    0.1   50.0
add      1     2.000  1.000     memory      50%    1.000    5.0   0.0
unknown  1     0.500  ?         ?           ?      ?        0.0   0.0"""
    )


def test_checks_of_weights_move_nothing() -> None:
    rows = (row("recipe.in_panels.0", 1, moved=5e6), row("recipe.in_panels.1", 2, moved=5e6), row("add", 3, moved=1e6))
    assert with_checks_together(rows) == (
        rows[2],
        KernelRow("checks of weights that are kept packed", PLACE, True, 4, 3_000_000, 0, 0),
    )


def test_a_product_and_what_is_done_to_it() -> None:
    def layer(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x[:, :, None] * y[None]).sum(1) + 1

    found = roofline(layer, (torch.ones(12, 30), torch.ones(30, 64)), calls=3)
    (only,) = found.rows
    assert only.runs == 3 and only.flops == 3 * 12 * 64 * (2 * 30 + 1)
    assert found.calls == 3 and 0 < only.nanoseconds / 1e9 <= found.seconds
    onegraph.reset()


def test_attention_counts_both_products() -> None:
    query = torch.randn(1, 2, 8, 16)
    found = roofline(torch.nn.functional.scaled_dot_product_attention, (query, query, query), calls=1)
    assert sum(row.flops for row in found.rows if row.of_library) == 2 * 2 * 8 * 8 * 32
    onegraph.reset()


def test_the_machine_is_measured_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ONEGRAPH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("onegraph.tools.roofline.machine_limits", lambda: Limits(10e9, 1.0))
    first = limits()
    assert first.bandwidth == 10e9 and first.arithmetic > 1e8
    monkeypatch.setattr("onegraph.tools.roofline.machine_limits", lambda: None)
    assert limits().arithmetic == pytest.approx(first.arithmetic)
    monkeypatch.setenv("ONEGRAPH_CACHE", "0")
    with pytest.raises(InvalidArgument, match="no memory"):
        limits()


def test_bad_input() -> None:
    with pytest.raises(InvalidArgument, match="positive"):
        roofline(torch.relu, (torch.ones(2),), calls=0)
    with pytest.raises(InvalidArgument, match="onegraph explain"):
        roofline(lambda: 3, ())


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "program.py"
    file.write_text("import torch\n\ndef f(x):\n    return (x + 1).relu()\n\nf_inputs = (torch.ones(4),)\n")
    assert main(["roofline", f"{file}::f", "--calls", "2"]) == 0
    printed = capsys.readouterr().out
    assert "ms a call; the machine needs" in printed and "add" in printed
