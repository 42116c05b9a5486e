"""Results over whose history the program has made a backward pass: eager has freed it, and refuses another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import onegraph
from tests.autograd.test_optimizers import Seen

Program = Callable[[Tensor, Tensor, Tensor], Any]


def loss_of_step(x: Tensor, w: Tensor, v: Tensor) -> Any:
    loss = (x @ w).tanh().square().mean()
    loss.backward()
    return loss


def loss_and_logits(x: Tensor, w: Tensor, v: Tensor) -> Any:
    logits = x @ w
    loss = F.cross_entropy(logits, torch.arange(4))
    loss.backward()
    return {"loss": loss, "logits": logits}


def views(x: Tensor, w: Tensor, v: Tensor) -> Any:
    logits = (x @ w).view(2, 2, 4)
    loss = logits.sin().sum(-1)
    loss.sum().backward()
    return loss[0], logits, logits.transpose(0, 1), loss


def beside_one_that_is_kept(x: Tensor, w: Tensor, v: Tensor) -> Any:
    loss = (x @ w).sin().sum()
    loss.backward()
    return loss, v.cos() * x.sum(), v.exp()


def no_pass_looked_at_it(x: Tensor, w: Tensor, v: Tensor) -> Any:
    """Sums keep nothing: another pass is allowed, and adds to the gradients."""
    loss = (w + v).sum()
    loss.backward()
    return loss


def retained(x: Tensor, w: Tensor, v: Tensor) -> Any:
    loss = (x @ w).sin().sum()
    loss.backward(retain_graph=True)
    return loss


def penalty(x: Tensor, w: Tensor, v: Tensor) -> Any:
    loss = (x @ w).sin().sum()
    (gradient,) = torch.autograd.grad(loss, w, create_graph=True)
    total = loss + gradient.square().sum()
    total.backward()
    return total, loss, gradient


def by_grad(x: Tensor, w: Tensor, v: Tensor) -> Any:
    loss = (x @ w * v).sin().sum()
    return loss, *torch.autograd.grad(loss, (w, v))


def two_losses(x: Tensor, w: Tensor, v: Tensor) -> Any:
    first, second = (x @ w).sin().sum(), v.exp().sum()
    first.backward()
    second.backward()
    return first, second, (first + second).detach()


def added_behind(x: Tensor, w: Tensor, v: Tensor) -> Any:
    loss = (x @ w).sin().sum()
    loss.backward()
    return loss * 2 + loss.exp(), loss


def freed_for_one_input(x: Tensor, w: Tensor, v: Tensor) -> Any:
    loss = (x @ w).sin().sum() + v.sum()
    loss.backward()
    return loss


def freed_behind_a_result(x: Tensor, w: Tensor, v: Tensor) -> Any:
    hidden = w + 1
    loss = hidden.sin().sum()
    loss.backward()
    return hidden, loss


def written_behind(x: Tensor, w: Tensor, v: Tensor) -> Any:
    loss = (x @ w).sin().sum()
    loss.backward()
    x.detach().mul_(2)
    loss.add_(1)
    return loss


WHOLE: tuple[Program, ...] = (
    loss_of_step,
    loss_and_logits,
    views,
    beside_one_that_is_kept,
    no_pass_looked_at_it,
    retained,
    penalty,
    by_grad,
    two_losses,
    added_behind,
    written_behind,
)

#: What is freed of these is a part of their histories: they run operator by operator.
IN_PARTS: tuple[Program, ...] = (freed_for_one_input, freed_behind_a_result)


def seen_of(program: Program) -> list[Any]:
    """What a caller sees of the results, of a backward pass over each, and of gradients."""
    torch.manual_seed(0)
    leaves = [torch.randn(4, 4), torch.randn(4, 4).requires_grad_(), torch.randn(4, 4).requires_grad_()]
    results = torch.utils._pytree.tree_leaves(program(*leaves))
    seen: list[Any] = []
    for result in results:
        seen += [result.detach().clone(), result.requires_grad, result.is_leaf, result._version, result.stride()]
        seen += [leaf.grad for leaf in leaves]
        if not result.requires_grad:
            continue
        for inputs in (None, leaves[1:2], leaves[2:]):
            try:
                result.sum().backward(inputs=inputs, retain_graph=True)
            except RuntimeError as error:
                seen.append(str(error))
            seen += [leaf.grad if leaf.grad is None else leaf.grad.clone() for leaf in leaves]
    return seen


def check(program: Program, backend: str) -> Seen:
    options = {"smallest_recorded_graph": 0} if backend == "native" else {}
    with Seen() as seen:
        ours = seen_of(onegraph.compile(program, backend=backend, fullgraph=True, options=options))
    theirs = seen_of(program)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        if isinstance(other, Tensor):
            torch.testing.assert_close(one, other)
        else:
            assert one == other
    return seen


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("program", WHOLE, ids=lambda program: program.__name__)
def test_passes_over_results(program: Program, backend: str) -> None:
    assert not any("operator by operator" in text for text in check(program, backend).fallbacks)


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("program", IN_PARTS, ids=lambda program: program.__name__)
def test_what_is_freed_in_part(program: Program, backend: str) -> None:
    assert any("backward pass has freed" in text for text in check(program, backend).fallbacks)


def test_the_name_of_the_node_is_eagers() -> None:
    names = [
        function(torch.ones(4, 4), torch.ones(4, 4).requires_grad_(), torch.ones(4, 4)).grad_fn
        for function in (loss_of_step, onegraph.compile(loss_of_step, options={"smallest_recorded_graph": 0}))
    ]
    assert [type(node).__name__ for node in names] == ["MeanBackward0", "MeanBackward0"]


def test_a_step_of_training_that_returns_its_loss() -> None:
    """Three steps, native and whole: the usual way to write one."""

    def train(step_of: Callable[[Any], Any]) -> list[Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

        def step(x: Tensor, y: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        step = step_of(step)
        losses = [step(torch.randn(5, 8), torch.arange(5) % 4) for _ in range(3)]
        assert all(loss.requires_grad for loss in losses)
        return [loss.detach() for loss in losses] + [p.detach() for p in model.parameters()]

    with Seen() as seen:
        ours = train(onegraph.compile)
    assert not any("operator by operator" in text for text in seen.fallbacks)
    torch.testing.assert_close(ours, train(lambda step: step))
