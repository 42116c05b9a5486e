"""The suite that compares runtimes: it times nobody who computes something else, and needs none of the extras."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from benchmarks import inference, one_model, report
from benchmarks.measure import Result, Run, Sample, Settings
from benchmarks.runtimes import RUNTIMES, TORCH, Inputs, Runtime
from benchmarks.zoo import MODELS
from onegraph.tools.html_report.data import Limits


def built(function: Callable[[nn.Module, Inputs], object]) -> Runtime:
    def build(module: nn.Module, inputs: Inputs, threads: int) -> Run:
        return lambda: function(module, inputs)

    return Runtime(build)


def raising(module: nn.Module, inputs: Inputs) -> object:
    raise RuntimeError("export fails") from ValueError("no rule\nfor aten::diff")


def measured(precision: str = "float32", **contenders: Runtime) -> dict[str, object]:
    torch.manual_seed(0)
    module, inputs = nn.Linear(8, 4).eval(), {"input": torch.randn(2, 8)}
    found = one_model.measured(module, inputs, {"eager": TORCH["eager"], **contenders}, precision, 1, 3)
    return json.loads(json.dumps(found))


def test_contenders_that_compute_the_same_are_timed() -> None:
    found = measured(onegraph=TORCH["onegraph"], frozen=TORCH["frozen"])
    assert list(found["samples"]) == list(found["seconds"]) == ["eager", "onegraph", "frozen"]
    assert found["failures"] == {} and max(found["errors"].values()) < 1e-6
    assert found["operations"] == 2 * 2 * 8 * 4 and found["bytes"] == 4 * (8 * 4 + 4)


@pytest.mark.parametrize(
    ("contender", "told"),
    [
        (built(lambda module, inputs: module(**inputs) * 1.1), "wrong: 1.0e-01"),
        (built(lambda module, inputs: module(**inputs) * torch.nan), "wrong: inf"),
        (built(lambda module, inputs: module(**inputs)[:1]), "wrong: inf"),
        (built(lambda module, inputs: [module(**inputs)] * 2), "wrong: inf"),
        (built(raising), "fails: ValueError: no rule for aten::diff"),
        (Runtime(TORCH["eager"].build, ("no_such_module.part",)), "not installed"),
    ],
)
def test_who_fails_or_computes_something_else_is_named_and_not_timed(contender: Runtime, told: str) -> None:
    found = measured(contender=contender)
    assert list(found["samples"]) == ["eager"]
    assert found["failures"] == {"contender": told}


def test_small_numbers_may_be_as_wrong_as_their_precision() -> None:
    wrong = built(lambda module, inputs: module(**inputs) * 1.01)
    assert measured("bfloat16", wrong=wrong)["failures"] == {}
    assert measured("float32", wrong=wrong)["failures"] != {}


EXTRAS = [
    (precision, name)
    for precision, found in RUNTIMES.items()
    for name, runtime in found.items()
    if runtime.modules and name not in TORCH
]


@pytest.mark.parametrize(("precision", "name"), EXTRAS)
def test_runtimes_of_the_extra_compute_what_eager_does(precision: str, name: str) -> None:
    if not RUNTIMES[precision][name].is_installed():
        pytest.skip(f"{name} is not installed")
    found = measured(precision, **{name: RUNTIMES[precision][name]})
    assert found["failures"] == {}
    assert (found["errors"][name] > 1e-4) == (precision != "float32")


def test_attention_is_counted_and_tables_are_not_read() -> None:
    class Model(nn.Module):
        def __init__(self, tied: bool) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(100, 8), nn.Linear(8, 100, bias=False)
            if tied:
                self.head.weight = self.table.weight

        def forward(self, tokens: Tensor) -> Tensor:
            x = self.table(tokens)[:, None]
            return self.head(nn.functional.scaled_dot_product_attention(x, x, x))

    tokens = {"tokens": torch.arange(16)[None]}
    outputs, operations = one_model.exact(Model(tied=False), tokens)
    assert [output.dtype for output in outputs] == [torch.float64]
    assert operations == 2 * (2 * 16 * 16 * 8) + 2 * 16 * 8 * 100
    assert [one_model.bytes_read(Model(tied)) for tied in (False, True)] == [3200, 3200]


def test_a_row_names_the_limit_and_why_somebody_is_missing() -> None:
    found = {
        "samples": {name: {"median": t, "low": t, "high": t} for name, t in (("eager", 0.6), ("onegraph", 0.4))},
        "seconds": {"eager": 0.6, "onegraph": 2.0},
        "errors": {"eager": 1e-7, "onegraph": 2e-7},
        "failures": {"openvino": "fails: no rule", "onnxruntime": "not installed"},
        "operations": 3 * 10**9,
        "bytes": 4 * 10**9,
    }
    row = inference.result("inference", "work", found, Limits(20e9, 10e9))
    assert report.headers("inference")[1:] == [*RUNTIMES["float32"], "limit", "against stock", "against runtimes"]
    shown = ["work", "600 x1.00 50%", "-", "400 x1.50 75%", "-", "not installed", "fails", "300", "-", "-"]
    assert report.cells(row) == shown
    assert "CPU-seconds to the first result: onegraph 2.0; errors: eager 1.0e-07, onegraph 2.0e-07" in row.note
    assert row.note.endswith("openvino fails: no rule; onnxruntime not installed")
    assert Result.from_json(json.loads(json.dumps(row.to_json()))) == row


def test_the_fastest_of_the_runtimes_counts_and_means_are_of_what_runs() -> None:
    def row(**medians: float) -> Result:
        return Result("inference", "work", "ms", {name: Sample(t, t, t) for name, t in medians.items()})

    rows = [
        row(eager=4.0, onegraph=2.0, onnxruntime=3.0, openvino=1.0, limit=1.0),
        row(eager=4.0, onegraph=2.0, onnxruntime=4.0, limit=1.0),
        row(eager=4.0, onegraph=2.0, onnxruntime=2.0, openvino=4.0, limit=1.0),
    ]
    assert [report.cells(row)[-1] for row in rows] == ["x0.50", "x2.00", "x1.00"]
    assert report.notes(rows)[-2:] == [
        "geometric mean: eager x1.00 25%, onegraph x2.00 50%, onnxruntime x1.39 35%, openvino x2.00 50% (of 2)",
        "geometric mean: x1.00 against runtimes",
    ]


@pytest.mark.parametrize("name", inference.SUITES)
def test_a_suite_measures_its_models_in_processes_of_their_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run(key: str, precision: str, threads: int, rounds: int, header: str) -> dict[str, object]:
        asked.append((key, precision, rounds))
        return {"samples": {}, "seconds": {}, "errors": {}, "failures": {}, "operations": 1, "bytes": 1}

    monkeypatch.setattr(inference, "first_call", lambda *_, **__: None)
    monkeypatch.setattr(inference, "machine", lambda *_: Limits(1.0, 1.0))
    monkeypatch.setattr(inference, "measured", run)
    rows = list(inference.run(name, Settings()))
    suite = inference.SUITES[name]
    keys = suite.models or [model.key for model in MODELS]
    assert sorted(asked) == sorted((key, suite.precision, inference.ROUNDS) for key in keys)
    assert {row.suite for row in rows} == {name} <= report.TITLES.keys()


DYING = """
import json, os, signal, sys
for name in ("eager", "stock"):
    if name not in sys.argv[5].split(","):
        print(f"contender {name}", file=sys.stderr, flush=True)
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGFPE)
print(json.dumps({"failures": {}, "without": sys.argv[5]}))
"""


def test_a_contender_that_ends_the_process_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, header = tmp_path / "dying.py", tmp_path / "header"
    script.write_text(DYING)
    header.mkdir()
    monkeypatch.setattr(inference, "SCRIPT", script)
    found = inference.measured("stock", "float32", 1, 1, str(header))
    assert found == {"failures": {"stock": "dies: SIGFPE"}, "without": "stock"}
    assert inference.measured("nobody", "float32", 1, 1, str(header))["failures"] == {}
