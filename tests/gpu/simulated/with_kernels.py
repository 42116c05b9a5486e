"""From a program on a device to kernels that it launches, through every stage, beside eager mode on that device."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gpu.driver import StandIn
from gpu.simulated import kernels
from torch import Tensor, nn

import onegraph
from onegraph.base.events import DiskSearched, LaunchedOneByOne
from onegraph.compile import EVENTS
from onegraph.compiler import cuda
from onegraph.compiler.triton import cubins

driver = kernels.driver  # a fixture


def launched(driver: StandIn, function: Callable[..., Any], *inputs: Any) -> list[str]:
    """The kernels that a compiled call launches, whose results are eager's."""
    compiled = onegraph.compile(function, fullgraph=True)
    expected = function(*inputs)
    driver.forget()
    torch.testing.assert_close(compiled(*inputs), expected)
    return [each.kernel.rpartition("_")[0] for each in driver.launches()]


def test_a_gelu_over_a_sum(driver: StandIn) -> None:
    x, y = torch.randn(33, 70, device="cuda"), torch.randn(33, 70, device="cuda")
    assert launched(driver, lambda x, y: F.gelu(x + y), x, y) == ["add_gelu"]


def test_its_gradients(driver: StandIn) -> None:
    def trained(function: Callable[..., Tensor]) -> list[Tensor]:
        torch.manual_seed(0)
        x, y = (torch.randn(33, 70, device="cuda", requires_grad=True) for _ in range(2))
        loss = function(x, y)
        loss.backward(torch.ones_like(loss))
        return [loss, x.grad, y.grad]

    def function(x: Tensor, y: Tensor) -> Tensor:
        return F.gelu(x + y)

    expected = trained(function)
    driver.forget()
    torch.testing.assert_close(trained(onegraph.compile(function, fullgraph=True)), expected)
    assert len(driver.launches()) == 2


def test_a_softmax(driver: StandIn) -> None:
    assert len(launched(driver, lambda x: torch.softmax(x * 2, -1), torch.randn(9, 100, device="cuda"))) == 1


def test_a_linear_layer_with_what_is_around_it(driver: StandIn) -> None:
    layer = nn.Linear(20, 30, device="cuda")
    found = launched(driver, lambda x: F.relu(layer(x + 1)) * 2, torch.randn(7, 20, device="cuda"))
    assert found == ["add", "lt_where_mul"]


