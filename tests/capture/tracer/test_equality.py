"""`torch.equal` and `torch.allclose`: checks of a program, and answers that stay what they are, are of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

NAN = float("nan")
Program = Callable[[torch.Tensor, torch.Tensor], Any]


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 2 * x.cos()


def checked(x, y):
    z = x * 2
    if not torch.equal(z, y * 2):
        raise ValueError("they differ")
    if not torch.allclose(x, y, rtol=0.1, atol=1e-3):
        raise ValueError("far apart")
    return z.sin() + y


def checked_together(x, y):
    if not all(torch.equal(a, b) for a, b in zip([x, x + 1], [y, y + 1], strict=True)):
        raise ValueError("they differ")
    if any(a.isnan().any() for a in (x, y)):
        raise ValueError("not a number")
    if not all([a.isfinite().all() for a in (x, y)]):
        raise ValueError("not finite")
    return x * y


def behind_a_custom_function(x, y):
    z = Scaled.apply(x)
    if not torch.equal(x, y):
        raise ValueError("they differ")
    return z + y


def same(x, y):
    return x * 2 if torch.equal(x, x) and torch.allclose(y, y) else y * 3


def computed_alike(x, y):
    a, b = (x / y.sum().abs()).clamp(max=4), (x / y.sum().abs()).clamp(max=4)
    return a * 2 if a.equal(b) else b * 3


def as_before(x, y):
    return (x.sin(), 1) if torch.equal(x, y) else (y.cos(), 2)


def other_shapes(x, y):
    return (x.sin(), 1) if torch.equal(x, y[:2]) else (y.cos(), 2)


PROGRAMS: list[Program] = [
    checked, checked_together, behind_a_custom_function, same, computed_alike, as_before,
]  # fmt: skip


def outcome(program: Program, values: list[float], others: list[float]) -> Any:
    """What a call gives, with gradients, or what it raises."""
    x, y = torch.tensor(values, requires_grad=True), torch.tensor(others, requires_grad=True)
    try:
        found = program(x, y)
    except Exception as error:
        return type(error).__name__, str(error)
    results = found if isinstance(found, tuple) else (found,)
    results[0].sum().backward()
    return *results, x.grad, y.grad


def assert_same(compiled: Program, program: Program, values: list[float], others: list[float]) -> None:
    found, wanted = outcome(compiled, values, others), outcome(program, values, others)
    if isinstance(wanted[0], str):
        assert found == wanted
    else:
        torch.testing.assert_close(found, wanted, equal_nan=True)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph_with_eagers_answers(program: Program, backend: str) -> None:
    compiled = onegraph.compile(program, backend=backend, fullgraph=True)
    with Watch() as watch:
        for values, others in (
            ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]),
            ([4.0, 5.0, 6.0], [4.0, 5.0, 6.0]),
            ([1.0, NAN, 3.0], [1.0, NAN, 3.0]),
            ([1.0, 2.0, 3.0], [1.0, 2.0, 4.0]),
            ([4.0, 5.0, 6.0], [4.0, 5.0, 6.0]),
        ):
            assert_same(compiled, program, values, others)
    assert len(watch.of(ev.GraphCaptured)) == 1


def test_an_answer_that_is_often_another_one_ends_the_graph() -> None:
    compiled = onegraph.compile(as_before)
    equal, other = [1.0, 2.0], [1.0, 3.0]
    with Watch() as watch:
        for others in (equal, other, other, other, other, equal, other):
            assert_same(compiled, as_before, equal, others)
    assert [len(watch.of(kind)) for kind in (ev.GraphFailed, ev.GraphBroken)] == [3, 1]


@pytest.mark.parametrize(
    "program", [other_shapes, lambda x, y: torch.equal(x * 2, y.sin())], ids=["shapes", "computed"]
)
def test_what_is_not_known_breaks(program: Program) -> None:
    compiled = onegraph.compile(program)
    x, y = torch.ones(2), torch.ones(3)
    for given in ((x, y), (y, y), (x, x)):
        torch.testing.assert_close(compiled(*given), program(*given))


def test_of_other_types_it_is_what_eager_says() -> None:
    compiled = onegraph.compile(lambda x, y: (x + 1, torch.equal(x, y)))
    x = torch.ones(2)
    for other in (torch.ones(2, dtype=torch.int64), torch.ones(2, dtype=torch.float64)):
        assert compiled(x, other)[1] == torch.equal(x, other)
    with pytest.raises(TypeError):
        compiled(x, [1.0])
