"""Hatches that are about one function: in the graph as it is, out of it, traced without looking, called once."""

from __future__ import annotations

import grp
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree

import onegraph
from onegraph.capture.directives.function_marks import unmark
from tests.capture.directives.spellings import both_spellings
from tests.capture.resume.test_breaks import Watch

X = torch.arange(4.0)


@pytest.fixture
def marks_taken_back() -> Iterator[None]:
    """What is said of functions of the standard library is said for the whole process."""
    yield
    for function in (operator.length_hint, operator.concat):
        unmark(function)
    onegraph.reset()


def graphs_of(function: Any, *args: Any, **settings: Any) -> list[int]:
    """The operations of the graphs of one call, which must give what the function gives eagerly."""
    expected = function(*args)
    for backend in ("native", "eager"):
        with Watch() as watch:
            result = onegraph.compile(function, backend=backend, **settings)(*args)
        torch.testing.assert_close(result, expected)
    return watch.graphs


# ---- nonstrict_trace -------------------------------------------------------------------------------------------------


@both_spellings
def test_nonstrict_as_a_decorator_and_as_a_call(spelling: Any) -> None:
    def magic():
        spelling.graph_break()
        return torch.tensor([42])

    marked = spelling.nonstrict_trace(magic)
    with pytest.raises(onegraph.GraphBreakError):
        onegraph.compile(lambda x: x + magic(), fullgraph=True)(X)
    assert graphs_of(lambda x: x + marked(), X, fullgraph=True) == [2]
    assert graphs_of(lambda x: x + spelling.nonstrict_trace(magic)(), X, fullgraph=True) == [2]


@both_spellings
def test_nonstrict_operations_are_in_the_graph(spelling: Any) -> None:
    def g(x):
        y = x.sin()
        spelling.graph_break()
        return y.sin()

    assert graphs_of(lambda x: spelling.nonstrict_trace(g)(x.sin()), X, fullgraph=True) == [3]


@both_spellings
def test_nonstrict_closures_and_globals_are_constants(spelling: Any) -> None:
    weight = torch.ones(4)
    scale = [2.0]

    @spelling.nonstrict_trace
    def g(x):
        return x * weight * scale[0]

    compiled = onegraph.compile(lambda x: g(x) + 1, fullgraph=True)
    assert torch.equal(compiled(X), X * 2 + 1)
    scale[0] = 3.0  # not guarded
    assert torch.equal(compiled(X), X * 2 + 1)
    weight.mul_(5)  # the same tensor, an input of the graph
    assert torch.equal(compiled(X), X * 10 + 1)


@dataclass
class Point:
    x: torch.Tensor
    tag: str


pytree.register_dataclass(Point)


class Unknown:
    pass


@both_spellings
def test_nonstrict_takes_and_gives_registered_types(spelling: Any) -> None:
    @spelling.nonstrict_trace
    def move(point, by):
        assert isinstance(point, Point) and point.tag == "p"
        return {"moved": Point(point.x + by["by"], "q")}, [by]

    def f(x):
        moved, _ = move(Point(x.cos(), "p"), {"by": 3})
        return moved["moved"].x * len(moved["moved"].tag)

    assert graphs_of(f, X, fullgraph=True) == [3]
    outside = Point(X, "p")
    compiled = onegraph.compile(lambda p: move(p, {"by": X})[0]["moved"], fullgraph=True)
    assert torch.equal(compiled(outside).x, X + X) and compiled(outside).tag == "q"


@both_spellings
def test_nonstrict_refuses_other_types(spelling: Any) -> None:
    gives = spelling.nonstrict_trace(lambda x: Unknown())
    takes = spelling.nonstrict_trace(lambda x: 1)
    with pytest.raises(onegraph.GraphBreakError, match="returns a .*Unknown, which is no tensor, no constant"):
        onegraph.compile(lambda x: gives(x), fullgraph=True)(X)
    unknown = Unknown()
    with pytest.raises(onegraph.GraphBreakError, match="is given a .*Unknown"):
        onegraph.compile(lambda x: takes(unknown), fullgraph=True)(X)
    assert onegraph.compile(lambda x: takes(unknown))(X) == 1


