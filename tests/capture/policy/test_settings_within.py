"""Settings of torch that compiled code changes: within its graph, and behind it, as eager does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import onegraph

Program = Callable[[torch.Tensor], Any]


def seen() -> Any:
    return (
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.benchmark,
        torch.backends.mkldnn.enabled,
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.is_autocast_cache_enabled(),
        torch._C._len_torch_function_stack(),
    )


@pytest.fixture(autouse=True)
def unchanged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Some of torch's own test tools lock its flags for the whole process.
    monkeypatch.setitem(torch.backends.flags_frozen.__globals__, "__allow_nonbracketed_mutation_flag", True)
    yield
    reset()


def reset() -> None:
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.benchmark = False
    torch.backends.mkldnn.enabled = True  # type: ignore[assignment]
    torch.set_autocast_enabled("cpu", False)
    torch.set_autocast_dtype("cpu", torch.bfloat16)
    torch.set_autocast_cache_enabled(True)


def default_dtype(x: torch.Tensor) -> Any:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    y, inside = torch.zeros(3) + x, torch.get_default_dtype()
    torch.set_default_dtype(before)
    return y, inside, torch.ones(2), torch.get_default_dtype()


def default_device(x: torch.Tensor) -> Any:
    torch.set_default_device("meta")
    y, inside = torch.zeros(3), torch.get_default_device()
    torch.set_default_device(None)
    with torch.device("cpu"):
        z = torch.ones(3) + x
    return y.device, inside, z, torch.get_default_device()


def determinism(x: torch.Tensor) -> Any:
    torch.use_deterministic_algorithms(True, warn_only=True)
    y, inside = torch.empty(3), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
    return y, inside, x.sin(), torch.are_deterministic_algorithms_enabled()


def precision(x: torch.Tensor) -> Any:
    torch.set_float32_matmul_precision("high")
    y, inside = x @ x, torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    return y, inside, torch.get_float32_matmul_precision()


def flags(x: torch.Tensor) -> Any:
    torch.backends.cudnn.benchmark = True
    with torch.backends.mkldnn.flags(enabled=False):  # type: ignore[attr-defined]
        y = x @ x
    inside = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = False
    return y, inside


def autocast(x: torch.Tensor) -> Any:
    torch.set_autocast_dtype("cpu", torch.float16)
    torch.set_autocast_enabled("cpu", True)
    y, inside = x @ torch.eye(3), (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"))
    torch.set_autocast_enabled("cpu", False)
    torch.set_autocast_dtype("cpu", torch.bfloat16)
    return y, inside, x @ x


def leaving(x: torch.Tensor) -> Any:
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("cpu")
    torch.use_deterministic_algorithms(True)
    torch.set_float32_matmul_precision("medium")
    torch.set_autocast_dtype("cpu", torch.float16)
    return torch.zeros(3) + x, x + 1


def leaving_alone(x: torch.Tensor) -> Any:
    torch.set_default_dtype(torch.float64)
    torch.use_deterministic_algorithms(True)


WHOLE: list[Program] = [
    default_dtype, default_device, determinism, precision, flags, autocast, leaving, leaving_alone
]  # fmt: skip


def broken(x: torch.Tensor) -> Any:
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    y = torch.zeros(3)
    onegraph.graph_break()
    z, inside = torch.zeros(2), seen()
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    return y.dtype, y.device, z.dtype, z.device, inside, torch.ones(3) + x


def raising(x: torch.Tensor) -> Any:
    torch.set_default_dtype(torch.float64)
    y = torch.zeros(3) + x
    torch.use_deterministic_algorithms(True)
    raise ValueError(y.dtype)


def failing(x: torch.Tensor) -> Any:
    """An operator that fails for what its inputs hold: the program handles that, in the state that it is in then."""
    torch.set_default_dtype(torch.float64)
    torch.set_float32_matmul_precision("high")
    try:
        y = torch.arange(3.0)[(x * 0).long() + 7]
    except IndexError:
        y = torch.ones(2)
    return y, seen()


def in_autocast(x: torch.Tensor) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        torch.set_autocast_enabled("cpu", False)
        y = x @ x
    return y, torch.is_autocast_enabled("cpu"), x @ x


IN_PIECES: list[Program] = [broken, raising, failing, in_autocast]


@pytest.mark.parametrize("recorded", [False, True], ids=["", "gradients"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("program", WHOLE + IN_PIECES, ids=lambda program: program.__name__)
def test_settings_are_eagers(program: Program, backend: str, recorded: bool) -> None:
    compiled = onegraph.compile(program, backend=backend, fullgraph=program in WHOLE, options={"check_unchanged": True})
    found: list[Any] = []
    for function in (program, compiled, compiled):
        reset()
        torch.manual_seed(0)
        x = torch.randn(3, 3, requires_grad=recorded)
        try:
            result = function(x)
        except ValueError as error:
            result = error.args
        state = seen()
        reset()
        results = [each for each in result or () if isinstance(each, torch.Tensor) and each.requires_grad]
        if results:
            sum(each.sum() for each in results).backward()  # type: ignore[union-attr]
        others = [each for each in result or () if not isinstance(each, torch.Tensor)]
        found.append(([each for each in result or () if isinstance(each, torch.Tensor)], x.grad, others, state))
    for tensors, gradient, others, state in found[1:]:
        torch.testing.assert_close((tensors, gradient), found[0][:2], equal_nan=True)
        assert (others, state) == found[0][2:]


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_another_state_around_the_call_is_another_version(backend: str) -> None:
    compiled = onegraph.compile(default_dtype, backend=backend, fullgraph=True)
    for dtype in (torch.float32, torch.float16, torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        result = compiled(torch.ones(3))
        assert result[0].dtype is torch.float64 and result[2].dtype is dtype and result[3] is dtype


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_what_is_put_back_is_what_was_there(backend: str) -> None:
    def program(x: torch.Tensor) -> Any:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        y = x @ x
        torch.set_float32_matmul_precision(before)
        return y, before

    compiled = onegraph.compile(program, backend=backend, fullgraph=True)
    for precision_now in ("highest", "medium", "highest", "high"):
        torch.set_float32_matmul_precision(precision_now)
        assert compiled(torch.ones(2, 2))[1] == precision_now == torch.get_float32_matmul_precision()


def test_operators_run_in_what_was_chosen() -> None:
    def program(x: torch.Tensor) -> Any:
        torch.use_deterministic_algorithms(True)
        y = torch.empty(4)
        torch.use_deterministic_algorithms(False)
        return y + x

    for backend in ("eager", "aot_eager", "native"):
        assert onegraph.compile(program, backend=backend, fullgraph=True)(torch.ones(4)).isnan().all()


@pytest.mark.parametrize("chosen", ["cpu", "meta"])
@pytest.mark.parametrize("around", ["cpu", "meta"])
@pytest.mark.parametrize("before", [None, "cpu", "meta"])
def test_a_default_device_within_one_that_is_entered(before: str | None, around: str, chosen: str) -> None:
    def program(x: torch.Tensor) -> Any:
        torch.set_default_device(chosen)
        y = torch.zeros(2)
        torch.set_default_device(None)
        return y.device, torch.zeros(2).device, torch.get_default_device(), x.shape

    compiled = onegraph.compile(program, backend="eager")
    for _ in range(2):
        x = torch.ones(2, device="cpu")
        assert compiled(x) == program(x)
        with torch.device(around):
            torch.set_default_device(before)
            found = compiled(x)
            torch.set_default_device(before)
            assert found == program(x)
