"""Custom operators are opaque from end to end: one node for capture, one call for the compiler."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

X = torch.arange(4.0)


@torch.library.custom_op("onegraph_tests::square", mutates_args=())
def square(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.square(x.numpy(force=True)))


@square.register_fake
def _(x):
    return x.new_empty(x.size())


square.register_autograd(
    lambda ctx, grad: grad * 2 * ctx.saved_tensors[0],
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


@torch.library.custom_op("onegraph_tests::add_to", mutates_args={"total"})
def add_to(x: torch.Tensor, total: torch.Tensor, factor: int = 2) -> None:
    total += x * factor


@torch.library.custom_op("onegraph_tests::several", mutates_args=())
def several(xs: list[torch.Tensor], name: str, factor: float) -> tuple[torch.Tensor, list[torch.Tensor]]:
    return xs[0] * factor, [x.clone() for x in xs]


@several.register_fake
def _(xs, name, factor):
    return torch.empty_like(xs[0]), [torch.empty_like(x) for x in xs]


@torch.library.custom_op("onegraph_tests::add_to_all", mutates_args={"totals", "last"})
def add_to_all(x: torch.Tensor, totals: list[torch.Tensor], last: torch.Tensor | None) -> list[torch.Tensor]:
    for total in totals if last is None else [*totals, last]:
        total += x
    return [total * 2 for total in totals]


@add_to_all.register_fake
def _(x, totals, last):
    return [torch.empty_like(total) for total in totals]


@torch.library.custom_op("onegraph_tests::add_to_some", mutates_args={"total"})
def add_to_some(x: torch.Tensor, total: torch.Tensor | None = None) -> torch.Tensor:
    return x * 2 if total is None else total.add_(x) * 2


@add_to_some.register_fake
def _(x, total=None):
    return torch.empty_like(x)


@torch.library.custom_op("onegraph_tests::largest", mutates_args=())
def largest(x: torch.Tensor) -> tuple[torch.Tensor, float]:
    return x.clone(), float(x.max())


largest.register_fake(lambda x: (torch.empty_like(x), 0.0))


@torch.library.custom_op("onegraph_tests::unknown", mutates_args=())
def unknown(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


backends = pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])


def check(function: Any, backend: str, *args: torch.Tensor, **settings: Any) -> None:
    """One graph, and eager's results and written arguments."""
    compiled = onegraph.compile(function, backend=backend, fullgraph=True, **settings)
    for _ in range(2):
        theirs, ours = [x.clone() for x in args], [x.clone() for x in args]
        torch.testing.assert_close(compiled(*ours), function(*theirs))
        torch.testing.assert_close(ours, theirs)


@backends
def test_opaque_node(backend: str) -> None:
    check(lambda x: square(x.cos()) + 1, backend, X)
    check(lambda x: torch.ops.onegraph_tests.square(x.cos()) + 1, backend, X)
    check(lambda x: square(x) + x.shape[0], backend, X, dynamic=True)
    seen = []

    def show(module, examples):
        seen.extend(node.target for node in module.graph.nodes if node.op == "call_function")
        return module.forward

    onegraph.compile(lambda x: square(x + 1), backend=show)(X)
    assert torch.ops.onegraph_tests.square.default in seen


@backends
def test_written_arguments(backend: str) -> None:
    def local(x):
        total = torch.zeros(4)
        add_to(x, total)
        add_to(x, total, factor=5)
        return total * 2

    def outer(x, total):
        add_to(x.cos(), total)
        return total + 1

    check(local, backend, X)
    check(outer, backend, X, X)


@backends
def test_an_operator_without_results_needs_no_fake(backend: str) -> None:
    library = torch.library.Library("onegraph_tests", "FRAGMENT")
    name = f"add_into_{backend}"
    library.define(f"{name}(Tensor(a!) x, Tensor y, *, Tensor(b!)? z=None) -> ()", tags=torch.Tag.pt2_compliant_tag)

    def add_into(x: torch.Tensor, y: torch.Tensor, *, z: torch.Tensor | None = None) -> None:
        for total in (x,) if z is None else (x, z):
            total.add_(y)

    library.impl(name, add_into, "CPU")
    operator = getattr(torch.ops.onegraph_tests, name)

    def once(x, y):
        operator(x, y)
        return x * 2

    def twice(x, y):
        made = y * 3
        operator(x, y, z=made)
        return made * x

    check(once, backend, X.clone(), X + 1, options={"raise_compiler_errors": True})
    check(twice, backend, X.clone(), X + 1, options={"raise_compiler_errors": True})


@backends
def test_lists_among_the_results(backend: str) -> None:
    def f(x):
        a, b = several([x * 2, x + 1], "name", 2.0)
        return (a + b[1]) * 2, b

    with Watch() as watch:
        check(f, backend, X)
    assert {event.operator for event in watch.of(ev.OperatorFellBack)} <= {"onegraph_tests.several.default"}
    assert len(watch.of(ev.LoweringDone)) == (backend == "native")  # what stands around it is compiled


