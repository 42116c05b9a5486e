"""Products and convolutions give eager's results, whichever way they are computed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import onegraph
from onegraph.base.config import Config
from onegraph.base.disk_cache import DiskCache
from onegraph.compiler.library import linear, measure
from onegraph.compiler.library.recipe import Check
from onegraph.torchlib.onednn import multiplies

CALLS = ("aten", "onednn", "packed", "tiles", "measured")


def compare(target: Any, *args: Any, calls: str, exact_layout: bool = True) -> None:
    compiled = onegraph.compile(target, fullgraph=True, options={"library_calls": calls, "verify": True})
    with torch.no_grad():
        for _ in range(2):
            result, expected = compiled(*args), target(*args)
            for ours, theirs in zip(flat(result), flat(expected), strict=True):
                assert ours.dtype is theirs.dtype and ours.shape == theirs.shape and ours.stride() == theirs.stride()
                tolerance = (
                    {"rtol": 2e-2, "atol": 2e-2} if ours.dtype is torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-5}
                )
                torch.testing.assert_close(ours, theirs, equal_nan=True, **tolerance)
    onegraph.reset()


def flat(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else [t for item in value for t in flat(item)]


@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 64, 32), (7, 33, 5), (0, 8, 4), (4, 0, 3), (3, 4, 0), (2, 3, 16, 8)])
def test_linear_of_any_shape(shape: tuple[int, ...], calls: str) -> None:
    *rows, inner, columns = shape
    for bias in (True, False):
        compare(nn.Linear(inner, columns, bias=bias), torch.randn(*rows, inner), calls=calls)


@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_linear_of_any_type(dtype: torch.dtype, calls: str) -> None:
    compare(nn.Linear(48, 40).to(dtype), torch.randn(8, 48, dtype=dtype), calls=calls)


def called(graph: Callable[..., Any], *args: Any) -> list[str]:
    """The operators outside of kernels that a compiled function calls."""
    with torch.no_grad(), torch.profiler.profile() as profile:
        graph(*args)
    return [event.name for event in profile.events() if "linear" in event.name or "mm" in event.name]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_single_row_is_a_sum(dtype: torch.dtype, bias: bool) -> None:
    layer = nn.Linear(700, 513, bias=bias).to(dtype)
    rows = {"ordinary": torch.randn(1, 700), "large": torch.randn(1, 700) * 1e15, "nan": torch.randn(1, 700)}
    rows["nan"][0, 3], rows["large"][0, 0] = torch.nan, torch.inf
    for row in rows.values():
        compare(layer, row.to(dtype), calls="measured")
    compare(lambda x: F.silu(layer(x * 2)) + x[..., :513], torch.randn(1, 1, 700, dtype=dtype), calls="measured")
    compare(lambda x: layer(x.t()), torch.randn(700, 1, dtype=dtype), calls="measured")
    compiled = onegraph.compile(layer)
    with torch.no_grad():
        compiled(rows["ordinary"].to(dtype))
    assert called(compiled, rows["ordinary"].to(dtype)) == []
    onegraph.reset()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_single_row_is_as_exact_as_in_eager_mode(dtype: torch.dtype) -> None:
    layer, x = nn.Linear(4096, 512, bias=False).to(dtype), torch.randn(1, 4096, dtype=dtype)
    with torch.no_grad():
        exact = F.linear(x.double(), layer.weight.double())
        ours, theirs = (call(x).double() - exact for call in (onegraph.compile(layer), layer))
    assert ours.square().mean() <= 1.05 * theirs.square().mean()
    onegraph.reset()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("count", [2, 3, 4, 8])
def test_few_rows_are_sums(count: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "times", lambda what, ways, *_: {way: 1.0 + (way != "sum") for way in ways})
    layer, tall = nn.Linear(700, 513).to(dtype), nn.Parameter(torch.randn(700, 513, dtype=dtype) / 30)
    columns = nn.Parameter(torch.randn(700, 513, dtype=dtype).t() / 30)
    rows = torch.randn(count, 700, dtype=dtype)
    functions = (layer, lambda x: x @ tall, lambda x: F.linear(x, columns), lambda x: F.gelu(layer(x * 2)) + x[:, :513])
    for function in functions:
        compare(function, rows, calls="measured")
        compiled = onegraph.compile(function)
        with torch.no_grad():
            compiled(rows)
        assert called(compiled, rows) == []
        with torch.no_grad():
            tall.mul_(2)
            torch.testing.assert_close(compiled(rows), function(rows), rtol=1e-2, atol=1e-2 * tall.abs().max().item())
    onegraph.reset()


@pytest.mark.skipif(not multiplies(torch.bfloat16), reason="sums in float32 are faster on any other processor")
def test_few_rows_are_left_to_a_library_that_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = nn.Linear(700, 513).bfloat16(), torch.randn(8, 700, dtype=torch.bfloat16)
    compare(layer, x, calls="measured")
    monkeypatch.setattr(linear, "times", lambda what, ways, *_: {way: 1.0 + (way != "packed") for way in ways})
    compiled = onegraph.compile(layer)
    with torch.no_grad():
        compiled(x)
    assert len(called(compiled, x)) > 0
    onegraph.reset()


def test_other_products_are_no_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "times", lambda what, ways, *_: {way: 1.0 + 9 * (way == "tiles") for way in ways})
    few = nn.Linear(512, 512)
    with torch.no_grad():
        for function, args in (
            (torch.mm, (torch.randn(1, 512), torch.randn(512, 512))),  # of strips, and not to be laid anew in each call
            (few, (torch.randn(9, 512),)),
        ):
            compiled = onegraph.compile(function)
            compiled(*args)
            assert len(called(compiled, *args)) > 0
    onegraph.reset()


@pytest.mark.parametrize("calls", CALLS)
def test_products_that_are_not_quite_linear(calls: str) -> None:
    weight, bias = nn.Parameter(torch.randn(32, 48)), nn.Parameter(torch.randn(48))
    x = torch.randn(8, 32)
    compare(lambda x: torch.addmm(bias, x, weight), x, calls=calls)
    compare(lambda x: torch.addmm(bias, x, weight, beta=2, alpha=0.5), x, calls=calls)
    compare(lambda x: torch.addmm(x @ weight, x, weight), x, calls=calls)
    compare(lambda x: x @ weight[:, ::2], x, calls=calls)
    compare(lambda x: F.linear(x[:, ::2], weight.t()[:, :16]), x, calls=calls)
    compare(lambda x: F.linear(x.t().contiguous().t(), weight.t()), x, calls=calls)
    compare(lambda x: x.expand(8, 32) @ weight, torch.randn(1, 32), calls=calls)
    compare(lambda x: x.to(torch.int64) @ torch.ones(32, 4, dtype=torch.int64), x, calls=calls)


class Network(nn.Module):
    """Convolutions of many kinds, with what stands between them in real networks."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 2, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(16), nn.BatchNorm2d(16), nn.BatchNorm2d(16, affine=False)])
        self.depthwise = nn.Conv2d(16, 16, 5, padding=2, groups=16)
        self.point = nn.Conv2d(16, 16, 1)
        self.dilated = nn.Conv2d(32, 8, 3, padding=2, dilation=2)
        self.last = nn.Conv2d(8, 4, (1, 3), padding="same")
        for norm in self.norms:
            nn.init.uniform_(norm.running_var, 0.5, 2)
            nn.init.normal_(norm.running_mean)
            if norm.affine:
                nn.init.normal_(norm.weight)
                nn.init.normal_(norm.bias)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        a = F.relu(self.norms[0](self.stem(x)))
        pooled = F.max_pool2d(a, 3, 2, 1)
        b = F.hardswish(self.norms[1](self.depthwise(pooled)))
        scale = F.hardsigmoid(self.point(F.adaptive_avg_pool2d(b, 1)))
        c = self.norms[2](self.point(b * scale)) + pooled
        d = self.dilated(torch.cat([c, b], 1))
        e = F.interpolate(self.last(d), scale_factor=2.0)
        return a, c, d.flatten(1), e, e.permute(0, 2, 3, 1), c.reshape(c.shape[0], -1), d[:, 1:3, ::2]


