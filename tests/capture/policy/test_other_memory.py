"""Tensors that are given other memory (`tensor.data = ...`), which breaks the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph

Given = tuple[torch.nn.Parameter, torch.nn.Parameter, torch.Tensor, torch.Tensor]
BACKENDS = ("eager", "aot_eager", "native")


def given() -> Given:
    drawn = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    return (
        torch.nn.Parameter(drawn[0].clone()),
        torch.nn.Parameter(drawn[1].clone()),
        drawn[2].clone(),
        drawn[3].clone(),
    )


def clipped(p: Any, q: Any, x: Any, y: Any) -> Any:
    p.data = p.data.clamp(-0.5, 0.5)
    return x + 1


def a_step(p: Any, q: Any, x: Any, y: Any) -> Any:
    for parameter, gradient in ((p, x), (q, y)):
        parameter.data = parameter.data - 0.5 * gradient


def exchanged(p: Any, q: Any, x: Any, y: Any) -> Any:
    p.data, q.data = q.data, p.data


def what_it_held(p: Any, q: Any, x: Any, y: Any) -> Any:
    old = p.data
    p.data = old * 2
    return old, old + 1


def shared(p: Any, q: Any, x: Any, y: Any) -> Any:
    p.data = x
    x.add_(1)
    return x


def view_of_the_old(p: Any, q: Any, x: Any, y: Any) -> Any:
    view = x.view(-1)
    x.data = y.clone()
    view.add_(1)
    return view


def written_before(p: Any, q: Any, x: Any, y: Any) -> Any:
    x.add_(1)
    x.data = x * 2


def given_back(p: Any, q: Any, x: Any, y: Any) -> Any:
    x.data = y + 1
    return x, x.shape, x is y


def averaged(p: Any, q: Any, x: Any, y: Any) -> Any:
    with torch.no_grad():
        p.data = 0.5 * p + 0.5 * q
    return x


def used_again(p: Any, q: Any, x: Any, y: Any) -> Any:
    p.data = p.data * 2
    p.data = p.data + 1
    return p * x


def behind_gradients(p: Any, q: Any, x: Any, y: Any) -> Any:
    """Autograd takes the gradients with what the leaf holds when they are taken."""
    loss = (p * p * x).sum()
    p.data = p.data * 2
    return loss


def behind_a_backward_pass(p: Any, q: Any, x: Any, y: Any) -> Any:
    (p * x).sum().backward()
    p.data = p.data - 0.5 * p.grad
    p.grad = None


def of_another_layout(p: Any, q: Any, x: Any, y: Any) -> Any:
    x.data = torch.zeros(5)
    return x + 1


def of_another_type(p: Any, q: Any, x: Any, y: Any) -> Any:
    x.data = y.double()
    return x + 1


def of_no_tensor(p: Any, q: Any, x: Any, y: Any) -> Any:
    try:
        x.data = None
    except TypeError as error:
        return str(error)


def before_a_break(p: Any, q: Any, x: Any, y: Any) -> Any:
    p.data = p.data * 2
    onegraph.graph_break()
    return p * 3


def read_outside_of_the_graph(p: Any, q: Any, x: Any, y: Any) -> Any:
    before = str(x), x.numpy()
    x.data = y + 1
    return str(before), str(x), f"{x[0]:.1f}", x.numpy().tolist()


PROGRAMS = [
    clipped, a_step, exchanged, what_it_held, shared, view_of_the_old, written_before, given_back, averaged, used_again,
    behind_gradients, behind_a_backward_pass, of_another_layout, of_another_type, of_no_tensor, before_a_break,
    read_outside_of_the_graph,
]  # fmt: skip


def seen(program: Callable[..., Any]) -> list[Any]:
    """What three calls give and leave behind, and what shares memory."""
    tensors, found = given(), []
    for _ in range(3):
        try:
            result = program(*tensors)
        except RuntimeError as error:
            result = type(error)
        if isinstance(result, torch.Tensor) and result.requires_grad:
            result.sum().backward()
        parts = result if isinstance(result, tuple) else (result,)
        everything = [*tensors, *(part for part in parts if isinstance(part, torch.Tensor))]
        places = [each.untyped_storage().data_ptr() for each in everything]
        found += [[places.index(place) for place in places], *(each.requires_grad for each in everything)]
        found += [part for part in parts if not isinstance(part, torch.Tensor)]
        found += [each.detach().clone() for each in everything] + [each.grad for each in tensors]
    return found


@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_is_given_other_memory_equals_eager(program: Callable[..., Any], backend: str) -> None:
    options = {"smallest_recorded_graph": 0, "raise_compiler_errors": True} if backend == "native" else {}
    compiled = onegraph.compile(program, backend=backend, options=options)
    for ours, theirs in zip(seen(compiled), seen(program), strict=True):
        if isinstance(theirs, torch.Tensor):
            torch.testing.assert_close(ours, theirs)
        else:
            assert ours == theirs