@both_spellings
def test_nonstrict_trains_a_module_that_is_passed(spelling: Any) -> None:
    @spelling.nonstrict_trace
    def apply(module, x):
        return module(x) + x

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(4, 4)

        def forward(self, x):
            return apply(self.inner, x).sum()

    module = Outer()
    onegraph.compile(module, fullgraph=True)(X).backward()
    assert torch.equal(module.inner.weight.grad, X.expand(4, 4))


@both_spellings
def test_which_nonstrict_function_it_is_is_guarded(spelling: Any) -> None:
    def made(number):
        return spelling.nonstrict_trace(lambda x: x + number)

    compiled = onegraph.compile(lambda g, x: g(x), fullgraph=True)
    assert torch.equal(compiled(made(1), X), X + 1) and torch.equal(compiled(made(2), X), X + 2)


def test_nonstrict_of_a_local_function_breaks() -> None:
    def f(x):
        def local(y):
            return x + y

        return onegraph.nonstrict_trace(local)(x)

    with Watch() as watch:
        assert torch.equal(onegraph.compile(f)(X), X + X)
    assert "local-marked-function" in {event.code for event in watch.seen if hasattr(event, "code")}


def of_a_size(x):
    count = x.shape[0] * 2
    return onegraph.allow_in_graph(lambda y: y * count)(x)


def around_a_size(x):
    count = x.shape[0] * 2

    def inner(y, again=True):
        return outer(y, False) + 1 if again else y * count

    def outer(y, again=True):
        return inner(y, again)

    return onegraph.allow_in_graph(outer)(x)


def with_a_size_as_default(x):
    return onegraph.allow_in_graph(lambda y, *, count=x.shape[0]: y * count)(x)


def with_a_tensor_as_default(x):
    return onegraph.nonstrict_trace(lambda y, other=(x * 2,): y * other[0])(x)


class Scale:
    def __init__(self, by):
        self.by = by


def with_an_object(x):
    scale = Scale(x * 2)
    return onegraph.allow_in_graph(lambda y: y * scale.by)(x)


@pytest.mark.parametrize(
    "function", [with_an_object, of_a_size, around_a_size, with_a_size_as_default, with_a_tensor_as_default]
)
def test_a_local_function_that_keeps_values_breaks(function: Any) -> None:
    """In its cells, or as defaults of its arguments."""
    compiled = onegraph.compile(function)
    with Watch() as watch:
        for size in (3, 5, 4):
            assert torch.equal(compiled(torch.arange(float(size))), function(torch.arange(float(size))))
    assert "local-marked-function" in {event.code for event in watch.seen if hasattr(event, "code")}


def test_a_size_that_nothing_else_asks_for() -> None:
    marked = onegraph.allow_in_graph(lambda x, count: x * count)
    compiled = onegraph.compile(lambda x, count: marked(x, count * 3 + 1), fullgraph=True)
    with Watch() as watch:
        for count in (10, 7, 12, 8):
            assert torch.equal(compiled(X, count), X * (count * 3 + 1))
    assert len(watch.graphs) == 2


def test_data_dependence_in_a_nonstrict_function_breaks() -> None:
    g = onegraph.nonstrict_trace(lambda x: x * x.sum().item())
    with pytest.raises(onegraph.GraphBreakError, match="needs the number that Tensor.item takes out"):
        onegraph.compile(lambda x: g(x) + 1, fullgraph=True)(X)
    assert torch.equal(onegraph.compile(lambda x: g(x) + 1)(X), X * 6 + 1)


# ---- allow, disallow, forbid -----------------------------------------------------------------------------------------


