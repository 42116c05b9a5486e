"""`onegraph.explain`, `CompileProfiler` and `compile_times` on real programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import onegraph
from onegraph.tools.report import Explanation
from tests.capture.breaks.messages import toy_example


def explain_now(*args: Any) -> Explanation:
    return onegraph.explain(toy_example)(*args)


def explain_as_before(*args: Any) -> Explanation:
    return onegraph.explain(toy_example, *args)


@pytest.mark.parametrize("explain", [explain_now, explain_as_before])
def test_the_toy_example(explain: Callable[..., Explanation]) -> None:
    found = explain(torch.randn(10), torch.rand(10))
    assert (found.graph_count, found.graph_break_count, found.op_count) == (3, 2, 6)
    explanation, out_guards, graphs, ops_per_graph = found
    lines = explanation.splitlines()
    assert lines[0].startswith("onegraph produced 3 graphs, with 2 graph breaks and 6 ops")
    assert 'print("woo")' in explanation and "if b.sum() < 0:" in explanation
    assert [reason.code for reason in found.break_reasons] == ["print", "data-dependent-branch"]
    assert [reason.user_stack[-1].source_line() for reason in found.break_reasons] == [
        'print("woo")',
        "if b.sum() < 0:",
    ]
    assert graphs == found.graphs and all(isinstance(graph, torch.fx.GraphModule) for graph in graphs)
    assert ops_per_graph == [[torch.abs, "add", "div"], ["sum", "lt"], ["mul"]] or [len(o) for o in ops_per_graph] == [
        3,
        2,
        1,
    ]
    assert out_guards == found.out_guards and any("a is a float32 tensor" in guard for guard in out_guards)
    assert "translate" in found.compile_times
    assert "between 3 ops in graph 1 and 2 ops in graph 2" in explanation


def test_what_costs_most_comes_first() -> None:
    def f(x):
        print("soon")
        y = x
        for _ in range(40):
            y = y.sin() + 1
        return y if y.sum() > 0 else -y

    found = onegraph.explain(f)(torch.ones(3))
    assert [reason.code for reason in found.break_reasons] == ["print", "data-dependent-branch"]
    assert [finding.title for finding in found.findings] == [
        "Graph break: the truth of a tensor decides what runs next",
        "Graph break: call of print, which writes to the terminal",
    ]
    assert found.findings[0].seconds > found.findings[1].seconds > 0
    text = str(found)
    dearest, other = text.index(" s: Graph break: the truth"), text.index(" s: Graph break: call of print")
    assert text.index("Break reasons:") < text.index("What costs most") < dearest < other


def test_all_breaks_of_a_run_are_named() -> None:
    @onegraph.disable
    def eager(x):
        return compiled(x) + 1

    def inner(x):
        return x * x.sum().item()

    compiled = onegraph.compile(inner)

    def f(x):
        y = eager(x + 1)
        return [value + 1 for value in y.repeat(20).tolist()]

    codes = [reason.code for reason in onegraph.explain(f)(torch.ones(3)).break_reasons]
    assert codes == ["disabled-function", "tensor-item", "tensor-to-list"]


def test_what_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        onegraph.explain(lambda x: x / (1 // 0))(torch.ones(2))


def test_an_empty_graph_has_no_number() -> None:
    def f(x):
        print("first")
        return x + 1

    found = onegraph.explain(f)(torch.ones(2))
    assert found.graph_count == 1
    assert "\n1. call of print, which writes to the terminal [print]\n" in str(found)


def test_what_is_left_to_libraries_is_listed_with_its_cost() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x @ w).relu() @ w + torch.histc(x, 4).sum()

    found = onegraph.explain(f)(torch.randn(100, 100), torch.randn(100, 100))
    product, histogram = found.library_calls
    assert (product.operator, product.count, product.moved) == ("aten.mm.default", 2, 2 * 3 * 40_000)
    assert str(product) == "aten.mm.default x2: a library multiplies matrices best (240.0 kB, about 28 us)"
    assert str(found).endswith("\n  aten.histc.default: there is no lowering for it (40.0 kB, about 6 us)")
    assert histogram.nanoseconds < product.nanoseconds


def test_custom_operators_are_said_to_be_opaque() -> None:
    @torch.library.custom_op("explained::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)
    (call,) = onegraph.explain(lambda x: twice(x) + 1)(torch.ones(3)).library_calls
    assert call.reason == "it is a custom operator: what it computes only its library knows"


def test_nothing_is_listed_where_all_is_compiled() -> None:
    found = onegraph.explain(lambda x: x.sin().sum(0))(torch.randn(4, 4))
    assert found.library_calls == () and "Called as it is" not in str(found)


def test_profiler_reports_breaks_and_guard_failures() -> None:
    def f(x, scale):
        y = x * scale
        print("here")
        return y + 1

    with onegraph.CompileProfiler() as profiler:
        profiled = onegraph.compile(f, backend=profiler)
        for scale in (1.0, 2.0, 2.0):
            profiled(torch.ones(3), scale)
    onegraph.compile(f, backend="eager")(torch.ones(3), 5.0)  # nobody counts any more
    lines = profiler.report().splitlines()
    assert lines[0] == "onegraph produced 3 graphs with 4 ops."
    assert lines[1] == "2 graph breaks:"
    assert lines[2].startswith("  2 x call of print, which writes to the terminal [print], in f (")
    assert lines[3] == "1 guard failure:" and "scale" in lines[4]


def test_compile_times() -> None:
    onegraph.compile(lambda x: x + 1)(torch.ones(3))
    table = str(onegraph.compile_times())
    assert table.splitlines()[0].split() == ["stage", "runs", "seconds"]
    assert "translate" in table and "functionalize: " in table
    names, seconds = onegraph.compile_times(repr="csv", aggregate=True)
    assert {"translate", "functionalize", "compile"} <= set(names) and len(names) == len(seconds)
    with pytest.raises(onegraph.InvalidArgument, match="'repr' expects"):
        onegraph.compile_times("json")


def test_what_cannot_be_compiled_cannot_be_explained() -> None:
    with pytest.raises(onegraph.InvalidArgument, match="got an object of type 'int', which cannot be called"):
        onegraph.explain(3)


def test_what_gradients_keep_is_said_with_sizes_and_lines() -> None:
    w = torch.nn.Parameter(torch.randn(64, 64))

    def program(x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x @ w).sum()

    said = onegraph.explain(program)(torch.randn(8, 64))
    (planned,) = said.gradients
    assert planned.kept == 2 * 8 * 64 * 4
    text = str(said)
    assert "Gradients keep 4096 bytes, and compute" in text
    assert any(
        line.startswith("  keep mm") and "2048 bytes, " in line and "program" in line for line in text.splitlines()
    )
    assert "aten.mm.default x" in text  # of both graphs
