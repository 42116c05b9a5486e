"""Floating-point numbers that change from one call to the next are inputs of the graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from onegraph import _C
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

X = torch.tensor([1.5, -2.0, 0.0, -0.0, math.inf, math.nan, 3e38, 1e-40])
PLAIN = [0.1 + 0.37 * step for step in range(12)]
SPECIAL = [0.5, -0.0, 0.0, math.nan, math.inf, -math.inf, 1e40, -1e-320, 16777217.0, 0.1, 1e308, -3.7]
backends = pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])


@pytest.fixture(autouse=True)
def no_grad():
    onegraph.reset()
    with torch.no_grad():
        yield


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as raised:
        return type(raised).__name__, str(raised)


def same(a: Any, b: Any) -> bool:
    """Whether two results cannot be told apart: zeros by their signs, and what is not a number is the same."""
    if type(a) is not type(b):
        return False
    match a:
        case torch.Tensor():
            if a.dtype != b.dtype or a.shape != b.shape:
                return False
            if a.is_floating_point() and not torch.equal(a.signbit() & ~a.isnan(), b.signbit() & ~b.isnan()):
                return False
            return torch.allclose(a, b, rtol=1e-6, atol=0, equal_nan=True)
        case tuple() | list():
            return len(a) == len(b) and all(map(same, a, b))
        case dict():
            return same(list(a.items()), list(b.items()))
        case set():
            return same(list(a), list(b))
    return repr(a) == repr(b)


def check(
    function: Callable[..., Any], values: list[float], backend: str = "eager", versions: int | None = None, x: Any = X
) -> None:
    """Eager's results for each number, by so many versions."""
    onegraph.reset()
    compiled = onegraph.compile(function, backend=backend)
    with Watch() as watch:
        for value in values:
            expected, result = outcome(function, x.clone(), value), outcome(compiled, x.clone(), value)
            assert same(expected, result), (value, expected, result)
    if versions is not None:
        assert len(watch.of(ev.FrameStarted)) == versions