@both_spellings
def test_disallow_and_allow_again(spelling: Any) -> None:
    def f(x):
        return torch.add(torch.sub(torch.add(x, 1), 1), 1)

    assert spelling.disallow_in_graph([torch.sub]) == [torch.sub]
    try:
        assert graphs_of(f, X) == [1, 1]
        with pytest.raises(onegraph.GraphBreakError, match="call of torch.sub, which disallow_in_graph keeps out"):
            onegraph.compile(f, fullgraph=True)(X)
    finally:
        spelling.allow_in_graph(torch.sub)
    assert graphs_of(f, X) == [3]


@both_spellings
def test_allowed_function_is_one_node(spelling: Any) -> None:
    @spelling.allow_in_graph
    def op(x, factor, *, others):
        spelling.graph_break()
        return [x.sin() * factor, sum(others)]

    def f(x):
        a, b = op(x.cos(), 2, others=[x, x])
        return a + b

    nodes = []

    def backend(module, examples):
        nodes.extend(node.target for node in module.graph.nodes if node.op == "call_function")
        return module.forward

    assert torch.equal(onegraph.compile(f, backend=backend, fullgraph=True)(X), f(X))
    assert nodes.count(op) == 1 and torch.sin not in nodes
    assert graphs_of(f, X, fullgraph=True) == [5]


@both_spellings
def test_allowed_inside_of_compiled_code(spelling: Any) -> None:
    def f(x):
        return spelling.allow_in_graph(torch.vmap(torch.sum))(x)

    assert graphs_of(f, torch.arange(6.0).reshape(2, 3), fullgraph=True) == [1]


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacrev, torch.func.jacfwd, torch.func.hessian])
def test_allowed_transforms_of_functions(transform: Any) -> None:
    scalar = transform in (torch.func.grad, torch.func.hessian)
    transformed = onegraph.allow_in_graph(transform((lambda x: x.sin().sum()) if scalar else torch.sin))
    assert graphs_of(lambda x: transformed(x.cos()) * 2, X, fullgraph=True) == [3]


def test_allowed_function_with_gradients() -> None:
    square = onegraph.allow_in_graph(lambda x: x * x)
    x = X.clone().requires_grad_()
    onegraph.compile(lambda x: square(x).sum(), fullgraph=True)(x).backward()
    assert torch.equal(x.grad, 2 * X)


def test_allowed_function_with_an_outer_tensor_breaks() -> None:
    outer = torch.ones(4)
    bad = onegraph.allow_in_graph(lambda x: x + outer)
    with pytest.raises(onegraph.GraphBreakError, match="reads a tensor that is not an argument"):
        onegraph.compile(lambda x: bad(x.cos()), fullgraph=True)(X)
    assert torch.allclose(onegraph.compile(lambda x: bad(x.cos()) * 2)(X), (X.cos() + 1) * 2)
    better = onegraph.nonstrict_trace(lambda x: x + outer)  # the hint
    assert graphs_of(lambda x: better(x.cos()), X, fullgraph=True) == [2]


@both_spellings
def test_forbidden_is_an_error_in_any_mode(spelling: Any) -> None:
    @spelling.forbid_in_graph
    def forbidden(x):
        return x

    for setting in (True, False):
        with pytest.raises(onegraph.ForbiddenCallError, match="forbidden, which must not be called"):
            onegraph.compile(lambda x: forbidden(x.cos()), fullgraph=setting)(X)
    with pytest.raises(AssertionError):
        onegraph.compile(lambda x: forbidden(x.cos()))(X)
    assert torch.equal(forbidden(X), X)


# ---- constants and substitutes ---------------------------------------------------------------------------------------


@both_spellings
def test_assumed_constant(spelling: Any) -> None:
    calls = []

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = {"a": 3}

        @spelling.assume_constant_result
        def number(self, n):
            calls.append(n)
            return self.table["a"] + n

        def forward(self, x):
            return x + self.number(2)

    net = Net()
    compiled = onegraph.compile(net, fullgraph=True, backend="eager")
    assert torch.equal(compiled(X), X + 5) and torch.equal(compiled(X), X + 5)
    assert calls == [2]
    net.table["a"] = 9
    assert torch.equal(compiled(X), X + 5)  # it was assumed

    def changes(x):
        net.table["a"] = 1
        return net(x)

    with pytest.raises(onegraph.GraphBreakError, match="whose result is assumed to be constant"):
        onegraph.compile(changes, fullgraph=True)(X)
    assert torch.equal(onegraph.compile(changes)(X), X + 3)


