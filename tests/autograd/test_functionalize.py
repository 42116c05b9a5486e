from __future__ import annotations

from typing import Any

import pytest
import torch
from autograd.programs import as_module, check, functional, operators
from torch import Tensor

import onegraph
from onegraph.autograd.graphs import functional_graph
from onegraph.autograd.spec import Computed, Input, Strided
from onegraph.base.context import Context
from onegraph.base.errors import CompileError
from onegraph.torchlib.fake import FakeMode


def make(*shape: int) -> Tensor:
    return torch.randn(*shape)


def test_a_plain_program_needs_no_calling_convention() -> None:
    graph = check(lambda x: (x.sin() + 1,), make(3))
    assert graph.spec.is_plain()
    assert operators(graph) == ["sin", "add.Tensor"]


def test_writing_operators_become_functional() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        y = x.clone()
        y.add_(1).mul_(2).relu_()
        y[0] = 3.0
        y[:, 1:] += x[:, :2]
        return (y,)

    graph = check(program, make(3, 3))
    assert not any(name.split(".")[0].endswith("_") for name in operators(graph))


def test_written_inputs_are_copied_back() -> None:
    def program(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        z = x[0]
        z.add_(1)
        w = x.t()
        w[1, 1] = 5.0
        y.mul_(x.sum())
        return x + y, w, x, z

    graph = check(program, make(3, 3), make(3, 3))
    assert [mutation.input for mutation in graph.spec.mutations] == [0, 1]
    assert isinstance(graph.spec.outputs[2], Input)


def test_swapped_inputs() -> None:
    def program(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        t = x.clone()
        x.copy_(y)
        y.copy_(t)
        return ()

    check(program, make(4), make(4))


def test_outputs_that_are_views_of_each_other() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        y = x + 1
        a, b = y.split(2)
        a.mul_(2)
        return y, a, b, y.t(), y.expand(2, 4, 3), y

    graph = check(program, make(4, 3))
    assert isinstance(graph.spec.outputs[1], Strided)
    assert graph.spec.outputs[0] == graph.spec.outputs[5]


def test_outputs_that_are_views_of_inputs() -> None:
    graph = check(lambda x: (x[1:], x.view(-1), x.t()[0], x), make(4, 3))
    assert operators(graph) == []


def test_equal_results_are_tensors_of_their_own() -> None:
    graph = check(lambda x: (x + 1, x + 1, x.clone(), x.contiguous()), make(3))
    assert graph.spec.outputs[:3] == (Computed(0), Computed(1), Computed(2))


def test_one_result_of_an_operator_returned_twice() -> None:
    check(lambda x: (*torch.max(x, 0), *torch.max(x, 0)), make(3, 3))


def test_out_arguments() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        fresh = torch.empty(0)
        torch.add(x, 1, out=fresh)
        held = torch.zeros(3, 3)
        torch.mul(x, 2, out=held)
        values, places = torch.empty(3), torch.empty(3, dtype=torch.long)
        torch.max(x, 0, out=(values, places))
        return fresh, held, values, places

    check(program, make(3, 3))


def test_shape_changes_in_place() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        y = x + 1
        first = y[0]
        y.t_()
        y.relu_()
        y.unsqueeze_(0)
        return y, first

    check(program, make(3, 4))


def test_the_shape_of_an_input_cannot_change() -> None:
    with pytest.raises(CompileError, match="changes the shape of an input"):
        functional(lambda x: (x.t_(),), make(3, 4))


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.view(-1)[2:5],
        lambda x: x.permute(2, 0, 1)[1],
        lambda x: x.transpose(0, 2),
        lambda x: x.diagonal(dim1=0, dim2=1),
        lambda x: x.unbind(1)[1],
        lambda x: x.unfold(2, 2, 2),
        lambda x: x.as_strided((2, 3), (5, 1), 4),
        lambda x: x[:, 1::2].unsqueeze(1).squeeze(),
        lambda x: torch.view_as_complex(x.unflatten(2, (-1, 2))).conj(),
        lambda x: x.view(torch.int32),
        lambda x: x.split_with_sizes([1, 3], 2)[1],
        lambda x: x.movedim(0, 2).reshape(4, -1)[1:],
        lambda x: x.expand(2, 3, 4).detach(),
    ],
)
def test_a_write_through_a_view_reaches_its_base(view: object) -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        y = x.clone()
        other = y.view(-1)
        part = view(y)  # type: ignore[operator]
        part.zero_()
        y.add_(1)
        return y, other.sum(), part.sum()

    check(program, make(2, 3, 4))


