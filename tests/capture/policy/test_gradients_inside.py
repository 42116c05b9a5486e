"""Gradients that are taken inside of compiled code: `torch.autograd.grad`, `backward`, and what is set on tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd import grad
from torch.utils._pytree import tree_leaves

import onegraph
from onegraph.base.events import GraphBroken, GraphCaptured
from tests.capture.resume.test_breaks import Watch

LAYER = torch.nn.Linear(3, 2)


def penalty(x: torch.Tensor) -> torch.Tensor:
    y = LAYER(x).tanh().sum()
    (slope,) = grad(y, x, create_graph=True)
    return y + (slope.norm() - 1) ** 2


def penalty_of_mixture(x: torch.Tensor) -> torch.Tensor:
    mixture = (x.detach() * 0.5 + x.detach().flip(0) * 0.5).requires_grad_(True)
    scores = LAYER(mixture)
    (slope,) = grad(scores, mixture, torch.ones_like(scores), create_graph=True, retain_graph=True, only_inputs=True)
    return ((slope.flatten(1).norm(2, dim=1) - 1) ** 2).mean()


def second_derivatives(x: torch.Tensor) -> torch.Tensor:
    points = x.detach().requires_grad_()
    (slope,) = grad(LAYER(points).tanh().sum(), points, create_graph=True)
    return torch.stack([grad(slope[:, n].sum(), points, retain_graph=True)[0][:, n] for n in range(3)]).sum()


def product(x: torch.Tensor) -> torch.Tensor:
    (slope,) = grad((x**3).sum(), x, create_graph=True)
    return grad((slope * 2).sum(), x)[0]


def kept(x: torch.Tensor) -> torch.Tensor:
    y = (x**3).sum()
    return grad(y, x, retain_graph=True)[0] + grad(y, x)[0]


def used_up(x: torch.Tensor) -> torch.Tensor:
    y = (x**3).sum()
    return grad(y, x)[0] + grad(y, x)[0]


def result_of_used_up(x: torch.Tensor) -> Any:
    y = x**3
    return y, grad(y.sum(), x)


def result_that_is_kept(x: torch.Tensor) -> Any:
    y = x**3
    return y, grad(y.sum(), x, retain_graph=True)


def of_intermediate(x: torch.Tensor) -> torch.Tensor:
    h = x.sin()
    return grad((h * h).sum(), h)[0]


def of_part(x: torch.Tensor) -> torch.Tensor:
    part = x.detach()[1:].requires_grad_()
    return grad((part**2).sum(), part)[0]


def of_what_was_written(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros(4, 3)
    y[1:] = (x * x)[1:]
    return grad(y.sum(), x)[0]


def leaf_that_leaves(x: torch.Tensor) -> Any:
    z = (x.detach() * 2).requires_grad_()
    return z, (z * z).sum()


def gradient_of_a_leaf_that_leaves(x: torch.Tensor) -> Any:
    w = torch.ones(3, requires_grad=True)
    (w * x.detach()).sum().backward()
    return w, w.grad + 1, x + 1


def under_no_grad(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad(), torch.enable_grad():
        z = x.detach().requires_grad_()
        return grad(z.sin().sum(), z)[0]


def written_through_data(x: torch.Tensor) -> Any:
    """What was kept of the parameter has changed with it."""
    y = LAYER(x).tanh().sum()
    LAYER.weight.data.mul_(0.5)
    return grad(y, x)


def backward(x: torch.Tensor) -> torch.Tensor:
    loss = LAYER(x).pow(2).mean()
    loss.backward()
    return loss.detach()


def backward_twice(x: torch.Tensor) -> None:
    LAYER(x).sin().sum().backward()
    torch.autograd.backward([LAYER(x).pow(2), x.sum()], [torch.ones(4, 2), None])


def backward_kept(x: torch.Tensor) -> None:
    loss = (x**3).sum()
    loss.backward(retain_graph=True)
    loss.backward()


def backward_used_up(x: torch.Tensor) -> None:
    loss = (x**3).sum()
    loss.backward()
    loss.backward()


def backward_of_a_result(x: torch.Tensor) -> torch.Tensor:
    loss = (x**3).sum()
    loss.backward()
    return loss


def of_expanded(x: torch.Tensor) -> None:
    """Eager gives a leaf a gradient that lies as the leaf does."""
    x.sum().backward()


def shared_between_leaves(x: torch.Tensor) -> None:
    (x + LAYER.weight.new_zeros(4, 3)).sum().backward()
    (LAYER.weight.sum() + LAYER.bias.sum()).backward()


def cleared(x: torch.Tensor) -> Any:
    LAYER.zero_grad()
    LAYER(x).sum().backward()
    norm = torch.nn.utils.clip_grad_norm_(LAYER.parameters(), 0.1)
    return norm, [p.grad.sum() for p in LAYER.parameters() if p.grad is not None]


def set_by_hand(x: torch.Tensor) -> torch.Tensor:
    LAYER.weight.grad = torch.ones_like(LAYER.weight) * x.sum().detach()
    LAYER.bias.grad = None
    return LAYER.weight.grad + 1


PROGRAMS: tuple[Callable[..., Any], ...] = (
    penalty, penalty_of_mixture, second_derivatives, product, kept, result_that_is_kept, of_intermediate, of_part,
    of_what_was_written, leaf_that_leaves, gradient_of_a_leaf_that_leaves,
    under_no_grad, written_through_data, backward, backward_twice, backward_kept, of_expanded,
    shared_between_leaves, cleared, set_by_hand, used_up, backward_used_up, result_of_used_up, backward_of_a_result,
)  # fmt: skip


def outcome(function: Callable[..., Any]) -> list[Any]:
    """Of three calls: results, what they require, errors, and all gradients with how they lie in memory."""
    torch.manual_seed(2)
    torch.nn.init.normal_(LAYER.weight)
    found: list[Any] = []
    LAYER.weight.grad, LAYER.bias.grad = None, torch.ones(2)
    for number in range(3):
        x = torch.linspace(-1, 1 + number, 12).reshape(4, 3).requires_grad_()
        try:
            results = [each for each in tree_leaves(function(x)) if each is not None]
            found += [*results, *([each.requires_grad, each.is_leaf] for each in results)]
            found += [each.grad.clone() for each in results if each.is_leaf and each.grad is not None]
            for each in results:
                if each.requires_grad:
                    each.sum().backward()
        except RuntimeError as error:
            found.append(str(error)[:40] == "Trying to backward through the graph a second time"[:40])
        gradients = [each.grad for each in (x, *LAYER.parameters())]
        found += [None if each is None else (each.clone(), each.stride(), each.requires_grad) for each in gradients]
    return found


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_is_one_graph(program: Callable[..., Any], backend: str) -> None:
    expected = outcome(program)
    raises = program in (used_up, backward_used_up)
    with Watch() as watch:
        found = outcome(onegraph.compile(program, fullgraph=not raises, backend=backend))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    assert raises or len(watch.of(GraphCaptured)) <= 2  # once more where there are gradients to add to


def watched(x: torch.Tensor, seen: list[torch.Tensor]) -> torch.Tensor:
    x.register_hook(lambda gradient: seen.append(gradient) or gradient * 2)
    return x


def test_leaves_with_hooks_break_the_graph() -> None:
    def step(x: torch.Tensor) -> None:
        (x * x).sum().backward()

    compiled, seen = onegraph.compile(step), []  # type: ignore[var-annotated]
    plain, hooked = (torch.ones(3, requires_grad=True) for _ in range(2))
    compiled(plain)
    with Watch() as watch:
        compiled(watched(hooked, seen))
    assert watch.of(GraphBroken)
    assert torch.equal(hooked.grad, torch.full((3,), 4.0))
    assert len(seen) == 1


def test_inputs_of_a_backward_pass() -> None:
    def step(x: torch.Tensor, w: torch.Tensor) -> None:
        (x * w).sum().backward(inputs=w)
        z = x.detach().requires_grad_()
        torch.autograd.backward((z * z * w).sum(), inputs=[z, w])
        w.grad.add_(z.grad)

    x, w = (torch.ones(3, requires_grad=True) for _ in range(2))
    onegraph.compile(step, fullgraph=True)(x, w)
    assert x.grad is None
    assert torch.equal(w.grad, torch.full((3,), 4.0))


def test_inputs_of_a_backward_pass_that_are_computed_break_the_graph() -> None:
    def step(x: torch.Tensor) -> None:
        y = x * 2
        (y * y).sum().backward(inputs=[y])

    x = torch.ones(3, requires_grad=True)
    with Watch() as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        onegraph.compile(step)(x)
    assert [event.reason for event in watch.of(GraphBroken)] == ["call of backward with inputs that are no leaves"]
    assert x.grad is None


def test_a_hook_that_comes_later_is_seen() -> None:
    def step(x: torch.Tensor) -> None:
        (x * x).sum().backward()

    compiled, x, seen = onegraph.compile(step), torch.ones(3, requires_grad=True), []  # type: ignore[var-annotated]
    x.register_hook(seen.append).remove()
    compiled(x)
    x.register_hook(seen.append)
    compiled(x)
    assert len(seen) == 1
    assert torch.equal(x.grad, torch.full((3,), 4.0))


def test_inputs_that_were_computed_are_told_from_leaves() -> None:
    def step(x: torch.Tensor) -> None:
        (x * x).sum().backward()

    compiled = onegraph.compile(step)
    leaf, root = (torch.ones(3, requires_grad=True) for _ in range(2))
    compiled(leaf)
    compiled(root * 2)
    assert torch.equal(root.grad, torch.full((3,), 8.0))

    def slope(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return grad((x * w).sum(), w)[0]

    compiled, w = onegraph.compile(slope), torch.full((3,), 2.0, requires_grad=True)
    assert torch.equal(compiled(torch.ones(3, requires_grad=True), w), torch.ones(3))
    assert torch.equal(compiled(w * w, w), torch.full((3,), 12.0))  # through what was computed outside


@pytest.mark.parametrize(
    "leaf",
    [
        lambda: torch.randn(4, 6).t(),
        lambda: torch.randn(4, 6)[:, ::2],
        lambda: torch.randn(6).expand(4, 6),
        lambda: torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last),
        lambda: torch.randn(()),
    ],
    ids=["transposed", "with gaps", "expanded", "channels last", "no dimensions"],
)
def test_gradients_lie_as_eagers(leaf: Callable[[], torch.Tensor]) -> None:
    def step(x: torch.Tensor) -> None:
        (x * x).sum().backward()

    one = leaf().detach().requires_grad_()
    other = one.detach().requires_grad_()
    for _ in range(2):
        onegraph.compile(step, fullgraph=True)(one)
        step(other)
        assert torch.equal(one.grad, other.grad)
        assert one.grad.stride() == other.grad.stride()


def test_the_only_input_that_is_asked_for_need_not_be_a_leaf() -> None:
    x = torch.ones(3, requires_grad=True)
    with Watch() as watch:
        found = onegraph.compile(lambda y: grad((y**3).sum(), y)[0], fullgraph=True)(x * 2)
    assert torch.equal(found, torch.full((3,), 12.0))
    assert len(watch.of(GraphCaptured)) == 1


def test_a_whole_step_is_one_graph_that_is_compiled() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    compiled = onegraph.compile(step, fullgraph=True)
    x = torch.randn(5, 3)
    losses = [compiled(x).item() for _ in range(20)]
    assert losses[-1] < losses[0] / 2


def test_classes_may_keep_sizes_that_change() -> None:
    class Shape:
        def __init__(self, rows: int) -> None:
            self.rows = rows

    def f(x: torch.Tensor) -> torch.Tensor:
        return x * Shape(x.shape[0]).rows

    compiled = onegraph.compile(f, fullgraph=True)
    with Watch() as watch:
        for rows in (3, 4, 5, 6):
            assert torch.equal(compiled(torch.ones(rows)), f(torch.ones(rows)))
    assert len(watch.of(GraphCaptured)) == 2