@both_spellings
def test_assumed_constant_tensor_and_object(spelling: Any) -> None:
    @spelling.assume_constant_result
    def config(path):
        return {"path": path, "scale": torch.full((4,), 2.0), "names": ["a", "b"]}

    def f(x):
        found = config("here")
        return x * found["scale"] + len(found["names"])

    assert graphs_of(f, X, fullgraph=True) == [2]


def test_assumed_constant_of_a_tensor_made_here_breaks() -> None:
    number = onegraph.assume_constant_result(lambda x: float(x.sum()))
    with pytest.raises(onegraph.GraphBreakError, match="is called with a tensor made here"):
        onegraph.compile(lambda x: x + number(x + 1), fullgraph=True)(X)


@pytest.mark.usefixtures("marks_taken_back")
def test_substitute() -> None:
    with pytest.raises(onegraph.InvalidArgument, match="takes"):
        onegraph.substitute_in_graph(operator.length_hint)(lambda a, b, c: 0)

    @onegraph.substitute_in_graph(operator.length_hint)
    def length_hint(obj, default=0, /):
        return len(obj) * 10  # differs from the original, to be seen

    compiled = onegraph.compile(lambda x: x + operator.length_hint([1, 2]), fullgraph=True)
    assert torch.equal(compiled(X), X + 20)
    assert length_hint([1, 2]) == 2  # eagerly it is the original
    assert torch.equal(onegraph.compile(lambda x: x + length_hint([1, 2]), fullgraph=True)(X), X + 20)
    with pytest.raises(onegraph.InvalidArgument, match="is substituted already"):
        onegraph.substitute_in_graph(operator.length_hint)(lambda obj, default=0, /: 0)


@pytest.mark.usefixtures("marks_taken_back")
def test_substitute_folds_constants() -> None:
    @onegraph.substitute_in_graph(operator.concat, can_constant_fold_through=True)
    def concat(a, b, /):
        return "substitute"

    compiled = onegraph.compile(lambda x: (operator.concat("a", "b"), operator.concat([x], [x])), fullgraph=True)
    assert compiled(X) == ("ab", "substitute")


def length(name):
    return len(name)


def test_torch_substitutes_are_honoured() -> None:
    getgrnam = torch.compiler.substitute_in_graph(grp.getgrnam)(length)
    assert torch.equal(onegraph.compile(lambda x: x + grp.getgrnam("four"), fullgraph=True)(X), X + 4)
    assert torch.equal(onegraph.compile(lambda x: x + getgrnam("four"), fullgraph=True)(X), X + 4)


def test_bad_arguments() -> None:
    for name in ("disallow_in_graph", "allow_in_graph", "forbid_in_graph", "nonstrict_trace", "assume_constant_result"):
        with pytest.raises(onegraph.InvalidArgument, match=f"{name} expects a function or another callable, got 3"):
            getattr(onegraph, name)(3)
    with pytest.raises(onegraph.InvalidArgument, match="expects a function, got <class 'int'>"):
        onegraph.substitute_in_graph(int)
    with pytest.raises(onegraph.InvalidArgument, match="expects a Python function"):
        onegraph.substitute_in_graph(operator.truth)(len)


@both_spellings
def test_allowed_function_that_looks_at_data_breaks_the_graph(spelling: Any) -> None:
    @spelling.allow_in_graph
    def op(x):
        return x.sum() if bool(x.any()) else x

    def f(x):
        return op(x) + 1

    with pytest.raises(onegraph.GraphBreakError, match="op takes a size or another number from a tensor"):
        onegraph.compile(f, backend="eager", fullgraph=True)(X)
    assert torch.equal(onegraph.compile(f, backend="eager")(X), f(X))
