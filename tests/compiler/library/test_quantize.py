"""The option `quantize`: products with parameters in 8-bit integers, how far off they are, and what stays in float."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from capture.kept.children import in_child, listening
from torch import Tensor, nn

import onegraph
from onegraph.base.config import Config
from onegraph.base.events import ProductsQuantized, QuantizedProduct
from onegraph.compile import EVENTS

DYNAMIC, WEIGHTS = "int8-dynamic", "int8-weights"
WAYS = ("packed", "aten", "tiles")  # oneDNN, aten, and sums for few rows: without a timing


@pytest.fixture(autouse=True)
def _anew() -> Iterator[None]:
    torch.manual_seed(0)
    with torch.no_grad():
        yield
    onegraph.reset()


@contextmanager
def told() -> Iterator[list[ProductsQuantized]]:
    found: list[ProductsQuantized] = []
    stop = EVENTS.subscribe(lambda event: found.append(event) if isinstance(event, ProductsQuantized) else None)
    try:
        yield found
    finally:
        stop()


def compiled(model: Any, quantize: str = DYNAMIC, calls: str = "packed", **settings: Any) -> Any:
    options = {"quantize": quantize, "library_calls": calls, **settings.pop("options", {})}
    return onegraph.compile(model, options=options, **settings)


def off(found: Tensor, expected: Tensor) -> float:
    """The relative error."""
    assert found.shape == expected.shape and found.dtype is expected.dtype and found.stride() == expected.stride()
    return float((found - expected).double().norm() / expected.double().norm())


def in_integers(events: list[ProductsQuantized]) -> list[QuantizedProduct]:
    return [product for event in events for product in event.products if not product.why]


def mlp(dtype: torch.dtype = torch.float32) -> nn.Module:
    return nn.Sequential(nn.Linear(128, 192), nn.GELU(), nn.Linear(192, 96, bias=False), nn.LayerNorm(96)).to(dtype)


class Attention(nn.Module):
    """A block of an encoder or a decoder: three products of one tensor, attention, two layers behind it."""

    def __init__(self, causal: bool, width: int = 128, heads: int = 4) -> None:
        super().__init__()
        self.causal, self.heads = causal, heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.before, self.behind = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        near = self.before(x)
        q, k, v = (f(near).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.behind(x)), approximate="tanh"))


class Tall(nn.Module):
    """Weights whose rows are summed over, as those of GPT-2."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(128, 96) / 12), nn.Parameter(torch.randn(96))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x, self.weight).relu()


class Tied(nn.Module):
    """One weight is the table of the embedding and the head."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.block = nn.Embedding(100, 128), Attention(causal=True)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.block(self.table(tokens)) @ self.table.weight.t()


# ---- results ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("calls", [*WAYS, "measured"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_layers(rows: int, dtype: torch.dtype, calls: str) -> None:
    model, x = mlp(dtype), torch.randn(rows, 128, dtype=dtype)
    with told() as events:
        found = compiled(model, calls=calls, fullgraph=True)(x)
    assert off(found, model(x)) < 0.03
    if calls != "measured":
        assert [each.sizes for each in in_integers(events)] == [(rows, 128, 192), (rows, 192, 96)]
        assert all(0 < each.error < 0.02 for each in in_integers(events))


def by_hand(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The arithmetic as the documentation has it."""
    scales = [each.abs().amax(1, keepdim=True) / 127 for each in (x, weight)]
    codes = [torch.round(each / scale) for each, scale in zip((x, weight), scales, strict=True)]
    return (codes[0].double() @ codes[1].double().t() * scales[0] * scales[1].t() + bias).float()


@pytest.mark.parametrize("calls", ["packed", "aten"])
def test_the_arithmetic_is_that_of_the_documentation(calls: str) -> None:
    layer, x = nn.Linear(256, 64), torch.randn(32, 256)
    torch.testing.assert_close(compiled(layer, calls=calls)(x), by_hand(x, layer.weight, layer.bias))


@pytest.mark.parametrize("calls", WAYS)
def test_blocks(calls: str) -> None:
    x = torch.randn(2, 10, 128)
    for model in (Attention(causal=False), Attention(causal=True)):
        with told() as events:
            assert off(compiled(model, calls=calls, fullgraph=True)(x), model(x)) < 0.02
        assert len(in_integers(events)) == 6


