"""Where the processor has no instructions for an element type: products in float32, rounded once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import onegraph
from onegraph.compiler.library import convolution, linear, widened

CASES: dict[str, tuple[Callable[..., Tensor], list[tuple[int, ...]], str]] = {
    "mm": (lambda a, b: (a + 1) @ b, [(6, 48), (48, 40)], "mkldnn::_linear_pointwise"),
    "addmm": (lambda x, w, b: F.linear(x, w, b).relu(), [(6, 48), (40, 48), (40,)], "mkldnn::_linear_pointwise"),
    "bmm": (lambda a, b: a.mul(2) @ b.transpose(1, 2), [(3, 5, 16), (3, 7, 16)], "aten::bmm"),
    "baddbmm": (lambda c, a, b: c.baddbmm(a, b, beta=0.5, alpha=2), [(7,), (3, 5, 16), (3, 16, 7)], "aten::baddbmm"),
    "images": (lambda x, w, b: F.conv2d(x, w, b, 2, 1), [(2, 4, 9, 8), (6, 4, 3, 3), (6,)], "aten::convolution"),
    "signals": (lambda x, w, b: F.conv1d(x, w, b, 2, 1), [(2, 4, 19), (6, 4, 3), (6,)], "aten::convolution"),
    "back": (lambda x, w: F.conv_transpose2d(x, w, None, 2, 1), [(1, 4, 9, 8), (4, 6, 3, 3)], "aten::convolution"),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q + 1, k, v, is_causal=True),
        [(2, 3, 40, 16)] * 3,
        "aten::_scaled_dot_product_flash_attention_for_cpu",
    ),
    "masked": (
        lambda q, k, v, m: F.scaled_dot_product_attention(q + 1, k, v, m * 2),
        [(2, 3, 40, 16), (2, 3, 50, 16), (2, 3, 50, 16), (2, 1, 40, 50)],
        "aten::_scaled_dot_product_flash_attention_for_cpu",
    ),
}


@pytest.fixture(autouse=True)
def without_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bf16", "fp16"):
        monkeypatch.setattr(torch.ops.mkldnn, f"_is_mkldnn_{name}_supported", lambda: False)


def typed_calls(compiled: Callable[..., object], *args: Tensor) -> list[tuple[str, str]]:
    """The operators that are called, each with the element type of its first argument."""
    with torch.profiler.profile(record_shapes=True) as profile:
        compiled(*args)
    # the events of the profiler itself: only a new torch tells types in those of `profile.events()`
    return [(event.name(), event.dtypes()[0]) for event in profile.profiler.kineto_results.events() if event.dtypes()]


def types(compiled: Callable[..., object], *args: Tensor) -> dict[str, str]:
    return dict(typed_calls(compiled, *args))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_as_exact_as_in_eager_mode(name: str, dtype: torch.dtype) -> None:
    function, shapes, expected = CASES[name]
    args = [torch.randn(shape, dtype=dtype) for shape in shapes]
    compiled = onegraph.compile(function, fullgraph=True, options={"library_calls": "onednn", "verify": True})
    found, eager = compiled(*args), function(*args)
    exact = function(*(x.double() for x in args))
    assert found.dtype is dtype and found.stride() == eager.stride()
    assert (found - exact).abs().max() <= (eager - exact).abs().max() * 1.01
    assert types(compiled, *args)[expected] == "float"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_packed_and_folded(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5))
    model, x = model.eval().to(dtype), torch.randn(2, 3, 8, 8, dtype=dtype)
    compiled = onegraph.compile(model, fullgraph=True, options={"library_calls": "packed", "verify": True})
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(x), model(x), rtol=2e-2, atol=2e-2)
        found = types(compiled, x)
        assert found["mkldnn::_convolution_pointwise"] == found["mkldnn::_linear_pointwise"] == "float"
        model[4].weight.mul_(3)  # what was packed is packed again
        torch.testing.assert_close(compiled(x), model(x), rtol=2e-2, atol=2e-2)


def test_only_where_it_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def times(what: str, ways: object, candidates: Callable[[], object], config: object) -> dict[str, float]:
        asked.append(what)
        assert set(candidates()) == {"aten", "wide"}  # type: ignore[call-overload]
        return {"aten": 1.0, "wide": 2.0 if len(asked) == 1 else 0.5}

    monkeypatch.setattr(widened, "times", times)
    a, b, c = (torch.randn(2, n, 5, dtype=torch.bfloat16) for n in (3, 5, 5))
    compiled = onegraph.compile(lambda a, b, c: (a @ b, b @ c), fullgraph=True)
    compiled(a, b, c)
    products = [dtype for name, dtype in typed_calls(compiled, a, b, c) if name == "aten::bmm"]
    assert products == ["c10::BFloat16", "float"] and len(asked) == 2


def test_what_takes_seconds_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    def times(*_: object) -> None:
        raise AssertionError("timed")

    monkeypatch.setattr(convolution, "times", times)
    monkeypatch.setattr(linear, "times", times)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36 * 36, 500)).bfloat16()
    x = torch.randn(9, 3, 38, 38, dtype=torch.bfloat16)
    compiled = onegraph.compile(model, fullgraph=True, options={"raise_compiler_errors": True})
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), rtol=2e-2, atol=2e-2)
        found = types(compiled, x)
    assert found["mkldnn::_convolution_pointwise"] == found["mkldnn::_linear_pointwise"] == "float"