def test_a_write_to_a_part_of_an_expanded_tensor() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        y = x + 1
        for wide in (x.expand(2, 3, 4), y.expand(2, 3, 4)[:, 1:]):
            wide[0].mul_(2)
            wide[1][:, 1:].add_(x[: len(wide[0]), 1:])
        return x.expand(2, 3, 4), y

    check(program, make(3, 4))
    check(program, make(5, 4)[2:])


@pytest.mark.parametrize("views", [lambda x: x.unbind(0), lambda x: x.split(1)])
def test_views_made_again_behind_a_write_are_all_known(views: object) -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        y = x.clone()
        first, second = views(y)  # type: ignore[operator]
        y.add_(1)
        return (first * second,)

    graph = check(program, make(2, 3))
    several = ("aten.unbind", "aten.split")
    results = [node.meta["val"] for node in graph.module.graph.nodes if str(node.target).startswith(several)]
    assert results
    assert all(len(result) == 2 and isinstance(result, list | tuple) for result in results)


def test_a_write_to_an_input_that_is_part_of_a_storage() -> None:
    check(lambda x: (x[1:].zero_(), x * 2), make(6, 4)[2:, 1:])


def test_operators_without_a_functional_form() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        y = x.clone()
        y.fill_diagonal_(7.0)
        torch._foreach_add_([y, x], 1.0)
        return (y,)

    check(program, make(3, 3))


def test_random_numbers_follow_the_generator() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        torch.nn.functional.dropout(x, 0.5)  # unused, but later draws depend on it
        y = torch.nn.functional.dropout(x, 0.5)
        z = torch.empty_like(x).normal_()
        w = x.clone()
        torch.nn.init.kaiming_uniform_(w)
        return y, z, w, torch.rand(3), torch.bernoulli(x.sigmoid()), torch.randperm(5), x.new_empty(4).exponential_()

    x = make(3, 3)
    before = torch.random.get_rng_state()
    functional(program, x)
    assert torch.equal(before, torch.random.get_rng_state())
    check(program, x)
    check(program, make(3, 4).t())  # random numbers go in the order of the memory


def test_batch_norm_in_training_writes_its_statistics() -> None:
    def program(x: Tensor, mean: Tensor, var: Tensor) -> tuple[Tensor, ...]:
        return (torch.nn.functional.batch_norm(x, mean, var, training=True),)

    graph = check(program, make(4, 3, 5), torch.zeros(3), torch.ones(3))
    assert len(graph.spec.mutations) == 2


def test_literals_are_new_each_time() -> None:
    graph = check(lambda x: (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0]).add_(x)), make(2))
    assert len(graph.spec.outputs) == 2


def test_autocast_and_grad_mode_are_left_as_they_were() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        torch._C._set_grad_enabled(True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return (x @ x,)

    before = torch.is_grad_enabled()
    graph = functional(program, make(3, 3))
    assert torch.is_grad_enabled() == before and not torch.is_autocast_enabled("cpu")
    assert "mm" in operators(graph)
    assert graph.module(make(3, 3))[0].dtype == torch.bfloat16


def test_a_write_to_an_input_that_shares_elements_with_another_one_is_refused() -> None:
    def program(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        x.add_(1)
        return (y * 2,)

    mode = FakeMode()
    fakes = [mode.fakeify(x) for x in (make(4), make(4), make(4))]
    with pytest.raises(CompileError, match="shares elements"):
        functional_graph(as_module(program, 2), fakes[:2], Context(), overlapping=[(0, 1)])
    other = functional_graph(as_module(lambda x, y, z: program(x, y), 3), fakes, Context(), overlapping=[(1, 2)])
    assert [mutation.input for mutation in other.spec.mutations] == [0]


@pytest.mark.parametrize("view", [lambda x: x[1:], lambda x: x.view(2, 2), lambda x: x.unbind()[0]])
def test_a_view_of_an_input_with_gradients_that_is_written_to_is_refused(view: Any) -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        found = view(x)
        x.mul_(2)
        return (found,)

    check(program, make(4))
    with torch.no_grad(), pytest.raises(CompileError, match="a view of an input with gradients"):
        functional(program, make(4).requires_grad_())


@pytest.mark.parametrize(
    "function",
    [
        lambda z: z.real.fill_(2),
        lambda z: z.imag[1].fill_(2),
        lambda z: z.view(torch.int64).fill_(7),
        lambda z: z[2].fill_(3),
    ],
)
@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_writes_to_other_elements_of_an_expanded_view(function: Any, backend: str) -> None:
    """Positions do not say where these go: the graph runs operator by operator."""

    def program(z: torch.Tensor) -> torch.Tensor:
        z = z.clone()
        function(z[0].expand(4, 3))
        return z + 1

    z = torch.randn(2, 3, dtype=torch.complex64)
    compiled = onegraph.compile(program, backend=backend, options={"raise_compiler_errors": True})
    assert torch.equal(compiled(z), program(z))