@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_network_of_convolutions(calls: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = Network().eval().to(dtype)
    x = torch.randn(2, 3, 17, 23, dtype=dtype)
    compare(model, x, calls=calls)
    if dtype is torch.float32:
        compare(model, x.contiguous(memory_format=torch.channels_last), calls=calls)
        compare(model, x[:1, :, ::1, :20], calls=calls)


@pytest.mark.parametrize("calls", CALLS)
def test_layouts_that_the_program_can_see(calls: str) -> None:
    """What reads memory, or says an order, finds the one that eager has."""
    layer = nn.Conv2d(3, 4, 1).eval()
    x = torch.randn(1, 3, 5, 6)
    compare(lambda x: layer(x).as_strided((2, 3), (1, 7), 4), x, calls=calls)
    compare(lambda x: layer(x).contiguous(memory_format=torch.channels_last).relu(), x, calls=calls)
    compare(lambda x: layer(x).view(torch.int32), x, calls=calls)
    compare(lambda x: torch.empty_like(layer(x)).fill_(1.0), x, calls=calls)
    compare(lambda x: layer(x).view(-1)[3:9], x, calls=calls)
    compare(lambda x: layer(x).sort(1)[0], x, calls=calls)
    compare(lambda x: layer(x).transpose(1, 2).relu().flatten(), x, calls=calls)


@pytest.mark.parametrize("calls", CALLS)
def test_nan_and_infinity_go_through(calls: str) -> None:
    layers = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.ReLU()).eval()
    x = torch.randn(1, 3, 4, 4)
    x[0, 0, 1, 1], x[0, 1, 2, 2] = float("nan"), float("inf")
    compare(layers, x, calls=calls)


