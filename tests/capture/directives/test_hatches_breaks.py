"""fullgraph, error_on_graph_break, graph_break, skip_frame: whether graphs may break, and where they are made to."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

import onegraph
from onegraph import _C
from tests.capture.directives.spellings import both_spellings
from tests.capture.resume.test_breaks import Watch

X = torch.arange(4.0)


def broken_between(breaks: Any) -> Any:
    def code_with_a_break(x):
        x = x + 1
        breaks.graph_break()
        return x + 2

    return code_with_a_break


def test_nopython_is_fullgraph() -> None:
    for setting in ("fullgraph", "nopython"):
        compiled = onegraph.compile(broken_between(onegraph), **{setting: True})
        with pytest.raises(onegraph.GraphBreakError, match="graph_break"):
            compiled(X)
    with pytest.raises(onegraph.InvalidArgument, match="'nopython' expects True or False, got 1"):
        onegraph.compile(broken_between, nopython=1)


@both_spellings
def test_a_break_says_why(spelling: Any) -> None:
    def f(x):
        spelling.graph_break("waiting for the mail")
        return x + 1

    with pytest.raises(onegraph.GraphBreakError, match="call of graph_break\\(\\): waiting for the mail"):
        onegraph.compile(f, fullgraph=True)(X)
    assert torch.equal(f(X), X + 1)  # eagerly it does nothing


@both_spellings
def test_three_deep_is_two_graphs(spelling: Any) -> None:
    inner = broken_between(spelling)
    middle = lambda x: inner(x * 2) * 2  # noqa: E731
    with Watch() as watch:
        result = onegraph.compile(lambda x: middle(x + 1) * 3, backend="eager")(X)
    assert torch.equal(result, ((X + 1) * 2 + 3) * 6) and watch.graphs == [3, 3]


@both_spellings
def test_nested_breaks_can_be_turned_off(spelling: Any) -> None:
    inner = broken_between(spelling)

    def f(x):
        with spelling.disable_nested_graph_breaks():
            return inner(x + 1) * 3

    for g in (f, spelling.disable_nested_graph_breaks(lambda x: inner(x + 1) * 3)):
        with Watch() as watch:
            result = onegraph.compile(g, backend="eager")(X)
        assert torch.equal(result, (X + 4) * 3) and watch.graphs == [1, 1, 1, 1]
    assert _C.exchange_setting("nested_graph_breaks") is None


@both_spellings
def test_skip_frame_runs_one_function_eagerly(spelling: Any) -> None:
    def leaf(x):
        return x.sin() + 1

    def skipped(x):
        x = x + 1
        spelling.skip_frame("no use")
        return leaf(x) + 1 + 2 + 3

    with Watch() as watch:
        assert torch.equal(onegraph.compile(skipped, backend="eager")(X), skipped(X))
    assert watch.graphs == [2]
    outer = lambda x: skipped(x * 2) * 3  # noqa: E731
    with Watch() as watch:
        assert torch.equal(onegraph.compile(outer, backend="eager")(X), outer(X))
    assert watch.graphs == [1, 2, 1]
    with pytest.raises(onegraph.GraphBreakError, match="skip_frame\\(\\): no use"):
        onegraph.compile(outer, fullgraph=True)(X)


# ---- error_on_graph_break --------------------------------------------------------------------------------------------


@both_spellings
def test_lenient_function_in_a_strict_one(spelling: Any) -> None:
    difficult = spelling.error_on_graph_break(False)(broken_between(spelling))
    inner = lambda x: difficult(x)  # noqa: E731
    compiled = spelling.error_on_graph_break(True)(onegraph.compile(inner, backend="eager"))
    with Watch() as watch:
        assert torch.equal(compiled(X), X + 3)
    assert watch.graphs == [1, 1]


@both_spellings
def test_strict_again_behind_the_lenient_block(spelling: Any) -> None:
    @spelling.error_on_graph_break(True)
    @onegraph.compile(backend="eager")
    def f(x, again):
        x = x + 1
        with spelling.error_on_graph_break(False):
            spelling.graph_break()
            x = x + 1
            spelling.graph_break()
        if again:
            spelling.graph_break()
        return x + 2

    assert torch.equal(f(X, False), X + 4)
    with pytest.raises(onegraph.GraphBreakError):
        f(X, True)
    assert _C.exchange_setting("error_on_graph_break") is None


@both_spellings
def test_bound_method_by_monkeypatching(spelling: Any) -> None:
    class ThirdParty(torch.nn.Module):
        def forward(self, x):
            x = x + 1
            spelling.graph_break()
            return x + 2

    module = ThirdParty()
    module.forward = spelling.error_on_graph_break(False)(module.forward)
    strict = spelling.error_on_graph_break(True)
    assert torch.equal(strict(onegraph.compile(lambda x: module.forward(x)))(X), X + 3)
    assert torch.equal(strict(onegraph.compile(lambda x: module(x)))(X), X + 3)


@both_spellings
def test_strict_function_in_a_lenient_one(spelling: Any) -> None:
    strict = spelling.error_on_graph_break(True)(broken_between(spelling))
    inner = lambda x: strict(x)  # noqa: E731

    @onegraph.compile
    def f(x):
        x = x + 4
        spelling.graph_break()
        return inner(x)

    with pytest.raises(onegraph.GraphBreakError) as raised:
        f(X)
    assert raised.value.user_stack[-1].function == "code_with_a_break"


@both_spellings
def test_callees_inherit_and_the_inner_wins(spelling: Any) -> None:
    broken = broken_between(spelling)

    def lenient(x):
        with spelling.error_on_graph_break(False):
            return broken(x)

    @spelling.error_on_graph_break(True)
    @onegraph.compile
    def f(x):
        return lenient(x)

    assert torch.equal(f(X), X + 3)

    def strict(x):
        with spelling.error_on_graph_break(True):
            return lenient(x)

    assert torch.equal(onegraph.compile(strict)(X), X + 3)


@both_spellings
def test_under_compile(spelling: Any) -> None:
    strict = onegraph.compile(spelling.error_on_graph_break(True)(broken_between(spelling)))
    with pytest.raises(onegraph.GraphBreakError):
        strict(X)
    lenient = onegraph.compile(spelling.error_on_graph_break(False)(broken_between(spelling)))
    with spelling.error_on_graph_break(True):
        assert torch.equal(lenient(X), X + 3)


@both_spellings
@pytest.mark.parametrize("outer, inner", [(True, False), (False, True), (True, True)])
def test_fullgraph_of_inner_and_outer(spelling: Any, outer: bool, inner: bool) -> None:
    compiled = onegraph.compile(broken_between(spelling), fullgraph=inner)
    with pytest.raises(onegraph.GraphBreakError) as raised:
        onegraph.compile(lambda x: compiled(x), fullgraph=outer)(X)
    assert raised.value.user_stack[-1].function == "code_with_a_break"


@both_spellings
def test_an_inner_fullgraph_ends_with_its_call(spelling: Any) -> None:
    whole = onegraph.compile(lambda x: x + 1, fullgraph=True)

    def f(x):
        x = whole(x)
        spelling.graph_break()
        return whole(x)

    with Watch() as watch:
        assert torch.equal(onegraph.compile(f, backend="eager")(X), X + 2)
    assert watch.graphs == [1, 1]


def test_inner_fullgraph_of_a_module() -> None:
    class Broken(torch.nn.Module):
        def forward(self, x):
            onegraph.graph_break()
            return x

    whole = onegraph.compile(Broken(), fullgraph=True)
    with pytest.raises(onegraph.GraphBreakError):
        onegraph.compile(lambda x: whole(x + 1))(X)


@both_spellings
def test_no_effect_under_fullgraph(spelling: Any) -> None:
    lenient = spelling.error_on_graph_break(False)(broken_between(spelling))
    with pytest.raises(onegraph.GraphBreakError):
        onegraph.compile(lambda x: lenient(x), fullgraph=True)(X)


@both_spellings
def test_left_by_an_exception(spelling: Any) -> None:
    @onegraph.compile(backend="eager")
    def f(x, fail):
        try:
            with spelling.error_on_graph_break(True):
                x = x + 1
                if fail:
                    raise ValueError("no")
        except ValueError:
            x = x * 2
        spelling.graph_break()
        return x + 1

    with Watch() as watch:
        assert torch.equal(f(X, True), (X + 1) * 2 + 1) and torch.equal(f(X, False), X + 2)
    assert len(watch.graphs) == 3  # what follows the break is one and the same
    assert _C.exchange_setting("error_on_graph_break") is None


def test_compiled_with_a_break_fails_where_breaks_are_errors() -> None:
    compiled = onegraph.compile(broken_between(onegraph))
    assert torch.equal(compiled(X), X + 3)
    for _ in range(2):
        with pytest.raises(onegraph.GraphBreakError), onegraph.error_on_graph_break(True):
            compiled(X)
    with Watch() as watch:
        assert torch.equal(compiled(X), X + 3)
    assert not watch.graphs


def test_skipped_with_a_break_fails_where_breaks_are_errors() -> None:
    def skipped(x):
        onegraph.skip_frame()
        return x + 1

    for function in (skipped, lambda x: skipped(x * 2)):
        compiled = onegraph.compile(function)
        assert torch.equal(compiled(X), function(X))
        with pytest.raises(onegraph.GraphBreakError, match="skip_frame"), onegraph.error_on_graph_break(True):
            compiled(X)
        assert torch.equal(compiled(X), function(X))


def test_the_setting_is_of_the_thread() -> None:
    compiled = onegraph.compile(broken_between(onegraph))
    results = []
    with onegraph.error_on_graph_break(True):
        thread = threading.Thread(target=lambda: results.append(compiled(X)))
        thread.start()
        thread.join()
    assert torch.equal(results[0], X + 3)


def test_a_region_cannot_leave_its_setting_behind() -> None:
    @onegraph.compile
    def f(x):
        onegraph.error_on_graph_break(True).__enter__()
        return x + 1

    f(X)
    assert _C.exchange_setting("error_on_graph_break") is None


def test_bad_arguments() -> None:
    with pytest.raises(onegraph.InvalidArgument, match="'error' expects True or False, got 'yes'"):
        onegraph.error_on_graph_break("yes")
    with pytest.raises(onegraph.InvalidArgument, match="error_on_graph_break expects a function"):
        onegraph.error_on_graph_break(True)(3)
    with pytest.raises(onegraph.InvalidArgument, match="disable_nested_graph_breaks expects a function"):
        onegraph.disable_nested_graph_breaks(3)
