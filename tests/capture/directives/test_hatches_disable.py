"""disable: functions, methods, modules and classes that run eagerly wherever compiled code calls them."""

from __future__ import annotations

import functools
import itertools
import pickle
from typing import Any

import pytest
import torch

import onegraph
from tests.capture.directives.spellings import both_spellings
from tests.capture.resume.test_breaks import Watch

X = torch.arange(4.0)


def leaf(x):
    return x.sin() + 1


def graphs_of(function: Any, *args: Any) -> list[int]:
    """The operations of the graphs of one call, which must give what the function gives eagerly."""
    expected = function(*args)
    with Watch() as watch:
        result = onegraph.compile(function, backend="eager")(*args)
    assert torch.equal(result, expected)
    return watch.graphs


@both_spellings
def test_recursive(spelling: Any) -> None:
    @spelling.disable
    def eager(x):
        return leaf(x + 1)

    assert graphs_of(lambda x: eager(x.cos()) * 2, X) == [1, 1]


@both_spellings
def test_not_recursive(spelling: Any) -> None:
    @spelling.disable(recursive=False)
    def eager(x):
        x = x + 1 + 2 + 3
        return leaf(x)

    assert graphs_of(lambda x: eager(x.cos()) * 2, X) == [1, 2, 1]


@both_spellings
def test_reason(spelling: Any) -> None:
    eager = spelling.disable(leaf, reason="it is slow")
    with pytest.raises(onegraph.GraphBreakError, match="leaf, which is marked to run eagerly: it is slow"):
        onegraph.compile(lambda x: eager(x), fullgraph=True)(X)


@both_spellings
def test_methods(spelling: Any) -> None:
    class Thing:
        @spelling.disable
        def method(self, x):
            return leaf(x)

        @spelling.disable(recursive=False)
        def shallow(self, x):
            return leaf(x)

    thing = Thing()
    assert graphs_of(lambda x: thing.method(x.cos()) * 2 + thing.shallow(x), X) == [1, 1, 2, 1]
    bound = spelling.disable(thing.method)
    assert graphs_of(lambda x: bound(x.cos()) * 2, X) == [1, 1]


@both_spellings
def test_module(spelling: Any) -> None:
    module = torch.nn.Linear(4, 4).requires_grad_(False)
    eager = spelling.disable(module)
    assert graphs_of(lambda x: eager(x.cos()) * 2, X) == [1, 1]
    module.forward = spelling.disable(module.forward)
    assert graphs_of(lambda x: module(x.cos()) * 2, X) == [1, 1]


def test_module_shares_its_state() -> None:
    module = torch.nn.Linear(4, 4)
    eager = onegraph.disable(module)
    assert isinstance(eager, torch.nn.Linear) and list(eager.state_dict()) == ["weight", "bias"]
    eager.eval()
    assert not module.training
    assert torch.equal(pickle.loads(pickle.dumps(eager))(X), module(X))


@both_spellings
def test_class(spelling: Any) -> None:
    @spelling.disable
    class Module(torch.nn.Module):
        def forward(self, x):
            return leaf(x)

    module = Module()
    assert graphs_of(lambda x: module(x.cos()) * 2, X) == [1, 1]
    assert graphs_of(lambda x: Module()(x.cos()) * 2, X) == [1, 1]


@both_spellings
def test_inside_of_compiled_code(spelling: Any) -> None:
    assert graphs_of(lambda x: spelling.disable(leaf)(x.cos()) * 2, X) == [1, 1]

    def f(x):
        def local(y):
            return y * x

        return spelling.disable(local)(x.cos()) * 2

    assert graphs_of(f, X) == [1, 1]


def test_on_what_is_compiled() -> None:
    with Watch() as watch:
        assert torch.equal(onegraph.disable(onegraph.compile(leaf))(X), leaf(X))
        assert torch.equal(onegraph.compile(onegraph.disable(leaf))(X), leaf(X))
        outer = onegraph.disable(lambda x: onegraph.compile(leaf, backend="eager")(x))
        assert torch.equal(outer(X), leaf(X))  # a region inside of it is a region again
    assert watch.graphs == [2]


