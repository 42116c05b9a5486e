"""torch's own compiler and this one in one process: what each of them compiles stays compiled, in any order."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from onegraph.compile import EVENTS
from tests.capture.resume.test_breaks import Watch

Made = list[tuple[str, str]]


@pytest.fixture
def made() -> Iterator[Made]:
    """The graphs that are made from now on: by whom, and of which function."""
    found: Made = []

    def note(event: Any) -> None:
        if isinstance(event, ev.GraphCaptured):
            found.append(("onegraph", event.frame.function))

    end = EVENTS.subscribe(note)
    torch.compiler.reset()
    yield found
    end()
    torch.compiler.reset()


def by_stock(function: Callable[..., Any], made: Made, **settings: Any) -> Any:
    def backend(graph: torch.fx.GraphModule, examples: list[torch.Tensor]) -> Any:
        made.append(("stock", getattr(function, "__name__", "?")))
        return graph.forward

    return torch.compile(function, backend=backend, **settings)


def by_onegraph(function: Callable[..., Any], **settings: Any) -> Any:
    return onegraph.compile(function, backend="eager", **settings)


def programs(made: Made) -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    """Compiled functions apart, nested in both ways, and twice."""

    def leaf_a(x):
        return x.sin() + 1

    def leaf_b(x):
        return x.cos() - 1

    def leaf_c(x):
        y = x.tan()
        torch._dynamo.graph_break()
        return y + 1  # stock cannot make this a part of its graph

    a, b, c = by_onegraph(leaf_a), by_stock(leaf_b, made), by_onegraph(leaf_c)

    def stock_calls_onegraph(x):
        return c(x * 2) + 3

    def onegraph_calls_stock(x):
        return b(x * 2) + 4

    outer = by_stock(stock_calls_onegraph, made)

    def onegraph_calls_both(x):
        onegraph.graph_break()
        return outer(x) + a(x)

    return {
        "a": a,
        "b": b,
        "stock": outer,
        "onegraph": by_onegraph(onegraph_calls_stock),
        "both": by_onegraph(onegraph_calls_both),
    }


def expected(x: torch.Tensor) -> dict[str, torch.Tensor]:
    a, b = x.sin() + 1, x.cos() - 1
    stock = (x * 2).tan() + 4
    return {"a": a, "b": b, "stock": stock, "onegraph": (x * 2).cos() - 1 + 4, "both": stock + a}


ORDERS = list(itertools.permutations(["a", "b", "stock", "onegraph", "both"]))[::7]


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_in_any_order_of_first_calls(order: tuple[str, ...], made: Made) -> None:
    x = torch.arange(3.0)
    compiled = programs(made)
    for _ in range(2):
        for name in order:
            torch.testing.assert_close(compiled[name](x), expected(x)[name])
    wanted = {("onegraph", "leaf_a"), ("stock", "leaf_b"), ("stock", "stock_calls_onegraph"), ("onegraph", "leaf_c")}
    assert wanted | {("onegraph", "onegraph_calls_stock"), ("onegraph", "onegraph_calls_both")} <= set(made)
    seen = len(made)
    for name in order:
        compiled[name](x)
    assert len(made) == seen
    assert_works_alone(made)


def assert_works_alone(made: Made) -> None:
    """New functions are compiled by whom they are given to, and a break is an error where it shall be."""

    def fresh(x):
        return x.exp()

    def breaking(x):
        onegraph.graph_break()
        return x + 1

    made.clear()
    by_onegraph(fresh)(torch.ones(2))
    by_stock(fresh, made)(torch.ones(2))
    assert made == [("onegraph", "fresh"), ("stock", "fresh")]
    with pytest.raises(onegraph.GraphBreakError):
        by_onegraph(breaking, fullgraph=True)(torch.ones(2))


def test_a_module_in_what_stock_compiles(made: Made) -> None:
    """As `accelerate` prepares one."""
    used = torch.nn.Linear(2, 2)
    onegraph.compile(used, backend="eager")(torch.ones(2))
    inner = torch.nn.Linear(2, 2)
    model = onegraph.compile(inner, backend="eager")

    def forward(x):
        return model(x) + 1

    compiled = by_stock(forward, made)
    x = torch.ones(2)
    made.clear()
    for _ in range(2):
        torch.testing.assert_close(compiled(x), inner(x) + 1)
    assert made and len(made) == len(set(made))
    assert_works_alone(made)


def test_what_stock_takes_into_its_graph(made: Made) -> None:
    inner = by_onegraph(lambda x: x.sin() + 1)

    def outer(x):
        return inner(x * 2) + 1

    compiled = by_stock(outer, made, fullgraph=True)
    x = torch.ones(2)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), (x * 2).sin() + 2)
    assert made == [("stock", "outer")]
    again = by_stock(inner, made, fullgraph=True)
    torch.testing.assert_close(again(x), x.sin() + 1)
    assert [who for who, _ in made] == ["stock", "stock"]
    assert_works_alone(made)


def test_a_function_with_breaks_in_what_stock_compiles(made: Made) -> None:
    def inner(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    region = by_onegraph(inner)

    def outer(x):
        return region(x) + 3

    compiled = by_stock(outer, made)
    for _ in range(3):
        assert compiled(torch.ones(2)).tolist() == [7.0, 7.0]
    assert [made.count(each) for each in (("onegraph", "inner"), ("stock", "outer"))] == [2, 1]  # and nobody twice
    assert ("stock", "inner") not in made
    assert_works_alone(made)


def test_stock_compiles_what_a_region_runs_as_it_is_written(made: Made) -> None:
    """Code that onegraph does not look at calls what stock has compiled."""

    def leaf(x):
        return x.sin() + 1

    inner = by_stock(leaf, made)

    @onegraph.disable
    def outside(x):
        return inner(x)

    region = by_onegraph(lambda x: outside(x * 2) + 1)
    x = torch.ones(2)
    for _ in range(3):
        torch.testing.assert_close(region(x), (x * 2).sin() + 2)
    assert made.count(("stock", "leaf")) == 1
    assert_works_alone(made)


def test_reset_of_both(made: Made) -> None:
    x = torch.ones(3)
    compiled = programs(made)
    for _ in range(3):
        for name, function in compiled.items():
            torch.testing.assert_close(function(x), expected(x)[name])
        made.clear()
        for function in compiled.values():
            function(x)
        assert made == []
        onegraph.reset()
        torch.compiler.reset()
        for function in compiled.values():
            function(x)
        assert {who for who, _ in made} == {"onegraph", "stock"}


def test_with_threads(made: Made) -> None:
    """Both come and go in other threads all the time."""
    x = torch.arange(3.0)
    compiled = programs(made)
    for function in compiled.values():
        function(x)
    failures: list[Any] = []
    stop = threading.Event()

    def work(names: list[str]) -> None:
        try:
            while not stop.is_set():
                for name in names:
                    torch.testing.assert_close(compiled[name](x), expected(x)[name])
        except Exception as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        order = list(compiled)
        threads = [threading.Thread(target=work, args=(order[k:] + order[:k],)) for k in range(3)]
        for thread in threads:
            thread.start()
        for turn in range(5):  # first calls of new functions meanwhile

            def fresh(x, turn=turn):
                return x * turn

            made.clear()
            assert by_onegraph(fresh)(x).tolist() == by_stock(fresh, made)(x).tolist()
            assert {("onegraph", "fresh"), ("stock", "fresh")} <= set(made)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert not failures
    assert_works_alone(made)


def test_what_stock_remembers_of_modules_watches_nothing(made: Made) -> None:
    by_stock(lambda x: x + 1, made)(torch.ones(2))  # from here on it has a weak reference to each new module

    def f(x, layer):
        x = layer(x)
        onegraph.graph_break()
        layer = None  # noqa: F841
        return x + 1

    with Watch() as watch:
        by_onegraph(f)(torch.ones(2), torch.nn.Linear(2, 2))
    assert [event.code for event in watch.of(ev.GraphBroken)] == ["forced-graph-break"]


def test_what_stock_disables_of_optimizers_is_captured(made: Made) -> None:
    by_stock(lambda x: x + 1, made)(torch.ones(2))  # from here on it keeps to its limits in torch's own classes
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.NAdam([parameter])
    step = by_onegraph(optimizer.step, fullgraph=True)
    for _ in range(2):
        parameter.grad = torch.ones(2)
        step()
    assert ("onegraph", "step") in made


def test_modules_that_compiled_code_makes(made: Made) -> None:
    by_stock(lambda x: x + 1, made)(torch.ones(2))  # from here on it keeps a table of all modules that are made

    def halved(x):
        kept = torch.nn.Sequential(torch.nn.AvgPool1d(2))
        return kept(x), kept

    compiled = by_onegraph(halved, fullgraph=True)
    for _ in range(3):
        found, kept = compiled(torch.ones(1, 4))
        assert found.tolist() == [[1.0] * 2] and kept(found).tolist() == [[1.0]]
    assert made.count(("onegraph", "halved")) == 1
