"""Every hatch on every kind of callable: the result is eager's, and the mark holds."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

X = torch.arange(4.0)


def leaf(x: Any) -> Any:
    return x.sin() + 1


class Callable_:
    def __call__(self, x: Any) -> Any:
        return leaf(x)


class Thing:
    def method(self, x: Any) -> Any:
        return leaf(x)

    @classmethod
    def of_class(cls, x: Any) -> Any:
        return leaf(x)

    @staticmethod
    def static(x: Any) -> Any:
        return leaf(x)


class StaticCall:
    @staticmethod
    def __call__(x: Any) -> Any:
        return leaf(x)


class ClassCall:
    @classmethod
    def __call__(cls, x: Any) -> Any:
        return leaf(x)


class Module(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return leaf(x)


@functools.wraps(leaf)
def decorated(*args: Any) -> Any:
    return leaf(*args)


#: What the hatches are applied to: each is made anew, because hatches remember functions.
SUBJECTS: dict[str, Callable[[], Any]] = {
    "function": lambda: lambda x: leaf(x),
    "method": lambda: Thing().method,
    "class_method": lambda: Thing.of_class,
    "static_method": lambda: Thing.static,
    "partial": lambda: functools.partial(leaf),
    "partial_of_a_method": lambda: functools.partial(Thing().method),
    "callable_object": lambda: Callable_(),
    "object_with_a_static_call": lambda: StaticCall(),
    "object_with_a_class_call": lambda: ClassCall(),
    "module": lambda: Module(),
    "compiled_function": lambda: onegraph.compile(lambda x: leaf(x), fullgraph=True),
    "decorated": lambda: functools.wraps(leaf)(lambda *args: decorated(*args)),
    "cached": lambda: functools.lru_cache(leaf),
    "itemgetter": lambda: operator.itemgetter(slice(None)),
    "methodcaller": lambda: operator.methodcaller("sin"),
    "vmap": lambda: torch.vmap(torch.sin),
    "operator": lambda: torch.ops.aten.sin.default,
    "function_of_torch": lambda: torch.nn.functional.softsign,
    "script": lambda: torch.jit.script(torch.nn.ReLU()),
}
#: hatch -> the kind of break that a call is under it, if any.
HATCHES: dict[str, tuple[Callable[[Any], Any], str | None]] = {
    "disable": (onegraph.disable, "disabled-function"),
    "disable_this_one": (functools.partial(onegraph.disable, recursive=False), "disabled-function"),
    "disallow_in_graph": (onegraph.disallow_in_graph, "disallowed-function"),
    "nonstrict_trace": (onegraph.nonstrict_trace, None),
    "allow_in_graph": (onegraph.allow_in_graph, None),
    "error_on_graph_break": (onegraph.error_on_graph_break(False), None),
    "disable_nested_graph_breaks": (onegraph.disable_nested_graph_breaks, None),
    "run": (onegraph.run, None),
}
#: What is no graph for a reason of its own.
OTHERWISE = {
    ("script", "nonstrict_trace"): "unseen-operation",
    ("vmap", "nonstrict_trace"): "function-transform",
    ("script", "allow_in_graph"): "scripted-function",
    ("script", "error_on_graph_break"): "scripted-function",
    ("script", "disable_nested_graph_breaks"): "scripted-function",
}


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
@pytest.mark.parametrize(
    ("subject", "hatch"), [(s, h) for s in SUBJECTS for h in HATCHES if (s, h) != ("script", "run")]
)
def test_hatch(subject: str, hatch: str) -> None:
    apply, code = HATCHES[hatch]
    marked = apply(SUBJECTS[subject]())
    code = OTHERWISE.get((subject, hatch), code)

    def f(x: Any) -> Any:
        return marked(x.cos()) * 2

    expected = f(X)
    with Watch() as watch:
        for _ in range(2):
            torch.testing.assert_close(onegraph.compile(f, backend="eager")(X), expected)
    assert {event.code for event in watch.of(ev.GraphBroken)} == ({code} if code else set())
    assert watch.graphs and not watch.of(ev.FrameSkipped)
    onegraph.allow_in_graph(torch.ops.aten.sin.default)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
@pytest.mark.parametrize("subject", SUBJECTS)
def test_forbidden(subject: str) -> None:
    made = SUBJECTS[subject]()
    if subject in ("static_method", "operator", "function_of_torch"):
        made = functools.partial(made)  # they live longer than the test, and would stay marked
    forbidden = onegraph.forbid_in_graph(made)
    with pytest.raises(onegraph.ForbiddenCallError, match="which must not be called in compiled code"):
        onegraph.compile(lambda x: forbidden(x.cos()))(X)


def test_constants_of_methods_of_tensors() -> None:
    """What is called for its constant result is called with the program's own objects, never with stand-ins."""
    numbers = onegraph.assume_constant_result(X.sum)
    assert torch.equal(onegraph.compile(lambda x: x + numbers(), fullgraph=True)(X), X + 6)

    class Table:
        rows = 3

        def __call__(self) -> int:
            return self.rows

    table = onegraph.assume_constant_result(Table())
    assert torch.equal(onegraph.compile(lambda x: x + table(), fullgraph=True)(X), X + 3)


def test_another_object_of_a_class_is_not_marked() -> None:
    first, second = Callable_(), Callable_()
    onegraph.disallow_in_graph(first)
    for call, graphs in ((first, [2, 1]), (second, [3])):
        with Watch() as watch:
            assert torch.equal(onegraph.compile(lambda x, call: call(x) * 2, backend="eager")(X, call), leaf(X) * 2)
        assert watch.graphs == graphs


@pytest.mark.parametrize("function", [operator.itemgetter(0), np.sin, torch.Tensor.sin, len], ids=str)
def test_run_of_what_has_no_weak_references(function: Any) -> None:
    argument = X.numpy() if function is np.sin else X
    for found in (onegraph.run(function)(argument), onegraph.run(onegraph.compile(function))(argument)):
        assert np.array_equal(found, function(argument))


def test_an_import_in_compiled_code_is_no_part_of_it(tmp_path, monkeypatch) -> None:
    (tmp_path / "imported_while_compiled.py").write_text(
        "def double(n):\n    return n * 2\nNUMBER = sum([double(n) for n in range(3)])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def f(x: Any) -> Any:
        onegraph.graph_break()
        import imported_while_compiled

        return x * imported_while_compiled.NUMBER

    def missing(x: Any) -> Any:
        import missing_while_compiled  # type: ignore[import-not-found] # noqa: F401

        return x

    with Watch() as watch:
        assert torch.equal(onegraph.compile(f, backend="eager")(X), X * 6)
    assert {event.frame.function for event in watch.of(ev.FrameStarted)} == {"f"}
    with pytest.raises(ModuleNotFoundError, match="No module named 'missing_while_compiled'") as raised:
        onegraph.compile(missing)(X)
    assert [entry.name for entry in raised.traceback][1:] == ["missing"]