@pytest.mark.parametrize("calls", WAYS)
def test_weights_whose_rows_are_summed_over(calls: str) -> None:
    model = Tall()
    for rows in (2, 20):
        x = torch.randn(rows, 128)
        assert off(compiled(model, calls=calls)(x), model(x)) < 0.02


def test_a_weight_in_two_places() -> None:
    model, tokens = Tied(), torch.randint(100, (2, 9))
    with told() as events:
        assert off(compiled(model)(tokens), model(tokens)) < 0.03
    assert len(in_integers(events)) == 7


def test_what_several_products_take_is_rounded_once() -> None:
    model, x = Attention(causal=False), torch.randn(2, 10, 128)
    report = onegraph.explain(compiled(model), x)
    assert len(in_integers(list(report.quantized))) == 6
    assert sum(call.count for call in report.library_calls if "qlinear" in call.operator) == 6


@pytest.mark.parametrize("calls", WAYS)
def test_rows_that_vary(calls: str) -> None:
    model = mlp()
    run = compiled(model, calls=calls, dynamic=True)
    for rows in (9, 40, 2, 1, 300):
        x = torch.randn(rows, 128)
        assert off(run(x), model(x)) < 0.03


def test_graphs_around_a_break() -> None:
    first, second = nn.Linear(128, 128), nn.Linear(128, 64)

    def broken(x: Tensor) -> Tensor:
        x = first(x)
        print(end="")
        return second(x)

    x = torch.randn(20, 128)
    with told() as events:
        assert off(compiled(broken)(x), second(first(x))) < 0.03
    assert [each.sizes for each in in_integers(events)] == [(20, 128, 128), (20, 128, 64)]


@pytest.mark.parametrize("calls", WAYS)
def test_autocast_takes_the_integers_of_the_parameter(calls: str) -> None:
    model, x = mlp(), torch.randn(20, 128)
    with told() as events, torch.autocast("cpu", torch.bfloat16):
        assert off(compiled(model, calls=calls)(x), model(x)) < 0.03
    assert [each.parameter for each in in_integers(events)] == ["self_0_weight", "self_2_weight"]


def test_inference_mode() -> None:
    model, x = mlp(), torch.randn(20, 128)
    expected = model(x)
    with told() as events, torch.inference_mode():
        assert off(compiled(model)(x), expected) < 0.03
    assert len(in_integers(events)) == 2


# ---- weights alone ---------------------------------------------------------------------------------------------------


def test_weights_alone_are_for_few_rows() -> None:
    model = mlp()
    for rows in (1, 8, 9):
        x = torch.randn(rows, 128)
        with told() as events:
            found = compiled(model, WEIGHTS)(x)
        if rows > 8:
            assert torch.equal(found, onegraph.compile(model, options={"library_calls": "packed"})(x))
            assert [each.why.partition(" rows")[0] for each in events[0].products] == ["it has more than 8"] * 2
        else:
            assert 0 < off(found, model(x)) < 0.02
            assert len(in_integers(events)) == 2
        onegraph.reset()


def test_weights_alone_leave_the_other_factor_as_it_is() -> None:
    layer, x = nn.Linear(128, 64), torch.randn(2, 128)
    scales = layer.weight.abs().amax(1, keepdim=True) / 127
    near = torch.round(layer.weight / scales) * scales
    torch.testing.assert_close(compiled(layer, WEIGHTS)(x), x @ near.t() + layer.bias)


# ---- parameters ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("checked", ["watch_parameters", "freeze_parameters", "neither"])
@pytest.mark.parametrize("calls", ["packed", "aten"])
def test_parameters_that_change_are_followed(calls: str, checked: str) -> None:
    model, x = mlp(), torch.randn(20, 128)
    run = compiled(model, calls=calls, options={n: n == checked for n in ("watch_parameters", "freeze_parameters")})
    for _ in range(3):
        assert off(run(x), model(x)) < 0.03
        model[0].weight.mul_(-2)
        model[2].weight = nn.Parameter(torch.randn(96, 192))
        assert off(run(x), model(x)) < 0.03
        if checked != "freeze_parameters":
            model[0].weight.data.neg_()


def test_modules_that_share_a_graph_have_their_own_weights() -> None:
    x = torch.randn(20, 128)
    for model in (mlp(), mlp(), copy.deepcopy(mlp())):
        assert off(compiled(model, options={"share_versions": True})(x), model(x)) < 0.03


