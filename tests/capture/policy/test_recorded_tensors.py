"""What compiled code says of what autograd records: `detach_`, `requires_grad_`, and parameters that it makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd import grad
from torch.utils._pytree import tree_leaves

import onegraph
from onegraph.base.events import GraphCaptured, OperatorFellBack
from tests.capture.resume.test_breaks import Watch

MODEL = nn.Linear(3, 3)


def detached(x: torch.Tensor) -> Any:
    y = x * 2
    y.detach_()
    return y * x, y


def detached_by_a_function(x: torch.Tensor) -> Any:
    return torch.detach_(x * 2) * x


def truncated(x: torch.Tensor) -> Any:
    h, total = torch.zeros(3), torch.zeros(())
    for _ in range(3):
        h = MODEL(h + x).tanh()
        total = total + h.sum()
        h.detach_()
    total.backward()
    return h


def detached_and_recorded(x: torch.Tensor) -> Any:
    y = (x * 2).detach_().requires_grad_()
    (y * y).sum().backward()
    return y.grad


def detached_plain(x: torch.Tensor) -> Any:
    return (x.detach() * 2).detach_() + x


def set_as_attribute(x: torch.Tensor) -> Any:
    y = x.detach() * 2
    y.requires_grad = True
    return grad((y * y).sum(), y)


def frozen_for_a_while(x: torch.Tensor) -> Any:
    MODEL.requires_grad_(False)
    y = MODEL(x)
    MODEL.requires_grad_(True)
    return y + MODEL(x).tanh()


def frozen_one(x: torch.Tensor) -> Any:
    MODEL.weight.requires_grad = False
    return MODEL(x), MODEL.weight.requires_grad


def frozen_at_the_end(x: torch.Tensor) -> Any:
    y = MODEL(x).sin()
    MODEL.bias.requires_grad_(False)
    return y


def frozen_step(x: torch.Tensor) -> Any:
    for p in MODEL.parameters():
        p.requires_grad = False
    MODEL(x).square().sum().backward()
    for p in MODEL.parameters():
        p.requires_grad = True
    MODEL(x).square().sum().backward()


def used_parameter(x: torch.Tensor) -> Any:
    p = nn.Parameter(x.detach() * 2)
    return p.sin().sum() * x


def stepped_parameter(x: torch.Tensor) -> Any:
    p = nn.Parameter(x.detach() * 2)
    (p * p * x.detach()).sum().backward()
    with torch.no_grad():
        p -= 0.1 * p.grad
    return p.detach()


def returned_parameter(x: torch.Tensor) -> Any:
    return nn.Parameter(x.detach() * 2)


def returned_with_a_loss(x: torch.Tensor) -> Any:
    p = nn.Parameter(x.detach() * 2)
    return p, (p * x).sum()


def frozen_parameter(x: torch.Tensor) -> Any:
    p = nn.Parameter(x.detach() * 2, requires_grad=False)
    return p, p.requires_grad, p + 1


def parameter_of_shared_memory(x: torch.Tensor) -> Any:
    data = x.detach() * 2
    p = nn.Parameter(data)
    with torch.no_grad():
        p.mul_(3)
    return data, p


def parameter_under_no_grad(x: torch.Tensor) -> Any:
    with torch.no_grad():
        p = nn.Parameter(x * 2)
        q = p * 2
    return p, q, p * x


def told_by_its_class(x: torch.Tensor) -> Any:
    p = nn.Parameter(torch.ones(3))
    told = isinstance(p, nn.Parameter), type(p) is nn.Parameter, p.is_leaf, p.grad_fn is None, p.grad is None
    return x * 2 if all(told) else x


def module_made_inside(x: torch.Tensor) -> Any:
    layer = nn.Linear(3, 2)
    return layer(x), len(list(layer.parameters()))


def leaf_made_under_no_grad(x: torch.Tensor) -> Any:
    with torch.no_grad():
        return x.clone().requires_grad_(), x.data.requires_grad_()


PROGRAMS: tuple[Callable[..., Any], ...] = (
    detached, detached_by_a_function, truncated, detached_and_recorded, detached_plain, set_as_attribute,
    frozen_for_a_while, frozen_one, frozen_at_the_end, frozen_step, used_parameter, stepped_parameter,
    returned_parameter, returned_with_a_loss, frozen_parameter, parameter_of_shared_memory, parameter_under_no_grad,
    told_by_its_class, module_made_inside, leaf_made_under_no_grad,
)  # fmt: skip
#: Their graphs give a leaf, and what is computed from it.
OPERATOR_BY_OPERATOR = (returned_parameter, returned_with_a_loss, parameter_of_shared_memory, parameter_under_no_grad)


def outcome(function: Callable[..., Any]) -> list[Any]:
    """Of some calls: results, what is known of them, and all gradients."""
    found: list[Any] = []
    torch.manual_seed(1)
    nn.init.normal_(MODEL.weight)
    for number in range(3):
        if number == 2:
            MODEL.requires_grad_(True)
        MODEL.zero_grad()
        x = torch.randn(4 + number, 3, requires_grad=True)
        leaves = tree_leaves(function(x))
        tensors = [each for each in leaves if isinstance(each, torch.Tensor)]
        found += [each for each in leaves if not isinstance(each, torch.Tensor)]
        found += [each.detach().clone() for each in tensors]
        found += [fact for t in tensors for fact in (t.requires_grad, t.is_leaf, type(t) is nn.Parameter)]
        for each in tensors:
            if each.requires_grad:
                (each * each).sum().backward(retain_graph=True)
        every = [x, *MODEL.parameters(), *(each for each in tensors if each.is_leaf)]
        found += [None if each.grad is None else each.grad.clone() for each in every]
        found += [each.requires_grad for each in MODEL.parameters()]
    MODEL.requires_grad_(True)
    return found


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_is_one_graph(program: Callable[..., Any], backend: str) -> None:
    expected = outcome(program)
    with Watch() as watch:
        found = outcome(onegraph.compile(program, fullgraph=True, backend=backend, dynamic=True))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    assert watch.of(GraphCaptured)
    fell_back = [event.reason for event in watch.of(OperatorFellBack) if event.operator == "autograd"]
    assert bool(fell_back) == (program in OPERATOR_BY_OPERATOR and backend != "eager"), fell_back


def test_what_autograd_refuses_is_refused() -> None:
    def of_a_view(x: torch.Tensor) -> Any:
        y = x * 2
        return y[0].detach_(), y

    def of_computed(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).requires_grad_(False)

    for function in (of_a_view, of_computed):
        with pytest.raises(RuntimeError):
            onegraph.compile(function, backend="eager")(torch.ones(3, requires_grad=True))


def test_an_input_may_be_a_view_which_is_not_detached() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.detach_() + 1

    compiled, whole = onegraph.compile(function), torch.ones(4)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    with pytest.raises(RuntimeError, match="detach views"):
        compiled(whole[:2])


def test_the_attribute_is_not_set_of_computed_tensors() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.requires_grad = True
        return y

    with pytest.raises(RuntimeError, match="leaf variables"):
        onegraph.compile(function)(torch.ones(2, requires_grad=True))


def test_numbers_that_change_say_what_is_recorded() -> None:
    def function(x: torch.Tensor, n: int) -> torch.Tensor:
        MODEL.bias.requires_grad_(n > 3)
        with torch.set_grad_enabled(n > 5):
            y = MODEL(x)
        MODEL.bias.requires_grad_()
        return y

    compiled = onegraph.compile(function, dynamic=True)
    for n in range(1, 9):
        assert compiled(torch.ones(3), n).requires_grad is (n > 5)