OPERATORS: dict[str, Callable[..., Any]] = {
    "mul": lambda x, f: x * f,
    "radd": lambda x, f: f + x,
    "rsub": lambda x, f: f - x,
    "div": lambda x, f: x / f,
    "rdiv": lambda x, f: f / x,
    "alpha": lambda x, f: torch.add(x, x, alpha=f),
    "in place": lambda x, f: x.mul_(f).add_(1),
    "compare": lambda x, f: x < f,
    "clamp": lambda x, f: x.clamp(min=f) + 0.0,
    "where": lambda x, f: torch.where(x > 0, x, f),
    "full": lambda x, f: torch.full((3,), f),
    "full_like": lambda x, f: torch.full_like(x, f),
    "fill": lambda x, f: x.fill_(f),
    "masked_fill": lambda x, f: x.masked_fill(x > 1, f),
    "setitem": lambda x, f: x.__setitem__(0, f) or x,
    "tensor": lambda x, f: x + torch.tensor(f),
    "as_tensor": lambda x, f: x + torch.as_tensor([f, 1.0], dtype=torch.float64).sum(),
    "axpy": lambda x, f: torch.addcmul(x, x, x, value=f),
    "lerp": lambda x, f: torch.lerp(x, x + 1, f),
    "list": lambda x, f: torch._foreach_mul([x, x + 1], f),
    "leaky": lambda x, f: torch.nn.functional.leaky_relu(x, f),
    "two": lambda x, f: (x * f, x + 2 * f, f * 3 - 1, (f, -f)),
    "zero dims": lambda x, f: x.sum() * f,
    "integers": lambda x, f: (torch.arange(4) * f, torch.arange(4) + f, torch.arange(4) < f),
    "bools": lambda x, f: torch.tensor([True, False]) * f,
    "bfloat16": lambda x, f: (x.bfloat16() * f, x.bfloat16() + f, x.half() - f),
    "doubles": lambda x, f: x.double() * f,
    "complex": lambda x, f: x.to(torch.complex64) * f,
    "remainder": lambda x, f: (x % f, x // f),
}
ARITHMETIC: dict[str, Callable[..., Any]] = {
    "square": lambda x, f: x * f**2,
    "root": lambda x, f: x * f**0.5,
    "power of it": lambda x, f: x * 2.0**f,
    "inverse": lambda x, f: x * (1 / f),
    "floor": lambda x, f: x * (f // 0.1) + f % 0.3,
    "rfloor": lambda x, f: x + 7 // f + 7 % f,
    "mixed": lambda x, f: x * ((f + 1) * True - f * 2 + 3 * 0.1) / 7,
    "negated": lambda x, f: (x * -f, x * +f),
    "abs": lambda x, f: x * abs(f),
    "math": lambda x, f: x * math.sqrt(f) + math.exp(f),
    "cosine": lambda x, f: x * (0.5 * (1 + math.cos(math.pi * f))),
    "float": lambda x, f: x * float(f),
    "max": lambda x, f: (x * max(f, 0.5), x * min(1, f)),
    "divmod": lambda x, f: x * divmod(f, 0.7)[0],
    "pow": lambda x, f: x * pow(f, 3),
    "sum": lambda x, f: x * sum([f, f, 1]),
    "of sizes": lambda x, f: x * (f * x.shape[0]) / (x.shape[0] * f),
    "complex numbers": lambda x, f: (f * 2j, complex(f, 1)),
    "branch": lambda x, f: x * f if f > 0.5 else x - f,
    "equal": lambda x, f: x * f if f == 0 else x + f,
    "chain": lambda x, f: x * f if 0.1 < f <= 2 else x - 1,
    "truth": lambda x, f: x * f if f else x,
    "not": lambda x, f: x if not f else x * f,
    "is": lambda x, f: (f is None, f is f, isinstance(f, float), type(f), isinstance(f, int)),
    "text": lambda x, f: (x * f, f"{f:.3f} {f} {f!r}", str(f)),
    "int": lambda x, f: (x * f, int(f), round(f), round(f, 1), f.is_integer(), math.floor(f)),
    "keys": lambda x, f: ({f: x}, {f}, [f], f in (0.1, 0.5), (f,) == (0.5,)),
    "nan": lambda x, f: x if math.isnan(f) else x * f,
    "inf": lambda x, f: x if math.isinf(f) else x * f,
    "none": lambda x, f: (f == None, f != "a", x * f),  # noqa: E711
    "index": lambda x, f: [1, 2, 3][int(f)] if 0 <= f < 3 else x * f,
    "sort": lambda x, f: sorted([f, 0.3, 1.0]),
    "range": lambda x, f: [x * f for _ in range(int(abs(f)) % 3)] if f < 5 else f,
    "hash": lambda x, f: hash(f),
    "method": lambda x, f: (f.hex(), f.as_integer_ratio()),
    "dropout": lambda x, f: torch.nn.functional.dropout(x, f, training=False),
    "interpolate": lambda x, f: torch.nn.functional.layer_norm(x[:3], (3,), eps=f) + 0.0,
}


@backends
@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str, backend: str) -> None:
    check(OPERATORS[name], SPECIAL, backend)
    check(OPERATORS[name], PLAIN, backend)


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic(name: str, backend: str) -> None:
    check(ARITHMETIC[name], SPECIAL, backend)
    check(ARITHMETIC[name], PLAIN, backend)


@pytest.mark.parametrize(
    "name", [*OPERATORS, "square", "inverse", "mixed", "cosine", "float", "pow", "sum", "none", "not"]
)
def test_two_graphs_serve_all_numbers(name: str) -> None:
    special = {"complex", "as_tensor", "list"}  # computed with the number itself, by a library or in another type
    if name not in special:
        check({**OPERATORS, **ARITHMETIC}[name], PLAIN, "native", versions=2)


def test_what_is_asked_of_a_number_is_guarded() -> None:
    check(ARITHMETIC["branch"], [0.9, 0.7, 3.0, 0.1, 0.2, 0.6, 0.3], versions=3)
    check(ARITHMETIC["chain"], [0.0, 0.05, 1.0, 1.5, 3.0, 0.01, 2.0], versions=4)
    check(ARITHMETIC["inverse"], [0.5, 0.25, 0.0, 4.0, 0.0, 8.0], versions=None)


class Optimizer:
    def __init__(self) -> None:
        self.lr = 0.1
        self.groups = [{"lr": 0.1, "betas": (0.9, 0.99)}]

    def step(self, x: torch.Tensor) -> torch.Tensor:
        self.lr = self.lr * 0.9
        return x - self.lr * x

    def group_step(self, x: torch.Tensor) -> torch.Tensor:
        group = self.groups[0]
        first, second = group["betas"]
        group["lr"] *= 0.9
        return x * (group["lr"] / (1 - first**2)) * (1 - second)


SCALE = 0.5


def with_global(x: torch.Tensor) -> torch.Tensor:
    return x * SCALE


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_wherever_the_number_is_found(backend: str) -> None:
    def counted(run: Callable[[Callable[..., Any]], list[Any]], function: Callable[..., Any]) -> None:
        onegraph.reset()
        expected = run(function)
        with Watch() as watch:
            assert same(expected, run(onegraph.compile(function, backend=backend)))
        assert len(watch.of(ev.FrameStarted)) == 2

    def attribute(step: Callable[..., Any]) -> list[Any]:
        optimizer = Optimizer()
        return [(step(optimizer, X), optimizer.lr) for _ in range(12)]

    def item(step: Callable[..., Any]) -> list[Any]:
        optimizer = Optimizer()
        return [(step(optimizer, X), optimizer.groups[0]["lr"]) for _ in range(12)]

    def module_global(function: Callable[..., Any]) -> list[Any]:
        results = []
        for value in PLAIN:
            globals()["SCALE"] = value
            results.append(function(X))
        return results

    counted(attribute, Optimizer.step)
    counted(item, Optimizer.group_step)
    counted(module_global, with_global)

    scale = 0.0

    def closure(x: torch.Tensor) -> torch.Tensor:
        return x * scale

    def in_cell(function: Callable[..., Any]) -> list[Any]:
        nonlocal scale
        results = []
        for value in PLAIN:
            scale = value
            results.append(function(X))
        return results

    def default(x: torch.Tensor, f: float = 0.0, *, g: float = 1.0) -> torch.Tensor:
        return x * f + g

    def keywords(function: Callable[..., Any]) -> list[Any]:
        return [function(X, value, g=-value) for value in PLAIN]

    counted(in_cell, closure)
    counted(keywords, default)


def test_one_input_for_each_expression() -> None:
    def f(x: torch.Tensor, a: float, b: float) -> torch.Tensor:
        return x * (a + b) + (a + b) * x / 2 + a

    compiled = onegraph.compile(f, backend="aot_eager", fullgraph=True)
    with Watch() as watch:
        for a, b in zip(PLAIN, reversed(PLAIN), strict=True):
            assert same(f(X, a, b), compiled(X, a, b))
    assert [event.inputs for event in watch.of(ev.GraphCaptured)] == [1, 3]


def test_a_number_that_an_operator_needs_itself() -> None:
    def f(x: torch.Tensor, p: float) -> torch.Tensor:
        return torch.nn.functional.dropout(x, p) * p

    compiled = onegraph.compile(f)
    for p in (0.0, 1.0, 0.5, 0.25):
        torch.manual_seed(0)
        expected = f(X, p)
        torch.manual_seed(0)
        assert same(expected, compiled(X, p)), p


def test_behind_breaks() -> None:
    def f(x: torch.Tensor, f: float) -> tuple[Any, ...]:
        y = x * f
        onegraph.graph_break()
        z = y + f * 2
        onegraph.graph_break()
        return z, f, [f + 1]

    check(f, PLAIN, "native", versions=None)
    check(f, SPECIAL, "eager", versions=None)


def test_numbers_of_a_loop_with_a_break() -> None:
    def f(x: torch.Tensor, f: float) -> tuple[Any, ...]:
        total, seen = f, []
        for _ in range(6):
            x = x * total
            onegraph.graph_break()
            total = total * 0.5 + 0.25
            seen.append(total)
            if total < 0.6:
                x = x + 1
        return x, total, seen

    onegraph.reset()
    compiled = onegraph.compile(f, backend="eager")
    with Watch() as watch:
        for value in PLAIN:
            assert same(f(X, value), compiled(X, value))
    assert len(watch.graphs) < 12 and not watch.of(ev.FrameSkipped)


def test_gradients() -> None:
    def f(x: torch.Tensor, scale: float) -> torch.Tensor:
        return (x * scale).sum()

    compiled = onegraph.compile(f, fullgraph=True)
    with torch.enable_grad():
        for value in PLAIN:
            x = torch.ones(3, requires_grad=True)
            compiled(x, value).backward()
            assert x.grad is not None and torch.equal(x.grad, torch.full((3,), value))


def test_integers_and_floats_in_turn() -> None:
    check(lambda x, f: (x * f, f * 2, type(f)), [1, 1.0, 2, 2.5, True, 3.5, 4, 0.25], "native")


def test_the_truth_of_a_number_in_a_tensor() -> None:
    compiled = onegraph.compile(
        lambda x: x + 1 if x.sum().item() else x - 1, backend="eager", options={"capture_scalar_outputs": True}
    )
    assert torch.equal(compiled(torch.zeros(2)), torch.full((2,), -1.0))
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))