# ---- what stays in float ---------------------------------------------------------------------------------------------


def test_graphs_that_record_gradients_are_as_they_were() -> None:
    model, x = mlp(), torch.randn(20, 128)
    plain = copy.deepcopy(model)
    with told() as events, torch.enable_grad():
        found = compiled(model)(x)
        found.square().sum().backward()
        expected = plain(x)
        expected.square().sum().backward()
    torch.testing.assert_close(found, expected)
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-4)
    assert [event.reason for event in events] == ["it records gradients"]


@pytest.mark.parametrize("calls", ["packed", "aten"])
def test_a_product_that_would_be_far_off_stays_and_is_named(calls: str) -> None:
    model, x = mlp(), torch.randn(20, 128)
    model[0].weight[:, 5] = 1e4  # all else in its column of the result is rounded to nothing
    x[:, 5] = 0
    with told() as events:
        found = compiled(model, calls=calls)(x)
    far, near = events[0].products
    assert far.parameter.endswith("0_weight") and far.error > 0.5 and far.why == "more than 5% off"
    assert not near.why
    assert off(found, model(x)) < 0.03


def test_what_is_no_number_stays() -> None:
    model, x = mlp(), torch.randn(20, 128)
    x[3, 4] = torch.nan
    with told() as events:
        torch.testing.assert_close(compiled(model)(x), model(x), equal_nan=True)
    assert [each.error for each in events[0].products] == [torch.inf, torch.inf]


def test_other_factors_stay() -> None:
    """Only parameters are known to change rarely."""
    x, y = torch.randn(20, 128), torch.randn(128, 64)
    with told() as events:
        torch.testing.assert_close(compiled(torch.mm)(x, y), x @ y)
    assert events == []


def test_a_graph_that_does_more_than_compute_is_not_run_twice() -> None:
    calls: list[int] = []

    @torch.library.custom_op("quantize_test::counted", mutates_args=())
    def counted(x: Tensor) -> Tensor:
        calls.append(1)
        return x.clone()

    @counted.register_fake
    def _(x: Tensor) -> Tensor:
        return torch.empty_like(x)

    model, x = mlp(), torch.randn(20, 128)
    with told() as events:
        found = compiled(lambda x: counted(model(x)))(x)
    torch.testing.assert_close(found, model(x))
    assert len(calls) == 1
    assert events[0].reason == "it calls quantize_test.counted.default, which may do more than compute"


def test_random_numbers_are_drawn_once() -> None:
    model = nn.Sequential(nn.Linear(128, 128), nn.Dropout(0.5)).train()
    x, state = torch.randn(20, 128), torch.get_rng_state()
    expected, behind = model(x), torch.get_rng_state()
    torch.set_rng_state(state)
    with told() as events:
        found = compiled(model)(x)
    assert torch.equal(torch.get_rng_state(), behind)
    assert off(found, expected) < 0.03
    assert len(in_integers(events)) == 1


def test_inputs_are_written_once() -> None:
    layer, x, total = nn.Linear(128, 64), torch.randn(20, 128), torch.zeros(20, 64)

    def step(x: Tensor, total: Tensor) -> Tensor:
        total += layer(x)
        return total + 1

    with told() as events:
        compiled(step)(x, total)
    assert len(in_integers(events)) == 1
    assert off(total, layer(x)) < 0.02


# ---- numbers at the edges --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("calls", ["packed", "aten"])
@pytest.mark.parametrize("what", [torch.nan, torch.inf, -torch.inf])
def test_a_row_with_what_is_no_number_gives_nan(what: float, calls: str) -> None:
    layer = nn.Linear(128, 64)
    run = compiled(layer, calls=calls)
    x = torch.randn(20, 128)
    run(x)
    x[3, 4] = what
    found = run(x)
    assert found[3].isnan().all()
    rest = torch.arange(20) != 3
    assert off(found[rest], layer(x)[rest]) < 0.02