@pytest.mark.parametrize("calls", CALLS)
def test_convolutions_that_stay_as_they_are(calls: str) -> None:
    x = torch.randn(2, 4, 9)
    compare(nn.Conv1d(4, 6, 3, padding=1), x, calls=calls)
    compare(nn.ConvTranspose2d(4, 6, 3, stride=2), x.view(1, 4, 9, 2), calls=calls)
    compare(nn.Conv3d(1, 2, 2), torch.randn(1, 1, 3, 4, 5), calls=calls)
    compare(lambda x, w: F.conv2d(x, w), torch.randn(1, 4, 5, 5), torch.randn(3, 4, 2, 2), calls=calls)
    compare(nn.Conv2d(4, 6, 3).double(), torch.randn(1, 4, 5, 5).double(), calls=calls)
    compare(nn.Conv2d(4, 6, 3), torch.randn(0, 4, 5, 5), calls=calls)


def test_sizes_that_vary_are_left_to_aten() -> None:
    layer = nn.Linear(16, 16)
    compiled = onegraph.compile(layer, dynamic=True, options={"library_calls": "packed"})
    with torch.no_grad():
        for rows in (3, 5, 1, 0):
            x = torch.randn(rows, 16)
            torch.testing.assert_close(compiled(x), layer(x))


# ---- the timing ------------------------------------------------------------------------------------------------------


WAYS = ("one", "two")
NOT_KEPT = Config(cache=False)


def test_a_timing_is_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_KNOWN", {})
    config = Config(cache_dir=tmp_path)
    made: list[int] = []

    def candidates() -> dict[str, Any]:
        made.append(1)
        return {"one": [lambda: None], "two": [lambda: torch.ones(1000), lambda: torch.ones(1000)]}

    found = measure.times("test", WAYS, candidates, config)
    assert measure.times("test", WAYS, candidates, config) is found
    measure._KNOWN.clear()
    assert measure.times("test", WAYS, candidates, config) == found and len(made) == 1
    (file,) = (tmp_path / "times").iterdir()
    assert json.loads(DiskCache(file.parent).load(file.name) or b"") == found
    for other in (
        {},
        {"one": 1.0},
        {"two": 1.0, "one": 2.0},
        {"one": 1, "two": "2"},
        {"one": -1.0, "two": math.nan},
        [],
    ):
        DiskCache(file.parent).store(file.name, json.dumps(other).encode())
        measure._KNOWN.clear()
        made.clear()
        assert [*measure.times("test", WAYS, candidates, config)] == [*WAYS] and len(made) == 1
    made.clear()
    measure._KNOWN.clear()
    measure.times("another", WAYS, candidates, config)
    measure.times("test", WAYS, candidates, config.replace(cache=False))
    assert len(made) == 2


