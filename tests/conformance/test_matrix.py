"""The conformance matrix: {kind of break} x {shape of the program} x {mode}.

Each cell runs a program three times beside eager mode: results, side effects, output, exceptions with their chains and
tracebacks, and the state of torch are the same; the number of graphs is the documented one; no frame is skipped.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch
from tests.capture.test_small_programs import tree_equal
from tests.conformance.kinds import KINDS
from tests.conformance.raising import RAISING
from tests.conformance.running import make, outcome
from tests.conformance.shapes import GRAPHS, GRAPHS_WITH_A_SUM, SHAPES
from tests.conformance.states import STATES

#: The cells that run by default: each kind in these shapes, each shape with `print`.
TYPICAL = ("for", "with", "try_body", "except", "list_comprehension", "generator_suspended", "super", "three_deep")


def cells(*others: Any) -> Any:
    """The product of shapes, kinds and more; all but the typical part of it is slow."""
    quick = {(name, kind) for name in TYPICAL for kind in KINDS} | {(name, "print") for name in SHAPES}
    return [
        pytest.param(name, kind, marks=() if (name, kind) in quick else pytest.mark.slow, id=f"{kind}-{name}")
        for name in SHAPES
        for kind in KINDS
    ]


def graphs_of(name: str, kind: str) -> int:
    if (name, kind) == ("for", "item"):  # what follows the loop sums once more
        return 6
    return (GRAPHS_WITH_A_SUM if kind in ("branch", "item") else GRAPHS).get(name, 2)


def compare(source: str, kind: str, calls: int = 3, **settings: Any) -> Watch:
    """Run a program compiled and as it is; the events of the compiled runs."""
    onegraph.reset()
    function = make(source, KINDS[kind])
    filename = function.__code__.co_filename
    compiled = onegraph.compile(function, backend="eager", options={"check_unchanged": True}, **settings)
    with Watch() as watch:
        for call in range(calls):
            x = torch.rand(4) + 1
            expected, found = outcome(function, x, filename), outcome(compiled, x, filename)
            assert tree_equal(expected, found), (call, expected, found)
            watch.first = len(watch.graphs) if call == 0 else watch.first
    return watch


@pytest.mark.parametrize(("name", "kind"), cells())
def test_default(name: str, kind: str) -> None:
    watch = compare(SHAPES[name], kind)
    assert not [event.reason for event in watch.of(ev.FrameSkipped)]
    assert watch.first == graphs_of(name, kind)
    assert all(watch.graphs)


@pytest.mark.parametrize("mode", ["fullgraph", "error_on_graph_break"])
@pytest.mark.parametrize(("name", "kind"), cells())
def test_strict(name: str, kind: str, mode: str) -> None:
    """The first break is an error, and nothing has happened before it."""
    onegraph.reset()
    function = make(SHAPES[name], KINDS[kind])
    if mode == "fullgraph":
        compiled = onegraph.compile(function, backend="eager", fullgraph=True)
    else:
        compiled = onegraph.compile(onegraph.error_on_graph_break(True)(function), backend="eager")
    log: list[Any] = []
    with pytest.raises(onegraph.GraphBreakError):
        compiled(torch.rand(4) + 1, log)
    assert not log


@pytest.mark.parametrize(("name", "kind"), cells())
def test_lenient(name: str, kind: str) -> None:
    """`error_on_graph_break(False)` is the default again where breaks are errors around it."""
    onegraph.reset()
    function = make(SHAPES[name], KINDS[kind])
    filename = function.__code__.co_filename
    compiled = onegraph.compile(onegraph.error_on_graph_break(False)(function), backend="eager")
    strict = onegraph.error_on_graph_break(True)(compiled)
    x = torch.rand(4) + 1
    with Watch() as watch:
        assert tree_equal(outcome(function, x, filename), outcome(strict, x, filename))
    assert len(watch.graphs) == graphs_of(name, kind) and all(watch.graphs)
    assert not [event.reason for event in watch.of(ev.FrameSkipped)]


@pytest.mark.parametrize("name", RAISING)
@pytest.mark.parametrize("kind", ["print", "graph_break"])
def test_exceptions_cross_the_break(name: str, kind: str) -> None:
    """A frame that an exception leaves runs as it was written, so that its traceback is the program's."""
    watch = compare(RAISING[name], kind)
    assert watch.graphs
    assert all(event.reason.startswith("it raises ") for event in watch.of(ev.FrameSkipped))


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("kind", ["print", "item"])
def test_open_state(name: str, kind: str) -> None:
    before = torch.is_grad_enabled(), torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled()
    try:
        watch = compare(STATES[name], kind)
    finally:
        torch.set_grad_enabled(before[0])
        torch.set_default_dtype(before[1])
        torch.use_deterministic_algorithms(before[2])
    assert not [event.reason for event in watch.of(ev.FrameSkipped)]