@pytest.mark.parametrize("calls", WAYS)
def test_rows_of_any_size(calls: str) -> None:
    layer = nn.Linear(128, 64, bias=False)
    for rows in (4, 20):
        run = compiled(layer, calls=calls)
        x = torch.randn(rows, 128)
        run(x)
        x[0], x[1], x[2], x[3] = 0, x[1] * 1e-30, x[2] * 1e30, x[3] * 1e-41
        found, expected = run(x), layer(x)
        assert torch.equal(found[0], torch.zeros(64))
        assert off(found[1] * 1e30, expected[1] * 1e30) < 0.02 and off(found[2] / 1e30, expected[2] / 1e30) < 0.02
        assert (found[3] - expected[3]).abs().amax() < 1e-38
        onegraph.reset()


def test_columns_of_a_weight_of_any_size() -> None:
    layer, x = nn.Linear(128, 8, bias=False), torch.randn(20, 128)
    run = compiled(layer)
    run(x)
    layer.weight[0], layer.weight[1] = 0, layer.weight[1] * 1e30
    layer.weight[2, 3], layer.weight[3, 3] = torch.nan, torch.inf
    found, expected = run(x), layer(x)
    assert torch.equal(found[:, 0], torch.zeros(20)) and off(found[:, 1] / 1e30, expected[:, 1] / 1e30) < 0.02
    assert found[:, 2:4].isnan().all() and off(found[:, 4:], expected[:, 4:]) < 0.02


def test_no_rows() -> None:
    model = mlp()
    run = compiled(model, dynamic=True)
    run(torch.randn(20, 128))
    assert run(torch.randn(0, 128)).shape == (0, 96)


# ---- what is told, and kept ------------------------------------------------------------------------------------------


def test_explain_has_the_errors() -> None:
    model, x = mlp(), torch.randn(20, 128)
    report = onegraph.explain(compiled(model))(x)
    assert [len(each.products) for each in report.quantized] == [2]
    assert "int8-dynamic: 2 of 2 products with parameters in integers, relative error" in str(report)
    assert "0_weight, 20 x 128 x 192, relative error " in str(report)
    assert onegraph.explain(model)(x).quantized == ()


def test_other_values_are_refused() -> None:
    accepted = "'int8-dynamic', 'int8-weights', 'int4-weights' or None"
    with pytest.raises(onegraph.InvalidArgument, match=f"option 'quantize' expects {accepted}, got 'int4'"):
        onegraph.compile(mlp(), options={"quantize": "int4"})
    with pytest.raises(onegraph.InvalidArgument, match=f"ONEGRAPH_QUANTIZE='int4' is not .*: expected {accepted}"):
        Config.from_environment({"ONEGRAPH_QUANTIZE": "int4"})
    assert Config.from_environment({"ONEGRAPH_QUANTIZE": WEIGHTS}).quantize == WEIGHTS
    assert Config.from_environment({"ONEGRAPH_QUANTIZE": ""}).quantize is None


def run_in_folder(folder: Path, quantize: str | None) -> tuple[list[str], float]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    said, model, x = listening(), mlp(), torch.randn(20, 128)
    options = {"verify": False, "cache_dir": folder, "library_calls": "packed", "quantize": quantize}
    with torch.no_grad():
        return said, off(onegraph.compile(model, options=options)(x), model(x))


def test_captures_with_integers_are_not_kept(tmp_path: Path) -> None:
    """Their errors are those of the weights of one process."""
    for quantize, told, least in (
        (DYNAMIC, "CaptureUnkept", 1e-3), (None, "CaptureKept", 0.0), (DYNAMIC, "CaptureUnkept", 1e-3),
        (None, "CaptureLoaded", 0.0), (WEIGHTS, "CaptureKept", 0.0), (WEIGHTS, "CaptureLoaded", 0.0),
    ):  # fmt: skip
        said, error = in_child(run_in_folder, tmp_path, quantize)
        assert said == [told] and least <= error < (0.03 if least else 1e-5)


def saved(folder: Path) -> str:
    torch.set_num_threads(1)
    model, x = mlp(), torch.randn(20, 128)
    options = {"verify": False, "cache_dir": folder, "library_calls": "packed", "quantize": DYNAMIC}
    run = onegraph.compile(model, options=options)
    with torch.no_grad():
        run(x)
    try:
        onegraph.save(run, folder / "saved")
    except onegraph.SaveError as error:
        return str(error)
    return ""


def test_integers_are_not_written_to_files(tmp_path: Path) -> None:
    assert "was measured for these weights" in in_child(saved, tmp_path)
    size = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file() and "objects" not in path.parts)
    assert size < 128 * 192  # the integers of the larger weight