def test_numbers_that_stand_to_each_other() -> None:
    def f(x: torch.Tensor, a: float, b: float) -> torch.Tensor:
        return x * (a - b) if a < b else x / (a * b)

    compiled = onegraph.compile(f, backend="eager")
    with Watch() as watch:
        for a, b in ((0.1, 0.2), (0.3, 0.4), (0.5, 0.1), (0.7, 0.2), (0.1, 0.9), (2.0, 1.0), (0.4, 0.3)):
            assert same(f(X, a, b), compiled(X, a, b))
    assert len(watch.of(ev.FrameStarted)) == 3


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_adam(backend: str) -> None:
    def step(x: torch.Tensor, grad: torch.Tensor, m: torch.Tensor, v: torch.Tensor, t: int, lr: float) -> torch.Tensor:
        m.lerp_(grad, 1 - 0.9)
        v.mul_(0.99).addcmul_(grad, grad, value=1 - 0.99)
        size = lr / (1 - 0.9**t)
        root = math.sqrt(1 - 0.99**t)
        return x - size * m / (v.sqrt() / root + 1e-8)

    def run(function: Callable[..., Any]) -> torch.Tensor:
        torch.manual_seed(0)
        x, m, v = torch.randn(9), torch.zeros(9), torch.zeros(9)
        for t in range(1, 15):
            x = function(x, torch.randn(9), m, v, t, 0.1 * 0.9**t)
        return x

    onegraph.reset()
    with Watch() as watch:
        torch.testing.assert_close(run(onegraph.compile(step, backend=backend)), run(step))
    assert len(watch.of(ev.FrameStarted)) <= 3