def test_a_training_step(driver: StandIn) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)).cuda()
    other = copy.deepcopy(model)
    x, y = torch.randn(16, 20, device="cuda"), torch.randint(0, 4, (16,), device="cuda")

    def steps(model: nn.Module, forward: Callable[..., Tensor]) -> list[Tensor]:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = F.cross_entropy(forward(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return losses

    expected = steps(other, other)
    driver.forget()
    torch.testing.assert_close(steps(model, onegraph.compile(model, fullgraph=True)), expected)
    assert len(driver.launches()) >= 6
    for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_numbers_of_the_cpu_and_sizes_that_change(driver: StandIn) -> None:
    compiled = onegraph.compile(lambda x, factor: (x * factor).sum(1), dynamic=True)
    for rows in (3, 40, 7):
        x, factor = torch.randn(rows, 50, device="cuda"), torch.tensor(1.5)
        torch.testing.assert_close(compiled(x, factor), (x * factor).sum(1))


def test_tables_that_a_lowering_makes_lie_on_the_device(driver: StandIn) -> None:
    for device in ("cuda:0", "cuda:1"):
        x = torch.randn(2, 3, 6, 7, device=device)
        assert launched(driver, lambda x: F.interpolate(x, size=(9, 4), mode="bicubic"), x)
        assert launched(driver, lambda x: F.interpolate(x, size=(9, 4), mode="bilinear", antialias=True), x)


def test_the_second_device(driver: StandIn) -> None:
    x = torch.randn(64, device="cuda:1")
    launched(driver, lambda x: x.sin() + 1, x)
    compiled = onegraph.compile(lambda x: x.sin() + 1)
    for device in ("cuda:0", "cpu", "cuda:1"):
        found = compiled(x.to(device))
        assert found.device == torch.device(device)
        torch.testing.assert_close(found, x.to(device).sin() + 1)


def test_views_that_begin_anywhere(driver: StandIn) -> None:
    """The stand-in holds kernels that read four elements at once to addresses that are multiples of 16 bytes."""
    x = torch.randn(10, 70, device="cuda")
    launched(driver, lambda x: x[1:] * 2 + x[:-1], x)
    launched(driver, lambda x: torch.cat([x[:, 1:] * 2, x[:, 3:].sin()], 1), x)
    compiled = onegraph.compile(lambda x, y: x.sin() + y)
    flat, images = torch.randn(100, device="cuda"), set()
    for begin, other in [(0, 0), (1, 0), (0, 3), (4, 8), (7, 7)]:
        driver.forget()
        a, b = flat[begin : begin + 64], flat[other : other + 64]
        torch.testing.assert_close(compiled(a, b), a.sin() + b)
        images |= {each.kernel for each in driver.launches()}
    assert len(images) == 1
    half = torch.randn(65, device="cuda").half()
    launched(driver, lambda x: (x[1:] + 1, x[8:] * 2), half)


def test_a_training_step_over_parts_of_one_tensor(driver: StandIn) -> None:
    def trained(function: Callable[[Tensor], Tensor]) -> Tensor:
        x = (torch.arange(90, device="cuda").float() / 90).requires_grad_()
        function(x[1:50]).sum().backward()
        assert x.grad is not None
        return x.grad

    def function(x: Tensor) -> Tensor:
        return F.gelu(x[2:] * x[:-2])

    torch.testing.assert_close(trained(onegraph.compile(function)), trained(function))


@pytest.fixture
def disk(driver: StandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder where captures, plans and kernels are kept."""
    monkeypatch.setattr(cuda, "compile_sources", cubins.compile_sources)
    monkeypatch.setattr(cubins, "compiled", lambda source, gpu: kernels.cubin_of(source, gpu, driver))
    for name, value in {"CACHE": "1", "CACHE_DIR": str(tmp_path), "VERIFY": "0"}.items():
        monkeypatch.setenv(f"ONEGRAPH_{name}", value)
    return tmp_path


@contextmanager
def captures_found() -> Iterator[list[bool]]:
    """Whether the captures that are searched for meanwhile are on disk."""
    found: list[bool] = []

    def note(event: object) -> None:
        if isinstance(event, DiskSearched) and event.stage == "capture":
            found.append(event.found)

    stop = EVENTS.subscribe(note)
    yield found
    stop()


def test_captures_from_disk(driver: StandIn, disk: Path) -> None:
    """What was captured before runs with nothing traced: values, gradients, constants of lowerings, drawn numbers."""
    x = torch.randn(2, 3, 8, 8, device="cuda")

    def passed(function: Callable[..., Tensor]) -> list[Tensor]:
        torch.manual_seed(0)
        leaf = x.clone().requires_grad_()
        result = function(leaf)
        result.square().sum().backward()
        return [result.detach(), leaf.grad, torch.cuda.get_rng_state()]

    for is_there in (False, True):
        onegraph.reset()
        driver.forget()
        with captures_found() as found:
            torch.testing.assert_close(passed(onegraph.compile(resized, fullgraph=True)), passed(resized))
        assert len(driver.launches()) > 1 and found == [is_there]


def test_captures_from_disk_under_cuda_graphs(driver: StandIn, disk: Path) -> None:
    """What each graph is to the program is known of a capture from disk, too: its steps are replayed."""

    def passed(function: Callable[..., Tensor], weight: nn.Parameter) -> list[Tensor]:
        torch.manual_seed(0)
        found = []
        for _ in range(4):
            result = function(torch.randn(5, 8, device="cuda"), weight)
            result.square().sum().backward()
            found += [result.detach(), weight.grad.clone()]
        return found

    for is_there in (False, True):
        onegraph.reset()
        ours, theirs = (nn.Parameter(torch.linspace(-1, 1, 8, device="cuda")) for _ in range(2))
        driver.forget()
        with told() as reasons, captures_found() as found:
            compiled = onegraph.compile(normalized, fullgraph=True, mode="reduce-overhead")
            torch.testing.assert_close(passed(compiled, ours), passed(normalized, theirs))
        launches = [each.how for each in driver.launches()]
        assert found == [is_there] and not reasons and launches.count("replay") >= 5, launches


def normalized(x: Tensor, weight: Tensor) -> Tensor:
    y = (x * weight).softmax(-1)
    return F.dropout(y * x.square().sum(0, keepdim=True).sqrt(), 0.2).sin()


def test_a_saved_program(driver: StandIn, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, compiled = torch.randn(2, 3, 8, 8, device="cuda"), onegraph.compile(resized, fullgraph=True)
    compiled(x)
    onegraph.save(compiled, disk / "resized")
    onegraph.reset()
    monkeypatch.setenv("ONEGRAPH_CACHE", "0")
    loaded, results = onegraph.load(disk / "resized", resized), []
    driver.forget()
    for function in (loaded, resized):
        torch.manual_seed(0)
        results.append(function(x))
    torch.testing.assert_close(*results)
    assert driver.launches()


def resized(x: Tensor) -> Tensor:
    y = F.dropout(F.interpolate(x, scale_factor=1.5, mode="bicubic"), 0.3)
    return y * y.softmax(-1) + torch.tensor([1.0, 2.0], device="cuda").sum()


def test_operands_without_elements(driver: StandIn) -> None:
    def function(x: Tensor) -> Any:
        return F.pad(x, (1, 1, 1, 1)), torch.cat([x, x + 1, torch.ones(2, 3, device="cuda")]) * 2

    assert launched(driver, function, torch.randn(0, 3, device="cuda"))
    compiled = onegraph.compile(function, dynamic=True)
    for rows in (4, 0, 2):
        x = torch.randn(rows, 3, device="cuda")
        torch.testing.assert_close(compiled(x), function(x))


def test_launches_are_on_the_current_stream(driver: StandIn) -> None:
    compiled = onegraph.compile(lambda x: x.sin() + 1)
    for device in ("cuda:0", "cuda:1"):
        x, streams = torch.randn(9, device=device), [torch.cuda.Stream(device) for _ in range(2)]
        compiled(x)
        driver.forget()
        with torch.cuda.stream(streams[0]):
            compiled(x)
            with torch.cuda.stream(streams[1]):
                compiled(x)
        compiled(x)
        assert [each.stream for each in driver.launches()] == [*[stream.cuda_stream for stream in streams], 0]


def test_results_without_elements_lie_on_the_device(driver: StandIn) -> None:
    for device in ("cuda", "cuda:1"):
        assert launched(driver, lambda x: (x * 2, x.sum(0)), torch.randn(0, 3, device=device))
    for mode in (None, "reduce-overhead"):
        compiled = onegraph.compile(lambda x: x * 2, mode=mode, dynamic=False)
        for _ in range(3):
            assert compiled(torch.randn(0, 3, device="cuda")).device == torch.device("cuda:0")


# ---- CUDA graphs. Libraries of simulated devices compute at once: these graphs have kernels alone. -------------------


@contextmanager
def told() -> Iterator[list[tuple[str, str]]]:
    """Why launches are not captured, and where, which is said meanwhile."""
    found: list[tuple[str, str]] = []

    def note(event: object) -> None:
        if isinstance(event, LaunchedOneByOne):
            found.append((str(event.frame).partition(" ")[0], event.reason))

    stop = EVENTS.subscribe(note)
    yield found
    stop()


def hows(driver: StandIn) -> list[str]:
    found = [each.how for each in driver.launches()]
    driver.forget()
    return found


def test_launches_are_captured_where_it_is_asked_for(driver: StandIn) -> None:
    def function(x: Tensor) -> Tensor:
        return torch.softmax(x * 2, -1)

    capturing: list[dict[str, Any]] = [
        {"mode": "reduce-overhead"},
        {"mode": "max-autotune"},
        {"options": {"triton.cudagraphs": True}},
        {"options": {"cuda_graphs": True}},
    ]
    launching: list[dict[str, Any]] = [
        {},
        {"mode": "max-autotune-no-cudagraphs"},
        {"mode": "reduce-overhead", "options": {"triton.cudagraphs": False}},
    ]
    for settings in (*capturing, *launching):
        onegraph.reset()
        compiled = onegraph.compile(function, dynamic=False, **settings)
        kept = []
        with told() as reasons:
            for call, rows in enumerate((3, 8, 3, 8, 3)):
                x = torch.randn(rows, 50, device="cuda")
                kept.append((compiled(x), function(x)))
                replayed = settings in capturing and call > 1
                assert hows(driver) == ["replay" if replayed else "launch"], settings
        for result, expected in kept:  # which live longer than the next call
            torch.testing.assert_close(result, expected)
        assert not reasons


def test_sizes_that_change_are_captured_one_by_one(driver: StandIn) -> None:
    compiled = onegraph.compile(lambda x: x.sin() + 1, mode="reduce-overhead", dynamic=True)
    for rows, how in [(3, "launch"), (9, "launch"), (3, "replay"), (9, "replay"), (4, "launch")]:
        x = torch.randn(rows, 5, device="cuda")
        driver.forget()
        torch.testing.assert_close(compiled(x), x.sin() + 1)
        assert hows(driver) == [how]


def test_parameters_are_used_where_they_lie(driver: StandIn) -> None:
    norm = nn.LayerNorm(40, device="cuda")
    compiled = onegraph.compile(norm, mode="reduce-overhead")
    with torch.no_grad():
        for call in range(5):
            x = torch.randn(6, 40, device="cuda")
            if call == 3:
                norm.weight.mul_(3.0)
            torch.testing.assert_close(compiled(x), norm(x))
            assert hows(driver) == ["launch" if call == 0 else "replay"]
        norm.weight.data = torch.randn(40, device="cuda")  # elsewhere
        for how in ("launch", "replay"):
            torch.testing.assert_close(compiled(x), norm(x))
            assert hows(driver) == [how]


def test_inputs_that_are_written_to(driver: StandIn) -> None:
    def step(state: Tensor, x: Tensor) -> Tensor:
        state.mul_(0.5).add_(x)
        return state * 2

    compiled = onegraph.compile(step, mode="reduce-overhead")
    states = [torch.ones(30, device="cuda"), torch.ones(30, device="cuda")]
    for call in range(6):
        x = torch.full((30,), float(call), device="cuda")
        ours, theirs = compiled(states[0], x), step(states[1], x)
        torch.testing.assert_close(ours, theirs)
        torch.testing.assert_close(*states)
        assert set(hows(driver)) == {"launch" if call == 0 else "replay"}


def test_errors_and_what_follows(driver: StandIn) -> None:
    compiled = onegraph.compile(lambda x: x.exp() * 2, mode="reduce-overhead")
    x = torch.randn(20, device="cuda")
    compiled(x)
    driver.set(launch_fails=719)
    with told() as reasons:
        for _ in range(3):
            torch.testing.assert_close(compiled(x), x.exp() * 2)
    assert [reason[:24] for _, reason in reasons] == ["it cannot be captured: l"]


def test_why_launches_are_not_captured(driver: StandIn) -> None:
    x = torch.randn(20, device="cuda")
    for function, inputs, why in [
        (lambda x: x.abs().multinomial(2) + x[:2], (x,), "takes a tensor, and draws random numbers"),
        (lambda x, y: x.sin() * y, (x, torch.tensor(2.0)), "aten.fill.Tensor makes or takes tensors on cpu"),
        (lambda x: (x.sin(), x[2:]), (x,), None),
    ]:
        compiled = onegraph.compile(function, mode="reduce-overhead")
        with told() as reasons:
            for _ in range(3):
                results = compiled(*inputs)
        assert [reason.endswith(why or "") for _, reason in reasons] == [True] * (why is not None), reasons
        if "random" not in (why or ""):
            torch.testing.assert_close(results, function(*inputs))
    drawing = onegraph.compile(lambda x: x.abs().multinomial(2) + x[:2], mode="reduce-overhead")
    explained = onegraph.explain(drawing)(x)
    assert "Not captured as a CUDA graph" in str(explained) and len(explained.one_by_one) == 1
    assert "draws random numbers" in explained.one_by_one[0].reason
    with told() as reasons:
        onegraph.compile(lambda x: torch.rand_like(x) + x, mode="reduce-overhead")(torch.randn(3))
    assert not reasons
