"""The instruments of benchmarks/: a wrong one would be believed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import onegraph
from benchmarks import dynamic, memory, products, report, training, warm, writing
from benchmarks.cold import Cold, FirstCallFailed, descendants, first_call
from benchmarks.measure import Result, Sample, Settings, interleaved, repeats, sample, seconds
from benchmarks.starts import program


def result(suite: str, **medians: float) -> Result:
    return Result(suite, "work", "ms", {name: Sample(t, t, t) for name, t in medians.items()})


def test_a_sample_is_the_median_and_its_quartiles() -> None:
    assert sample([5.0, 1.0, 2.0, 4.0, 3.0]) == Sample(3.0, 2.0, 4.0)
    assert sample([2.0]) == Sample(2.0, 2.0, 2.0)


def test_seconds_are_per_call() -> None:
    calls = []
    assert seconds(lambda: calls.append(1), 7) > 0
    assert len(calls) == 7


def test_short_work_is_repeated_until_it_can_be_timed() -> None:
    assert repeats(lambda: None, 0.001) > 100


def test_contenders_take_turns_and_each_turn_starts_with_another() -> None:
    order: list[str] = []
    runs = {name: (lambda name=name: order.append(name)) for name in "abc"}
    samples = interleaved(runs, rounds=3, at_least=0.0)
    assert set(samples) == {"a", "b", "c"}
    assert order[-9:] == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]


def test_the_peak_is_what_is_alive_at_a_time() -> None:
    def run() -> torch.Tensor:
        for _ in range(3):
            torch.ones(1 << 20)  # dead before the next one
        return torch.ones(1 << 18)

    assert memory.peak(run) == 4 << 20


@pytest.mark.parametrize("contender", ["eager", "onegraph"])
def test_what_is_kept_for_the_backward_pass_is_counted_without_what_lives_anyway(contender: str) -> None:
    class Model(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).sin().exp().sum()

    model, inputs = Model(4, 8), {"x": torch.randn(16, 4)}
    kept = training.kept_by(training.TRAINERS[contender](model), model, inputs)
    assert kept == {"eager": 2, "onegraph": 1}[contender] * 16 * 8 * 4  # sin's argument; exp's result is not recomputed


def test_a_step_of_training_leaves_no_gradients_and_changes_parameters() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Flatten(0))
    before = model[0].bias.detach().clone()
    training.step_of(lambda x: model(x).sum(), list(model.parameters()), x=torch.randn(3, 4))()
    assert model[0].bias.grad is None
    assert not torch.equal(model[0].bias, before)


def test_ratios_say_how_many_times_less_onegraph_takes() -> None:
    row = result("kernels", eager=0.004, stock=0.002, onegraph=0.001)
    assert report.cells(row) == ["work", "4", "2", "1", "x4.00", "x2.00"]


def test_a_contender_that_fails_leaves_a_gap() -> None:
    row = result("cold", onegraph=0.5)
    assert report.cells(row) == ["work", "-", "500", "-"]


def test_what_a_suite_does_not_compare_is_no_failure() -> None:
    assert report.cells(result("memory", eager=0.004, onegraph=0.001)) == ["work", "4", "1", "x4.00"]


def test_a_forecast_is_beside_what_is_measured() -> None:
    row = result("data_parallel_forecast", forecast=0.004, measured=0.005)
    assert report.headers(row.suite) == ["", "forecast", "measured"]
    assert report.cells(row) == ["work", "4", "5"]
    assert report.mean_ratios([row, row]) == ""


def test_products_are_shown_by_their_speed_the_worst_first() -> None:
    def product(eager: float, onednn: float, onegraph: float) -> Result:
        times = {"eager": eager, "onednn": onednn, "onegraph": onegraph, "limit": 0.001}
        samples = {name: Sample(t, t, t) for name, t in times.items()}
        return Result("products", "work", "GFLOP/s", samples, operations=10**9)

    rows = report.suites([product(0.004, 0.002, 0.001), product(0.001, 0.002, 0.002)])["products"]
    assert report.cells(rows[0]) == ["work", "1e+03 100%", "500 50%", "500 50%", "-", "1e+03", "x0.50"]
    assert report.notes(rows)[-2:] == [
        "geometric mean: x1.00 against libraries",
        "1 of 2 below 92% of the best library",
    ]


def tensor_of(found: torch.Tensor | list[torch.Tensor]) -> torch.Tensor:
    return found if isinstance(found, torch.Tensor) else torch.stack(found).squeeze(0)


@pytest.mark.parametrize("form", ["linear", "tall", *products.FUNCTIONS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_contenders_compute_the_same_product(form: str, dtype: torch.dtype) -> None:
    shape = products.Shape(form, 3, 5, 4, 1 if form in ("linear", "tall", "mm", "across") else 2)
    with torch.no_grad():
        found = [tensor_of(run()) for run in products.contenders(shape, dtype).values()]
    onegraph.reset()
    for each in found[1:]:
        torch.testing.assert_close(each, found[0], rtol=2e-2, atol=2e-2)


def test_contenders_compute_products_of_integers() -> None:
    with torch.no_grad():
        found = [
            tensor_of(run()) for run in products.contenders(products.Shape("linear", 32, 64, 64), torch.int8).values()
        ]
    onegraph.reset()
    for each in found[1:]:
        torch.testing.assert_close(each, found[0], rtol=0.1, atol=0.1)


def test_results_are_saved_as_data_text_and_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    monkeypatch.setattr(report, "CHARTS", tmp_path / "charts")
    report.save([result("calls", eager=3.0, stock=2.0, onegraph=1.0), result("cold", onegraph=1.0)], Settings())
    saved = json.loads((tmp_path / "results.json").read_text())
    assert saved[0]["samples"]["stock"]["median"] == 2.0
    assert "| work | 3e+03 | 2e+03 | 1e+03 | x3.00 | x2.00 |" in (tmp_path / "results.md").read_text()
    report.save([result("cold", onegraph=4.0)], Settings())  # the rows of other suites stay
    saved = {row["suite"]: row for row in json.loads((tmp_path / "results.json").read_text())}
    assert saved["cold"]["samples"]["onegraph"]["median"] == 4.0 and "torch" in saved["calls"]["measured"]
    chart = (tmp_path / "charts" / "calls.svg").read_text()
    assert "3.00x less than eager, 2.00x less than stock" in chart
    assert [path.name for path in (tmp_path / "charts").iterdir()] == ["calls.svg"]


def test_children_of_children_are_counted() -> None:
    command = "import subprocess, sys, time; subprocess.Popen(['sleep', '30']); print(flush=True); time.sleep(30)"
    process = subprocess.Popen([sys.executable, "-c", command], stdout=subprocess.PIPE)
    process.stdout.readline()
    below = descendants(process.pid)
    for pid in [process.pid, *(pid for pid, _ in below)]:
        os.kill(pid, 9)
    process.communicate()
    assert len(below) == 1


FIRST_CALL = """
import sys, torch, onegraph
begun, starts = [], {"subprocess.Popen", "os.fork", "os.posix_spawn"}
sys.addaudithook(lambda event, _: begun.append(event) if event in starts else None)
assert onegraph.compile(lambda x: x + 1)(torch.ones(3)).tolist() == [2.0] * 3
assert not begun, begun
"""


def test_the_first_call_needs_no_compiler_and_starts_no_process(tmp_path: Path) -> None:
    """Builds of torch with CUDA start a process when they are imported; the call does not."""
    environment = os.environ | {"PATH": "", "ONEGRAPH_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", FIRST_CALL], env=environment, check=True)
    assert first_call("onegraph", "x + 1", path="").wall > 0


def test_a_process_that_fails_says_why() -> None:
    assert first_call("onegraph", "transform graph_layer", path="").wall > 0

    with pytest.raises(FirstCallFailed, match="IndexError|TypeError|KeyError|ValueError"):
        first_call("onegraph", "no such work")


def test_warm_starts_follow_cold_ones_in_the_same_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []

    def fake(contender: str, work: str, caches: str = "", script: Path | None = None) -> Cold:
        if contender == "stock" and len(asked) > 4:
            raise FirstCallFailed("of the stock compiler")
        left = Path(caches, "left")
        asked.append((contender, "warm" if left.exists() else "cold"))
        left.touch()
        return Cold(1.0, 0.25 * len(asked), 0, 0.125, {"translate": 0.5, "compile": 0.25})

    monkeypatch.setattr(warm, "first_call", fake)
    rows = list(warm.of_program(program("x+1"), str(tmp_path), 3))
    ours, theirs = [("onegraph", "cold"), ("onegraph", "warm")], [("stock", "cold"), ("stock", "warm")]
    assert asked == [*theirs, *ours, *ours, *ours]  # the third round begins with the stock compiler, which fails then
    assert [row.name.rpartition(": ")[2] for row in rows] == ["cold", "warm"]
    assert rows[1].samples["onegraph"].median == 1.5 and rows[1].samples["stock"].median == 0.5
    assert rows[1].note.endswith(
        "warm: stock fails, 0.125 s of onegraph's 1.000 pack weights, translate 0.500, compile 0.250"
    )


def test_programs_are_chosen_by_name() -> None:
    assert program("breaks").name == "ten graph breaks"
    with pytest.raises(ValueError, match=r"unknown program 'no'; accepted: x\+1, gpt2, bert"):
        program("no")


def test_a_warm_start_is_measured_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEGRAPH_VERIFY", "0")  # which runs all stages
    found = [first_call("onegraph", "x+1", caches=str(tmp_path), script=warm.SCRIPT) for _ in range(2)]
    assert all(each.cpu > each.stages["translate"] > 0 for each in found)
    assert "compile: lower" in found[0].stages and "compile: lower" not in found[1].stages  # plans are found


def test_a_sequence_of_sizes_is_measured_in_a_process_of_its_own(tmp_path: Path) -> None:
    found = dynamic.measured("onegraph", "batches", str(tmp_path))
    assert found["graphs"] == 2  # of the first size, and of all
    assert found["cpu"] > 0 and found["against_static"] > 0


def test_logits_are_compared_as_far_as_the_same_tokens_led_to_them() -> None:
    def told(tokens: list[int], *rows: list[float]) -> SimpleNamespace:
        logits = tuple(torch.tensor([row]) for row in rows)
        return SimpleNamespace(sequences=torch.tensor([tokens]), logits=logits)

    expected = told([7, 1, 0, 1], [1.0, 2.0], [2.0, 1.0], [0.0, 4.0])
    assert writing.error(expected, expected) == 0
    assert writing.error(expected, told([7, 1, 0, 1], [1.0, 2.0], [2.0, 1.0], [1.0, 4.0])) == 0.25
    assert writing.error(expected, told([7, 1, 1, 1], [1.0, 2.0], [2.0, 3.0], [9.0, 9.0])) == 1.0
