"""What torch's own pages on its compiler promise, example by example, with torch's names and with ours.

The table holds (page, heading, example) -> its test. Where we do better than the page says, the test says so.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.directives.spellings import both_spellings
from tests.capture.resume.test_breaks import Watch

X = torch.arange(4.0)
TABLE: dict[tuple[str, str, str], Callable[[Any], None]] = {}


def example(page: str, heading: str, what: str) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    def register(run: Callable[[Any], None]) -> Callable[[Any], None]:
        TABLE[page, heading, what] = run
        return run

    return register


def breaks(function: Any, match: str = "call of graph_break", **settings: Any) -> None:
    with pytest.raises(onegraph.GraphBreakError, match=match):
        onegraph.compile(function, **settings)(X)


def graphs(function: Any, *args: Any, **settings: Any) -> list[int]:
    """The operations of each graph of a call, which gives what the function gives."""
    expected = function(*args)
    with Watch() as watch:
        torch.testing.assert_close(onegraph.compile(function, backend="eager", **settings)(*args), expected)
    assert not watch.of(ev.FrameSkipped)
    return watch.graphs


def broken_between(spelling: Any) -> Any:
    def code_with_a_break(x):
        x = x + 1
        spelling.graph_break()
        return x + 2

    return code_with_a_break


# ---- fullgraph=True --------------------------------------------------------------------------------------------------


@example("fullgraph_true", "Strategy 1", "next of an iterator that is an argument")
def next_of_an_argument(spelling: Any) -> None:
    """There it breaks the graph; here it is captured, and the iterator has moved on."""

    def f(xs):
        return next(xs) + next(xs)

    iterator = iter([torch.tensor(1.0), torch.tensor(2.0), torch.tensor(5.0)])
    assert onegraph.compile(f, fullgraph=True)(iterator) == 3 and next(iterator) == 5


@example("fullgraph_true", "Strategy 1", "the iterator is made inside")
def next_inside(spelling: Any) -> None:
    def f(xs):
        iterator = iter(xs)
        return next(iterator) + next(iterator)

    assert graphs(f, [torch.tensor(1.0), torch.tensor(2.0)], fullgraph=True) == [1]


@example("fullgraph_true", "Strategy 2", "nonstrict_trace of what breaks")
def nonstrict_of_what_breaks(spelling: Any) -> None:
    def g(x):
        y = x.sin()
        spelling.graph_break()
        return y.sin()

    breaks(lambda x: g(x.sin()), fullgraph=True)
    assert graphs(lambda x: spelling.nonstrict_trace(g)(x.sin()), X, fullgraph=True) == [3]


@example("fullgraph_true", "Strategy 2", "custom_op around a function in C++")
def custom_operator(spelling: Any) -> None:
    """tests/capture/directives/test_hatches_operators.py builds the C++ function of the page; this one is in C too."""

    def f(x):
        return torch.from_numpy(np.convolve(x.numpy(), np.ones(1))) + 1

    breaks(f, match="numpy", fullgraph=True)

    @torch.library.custom_op(f"torch_pages::square_{spelling.__name__.replace('.', '_')}", mutates_args=())
    def square(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(np.square(x.numpy()))

    square.register_fake(lambda x: x.new_empty(x.size()))
    assert graphs(lambda x: square(x) + 1, X, fullgraph=True) == [2]


@example("fullgraph_true", "Strategy 3", "torch.save is not compiled")
def saving(spelling: Any) -> None:
    file = io.BytesIO()

    def f(x):
        y = x**2 / 2
        torch.save(y, file)
        return y**3 / 6

    breaks(f, match="call of save", fullgraph=True)
    assert graphs(f, X) == [2, 2]
    g, h = (onegraph.compile(part, fullgraph=True) for part in (lambda x: x**2 / 2, lambda y: y**3 / 6))
    torch.testing.assert_close(h(g(X)), f(X))


# ---- error_on_graph_break --------------------------------------------------------------------------------------------


def strict(spelling: Any, function: Any) -> list[int]:
    with Watch() as watch:
        result = spelling.error_on_graph_break(True)(onegraph.compile(function, backend="eager"))(X)
    assert torch.equal(result, X + 3)
    return watch.graphs


@example("error_on_graph_break", "error_on_graph_break(False) example", "decorator")
def lenient_decorator(spelling: Any) -> None:
    difficult = spelling.error_on_graph_break(False)(broken_between(spelling))
    inner = lambda x: difficult(x)  # noqa: E731
    assert strict(spelling, lambda x: inner(x)) == [1, 1]


@example("error_on_graph_break", "error_on_graph_break(False) example", "context manager")
def lenient_block(spelling: Any) -> None:
    def f(x):
        x = x + 1
        with spelling.error_on_graph_break(False):
            spelling.graph_break()
        return x + 2

    assert strict(spelling, f) == [1, 1]


@example("error_on_graph_break", "error_on_graph_break(False) example", "monkeypatching a bound method")
def lenient_method(spelling: Any) -> None:
    class ThirdParty(torch.nn.Module):
        def forward(self, x):
            x = x + 1
            spelling.graph_break()
            return x + 2

    module = ThirdParty()
    module.forward = spelling.error_on_graph_break(False)(module.forward)  # type: ignore[method-assign]
    assert strict(spelling, lambda x: module.forward(x)) == [1, 1]


@example("error_on_graph_break", "error_on_graph_break(True) example", "one function that must not break")
def strict_function(spelling: Any) -> None:
    inner2 = spelling.error_on_graph_break(True)(broken_between(spelling))

    def f(x):
        x = x + 4
        spelling.graph_break()  # no error
        return inner2(x)

    with pytest.raises(onegraph.GraphBreakError) as raised:
        onegraph.compile(f)(X)
    assert [place.function for place in raised.value.user_stack] == ["f", "code_with_a_break"]


@example("error_on_graph_break", "nesting behavior", "nested calls inherit")
def nested_calls(spelling: Any) -> None:
    inner = broken_between(spelling)

    def inner2(x):
        with spelling.error_on_graph_break(False):
            return inner(x)

    assert strict(spelling, lambda x: inner2(x)) == [1, 1]


@example("error_on_graph_break", "nesting behavior", "one region under another")
def nested_regions(spelling: Any) -> None:
    def inner(x):
        x = x + 1
        with spelling.error_on_graph_break(False):
            spelling.graph_break()
        return x + 2

    def inner2(x):
        with spelling.error_on_graph_break(True):
            return inner(x)

    assert graphs(lambda x: inner2(x), X) == [1, 1]


@example("error_on_graph_break", "Interaction with fullgraph", "fullgraph has precedence")
def fullgraph_has_precedence(spelling: Any) -> None:
    inner = spelling.error_on_graph_break(False)(broken_between(spelling))
    breaks(lambda x: inner(x), fullgraph=True)


@example("error_on_graph_break", "Interaction with fullgraph", "fullgraph cannot be switched off inside")
def fullgraph_stays(spelling: Any) -> None:
    inner = onegraph.compile(broken_between(spelling), fullgraph=False)
    breaks(lambda x: inner(x), fullgraph=True)


@example("error_on_graph_break", "Interaction with fullgraph", "fullgraph inside of a function that may break")
def fullgraph_inside(spelling: Any) -> None:
    inner = onegraph.compile(broken_between(spelling), fullgraph=True)
    breaks(lambda x: inner(x), fullgraph=False)


@example("error_on_graph_break", "Summary", "the table")
def summary(spelling: Any) -> None:
    for fullgraph, setting in ((True, True), (True, False), (False, True)):
        function = spelling.error_on_graph_break(setting)(broken_between(spelling))
        with Watch() as watch:
            breaks(function, fullgraph=fullgraph)
        assert len(watch.of(ev.GraphBroken)) == 1  # the first alone is reported
    assert graphs(spelling.error_on_graph_break(False)(broken_between(spelling)), X) == [1, 1]


# ---- nonstrict_trace -------------------------------------------------------------------------------------------------


@example("nonstrict_trace", "scenario", "fails, works as a decorator and inline")
def magic_number(spelling: Any) -> None:
    def get_magic_num():
        spelling.graph_break()
        return torch.tensor([42])

    breaks(lambda x: x + get_magic_num(), fullgraph=True)
    marked = spelling.nonstrict_trace(get_magic_num)
    assert graphs(lambda x: x + marked(), X, fullgraph=True) == [2]
    assert graphs(lambda x: x + spelling.nonstrict_trace(get_magic_num)(), X, fullgraph=True) == [2]


@example("nonstrict_trace", "requirements", "what is read besides the arguments is a constant")
def constants_of_nonstrict_code(spelling: Any) -> None:
    values = {"offset": 1}
    f = onegraph.compile(spelling.nonstrict_trace(lambda x: x + values["offset"]), fullgraph=True)
    assert torch.equal(f(X), X + 1)
    values["offset"] = 2
    assert torch.equal(f(X), X + 1)


# ---- fullgraph=False -------------------------------------------------------------------------------------------------


@example("fullgraph_false", "strategy", "disable: one break in the place of many")
def one_break_for_many(spelling: Any) -> None:
    def preprocess(x):
        for number in range(3):
            x = x + number
            spelling.graph_break()
        return x

    many = graphs(lambda x: preprocess(x * 2) * 3, X)
    eager = spelling.disable(preprocess)
    assert len(many) > 2 and graphs(lambda x: eager(x * 2) * 3, X) == [1, 1]


@example("fullgraph_false", "strategy", "only the graph that a change concerns is compiled again")
def one_graph_again(spelling: Any) -> None:
    setting = {"factor": 2}

    def f(x):
        x = x.sin()
        spelling.graph_break()
        x = x * setting["factor"]
        spelling.graph_break()
        return x.cos()

    compiled = onegraph.compile(f, backend="eager")
    compiled(X)
    setting["factor"] = 3
    with Watch() as watch:
        assert torch.equal(compiled(X), f(X))
    assert len(watch.graphs) == 1


# ---- frequently asked questions --------------------------------------------------------------------------------------


def toy_example(a, b):
    x = a / (torch.abs(a) + 1)
    print("woo")
    if b.sum() < 0:
        b = b * -1
    return x * b


@example("faq", "Graph breaks", "explain: three graphs, two breaks, six operations")
def explaining(spelling: Any) -> None:
    explanation, guards, modules, operations = onegraph.explain(toy_example, torch.randn(10), torch.randn(10).abs())
    assert explanation.startswith("onegraph produced 3 graphs, with 2 graph breaks and 6 ops")
    assert 'print("woo")' in explanation and "if b.sum() < 0:" in explanation
    assert len(modules) == 3 and sum(map(len, operations)) == 6 and guards
    breaks(lambda x: toy_example(x, x), match="call of print", nopython=True)


@example("faq", "Why are you recompiling in production", "run")
def frozen(spelling: Any) -> None:
    compiled = onegraph.compile(lambda x: x + 1)
    compiled(X)
    with Watch() as watch:
        assert torch.equal(onegraph.run(compiled)(torch.ones(2, 2)), torch.full((2, 2), 2.0))
    assert not watch.of(ev.FrameStarted)


@example("faq", "torch.func", "vmap of tuples, with side effects, with questions about layout; grad with keywords")
def transforms(spelling: Any) -> None:
    """There these break the graph, except for the first; here only `grad` does."""
    x, seen = torch.randn(3, 3, 3), []

    def asking(y):
        seen.append(y.stride())
        return y + 1

    for function in (lambda x: x.sum(1), lambda x: torch.sin(x), asking):
        assert len(graphs(lambda x, f=function: torch.vmap(f)(x), x, fullgraph=True)) == 1
    assert len(graphs(lambda pair: torch.func.vmap(lambda p: p[0] + p[1])(pair), (x, x + 1), fullgraph=True)) == 1
    slope = spelling.allow_in_graph(torch.func.grad(lambda x, y: (x * y).sum()))
    assert graphs(lambda x, y: slope(x, y=y), x, x + 1, fullgraph=True) == [1]


@example("faq", "torch.func", "what is compiled may be transformed")
def transforms_of_compiled_functions(spelling: Any) -> None:
    f = onegraph.compile(lambda x: torch.sin(x))
    torch.testing.assert_close(torch.vmap(f)(X), X.sin())
    torch.testing.assert_close(torch.func.grad(lambda x: f(x).sum())(X), X.cos())


def products(x, y):
    return np.sum(x[:, :, None] * y[:, None, :], axis=(-2, -1))


@example("faq", "NumPy", "a function of arrays, one of tensors that converts them")
def numpy_functions(spelling: Any) -> None:
    x, y = np.random.randn(16, 6), np.random.randn(16, 4)
    with Watch() as watch:
        assert np.allclose(onegraph.compile(products, fullgraph=True)(x, y), products(x, y))
    assert watch.graphs == [4]
    converted = lambda x, y: torch.from_numpy(products(x.numpy(), y.numpy()))  # noqa: E731
    assert len(graphs(converted, torch.from_numpy(x), torch.from_numpy(y), fullgraph=True)) == 1
    with torch.device("cpu"):
        assert np.allclose(onegraph.compile(products, fullgraph=True)(x, y), products(x, y))


@example("faq", "NumPy", "scalars, negative strides, promotion, indices of triangles: there they deviate from NumPy")
def numpy_as_it_is(spelling: Any) -> None:
    def f(x):
        return np.float32(3), np.flip(x), x[::-1], np.float32(3) + 3.0, x.astype(np.float32) + 1.0, np.tril_indices(2)

    x = np.arange(3.0)
    number, flipped, backwards, added, promoted, indices = onegraph.compile(f)(x)
    assert type(number) is np.float32 and type(added) is np.float32 and promoted.dtype == np.float32
    assert np.shares_memory(flipped, x) and np.shares_memory(backwards, x) and type(indices) is tuple


@example("faq", "NumPy", "what NumPy runs itself")
def numpy_runs(spelling: Any) -> None:
    for function in (
        lambda x: np.array(["2024-01-01"], "datetime64[D]") + np.timedelta64(1, "D"),
        lambda x: np.array([("a", 1)], [("name", "U1"), ("count", "i4")])["count"] + 1,
        lambda x: x.astype(np.longdouble) + 1,
        lambda x: x.astype(np.uint16) + 1,
        lambda x: np.matrix(x) * 2,
        lambda x: np.ma.masked_less(x, 1.0).sum(),
        lambda x: np.matmul(np.eye(3), np.eye(3), axes=[(0, 1), (0, 1), (0, 1)]),
        lambda x: np.add.reduce(x),
        lambda x: np.sort(x * 1j),
        lambda x: np.poly1d([1, 2])(x),
        lambda x: np.divmod(x, 2, np.empty(3), np.empty(3)),
        lambda x: sorted(x.__array_interface__),
        lambda x: x.ctypes.shape[0],
    ):
        x = np.arange(3.0)
        expected, found = function(x), onegraph.compile(function, backend="eager")(x)
        assert type(found) is type(expected) and np.array_equal(found, expected)


@example("faq", "NumPy", "trace_numpy = False")
def numpy_between_graphs(spelling: Any) -> None:
    onegraph.config.trace_numpy = False
    try:
        breaks(lambda x: torch.from_numpy(np.sin(x.numpy())), match="numpy", fullgraph=True)
    finally:
        del onegraph.config.trace_numpy


@example("faq", "allow_in_graph", "of torch.vmap")
def allowed(spelling: Any) -> None:
    x = torch.randn(2, 3)
    assert graphs(lambda x: spelling.allow_in_graph(torch.vmap(torch.sum))(x), x, fullgraph=True) == [1]


@example("faq", "fine grain tracing", "disable, disallow_in_graph, disable(recursive=False), graph_break")
def fine_grain(spelling: Any) -> None:
    def a_fn(x):
        x = x + 1 + 2
        return aa_fn(x)

    def aa_fn(x):
        return x.sin() + 1

    def begins_with_a_break(x):
        spelling.graph_break()
        return x * 2

    whole, frame = spelling.disable(a_fn), spelling.disable(recursive=False)(a_fn)
    assert graphs(lambda x: whole(x * 2) * 2, X) == [1, 1]
    assert graphs(lambda x: frame(x * 2) * 2, X) == [1, 2, 1]
    assert graphs(lambda x: begins_with_a_break(x + 1), X) == [1, 1]
    spelling.disallow_in_graph(torch.sub)
    try:
        assert graphs(lambda x: torch.sub(x + 1, 1) * 2, X) == [1, 1]
    finally:
        spelling.allow_in_graph(torch.sub)


@pytest.mark.parametrize("place", TABLE, ids=lambda place: f"{place[0]}: {place[2]}")
@both_spellings
def test_example(spelling: Any, place: tuple[str, str, str]) -> None:
    onegraph.reset()
    with torch.no_grad():
        TABLE[place](spelling)
