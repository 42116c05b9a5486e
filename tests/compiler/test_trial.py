"""The first call of a plan that was read: what its inputs cannot explain is refused before anything has happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from compiler.graphs import compare, compiled
from compiler.test_dynamic import CASES
from compiler.test_kept_check import with_pointer, with_step
from torch import Tensor

from onegraph.base.errors import EntryRefused
from onegraph.compiler.pipeline import NativeGraph
from onegraph.compiler.plan_bounds import MEMORY, check_plan
from onegraph.compiler.runtime.executor import Executor
from onegraph.compiler.runtime.launcher import launcher
from onegraph.compiler.trial import Trial
from onegraph.ir.plan import Alloc, Compute, ExecPlan, Launch, Register, ViewOf

SYMBOLIC = {(0, 0): "n"}


def rows(x: Tensor) -> Any:
    """Memory of its own, and a view, of sizes that change."""
    return (x.exp() @ x.t()).relu(), (x * 2 + 1).view(-1, 2, 4).transpose(0, 1)


@pytest.fixture(scope="module")
def graph() -> NativeGraph:
    return compiled(rows, torch.randn(9, 8), symbolic=SYMBOLIC)


def read(plan: ExecPlan, graph: NativeGraph, told: list[str], native: bool = True) -> Any:
    """The plan as one that was read."""
    check_plan(plan, {})
    run = (launcher if native else Executor)(plan, graph.addresses, {})
    run.on_trial(Trial(plan, {}, told.append))
    return run


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_plans_of_sizes_that_change_fit(name: str, native: bool) -> None:
    function, inputs, dims = CASES[name]
    graph = compiled(function, *inputs(9), symbolic=dict.fromkeys(dims, "n"))
    for length in (9, 2, 131):
        told: list[str] = []
        run, given = read(graph.plan, graph, told, native), inputs(length)
        compare(run(*given), function(*given), rtol=1e-4, atol=1e-4)
        assert told == []


def test_it_says_what_kernels_need(graph: NativeGraph) -> None:
    needed = [at.bytes for step in graph.plan.steps if isinstance(step, Launch) for at in step.operands]
    assert needed and all(isinstance(each, tuple) for each in needed)


def computing(op: str, a: Any, b: Any) -> Callable[[ExecPlan], ExecPlan]:
    """The last size that is computed is computed otherwise."""

    def change(plan: ExecPlan) -> ExecPlan:
        at = max(n for n, step in enumerate(plan.steps) if isinstance(step, Compute) and step.op != "size")
        step = replace(plan.steps[at], op=op, a=a, b=b)  # type: ignore[type-var]
        return replace(plan, steps=(*plan.steps[:at], step, *plan.steps[at + 1 :]))

    return change


FIRST = Register(0)
CHANGES: dict[str, Callable[[ExecPlan], ExecPlan]] = {
    "memory that is too small": lambda p: with_step(p, Alloc, lambda s: replace(s, shape=(1,) * len(s.shape))),
    "memory of no size": lambda p: with_step(p, Alloc, lambda s: replace(s, shape=(0,) * len(s.shape))),
    "a stride that leads far away": lambda p: with_step(
        p, Alloc, lambda s: replace(s, strides=(1 << 50,) * len(s.strides))
    ),
    "a view that ends outside": lambda p: with_step(p, ViewOf, lambda s: replace(s, offset=1 << 20)),
    "a view with far strides": lambda p: with_step(p, ViewOf, lambda s: replace(s, strides=(1 << 30, *s.strides[1:]))),
    "a size that is too large": computing("mul", FIRST, 1 << 60),
    "a size of nothing": computing("floordiv", FIRST, 1 << 40),
    "a size below zero": computing("sub", FIRST, 1 << 40),
    "a kernel that needs more": lambda p: with_pointer(p, bytes=("mul", FIRST, 1 << 20)),
    "a kernel behind its memory": lambda p: with_pointer(p, offset=1 << 20),
}


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("name", CHANGES)
def test_what_only_the_call_shows_is_refused_in_it(name: str, native: bool, graph: NativeGraph) -> None:
    told: list[str] = []
    run, x = read(CHANGES[name](graph.plan), graph, told, native), torch.randn(5, 8)
    for times in (1, 2):  # again and again
        with pytest.raises(EntryRefused, match="no plan of this graph"):
            run(x)
        inputs = [x]
        with pytest.raises(EntryRefused):
            run.consume(inputs)
        assert inputs == [x] and len(told) == 2 * times


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda s: replace(s, shape=(MEMORY, *s.shape[1:])), "memory"),
        (lambda s: replace(s, strides=(1 << 62, *s.strides[1:])), "memory"),
    ],
)
def test_more_memory_than_the_machine_has_is_refused_at_once(change: Callable[[Any], Any], what: str) -> None:
    plan = compiled(lambda x: torch.mm(x * 2, x), torch.randn(8, 8)).plan
    with pytest.raises(ValueError, match=f"no plan of this graph: {what}"):
        check_plan(with_step(plan, Alloc, change), {})


def test_what_is_seen_of_an_input_is_in_its_memory() -> None:
    def program(x: Tensor) -> Tensor:
        return torch.mm(x.t(), x)

    graph = compiled(program, torch.randn(4, 8))
    far = with_step(graph.plan, ViewOf, lambda s: replace(s, strides=(1 << 40, *s.strides[1:])))
    base, told = torch.randn(6, 9), list[str]()
    for x in (base[:4, :8], base[:4, 1:]):
        with pytest.raises(EntryRefused, match="a view"):
            read(far, graph, told)(x)
    x = torch.randn(4, 8)
    compare(read(graph.plan, graph, told)(x), program(x))


@pytest.mark.parametrize("native", [True, False])
def test_a_first_run_that_fails_is_told_once(native: bool) -> None:
    def program(x: Tensor, y: Tensor) -> Tensor:
        return torch.linalg.cholesky(x) @ y

    graph, told = compiled(program, torch.eye(3), torch.ones(3, 3)), list[str]()
    run = read(graph.plan, graph, told, native)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            run(-torch.eye(3), torch.ones(3, 3))
        assert told == ["its first run has failed"]
    compare(run(torch.eye(3), torch.ones(3, 3)), torch.ones(3, 3))
    told.clear()
    run = read(graph.plan, graph, told, native)
    run(torch.eye(3), torch.ones(3, 3))
    with pytest.raises(RuntimeError):
        run(-torch.eye(3), torch.ones(3, 3))
    assert told == []
