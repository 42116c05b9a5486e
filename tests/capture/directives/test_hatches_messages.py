"""Messages that are moved behind the graph, or left out, where the program says so."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base.config import Config
from tests.capture.resume.test_breaks import Watch

X = torch.arange(4.0)


def moved(*functions: Any) -> dict[str, Any]:
    return {"options": {"reorderable_logging_functions": functions}, "fullgraph": True}


def same_output(capsys: Any, function: Any, *args: Any, **settings: Any) -> None:
    """Eager's results and printed text, in two calls."""
    compiled = onegraph.compile(function, **settings)
    for _ in range(2):
        expected = function(*args)
        text = capsys.readouterr().out
        torch.testing.assert_close(compiled(*args), expected)
        assert capsys.readouterr().out == text


def test_print_is_moved(capsys) -> None:
    def f(x, name):
        print("first", name, x)
        y = x + 1
        print(f"second {y.sum():.1f}", y.shape, [y, {"k": y * 2}], sep="|", end="!\n", file=sys.stdout)
        print(y.dtype, None, 3, (1, 2))
        return y

    same_output(capsys, f, X, "name", **moved(print))
    with Watch() as watch:
        onegraph.compile(f, backend="eager", options={"reorderable_logging_functions": {print}})(X, "name")
    assert watch.graphs == [3]


def test_without_being_asked_it_breaks() -> None:
    with pytest.raises(onegraph.GraphBreakError, match="print"):
        onegraph.compile(lambda x: print(x), fullgraph=True)(X)


def test_what_is_shown_is_what_was_there(capsys) -> None:
    def f(x):
        items = [1, x]
        print(items)
        items.append(3)
        for number in range(3):
            print("step", number)
        return x + len(items)

    same_output(capsys, f, X, **moved(print))


def test_a_tensor_that_is_changed_afterwards_breaks(capsys) -> None:
    def f(x):
        y = x + 1
        print(y)
        y.add_(1)
        return y

    with pytest.raises(onegraph.GraphBreakError):
        onegraph.compile(f, **moved(print))(X)
    same_output(capsys, f, X, options={"reorderable_logging_functions": [print]})


def test_an_object_that_may_change_breaks(capsys) -> None:
    class Thing:
        number = 1

        def __repr__(self):
            return f"Thing({self.number})"

    def f(x, thing):
        print(thing)
        thing.number = 2
        return x + 1

    with pytest.raises(onegraph.GraphBreakError, match="print"):
        onegraph.compile(f, **moved(print))(X, Thing())
    onegraph.compile(f, options={"reorderable_logging_functions": [print]})(X, Thing())
    assert capsys.readouterr().out == "Thing(1)\n"


def test_functions_of_the_user(capsys) -> None:
    seen = []

    def log(message, value):
        seen.append((message, value.tolist()))
        print(message)

    def f(x):
        log("a", x + 1)
        print("b")
        return x * 2

    same_output(capsys, f, X, **moved(print, log))
    assert seen == [("a", [1.0, 2.0, 3.0, 4.0])] * 4


def test_in_front_of_a_break_and_behind_it(capsys) -> None:
    def f(x):
        print("one")
        onegraph.graph_break()
        print("two", x.sum())
        return x + 1

    same_output(capsys, f, X, options={"reorderable_logging_functions": [print]})


def test_ignored(capsys) -> None:
    def f(x):
        print("unheard")
        warnings.warn("unseen", stacklevel=1)
        return x + 1

    settings = {"options": {"ignore_logging_functions": [print, warnings.warn]}, "fullgraph": True}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(onegraph.compile(f, **settings)(X), X + 1)
    assert capsys.readouterr().out == ""


def test_torch_configuration_is_honoured(capsys) -> None:
    import torch._dynamo.config as config

    with config.patch(reorderable_logging_functions={print}):
        same_output(capsys, lambda x: print(x) or x + 1, X, fullgraph=True)
    with config.patch(ignore_logging_functions={print}):
        onegraph.compile(lambda x: print(x) or x + 1, fullgraph=True)(X)
    assert capsys.readouterr().out == ""


def test_configuration() -> None:
    config = Config.from_environment({"ONEGRAPH_REORDERABLE_LOGGING_FUNCTIONS": "print, warnings.warn"})
    assert config.reorderable_logging_functions == (print, warnings.warn)
    with pytest.raises(onegraph.InvalidArgument, match="expected a collection of functions"):
        Config.from_environment({"ONEGRAPH_IGNORE_LOGGING_FUNCTIONS": "prinnt"})
    with pytest.raises(onegraph.InvalidArgument, match="expects a collection of functions"):
        onegraph.compile(lambda x: x, options={"ignore_logging_functions": print})
