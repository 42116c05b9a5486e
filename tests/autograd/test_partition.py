"""Joint graphs and how they are cut: texts, and the bytes that are kept."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from autograd.programs import as_module
from torch import Tensor
from torch.fx import Graph, GraphModule
from torch.nn import functional as F

import onegraph
from onegraph.autograd.graphs import FunctionalGraph, GraphPair, Program, graph_pair, other_backward, recorded_graphs
from onegraph.autograd.partition import partition
from onegraph.autograd.spec import Computed, GradSpec, Half, Input, Tangent
from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.base.errors import CompileError, InvalidArgument
from onegraph.torchlib.fake import FakeMode
from onegraph.torchlib.graph_text import graph_text


def pair_of(function: Callable[..., Any], *inputs: Tensor, parameters: tuple[int, ...] = ()) -> GraphPair:
    mode = FakeMode()
    module = as_module(function, len(inputs))
    return planned(Program(module, [mode.fakeify(x) for x in inputs], parameters=parameters))


def planned(program: Program, **options: float) -> GraphPair:
    cx = Context(Config(**options))  # type: ignore[arg-type]
    return graph_pair(program, program.joint(cx), cx)


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


def test_a_chain_of_pointwise_operators_is_computed_again() -> None:
    pair = pair_of(lambda x, w: (F.gelu(x * w).sum(),), leaf(64), leaf(64))
    assert (
        graph_text(pair.graphs.backwards[0].module).splitlines()[0]
        == "graph(x0: f32[64], x1: f32[64], tangent0: f32[]):"
    )
    assert pair.graphs.recomputed == ("mul_tensor",)
    assert pair.graphs.text() == "keep x0: 256 bytes\nkeep x1: 256 bytes\nagain mul_tensor: 256 bytes"


def test_products_and_random_numbers_are_kept() -> None:
    def program(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        return (F.dropout(F.gelu(x @ w), 0.5).sum(),)

    pair = pair_of(program, leaf(8, 8), leaf(8, 8), parameters=(1,))
    text = graph_text(pair.graphs.backwards[0].module)
    assert "aten.bernoulli" not in text
    assert text.count("aten.mm") == 2  # those of the backward pass
    assert pair.graphs.kept == 2 * 8 * 8 * 4 + 8 * 8  # the mask is one of bools


def test_the_convention_prints() -> None:
    def program(x: Tensor, w: Tensor, b: Tensor) -> tuple[Any, ...]:
        return x + b * b, (w * w).detach(), b.argmax()

    pair = pair_of(program, leaf(3), leaf(3), leaf(3))
    assert str(pair.grad).splitlines() == [
        "3 results, of which autograd follows [0]",
        "tangent 0: the gradient of result 0, output 0",
        "input 0: tangent 0",
        "input 1: no gradient",
        "input 2: gradient 0",
        "watched: input 2",
    ]


def test_results_that_others_are_computed_from_have_halves_of_their_own() -> None:
    def program(x: Tensor, w: Tensor) -> tuple[Any, ...]:
        logits = x * w
        return logits.exp().sum() + (x + w).sum(), logits

    pair = pair_of(program, leaf(3), leaf(3))
    assert str(pair.grad).splitlines() == [
        "2 results, of which autograd follows [0, 1]",
        "tangent 0: the gradient of result 0, output 0",
        "tangent 1: the gradient of result 1, output 1",
        "input 0: gradient 0",
        "input 1: gradient 1",
        "watched: input 0",
        "watched: input 1",
        "tangent 1, a part: gradient 0",
    ]
    inputs, cut = (graph_text(graph.module).splitlines() for graph in pair.graphs.backwards)
    assert inputs[0] == "graph(x0: f32[3], x1: f32[3], tangent0: f32[], tangent1: f32[3]):"
    assert cut[0] == "graph(x0: f32[3], x1: f32[3], tangent0: f32[]):"


def refused(function: Callable[..., Any], *inputs: Tensor) -> str:
    with pytest.raises(CompileError) as caught:
        pair_of(function, *inputs)
    return str(caught.value)


def test_results_that_have_nothing_but_parameters_in_common_have_halves_of_their_own() -> None:
    def program(x: Tensor, y: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        return x * w, y * w, (x + w).sum()

    def tangents(*parameters: int) -> list[tuple[int, ...]]:
        pair = pair_of(program, leaf(3), leaf(3), leaf(3), parameters=parameters)
        return [half.tangents for half in pair.grad.halves]

    assert tangents(2) == [(0, 2), (1,)]
    assert tangents(0, 1, 2) == [(0, 1, 2)]


def test_without_results_that_have_gradients_there_is_one_graph() -> None:
    mode, module = FakeMode(), as_module(lambda x: ((x * 2).argmax(), x.detach()), 1)
    graph = recorded_graphs(Program(module, [mode.fakeify(leaf(3))]), Context())
    assert isinstance(graph, FunctionalGraph)
    assert graph_text(graph.module).splitlines()[1:] == [
        "  mul_tensor: f32[3] = aten.mul.Tensor(x0, 2)",
        "  argmax_default: i64[] = aten.argmax.default(mul_tensor)",
        "  return (argmax_default,)",
    ]


def test_what_is_refused() -> None:
    def written_after_it_was_kept(x: Tensor) -> tuple[Tensor, ...]:
        y = x.exp()
        z = y * 2
        y.add_(1)
        return (z,)

    def viewed_under_no_grad(x: Tensor) -> tuple[Tensor, ...]:
        y = x.detach()
        with torch.no_grad():
            rows = y[1:]
        return x * 2, rows

    def pieces_of_a_view_under_no_grad(x: Tensor) -> tuple[Tensor, ...]:
        with torch.no_grad():
            rows = x[1:]
        return x * 2, *rows.unbind(0)

    assert "modified by an inplace operation" in refused(written_after_it_was_kept, leaf(3))
    assert "a leaf that the graph made" in refused(lambda x: (torch.ones(3, requires_grad=True), x * 2), leaf(3))
    assert "lets nobody write to" in refused(viewed_under_no_grad, leaf(3, 3))
    assert "no operator makes alone" in refused(pieces_of_a_view_under_no_grad, leaf(3, 3))


def chain(length: int) -> tuple[GraphModule, GradSpec]:
    """A joint graph of so many operators in a row, and the gradients of each."""
    aten = torch.ops.aten
    graph = Graph()
    with FakeMode():
        value = torch.empty(64, 64)
    x, tangent = graph.placeholder("x"), graph.placeholder("tangent0")
    x.meta["val"] = tangent.meta["val"] = value

    def add(target: Any, *args: Any) -> Any:
        node = graph.call_function(target, args)
        node.meta["val"] = value
        return node

    forward = [x]
    for index in range(length):
        forward.append(add(aten.mm.default, forward[-1], x) if index % 7 == 0 else add(aten.sin.default, forward[-1]))
    gradient = tangent
    for node in reversed(forward[:-1]):
        gradient = add(aten.mul.Tensor, gradient, add(aten.cos.default, node))
    graph.output((forward[-1], gradient))
    return GraphModule({}, graph), GradSpec(1, (0,), (Half((0,), (Computed(0),), 1),), (Computed(0),))


def test_the_work_grows_with_the_nodes() -> None:
    calls = {}
    for length in (425, 1700):
        module, spec = chain(length)
        noted = itertools.count()
        before = sys.getprofile()
        sys.setprofile(lambda *_, noted=noted: next(noted) and None)
        try:
            graphs = partition(module, spec, (), ())
        finally:
            sys.setprofile(before)
        calls[length] = next(noted)
    assert len(module.graph.nodes) > 5000
    assert calls[1700] < 5 * calls[425], calls
    assert calls[1700] < 800 * len(module.graph.nodes), calls  # 620, calls and returns, which take less than a second
    assert len(graphs.backwards[0].saved) < 260


def test_a_gradient_may_be_the_tangent() -> None:
    assert Tangent(0) in pair_of(lambda x, y: (x + y,), leaf(3), leaf(3)).grad.halves[0].gradients


def test_what_normalizations_give_is_computed_again_from_their_statistics() -> None:
    def program(x: Tensor, w: Tensor, b: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        return ((F.layer_norm(x.exp(), [64], w, b) @ v).sum(),)

    pair = pair_of(program, leaf(32, 64), leaf(64), leaf(64), leaf(64, 8), parameters=(1, 2, 3))
    assert pair.graphs.kept == 32 * 64 * 4 + 2 * 32 * 4, pair.graphs.text()


def test_what_batch_norm_gives_is_computed_again() -> None:
    def program(x: Tensor, k: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        return (F.conv2d(F.batch_norm(F.conv2d(x, k), None, None, w, b, training=True).relu(), k).sum(),)

    pair = pair_of(program, leaf(2, 4, 9, 9), leaf(4, 4, 3, 3), leaf(4), leaf(4), parameters=(1, 2, 3))
    assert pair.graphs.kept == (2 * 4 * 9 * 9 + 2 * 4 * 7 * 7 + 2 * 4) * 4, pair.graphs.text()


def test_sums_that_layers_pass_on_are_kept_and_not_added_up_again() -> None:
    """They are as large as what was added to them, and in memory anyway."""

    def program(x: Tensor, v: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        x = x @ v
        for _ in range(3):
            x = x + x.sin() @ w
        return (x.cos().sum(),)

    pair = pair_of(program, leaf(32, 64), leaf(64, 64), leaf(64, 64), parameters=(1, 2))
    adds = [name for name in pair.graphs.recomputed if name.startswith("add")]
    assert adds == ["add_tensor_2"] and pair.graphs.kept == 5 * 32 * 64 * 4, pair.graphs.text()


def test_a_loss_over_many_classes_keeps_no_second_copy_of_them() -> None:
    def program(h: Tensor, w: Tensor, target: Tensor) -> tuple[Tensor, ...]:
        return (F.cross_entropy(h @ w, target),)

    pair = pair_of(program, leaf(16, 8), leaf(8, 1000), torch.randint(1000, (16,)), parameters=(1,))
    assert pair.graphs.kept < 16 * 1000 * 4 + 16 * 8 * 4 + 1024, pair.graphs.text()
    assert "keep mm_default: 64000 bytes" in pair.graphs.text()  # which is there: the probabilities are not written


def test_rows_of_a_tied_table_are_added_to_its_gradient() -> None:
    def program(table: Tensor, rows: Tensor, padding: int | None = None) -> tuple[Tensor, ...]:
        return (F.linear(F.embedding(rows, table, padding), table).sin().sum(),)

    def gradients(program: Callable[..., Any]) -> Tensor:
        return torch.autograd.grad(program(table, rows)[0], table)[0]

    table, rows = leaf(50, 8), torch.randint(50, (12,))
    rows[3] = rows[4] = 7
    text = graph_text(pair_of(program, table, rows).graphs.backwards[0].module)
    assert "aten.index_put" in text and "embedding_dense_backward" not in text
    run = onegraph.compile(program, options={"raise_compiler_errors": True})
    torch.testing.assert_close(gradients(run), gradients(program))

    def padded(table: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
        return program(table, rows, 7)

    assert "embedding_dense_backward" in graph_text(pair_of(padded, table, rows).graphs.backwards[0].module)
    torch.testing.assert_close(gradients(onegraph.compile(padded)), gradients(padded))


def test_names_of_what_is_kept_are_those_of_other_backward_graphs() -> None:
    def program(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        y = F.dropout(F.layer_norm(x, [8], w), 0.5)
        return y.exp(), y.sin()

    mode = FakeMode()
    whole = Program(as_module(program, 2), [mode.fakeify(x) for x in (leaf(4, 8), leaf(8))])
    pair = planned(whole)
    other = other_backward(whole, pair, 0, [0], Context())
    assert other is not None and other.module is not None
    names = [node.name for node in other.module.graph.nodes if node.op == "placeholder"]
    kept = pair.graphs.backwards[0].names()
    assert names[:-1] == [("x0", "x1")[p.index] if isinstance(p, Input) else kept[p] for p in other.taken]
    assert any("lean" in name for name in names)


def budgeted(budget: float) -> GraphPair:
    def program(x: Tensor, *ws: Tensor) -> tuple[Tensor, ...]:
        for w in ws:
            x = F.dropout((x @ w).tanh(), 0.5)
        return (x.sum(),)

    mode, whole = FakeMode(), as_module(program, 5)
    inputs = [mode.fakeify(x) for x in (leaf(64, 8), *(leaf(8, 8) for _ in range(4)))]
    return planned(Program(whole, inputs, parameters=(1, 2, 3, 4)), memory_budget=budget)


def test_a_budget_is_met_by_computing_products_again() -> None:
    kept = {budget: budgeted(budget).graphs for budget in (1.0, 0.7, 0.0)}
    assert not any(name.startswith("mm") for name in kept[1.0].recomputed)
    assert kept[0.7].kept <= 0.7 * kept[1.0].kept
    again = {budget: sum(name.startswith("mm") for name in graphs.recomputed) for budget, graphs in kept.items()}
    assert 0 < again[0.7] < again[0.0]
    assert kept[0.0].kept == 64 * 8 * 4 + 4 * 64 * 8  # the input, and the masks: what is random is not drawn again


def test_a_budget_changes_no_gradient() -> None:
    def program(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        y = F.layer_norm((x @ w).tanh() @ w, [8])
        return y.exp().sum(), (y @ w).sin().sum()

    x, w = leaf(16, 8), leaf(8, 8)
    expected = torch.autograd.grad(sum(program(x, w)), (x, w))
    run = onegraph.compile(program, options={"memory_budget": 0.0, "raise_compiler_errors": True})
    torch.testing.assert_close(torch.autograd.grad(sum(run(x, w)), (x, w)), expected)
    one = torch.autograd.grad(program(x, w)[1], (x, w))
    torch.testing.assert_close(torch.autograd.grad(run(x, w)[1], (x, w)), one)


@pytest.mark.parametrize("budget", [-0.1, 1.5, "half", None])
def test_what_is_no_budget_is_refused(budget: object) -> None:
    with pytest.raises(InvalidArgument, match="memory_budget.*a number from 0 to 1"):
        onegraph.compile(torch.sin, options={"memory_budget": budget})


@torch.library.custom_op("onegraph_tests::cube", mutates_args=())
def cube(x: Tensor) -> Tensor:
    return x**3


@torch.library.custom_op("onegraph_tests::cube_backward", mutates_args=())
def cube_backward(gradient: Tensor, x: Tensor) -> Tensor:
    return gradient * x * x * 3


cube.register_fake(torch.empty_like)
cube_backward.register_fake(lambda gradient, x: torch.empty_like(x))
cube.register_autograd(
    lambda ctx, gradient: cube_backward(gradient, *ctx.saved_tensors),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


def test_operators_of_other_libraries_may_stand_in_the_backward_pass() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        return ((cube(x.sin()) * 2).sum(),)

    x = leaf(8)
    assert "onegraph_tests.cube_backward" in graph_text(pair_of(program, x).graphs.backwards[0].module)
    run = onegraph.compile(program, options={"raise_compiler_errors": True})
    torch.testing.assert_close(torch.autograd.grad(run(x)[0], x), torch.autograd.grad(program(x)[0], x))