@backends
def test_lists_and_optional_arguments_are_written(backend: str) -> None:
    def f(x, a, b):
        before = a + b
        doubled = add_to_all(x + 1, [a, b], None)
        last = torch.ones(4)
        add_to_all(x, [b], last=last)
        return before, a + b, doubled, last * 2

    check(f, backend, X, X + 1, X + 2)


@backends
def test_a_written_argument_may_be_left_out(backend: str) -> None:
    """Where torch lets it: an old one fails, also in eager mode."""

    def f(x):
        return add_to_some(x + 1) * x

    def outcome(function):
        try:
            return function(X).tolist()
        except IndexError as error:
            return str(error)

    compiled = onegraph.compile(f, backend=backend)
    for _ in range(2):
        assert outcome(compiled) == outcome(f)


@backends
def test_arguments_that_share_memory(backend: str) -> None:
    """New values made apart from each other would not see what the operator writes through another argument."""

    def f(x):
        y = x + 1
        add_to_all(x[:2], [y[1:3], y[:2]], None)
        return y * 2

    def same(x):
        add_to_all(x, [x, x], None)
        return x + 1

    def both(x):
        torch._foreach_add_([x, x[:2]], 1.0)
        return x * 2

    check(f, backend, X)
    check(same, backend, X)
    check(both, backend, X)


def test_numbers_that_an_operator_gives() -> None:
    """The fake's number is no result."""

    def f(x):
        y, number = largest(x + 1)
        return y * number

    with pytest.raises(onegraph.GraphBreakError, match="largest.default gives a Python value"):
        onegraph.compile(f, fullgraph=True)(X)
    compiled = onegraph.compile(f)
    for x in (X, X + 1):
        assert torch.equal(compiled(x), f(x))


@backends
def test_gradients(backend: str) -> None:
    x = X.clone().requires_grad_()
    onegraph.compile(lambda x: square(x.cos()).sum(), backend=backend, fullgraph=True)(x).backward()
    torch.testing.assert_close(x.grad, -2 * X.cos() * X.sin())


def test_without_a_fake_the_hint_is_to_register_one() -> None:
    with pytest.raises(onegraph.GraphBreakError, match="no fake impl registered") as raised:
        onegraph.compile(lambda x: unknown(x) + 1, fullgraph=True)(X)
    assert raised.value.code == "untraceable-operator"
    assert "register a fake implementation with torch.library.register_fake" in raised.value.hints
    assert torch.equal(onegraph.compile(lambda x: unknown(x) + 1)(X), X + 1)
    unknown.register_fake(lambda x: torch.empty_like(x))
    check(lambda x: unknown(x) + 1, "native", X)


def test_triton_op_is_an_operator() -> None:
    """Without Triton there is no kernel to launch, but what its wrapper makes is an operator like any other."""

    @torch.library.triton_op("onegraph_tests::triton_sin", mutates_args={})
    def triton_sin(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    check(lambda x: triton_sin(x.cos()) * 2, "native", X)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("c++") is None, reason="load_inline needs a C++ compiler")
def test_cpp_function_and_the_operator_around_it() -> None:
    from torch.utils.cpp_extension import load_inline

    source = """
    torch::Tensor square_cpu(torch::Tensor input) {
        TORCH_CHECK(input.device().is_cpu(), "Input must be a CPU tensor");
        torch::Tensor output = torch::empty_like(input);
        float* from = input.data_ptr<float>();
        float* to = output.data_ptr<float>();
        for (int64_t i = 0; i < input.numel(); i++) { to[i] = from[i] * from[i]; }
        return output;
    }
    """
    module = load_inline(name="onegraph_square", cpp_sources=source, functions=["square_cpu"])

    def f(x):
        return module.square_cpu(x + 1) * 2

    with pytest.raises(onegraph.GraphBreakError, match="the native function onegraph_square.square_cpu "):
        onegraph.compile(f, fullgraph=True)(X)
    with Watch() as watch:
        assert torch.equal(onegraph.compile(f, backend="eager")(X), (X + 1) ** 2 * 2)
    assert watch.graphs == [1, 1]
    assert any("custom_op" in hint for event in watch.of(ev.GraphBroken) for hint in event.hints)

    @torch.library.custom_op("onegraph_tests::square_cpu", mutates_args=())
    def wrapped(x: torch.Tensor) -> torch.Tensor:
        return module.square_cpu(x)

    wrapped.register_fake(lambda x: x.new_empty(x.size()))
    check(lambda x: wrapped(x + 1) * 2, "native", X)


RUNS: list[int] = []


@torch.library.custom_op("onegraph_tests::noted", mutates_args=())
def noted(x: torch.Tensor) -> torch.Tensor:
    RUNS.append(1)
    return x + 1


@noted.register_fake
def _(x):
    return torch.empty_like(x)


def test_it_does_not_run_while_traced_on_what_is_known() -> None:
    RUNS.clear()
    compiled = onegraph.compile(lambda x: x + noted(torch.tensor([1.0, 2.0])), fullgraph=True)
    for calls in (1, 2):
        assert compiled(torch.ones(2)).tolist() == [3.0, 4.0]
        assert len(RUNS) == calls
