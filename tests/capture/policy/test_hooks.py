"""Hooks of tensors that compiled code registers, and tensors that keep their gradients."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch.autograd import grad
from torch.utils._pytree import tree_leaves

import onegraph
from onegraph.base.events import GraphBroken, GraphCaptured
from tests.capture.resume.test_breaks import Watch

LAYER = torch.nn.Linear(3, 3)
Seen = list[Any]


class Scaling:
    def __init__(self, factor: float, seen: Seen) -> None:
        self.factor, self.seen = factor, seen

    def __call__(self, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * self.factor

    def looked_at(self, gradient: torch.Tensor) -> None:
        self.factor = 5
        self.seen.append(gradient.clone())


def on_intermediate(x: torch.Tensor, seen: Seen) -> Any:
    y = x * 2
    y.register_hook(lambda g: g * 3)
    return y.sin()


def closing_over_tensors(x: torch.Tensor, seen: Seen) -> Any:
    y, scale = x.sin(), x.detach().cos()
    y.register_hook(lambda g: g * scale + LAYER.weight.sum() * x)
    return (y * y).sum()


def giving_nothing(x: torch.Tensor, seen: Seen) -> Any:
    y = x.exp()
    y.register_hook(lambda g: seen.append(g.clone()))
    return y.sum()


def several_in_order(x: torch.Tensor, seen: Seen) -> Any:
    y = x * 2
    y.register_hook(lambda g: g + 1)
    first = y.sin()
    y.register_hook(lambda g: seen.append(g.clone()))
    y.register_hook(lambda g: g * g)
    return first.sum() + y.cos().sum()


def removed(x: torch.Tensor, seen: Seen) -> Any:
    y = x * 2
    handle = y.register_hook(lambda g: g * 3)
    z = y.sin()
    handle.remove()
    handle.remove()
    with y.register_hook(lambda g: g * 5):
        z = z + y
    return z


def on_a_result(x: torch.Tensor, seen: Seen) -> Any:
    y = x * 2
    y.register_hook(lambda g: g * 3)
    return y, y.sin()


def on_a_view(x: torch.Tensor, seen: Seen) -> Any:
    y = x * 2
    part = y[1:]
    part.register_hook(lambda g: g * 3)
    return part.sin(), y.cos()


def on_parts(x: torch.Tensor, seen: Seen) -> Any:
    first, *others = x.unbind(1)
    first.register_hook(lambda g: g * 3)
    return first.sin() + others[0]


def on_the_input(x: torch.Tensor, seen: Seen) -> Any:
    x.register_hook(lambda g: g * 3)
    return x.sin()


def on_a_parameter(x: torch.Tensor, seen: Seen) -> Any:
    handle = LAYER.weight.register_hook(lambda g: g * 3)
    seen.append(handle)
    return LAYER(x)


def when_accumulated(x: torch.Tensor, seen: Seen) -> Any:
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.mul_(3)))
    return x.sin()


def without_gradient(x: torch.Tensor, seen: Seen) -> Any:
    y = x * 2
    y.register_hook(lambda g: seen.append(1))
    return x.sin()


def written_before(x: torch.Tensor, seen: Seen) -> Any:
    y = x * 2
    y.mul_(3)
    y.register_hook(lambda g: g * 3)
    return y.sin()


def under_no_grad(x: torch.Tensor, seen: Seen) -> Any:
    y = x * 2
    with torch.no_grad():
        y.register_hook(lambda g: g * 3)
        z = y.sin()
    return y.sin(), z


def reading_what_is_set_later(x: torch.Tensor, seen: Seen) -> Any:
    factor = 2
    y = x * 2
    y.register_hook(lambda g: g * factor)
    factor = 5
    return y.sin()


def handle_that_leaves(x: torch.Tensor, seen: Seen) -> Any:
    y = x * 2
    y.register_hook(lambda g: g + 1)
    seen.append(y.register_hook(lambda g: g * 3))
    seen.append(y.register_hook(lambda g: g * 7))
    return y.sin()


def removing_itself(x: torch.Tensor, seen: Seen) -> Any:
    y = x * 2
    handle = y.register_hook(lambda g: (handle.remove(), g * 3)[1])
    y.register_hook(lambda g: g + 1)
    return y.sin()


def of_other_kinds(x: torch.Tensor, seen: Seen) -> Any:
    y, scaling = x * 2, Scaling(3, seen)
    y.register_hook(scaling)
    y.register_hook(scaling.looked_at)
    y.register_hook(partial(torch.mul, 7))
    y.register_hook(torch.neg)
    return y.sin()


def branching_in_the_hook(x: torch.Tensor, seen: Seen) -> Any:
    def check(g: torch.Tensor) -> Any:
        if torch.isnan(g).any():
            seen.append(3)
        return g.clamp(-0.5, 0.5) if g.norm() > 1 else g

    y = x.sin()
    y.register_hook(check)
    return y * 2


def step(x: torch.Tensor, seen: Seen) -> Any:
    y = x * 2
    y.register_hook(lambda g: g * 3)
    y.sum().backward()


def step_with_effects(x: torch.Tensor, seen: Seen) -> Any:
    y = LAYER(x).tanh()
    y.register_hook(lambda g: seen.append(g))
    z = y * y
    z.register_hook(lambda g: g.clamp(-0.1, 0.1))
    z.register_hook(lambda g: seen.append(g))
    (z.sum() + y.sum()).backward()
    return z.detach()


def step_of_leaf(x: torch.Tensor, seen: Seen) -> Any:
    z = x.detach().requires_grad_()
    z.register_hook(lambda g: g * 3)
    z.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.add_(1)))
    (z * z).sum().backward()
    return z.grad


def step_of_the_loss(x: torch.Tensor, seen: Seen) -> Any:
    loss = (x * x).sum()
    loss.register_hook(lambda g: g * 3)
    loss.backward()
    return loss.detach()


def step_after_removal(x: torch.Tensor, seen: Seen) -> Any:
    y = x * 2
    handle = y.register_hook(lambda g: g * 3)
    y.sum().backward(retain_graph=True)
    handle.remove()
    y.sum().backward()


def gradient_of_hooked(x: torch.Tensor, seen: Seen) -> Any:
    y = x.sin()
    y.register_hook(lambda g: g * 3)
    aside = y.exp()
    aside.register_hook(lambda g: seen.append(2))
    return grad((y * y).sum() + aside.sum(), [x, y])


def not_on_the_way(x: torch.Tensor, seen: Seen) -> Any:
    y = x.sin()
    z = y * y
    y.register_hook(lambda g: seen.append(1))
    return grad(z.sum(), z)


def second_order(x: torch.Tensor, seen: Seen) -> Any:
    y = x.sin()
    y.register_hook(lambda g: g * g)
    (slope,) = grad((y * y).sum(), x, create_graph=True)
    return slope.pow(2).sum()


def without_nan(x: torch.Tensor, seen: Seen) -> Any:
    y = x - x.detach()
    y.register_hook(lambda g: torch.nan_to_num(g, posinf=1.0))
    y.sqrt().sum().backward()


def retained(x: torch.Tensor, seen: Seen) -> Any:
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    seen.append(y.grad)
    y.register_hook(lambda g: g * 3)
    y.sin().sum().backward(retain_graph=True)
    first = y.grad
    y.sum().backward()
    return first, y.grad


def retained_result(x: torch.Tensor, seen: Seen) -> Any:
    y = x * 2
    y.retain_grad()
    return y, y.sin()


def retained_and_returned(x: torch.Tensor, seen: Seen) -> Any:
    y = x * 2
    y.retain_grad()
    y.expand(2, *x.shape).sum().backward(retain_graph=True)
    return y, y.grad.stride()


def retained_leaf(x: torch.Tensor, seen: Seen) -> Any:
    x.retain_grad()
    return x.sin()


PROGRAMS: tuple[Callable[..., Any], ...] = (
    on_intermediate, closing_over_tensors, giving_nothing, several_in_order, removed, on_a_result, on_a_view, on_parts,
    on_the_input, on_a_parameter, when_accumulated, without_gradient, written_before, under_no_grad,
    reading_what_is_set_later, handle_that_leaves, removing_itself, of_other_kinds, branching_in_the_hook,
    step, step_with_effects, step_of_leaf,
    step_of_the_loss, step_after_removal, gradient_of_hooked, not_on_the_way, second_order, without_nan, retained,
    retained_result, retained_and_returned, retained_leaf,
)  # fmt: skip


def outcome(function: Callable[..., Any], calls: int = 2) -> list[Any]:
    """Of some calls with other sizes: results, gradients of results and inputs, and what hooks have seen."""
    found: list[Any] = []
    handles: list[Any] = []
    for number in range(calls):
        torch.manual_seed(number)
        LAYER.zero_grad()
        x, seen = torch.randn(4 + number, 3, requires_grad=True), []  # type: ignore[var-annotated]
        results = [each for each in tree_leaves(function(x, seen)) if isinstance(each, torch.Tensor)]
        found += [(each.detach().clone(), each.requires_grad) for each in results]
        recorded = [each for each in results if each.requires_grad]
        handles = [each for each in seen if hasattr(each, "remove")]
        for again in range(2 if recorded else 0):
            if again:
                for handle in handles[:1]:
                    handle.remove()
            sum((each * (1 + n)).sin().sum() for n, each in enumerate(recorded)).backward(retain_graph=True)
            found += [None if leaf.grad is None else leaf.grad.clone() for leaf in (x, LAYER.weight)]
            found += [each.grad for each in recorded if each.retains_grad]
        found += [each for each in seen if each not in handles] if handles else seen
        for handle in handles:
            handle.remove()
    return found


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_is_one_graph(program: Callable[..., Any], backend: str) -> None:
    expected = outcome(program)
    with Watch() as watch:
        found = outcome(onegraph.compile(program, fullgraph=True, backend=backend, dynamic=True))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    assert watch.of(GraphCaptured)


def sin(x: torch.Tensor) -> Any:
    y = x.sin()
    return y, (y * y * y).sum()


def exp(x: torch.Tensor) -> Any:
    y = x.exp()
    return y, (y * y * y).sum()


def hooked_sin(x: torch.Tensor) -> Any:
    y = x.sin()
    y.register_hook(lambda g: g * 3)
    return (y * y * y).sum()


def hooked_exp(x: torch.Tensor) -> Any:
    y = x.exp()
    y.register_hook(lambda g: g * g)
    return (y * y * y).sum()


def hooked_twice(x: torch.Tensor) -> Any:
    y = x.exp()
    y.register_hook(lambda g: g * y)
    z = y.sin() * y
    z.register_hook(lambda g: g * x)
    return (z * z * y).sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("program", [sin, exp, hooked_sin, hooked_exp, hooked_twice], ids=lambda f: f.__name__)
def test_higher_derivatives_come_by_hooks(program: Callable[..., Any], backend: str) -> None:
    def derivatives(function: Callable[..., Any]) -> Any:
        x, called = torch.linspace(0, 1, 4000).requires_grad_(), []  # type: ignore[var-annotated]
        *results, loss = [*tree_leaves(function(x))]
        for result in results:
            result.register_hook(lambda g: called.append(1) or g * g)
        (first,) = grad(loss, x, create_graph=True)
        (second,) = grad(first.sum(), x, create_graph=True)
        return first, second, grad(second.sum(), x)[0], len(called)

    compiled = onegraph.compile(program, fullgraph=True, backend=backend)
    torch.testing.assert_close(derivatives(compiled), derivatives(program), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_handles_from_outside_are_removed(backend: str) -> None:
    def function(x: torch.Tensor, handle: Any) -> torch.Tensor:
        handle.remove()
        return (x * 2).sum()

    compiled = onegraph.compile(function, backend=backend)
    for _ in range(5):  # the handle has another number each time
        x = torch.ones(3, requires_grad=True)
        compiled(x, x.register_hook(lambda g: g * 3)).backward()
        assert torch.equal(x.grad, torch.full((3,), 2.0))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_what_breaks_is_as_eager(backend: str) -> None:
    def written_after(x: torch.Tensor, seen: Seen) -> Any:
        y = x * 2
        y.register_hook(lambda g: g * 3)
        y.mul_(2)
        return y.sin()

    def in_a_checkpoint(x: torch.Tensor, seen: Seen) -> Any:
        def function(x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            y.register_hook(lambda g: g * 3)
            return y.sin()

        return torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False)

    def in_a_transform(x: torch.Tensor, seen: Seen) -> Any:
        def function(x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            y.register_hook(lambda g: g * 3)
            return y.sin().sum()

        return torch.func.grad(function)(x)

    def across_a_break(x: torch.Tensor, seen: Seen) -> Any:
        y = x * 2
        y.retain_grad()
        handle = y.register_hook(lambda g: g * 3)
        z = y.sin()
        onegraph.graph_break()
        handle.remove()
        y.register_hook(lambda g: g * 5)
        with y.register_hook(lambda g: g * 7):
            onegraph.graph_break()
            (y * y).sum().backward(retain_graph=True)
        return z + y, y.grad

    for program in (written_after, in_a_checkpoint, in_a_transform, across_a_break):
        expected = outcome(program)
        found = outcome(onegraph.compile(program, backend=backend))
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_a_hook_holds_what_eager_holds() -> None:
    """The call lets go of everything but what the hook looks at, and that dies with the graph of autograd."""

    class Held:
        pass

    def function(x: torch.Tensor, held: Held) -> torch.Tensor:
        y = x * 2
        y.register_hook(lambda g: None if held is None else g)
        return y.sin()

    held = Held()
    alive = weakref.ref(held)
    result = onegraph.compile(function, fullgraph=True)(torch.ones(3, requires_grad=True), held)
    del held
    gc.collect()
    assert alive() is not None
    del result
    gc.collect()
    assert alive() is None


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return 2 * ctx.saved_tensors[0] * gradient


def test_a_pass_that_is_not_captured_has_the_name_that_the_program_gives_it() -> None:
    def step(x: torch.Tensor) -> None:
        y = Square.apply(x)
        y.register_hook(lambda g: g * 3)
        y.sum().backward()

    x = torch.ones(3, requires_grad=True)
    with Watch() as watch:
        onegraph.compile(step)(x)
    assert torch.equal(x.grad, torch.full((3,), 6.0))
    assert watch.of(GraphBroken)[0].reason.startswith("torch.autograd.grad raised RuntimeError")
