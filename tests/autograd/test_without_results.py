"""Graphs whose inputs have gradients and whose results have none: compiled as under no_grad, and seen as eager's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import onegraph
from onegraph.base import events as ev
from onegraph.compile import EVENTS
from onegraph.tools.record import recording

OPTIONS = {"raise_compiler_errors": True}
SEEN = (ev.KernelsCompiled, ev.GradientsPlanned, ev.FunctionalGraphBuilt)


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.dropout(self.norm(self.first(x)).relu(), 0.5))


def predicted(model: nn.Module, x: Tensor, state: Tensor) -> Any:
    return model(x).argmax(-1)


def compared(model: nn.Module, x: Tensor, state: Tensor) -> Any:
    return model(x) > 0.5


def detached(model: nn.Module, x: Tensor, state: Tensor) -> Any:
    return model(x).detach(), x.detach()


def ranked(model: nn.Module, x: Tensor, state: Tensor) -> Any:
    logits = model(x)
    return logits.topk(2).indices, logits.sort().indices.t(), logits.isnan().any()


def averaged(model: nn.Module, x: Tensor, state: Tensor) -> Any:
    logits = model(x)
    state.mul_(0.9).add_(logits.detach()[:, :1], alpha=0.1)
    return (logits.argmax(-1) == 0).sum(), state


def written_twice(model: nn.Module, x: Tensor, state: Tensor) -> Any:
    found = (model(x) > 0).float()
    found.add_(1)
    found[0] = 7
    return found, found[1]


def kept_beside(model: nn.Module, x: Tensor, state: Tensor) -> Any:
    return x[0], model(x).argmax(), x


PROGRAMS = (predicted, compared, detached, ranked, averaged, written_twice, kept_beside)


def facts(results: Any, model: nn.Module, x: Tensor, state: Tensor) -> list[Any]:
    """What is seen of results and inputs."""
    given = (x, state)
    tensors = [*(results if isinstance(results, tuple) else (results,)), *given, *model.buffers(), *model.parameters()]
    return [
        (
            tensor.requires_grad, tensor.is_leaf, tensor.grad_fn is None, tensor._version, tensor.stride(),
            [tensor.untyped_storage()._cdata == other.untyped_storage()._cdata for other in tensors],
        )
        for tensor in tensors
    ]  # fmt: skip


def call(function: Callable[..., Any], model: nn.Module) -> list[Any]:
    torch.manual_seed(0)
    x, state = torch.randn(6, 8, requires_grad=True), torch.zeros(6, 1)
    results = function(model, x, state)
    log = [results, state, list(model.buffers()), torch.get_rng_state(), facts(results, model, x, state)]
    again = function(model, x.detach().exp().requires_grad_(), state)
    return [*log, again, state.clone(), torch.get_rng_state()]


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_is_as_in_eager(program: Callable[..., Any], backend: str) -> None:
    model = Classifier()
    theirs, ours = copy.deepcopy(model), copy.deepcopy(model)
    function = onegraph.compile(program, backend=backend, fullgraph=True, options=OPTIONS)
    with recording(EVENTS, (*SEEN, ev.OperatorFellBack)) as seen:
        found = call(function, ours)
    expected = call(program, theirs)
    assert found[4] == expected[4]
    torch.testing.assert_close([*found[:4], *found[5:]], [*expected[:4], *expected[5:]])
    assert not [e for e in seen if isinstance(e.event, ev.OperatorFellBack) and e.event.operator == "autograd"]
    assert not [e for e in seen if isinstance(e.event, ev.GradientsPlanned)]


@pytest.mark.parametrize("program", [predicted, compared, ranked])
def test_graphs_and_kernels_are_those_under_no_grad(program: Callable[..., Any]) -> None:
    counts = []
    for mode in (torch.enable_grad, torch.no_grad):
        with mode(), recording(EVENTS, SEEN) as seen:
            call(onegraph.compile(program, fullgraph=True, options=OPTIONS), Classifier())
        counts.append([(type(item.event), getattr(item.event, "kernels", None)) for item in seen])
        onegraph.reset()
    assert counts[0] == counts[1]
    assert sum(kind is ev.KernelsCompiled for kind, _ in counts[0]) == 1


def test_hooks_that_see_what_is_saved_see_what_eager_saves() -> None:
    def program(x: Tensor) -> Tensor:
        return (x.exp() * x).argmax()

    shapes = []
    for function in (program, onegraph.compile(program, fullgraph=True)):
        packed: list[Any] = []
        x = torch.arange(6.0).requires_grad_()
        function(x)
        with torch.autograd.graph.saved_tensors_hooks(lambda t, packed=packed: packed.append(t.clone()), lambda t: t):  # type: ignore[misc]
            function(x)
        shapes.append(packed)
    torch.testing.assert_close(shapes[1], shapes[0])
    assert len(shapes[0]) == 3


def test_a_write_to_a_leaf_that_has_gradients_is_eagers_error() -> None:
    def program(x: Tensor) -> Tensor:
        x.add_(1)
        return x.argmax()

    messages = []
    for function in (program, onegraph.compile(program)):
        x = torch.arange(6.0).requires_grad_()
        with pytest.raises(RuntimeError) as caught:
            function(x)
        messages.append(str(caught.value))
        assert x._version == 0 and torch.equal(x, torch.arange(6.0))
    assert messages[0] == messages[1]


def test_pieces_of_a_view_that_is_made_under_no_grad() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        with torch.no_grad():
            rows = x[1:]
        return *rows.unbind(0), x * 2

    x = torch.arange(12.0).view(3, 4)
    with recording(EVENTS, (ev.KernelsCompiled, ev.OperatorFellBack)) as seen:
        found = onegraph.compile(program, fullgraph=True, options=OPTIONS)(x)
    assert [type(item.event) for item in seen] == [ev.KernelsCompiled]
    torch.testing.assert_close(found, program(x))
    assert found[0].untyped_storage()._cdata == x.untyped_storage()._cdata


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_results_that_are_made_under_no_grad_require_none(backend: str) -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        with torch.no_grad():
            return x.sin(), x.view(-1), x.detach()

    x = torch.rand(3, requires_grad=True)
    found = onegraph.compile(program, backend=backend, fullgraph=True)(x)
    assert [result.requires_grad for result in found] == [result.requires_grad for result in program(x)]