def test_with_sizes_that_change() -> None:
    def f(x: torch.Tensor, scale: float) -> torch.Tensor:
        return x * (scale / x.shape[0]) if scale < x.shape[0] else x * (scale * x.shape[0])

    onegraph.reset()
    compiled = onegraph.compile(f)
    with Watch() as watch:
        for step, value in enumerate(PLAIN):
            x = torch.rand(step + 4)
            assert same(f(x, value), compiled(x, value))
    assert len(watch.of(ev.FrameStarted)) <= 3


def test_a_backend_that_takes_no_numbers() -> None:
    def backend(module: torch.fx.GraphModule, examples: list[torch.Tensor]) -> Any:
        if any(node.target == "item" for node in module.graph.nodes):
            raise NotImplementedError("item")
        return module.forward

    def f(x: torch.Tensor, scale: float) -> torch.Tensor:
        return x * scale

    compiled = onegraph.compile(f, backend=backend)
    for value in (0.1, 0.2, 0.3):
        assert same(f(X, value), compiled(X, value))


def test_the_tensor_that_holds_a_number() -> None:
    for value in (*SPECIAL, 7):
        made = _C.float_tensor(value)
        assert made.dtype is torch.float64 and made.shape == () and repr(made.item()) == repr(float(value))
    with pytest.raises(TypeError, match="real number"):
        _C.float_tensor("7")
