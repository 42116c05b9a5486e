"""Checks of data in graphs: where one fails, the program raises its own error, and nothing has happened before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.distributions import Normal

import onegraph
from onegraph.base import events as ev
from onegraph.capture.bytecode.decode import decode
from onegraph.capture.bytecode.flow import raising
from tests.capture.resume.test_breaks import Watch
from tests.capture.tracer.programs import checks as programs

BACKENDS = ("eager", "aot_eager", "native")


def outcome(function: Callable[..., Any], values: list[float]) -> tuple[list[torch.Tensor], list[Any]]:
    """What a call gives and leaves in its argument, with the next random number; what it raises, and what it tells."""
    x = torch.tensor(values)
    programs.SEEN.clear()
    torch.manual_seed(3)
    try:
        result, raised = function(x), None
    except Exception as error:
        result, raised = torch.zeros(()), (type(error), str(error))
    return [result, x, torch.rand(1)], [raised, *programs.SEEN]


def assert_same(compiled: Callable[..., Any], function: Callable[..., Any], values: list[float]) -> None:
    (found, said), (wanted, heard) = outcome(compiled, values), outcome(function, values)
    torch.testing.assert_close(found, wanted, equal_nan=True)
    assert said == heard


GOOD = [1.0, 2.0, 3.0]
BAD = [-1.0, -2.0, 9.0]
WHOLE = (
    programs.positive,
    programs.asserted,
    programs.of_float,
    programs.writes_later,
    programs.draws_around,
    programs.tells_around,
    programs.indexes,
    programs.in_a_loop,
)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "function", [*WHOLE, programs.caught_outside, programs.in_nested_blocks], ids=lambda f: f.__name__
)
def test_error_is_the_programs_own(function: Callable[..., Any], backend: str) -> None:
    compiled = onegraph.compile(function, backend=backend)
    for values in (GOOD, BAD, [-3.0, -3.0, -3.0], GOOD, BAD):
        assert_same(compiled, function, values)


@pytest.mark.parametrize("function", WHOLE, ids=lambda f: f.__name__)
def test_checks_are_in_one_graph(function: Callable[..., Any]) -> None:
    compiled = onegraph.compile(function, fullgraph=True)
    assert_same(compiled, function, GOOD)


def test_traceback_shows_the_line_of_the_program() -> None:
    compiled = onegraph.compile(programs.positive)
    compiled(torch.ones(3))
    with pytest.raises(ValueError, match=r"not positive: tensor\(\[-1., -1., -1.\]\)") as caught:
        compiled(-torch.ones(3))
    assert caught.traceback[-1].name == "positive"


@pytest.mark.parametrize(
    "function",
    [
        programs.returns_early,
        programs.raises_on_both_sides,
        programs.raises_after_a_question,
        programs.of_many,
        programs.keeps_the_condition,
        programs.behind_a_write,
    ],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_others_break_the_graph(function: Callable[..., Any], backend: str) -> None:
    compiled = onegraph.compile(function, backend=backend)
    with Watch() as watch:
        for values in (GOOD, BAD, [-3.0, -3.0, -3.0], GOOD):
            assert_same(compiled, function, values)
    assert watch.of(ev.GraphBroken) or watch.of(ev.FrameSkipped)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_the_frame_catches_is_taken_to_be_rare(backend: str) -> None:
    """After three calls in which it was not, the graph ends before the branch."""
    function = programs.raises_and_catches
    compiled = onegraph.compile(function, backend=backend)
    with Watch() as watch:
        for values in (GOOD, BAD, GOOD, BAD, BAD, GOOD, BAD):
            assert_same(compiled, function, values)
    assert [len(watch.of(kind)) for kind in (ev.GraphFailed, ev.GraphBroken)] == [3, 1]
    whole = onegraph.compile(function, backend=backend, fullgraph=True)
    for values in (GOOD, *[BAD] * 4, GOOD):
        assert_same(whole, function, values)


def test_graph_that_cannot_be_undone_makes_no_check() -> None:
    compiled = onegraph.compile(programs.leaves_an_attribute)
    for sign, backward in ((1.0, True), (-1.0, False), (1.0, True)):
        x = torch.full((3,), sign, requires_grad=True)
        if backward:
            assert compiled(x).tolist() == [2.0, 2.0, 2.0]
        else:
            with pytest.raises(AssertionError, match="not positive"):
                compiled(x)
            assert x.grad is None


def test_every_way_must_raise() -> None:
    def f(x, y):
        if x:
            raise ValueError(y if y else 1)
        while y:
            x += 1
        return x

    bytecode = decode(f.__code__)
    found = {str(instr) for instr, ends in zip(bytecode.instrs, raising(bytecode), strict=False) if ends}
    assert any(text.startswith("RAISE_VARARGS") for text in found)
    assert not any(text.startswith(("RETURN_VALUE", "RETURN_CONST")) for text in found)
    assert not raising(bytecode)[0]


# ---- distributions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [programs.normal, programs.drawn, programs.categorical], ids=lambda f: f.__name__)
def test_distributions_with_validation_are_one_graph(function: Callable[..., Any]) -> None:
    compiled = onegraph.compile(function, fullgraph=True)
    nan = [1.0, float("nan"), 2.0]
    for values in (GOOD, nan, [0.5, -1.0, 2.0]):
        assert_same(compiled, function, values)
    with pytest.raises(ValueError, match="to satisfy the constraint"):
        onegraph.compile(programs.scale_of)(torch.tensor([-1.0]))


def test_trained_distribution() -> None:
    def loss(mean, log_scale, value):
        return -Normal(mean, log_scale.exp(), validate_args=True).log_prob(value).mean()

    compiled = onegraph.compile(loss, fullgraph=True)
    for seed in range(3):
        torch.manual_seed(seed)
        grads = []
        inputs = [torch.randn(4) for _ in range(3)]
        for function in (loss, compiled):
            leaves = [value.clone().requires_grad_() for value in inputs[:2]]
            function(*leaves, inputs[2]).backward()
            grads.append([leaf.grad for leaf in leaves])
        torch.testing.assert_close(grads[1], grads[0])
