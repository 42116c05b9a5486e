"""Settings of torch: what compiled code sets is set in each call, and what it is told is what is set then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import onegraph
from onegraph.torchlib.attention import ATTENTION_CHOICES
from tests.capture.resume.test_breaks import Watch

Setting = tuple[Callable[[Any], None], Callable[[], Any], Any]


def set_benchmark(value: bool) -> None:
    torch.backends.cudnn.benchmark = value


#: What sets it, what tells it, and another value.
SETTINGS: dict[str, Setting] = {
    "anomalies": (torch.set_anomaly_enabled, torch.is_anomaly_enabled, True),
    "threads": (torch.set_num_threads, torch.get_num_threads, torch.get_num_threads() + 1),
    "warnings": (torch.set_warn_always, torch.is_warn_always_enabled, True),
    "determinism": (torch._C._set_deterministic_algorithms, torch.are_deterministic_algorithms_enabled, True),
    "autocast": (
        lambda value: torch.set_autocast_enabled("cpu", value),
        lambda: torch.is_autocast_enabled("cpu"),
        True,
    ),
    "autocast dtype": (
        lambda value: torch.set_autocast_dtype("cpu", value),
        lambda: torch.get_autocast_dtype("cpu"),
        torch.float16,
    ),
    "autocast cache": (torch.set_autocast_cache_enabled, torch.is_autocast_cache_enabled, False),
    "precision": (torch.set_float32_matmul_precision, torch.get_float32_matmul_precision, "high"),
    "oneDNN": (torch._C._set_mkldnn_enabled, torch._C._get_mkldnn_enabled, False),
    "attention": (torch.backends.cuda.enable_flash_sdp, torch.backends.cuda.flash_sdp_enabled, False),
    "a property": (set_benchmark, lambda: torch.backends.cudnn.benchmark, True),
    "view replay": (torch._C._set_view_replay_enabled, torch._C._is_view_replay_enabled, True),
    "gradients": (torch._C._set_grad_enabled, torch.is_grad_enabled, False),
}


@pytest.fixture
def setting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setting]:
    # Some of torch's own test tools lock its flags for the whole process.
    monkeypatch.setitem(torch.backends.flags_frozen.__globals__, "__allow_nonbracketed_mutation_flag", True)
    put, tell, other = SETTINGS[request.param]
    before = tell()
    yield put, tell, other
    put(before)


@pytest.mark.parametrize("setting", list(SETTINGS), indirect=True)
def test_what_is_set_and_told(setting: Setting) -> None:
    put, tell, other = setting
    before = tell()
    putting = onegraph.compile(lambda x, value: (put(value), x + 1)[1], backend="eager")
    telling = onegraph.compile(lambda x: (x + 1, tell())[1], backend="eager")
    for value in (before, other, other, before, other):
        putting(torch.ones(2), value)
        assert tell() == value
        assert telling(torch.ones(2)) == value


def test_contexts_of_settings_end_as_they_began() -> None:
    def program(x: torch.Tensor) -> Any:
        with torch.autograd.set_detect_anomaly(True), sdpa_kernel(SDPBackend.MATH):
            y = torch.nn.functional.scaled_dot_product_attention(x, x, x)
            inside = torch.is_anomaly_enabled(), torch.backends.cuda.flash_sdp_enabled()
        return y, inside, torch.is_anomaly_enabled(), torch.backends.cuda.flash_sdp_enabled()

    x = torch.ones(1, 2, 4, 8)
    compiled = onegraph.compile(program, backend="eager")
    for _ in range(3):
        torch.testing.assert_close(compiled(x), program(x))
        assert not torch.is_anomaly_enabled() and torch.backends.cuda.flash_sdp_enabled()


def attention_flags() -> Any:
    return [ask() for ask in ATTENTION_CHOICES.values()]


def attend(x: torch.Tensor, backends: Any) -> Any:
    with sdpa_kernel(backends, set_priority=True):
        inside = torch.nn.functional.scaled_dot_product_attention(x, x, x), attention_flags()
    return inside, torch.nn.functional.scaled_dot_product_attention(x, x, x), attention_flags()


def attend_and_break(x: torch.Tensor, backends: Any) -> Any:
    with sdpa_kernel(backends):
        y = torch.nn.functional.scaled_dot_product_attention(x, x, x)
        onegraph.graph_break()
        return torch.nn.functional.scaled_dot_product_attention(y, y, y), attention_flags()


def attend_and_raise(x: torch.Tensor, backends: Any) -> Any:
    try:
        with sdpa_kernel(backends):
            raise ValueError(attention_flags())
    except ValueError as error:
        return x + 1, error.args, attention_flags()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("program", [attend, attend_and_break, attend_and_raise])
def test_kernels_of_attention_are_chosen_within_a_graph(program: Any, backend: str) -> None:
    compiled = onegraph.compile(program, backend=backend, fullgraph=program is not attend_and_break)
    before = attention_flags()
    for backends in (SDPBackend.MATH, [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], SDPBackend.MATH):
        x = torch.randn(1, 2, 4, 8, requires_grad=backend != "eager")
        for _ in range(2):
            torch.testing.assert_close(compiled(x, backends), program(x, backends))
            assert attention_flags() == before


def test_the_kernel_that_is_chosen_is_the_one_that_runs() -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(SDPBackend.MATH):
            return torch.nn.functional.scaled_dot_product_attention(x, x, x)

    x = torch.randn(1, 2, 4, 8)
    compiled = onegraph.compile(run, backend="aot_eager", fullgraph=True)
    compiled(x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        compiled(x)
    names = {event.key for event in profiler.key_averages()}
    assert "aten::_softmax" in names and not any("flash" in name for name in names)


def test_an_order_of_kernels_that_changes_is_followed() -> None:
    order = torch._C._get_sdp_priority_order()

    def program(x: torch.Tensor, order: list[int]) -> Any:
        torch._C._set_sdp_priority_order(order)
        return x + 1, torch._C._get_sdp_priority_order()

    compiled = onegraph.compile(program, backend="eager", fullgraph=True)
    try:
        for wanted in (order, [*order[1:], order[0]], order[::-1], order):
            assert compiled(torch.ones(2), wanted)[1] == wanted == torch._C._get_sdp_priority_order()
    finally:
        torch._C._set_sdp_priority_order(order)


def test_the_state_of_gradients_alone_makes_no_graph() -> None:
    def switched(final):
        for _ in range(5):
            torch._C._set_grad_enabled(False)
            torch._C._set_grad_enabled(True)
        torch.set_grad_enabled(final)
        return 1

    compiled = onegraph.compile(switched, fullgraph=True)
    with Watch() as watch:
        for final in (False, True, False, True):
            assert compiled(final) == 1
            assert torch.is_grad_enabled() is final
            torch.set_grad_enabled(True)
    assert not watch.graphs