@both_spellings
def test_in_a_loop_with_effects(spelling: Any) -> None:
    seen = []

    @spelling.disable
    def note(x):
        seen.append(float(x.sum()))

    def f(x):
        for _ in range(3):
            x = x + 1
            note(x)
        return x

    assert graphs_of(f, X) == [1, 1]  # the second graph serves all later steps
    assert seen == [10.0, 14.0, 18.0] * 2


def test_it_keeps_the_face() -> None:
    eager = onegraph.disable(leaf)
    assert eager.__name__ == "leaf" and eager.__wrapped__ is leaf
    assert onegraph.disable(eager) is eager
    assert torch.equal(onegraph.disable(functools.partial(torch.add, alpha=2))(X, X), X * 3)


def test_torch_marks_are_honoured_outside_of_graphs() -> None:
    """A frame of a disabled function that starts natively, as a callback, is left alone too."""

    @torch.compiler.disable
    def eager(x):
        return leaf(x)

    @onegraph.disable(recursive=False)
    def calls(x):
        return eager(x)

    assert graphs_of(lambda x: calls(x.cos()) * 2, X) == [1, 1]


@both_spellings
def test_called_by_native_code(spelling: Any) -> None:
    seen = []

    @spelling.disable
    def add(a, b):
        seen.append(torch.compiler.is_compiling())
        return a + b

    def f(x):
        return x * 2 + list(itertools.accumulate([1, 2, 3], add))[-1]

    graphs_of(f, X)  # what is left of accumulate cannot be made again: the whole function runs eagerly
    assert seen == [False] * 4
    with pytest.raises(onegraph.GraphBreakError, match="marked to run eagerly"):
        onegraph.compile(f, fullgraph=True)(X)


def test_native_code_calls_a_function_of_any_arguments() -> None:
    def add(*numbers):
        return sum(numbers)

    compiled = onegraph.compile(lambda x: x + list(itertools.accumulate([1, 2, 3], add))[-1], fullgraph=True)
    assert torch.equal(compiled(X), X + 6)


def test_static_and_class_methods() -> None:
    class Thing:
        offset = 1

        @onegraph.disable
        @staticmethod
        def plain(x):
            return leaf(x)

        @onegraph.disable(recursive=False)
        @classmethod
        def of_class(cls, x):
            return leaf(x) + cls.offset

        @onegraph.error_on_graph_break(False)
        @staticmethod
        def lenient(x):
            onegraph.graph_break()
            return x + 1

        @onegraph.nonstrict_trace
        @staticmethod
        def nonstrict(x):
            onegraph.graph_break()
            return x + 1

    assert graphs_of(lambda x: Thing.plain(x.cos()) * 2, X) == [1, 1]
    assert graphs_of(lambda x: Thing().of_class(x.cos()) * 2, X) == [1, 2, 1]
    assert graphs_of(onegraph.error_on_graph_break(True)(lambda x: Thing.lenient(x.cos()) * 2), X) == [1, 2]
    assert graphs_of(lambda x: Thing().nonstrict(x.cos()) * 2, X) == [3]


def test_properties() -> None:
    class Thing:
        written = 0

        @onegraph.disable
        @property
        def eager(self):
            """Some words."""
            return leaf(X)

        @eager.setter
        def eager(self, value):
            self.written = value

        @onegraph.error_on_graph_break(False)
        @property
        def lenient(self):
            onegraph.graph_break()
            return X + 1

        @onegraph.nonstrict_trace
        @property
        def nonstrict(self):
            onegraph.graph_break()
            return 2

    def f(x):
        thing = Thing()
        thing.eager = 3
        return x.cos() * thing.eager + thing.written

    assert Thing.eager.__doc__ == "Some words." and Thing().nonstrict == 2
    assert graphs_of(f, X) == [1, 2]
    thing = Thing()
    assert graphs_of(onegraph.error_on_graph_break(True)(lambda x: x.cos() * thing.lenient), X) == [1, 2]


def test_bad_arguments() -> None:
    with pytest.raises(onegraph.InvalidArgument, match="disable expects a function or another callable, got 3"):
        onegraph.disable(3)
    with pytest.raises(onegraph.InvalidArgument, match="'recursive' expects True or False, got 0"):
        onegraph.disable(leaf, 0)
    with pytest.raises(onegraph.InvalidArgument, match="'reason' expects a string or None, got 3"):
        onegraph.disable(leaf, reason=3)