def test_a_timing_whose_repeats_disagree_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under load every round has another winner: what is then found serves this process alone."""
    now, calls = [0.0], {"aten": 0, "packed": 0}

    def run(name: str) -> None:
        calls[name] += 1
        slow = calls[name] % 2 == (name == "aten")
        now[0] += 0.0012 if slow else 0.001

    monkeypatch.setattr(measure, "perf_counter", lambda: now[0])
    monkeypatch.setattr(measure, "thread_time", lambda: now[0])
    monkeypatch.setattr(measure, "_KNOWN", {})
    ways = {name: [partial(run, name)] for name in calls}
    config = Config(cache_dir=tmp_path)
    assert measure.fastest(measure.times("noise", [*ways], lambda: ways, config)) == "aten"
    assert calls["aten"] == 2 + measure.ROUNDS + measure.MORE_ROUNDS
    assert not (tmp_path / "times").exists()


def test_what_cannot_be_done_is_not_chosen() -> None:
    def fail() -> None:
        raise RuntimeError("not for this shape")

    ways = {"aten": [lambda: None], "packed": [fail]}
    assert measure.fastest(measure.times("partly impossible", [*ways], lambda: ways, NOT_KEPT)) == "aten"
    ways["aten"] = [fail]
    assert measure.fastest(measure.times("impossible", [*ways], lambda: ways, NOT_KEPT)) == "aten"


def test_what_is_far_behind_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    spent: dict[str, list[float]] = {"near": [0.001], "nearer": [0.0009], "far": [0.01]}
    now, calls = [0.0], {name: 0 for name in spent}

    def run(name: str) -> None:
        calls[name] += 1
        now[0] += spent[name][0]

    monkeypatch.setattr(measure, "perf_counter", lambda: now[0])
    monkeypatch.setattr(measure, "thread_time", lambda: now[0])
    found = measure.times("far", [*spent], lambda: {name: [partial(run, name)] for name in spent}, NOT_KEPT)
    assert measure.fastest(found) == "nearer"
    assert calls == {"near": 7, "nearer": 7, "far": 3}


def test_an_interruption_does_not_leave_out_the_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine was busy just while the fastest one was looked at for the first time."""
    now, calls = [0.0], {"aten": 0, "onednn": 0}

    def run(name: str) -> None:
        calls[name] += 1
        now[0] += {"aten": 0.001, "onednn": 0.02 if calls[name] == 2 else 0.0005}[name]

    monkeypatch.setattr(measure, "perf_counter", lambda: now[0])
    monkeypatch.setattr(measure, "thread_time", lambda: now[0])
    found = measure.times("interrupted", [*calls], lambda: {name: [partial(run, name)] for name in calls}, NOT_KEPT)
    assert measure.fastest(found) == "onednn"


@pytest.mark.parametrize(("rows", "count"), [(1, measure.COPIES), (128, 2)])
def test_weights_to_time_share_nothing_that_is_made_of_them(rows: int, count: int) -> None:
    weights = measure.copies(torch.full((64, 64), 0.5, dtype=torch.bfloat16), rows)
    assert len(weights) == count
    assert not any(torch.equal(x, y) for x, y in combinations(weights, 2))


def test_products_of_few_rows_are_timed_with_weights_that_no_cache_holds() -> None:
    weight = torch.full((768, 1024), 0.5)
    weights = measure.copies(weight, 1)
    assert len(weights) == measure.COLD // (weight.numel() * weight.element_size())
    runs = {name: 0 for name in range(len(weights))}

    def run(number: int) -> None:
        runs[number] += 1

    measure.times("cold", ["one"], lambda: {"one": [partial(run, number) for number in runs]}, NOT_KEPT)
    assert min(runs.values()) >= 2  # once to prepare, once to measure


@pytest.mark.parametrize("check", ["digest", "watch", "version"])
def test_a_weight_is_not_packed_for_few_rows_where_it_is_read_to_see_whether_it_changed(check: Check) -> None:
    setting = (torch.float32, False, False, True, check)
    assert ("packed" in linear.library_ways((1, 64, 64), *setting)) == (check != "digest")
    assert "packed" in linear.library_ways((128, 64, 64), *setting)


def test_long_sides_are_timed_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = []
    monkeypatch.setattr(linear, "times", lambda what, *_: timed.append(what) or {"aten": 1.0})
    layers = nn.Sequential(nn.Linear(768, 2304), nn.Linear(2304, 3072))
    with torch.no_grad():
        onegraph.compile(layers, options={"library_calls": "measured"})(torch.randn(64, 768))
    onegraph.reset()
    assert ["(64, 768, 1024)" in timed[0], "(64, 1024, 1024)" in timed[1]] == [True, True]


def test_the_programs_modes_do_not_see_the_timing() -> None:
    layer, x = nn.Linear(512, 512), torch.randn(64, 512)
    with torch.no_grad(), torch.device("meta"), torch.autocast("cpu", torch.bfloat16):
        found = onegraph.compile(layer, options={"cache": False, "library_calls": "measured"})(x)
        torch.testing.assert_close(found, layer(x), rtol=2e-2, atol=2e-2)
    onegraph.reset()


def test_only_what_is_clearly_faster_is_chosen() -> None:
    assert measure.fastest({"aten": 1.0, "onednn": 0.97, "packed": 0.99}) == "aten"
    assert measure.fastest({"aten": 1.0, "onednn": 0.9, "packed": 0.8}) == "packed"


def test_the_option_accepts_its_values_only() -> None:
    with pytest.raises(onegraph.InvalidArgument, match="measured"):
        onegraph.compile(lambda x: x, options={"library_calls": "fast"})
