"""Graphs that write to inputs of which gradients are recorded: each gets a new history, on which others may build."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import onegraph
from onegraph.base.events import OperatorFellBack
from tests.capture.resume.test_breaks import Watch


def returned(h: Tensor, w: Tensor) -> Any:
    h.add_(w)
    return h


def without_results(h: Tensor, w: Tensor) -> Any:
    h.mul_(w)
    h.sin_()


def computed_on(h: Tensor, w: Tensor) -> Any:
    h.mul_(w)
    return h * 2, h.sum()


def computed_on_twice(h: Tensor, w: Tensor) -> Any:
    h.mul_(w)
    y = h * 2
    h.add_(w)
    return y, h * 3


def in_part(h: Tensor, w: Tensor) -> Any:
    h[1] = w
    h[2] = h[1] * 2
    return h.clone(), h.sum() * w


def through_a_mask(h: Tensor, w: Tensor) -> Any:
    h[h > 0.5] = w[0]
    return h.cos()


def added_to_rows(h: Tensor, w: Tensor) -> Any:
    h.index_add_(0, torch.tensor([0, 2]), w.expand(2, 4))


def used_before(h: Tensor, w: Tensor) -> Any:
    y = h.exp()
    h.mul_(w)
    return y * h.sum()


def used_by_two_results(h: Tensor, w: Tensor) -> Any:
    h.exp_()
    return h.sum() * w, (h * w).sum()


def behind_another_result(h: Tensor, w: Tensor) -> Any:
    y = h * 2
    h.add_(y)
    return y, y * h.sum()


def unrecorded_too(h: Tensor, w: Tensor) -> Any:
    with torch.no_grad():
        h.add_(1)
    h.mul_(w)
    with torch.no_grad():
        h.add_(1)
    return h + w


def overwritten(h: Tensor, w: Tensor) -> Any:
    h.copy_(w)
    return w * 2


def viewed(h: Tensor, w: Tensor) -> Any:
    h.mul_(w)
    return h.T


def used_through_its_data(h: Tensor, w: Tensor) -> Any:
    h.data.mul_(2)
    h.mul_(w)
    return h * w


def kept_and_written(h: Tensor, w: Tensor) -> Any:
    y = h * w
    h.add_(1)
    return y


PROGRAMS = (
    returned, without_results, computed_on, computed_on_twice, in_part, through_a_mask, added_to_rows, used_before,
    used_by_two_results, behind_another_result, unrecorded_too, overwritten, viewed, used_through_its_data,
    kept_and_written,
)  # fmt: skip


def from_nothing(x: Tensor) -> Tensor:
    return torch.full((3, 4), 0.7)


def from_a_product(x: Tensor) -> Tensor:
    return x * 1.5


def from_a_kept_result(x: Tensor) -> Tensor:
    return x.exp()


def from_other_strides(x: Tensor) -> Tensor:
    return x.sin().t().contiguous().t()


def from_a_view(x: Tensor) -> Tensor:
    return (x * 2)[:]


ORIGINS = (from_nothing, from_a_product, from_a_kept_result, from_other_strides, from_a_view)


def once(loss: Tensor, h: Tensor, leaves: list[Tensor]) -> list[Any]:
    loss.backward()
    return [leaf.grad for leaf in leaves]


def with_hooks(loss: Tensor, h: Tensor, leaves: list[Tensor]) -> list[Any]:
    """Hooks that see and change the gradient of the input, registered behind the call."""
    seen: list[Tensor] = []
    if h.grad_fn is not None:
        h.register_hook(lambda gradient: seen.append(gradient.clone()))
        h.register_hook(lambda gradient: gradient * 3)
    loss.backward()
    return [*seen, *(leaf.grad for leaf in leaves)]


def by_the_input(loss: Tensor, h: Tensor, leaves: list[Tensor]) -> list[Any]:
    wanted = [h, *leaves] if h.requires_grad else leaves
    return [*torch.autograd.grad(loss, wanted, allow_unused=True)]


def twice(loss: Tensor, h: Tensor, leaves: list[Tensor]) -> list[Any]:
    if h.grad_fn is not None:
        h.register_hook(lambda gradient: gradient * 3)
    first = torch.autograd.grad(loss, leaves, allow_unused=True, create_graph=True)
    sum((value.cos().sum() for value in first if value is not None), torch.zeros(())).backward()
    return [*first, *(leaf.grad for leaf in leaves)]


PASSES = (once, with_hooks, by_the_input, twice)


def outcome(function: Callable[..., Any], origin: Callable[[Tensor], Tensor], passes: Callable[..., Any]) -> list[Any]:
    torch.manual_seed(0)
    x, w = torch.randn(3, 4, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    leaves = [x.requires_grad_(), w.requires_grad_()]
    h = origin(x).double()
    found = function(h, w)
    results = [h, *(found if isinstance(found, tuple) else [found] if isinstance(found, Tensor) else [])]
    shown = [(r.detach().clone(), r._version, r.requires_grad, r.is_leaf, r._is_view()) for r in results]
    try:
        loss = sum((r.sin().sum() for r in results if r.requires_grad), torch.zeros(()))
        return [shown, passes(loss, h, leaves), ""]
    except RuntimeError as error:
        return [shown, [], str(error)[:60]]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_is_as_in_eager(program: Callable[..., Any], backend: str) -> None:
    for origin in ORIGINS:
        compiled = onegraph.compile(program, backend=backend, fullgraph=True, options={"smallest_recorded_graph": 0})
        for passes in PASSES:
            wanted, found = outcome(program, origin, passes), outcome(compiled, origin, passes)
            assert found.pop() == wanted.pop(), (origin, passes)
            torch.testing.assert_close(found, wanted, msg=lambda text, o=origin, p=passes: f"{o}, {p}: {text}")
        onegraph.reset()


#: Eager refuses the pass, or has kept what changes unseen, or views were made before or behind a write.
AS_EAGER = {kept_and_written: ORIGINS, used_through_its_data: ORIGINS[1:], viewed: ORIGINS[3:]}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_is_compiled(program: Callable[..., Any]) -> None:
    for origin in ORIGINS:
        with Watch() as watch:
            outcome(onegraph.compile(program, backend="aot_eager", fullgraph=True), origin, once)
        assert bool(watch.of(OperatorFellBack)) is (origin in AS_EAGER.get(program, ())), origin
        onegraph.reset()


def test_a_view_where_there_was_none() -> None:
    """Whether the input is a view is guarded: the history of its own views depends on it."""
    compiled = onegraph.compile(viewed, backend="aot_eager")
    for origin in (from_a_product, from_a_view, from_a_product):
        found, wanted = outcome(compiled, origin, by_the_input), outcome(viewed, origin, by_the_input)
        assert found.pop() == wanted.pop()
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("program", [returned, computed_on, without_results], ids=lambda program: program.__name__)
@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_a_leaf_where_there_was_none(program: Callable[..., Any], backend: str) -> None:
    """Autograd lets nobody write to a leaf, and what else the program writes to is written once."""

    def counted(h: Tensor, w: Tensor, count: Tensor) -> Any:
        count.add_(1)
        return program(h, w)

    compiled = onegraph.compile(counted, backend=backend, options={"smallest_recorded_graph": 0})
    for is_leaf in (False, True, False):
        seen = []
        for function in (counted, compiled):
            torch.manual_seed(0)
            x, w, count = torch.randn(3, 4).requires_grad_(), torch.randn(4).requires_grad_(), torch.zeros(2)
            error = ""
            try:
                function(x if is_leaf else x * 1, w, count)
            except RuntimeError as raised:
                error = str(raised)
            seen.append((error, count.tolist(), count._version, x.detach().tolist()))
        assert seen[0] == seen[1] and bool(seen[0][0]) is is_leaf
