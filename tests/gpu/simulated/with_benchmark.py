"""The tables of `make bench-gpu` are made from end to end; their numbers say nothing here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from gpu.driver import StandIn
from gpu.simulated import kernels

import onegraph
from benchmarks import gpu

driver = kernels.driver  # a fixture


@pytest.fixture(autouse=True)
def _without_stock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stock compiler asks for more of CUDA than is simulated, from its import on."""
    monkeypatch.setattr(gpu, "reset", onegraph.reset)
    monkeypatch.setattr(gpu, "CONTENDERS", {name: gpu.CONTENDERS[name] for name in ("eager", "onegraph")})


@pytest.mark.parametrize(
    "rows", [gpu.kernel_rows, gpu.launch_rows, pytest.param(gpu.first_call_rows, marks=pytest.mark.slow)]
)
def test_rows(driver: StandIn, rows: Callable[[bool], gpu.Rows]) -> None:
    found = dict(rows(True))
    assert found
    for cells in found.values():
        assert set(cells) == {"eager", "onegraph"}
        assert float(cells["onegraph"].split()[0]) > 0
    assert driver.launches()


@pytest.mark.slow
@pytest.mark.parametrize("trains", [False, True])
def test_models(driver: StandIn, trains: bool) -> None:
    assert all(float(cells["onegraph"].split()[0]) > 0 for _, cells in gpu.model_rows(True, trains))


@pytest.mark.slow
def test_the_command(driver: StandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its tables are all there, and each row says that the device is none."""
    monkeypatch.setattr(gpu, "RESULTS", tmp_path)
    bert = gpu.models(True)["BERT-base"]
    monkeypatch.setattr(gpu, "models", lambda small: {"BERT-base": bert})
    assert gpu.main(["--quick", "--save"]) == 0
    text = (tmp_path / "gpu.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ") and "eager" not in line]
    assert text.count("## ") == 5 and len(rows) == 12
    assert all("(simulated)" in row and "Error" not in row for row in rows)
