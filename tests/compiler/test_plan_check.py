"""The checker of plans finds memory that is too small, used too early or too late, or somebody else's."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from compiler.graphs import CHECKED, check, compiled, record
from torch import Tensor

import onegraph
from onegraph.base.context import Context
from onegraph.base.events import BoundsChecked, Event, Events
from onegraph.compiler import compile_graph
from onegraph.compiler.cpu import CPU
from onegraph.compiler.memory.check import InvalidPlan, check_plan
from onegraph.compiler.memory.plan import plan
from onegraph.compiler.schedule.close_gaps import close_gaps
from onegraph.ir.loop import Program
from onegraph.ir.loop_text import parse_program
from onegraph.ir.plan import Alloc, ExecPlan, ExternCall, Free, KernelInfo, Launch, Pointer

HEAD = """\
program(x):
  buffer x: f32[8] stride (1)
  buffer a: f32[8] stride (1)
  buffer b: f32[8] stride (1)
  buffer c: f32[8] stride (1)
  kernel k0(i0: 8):
    t0: f32 = load x @ i0
    t1: f32 = neg(t0)
    store a @ i0 = t1
  kernel k1(i0: 8):
    t0: f32 = load a @ -i0 + 7
    t1: f32 = load x @ i0
    t2: f32 = add(t0, t1)
    store b @ i0 = t2
  kernel k2(i0: 8):
    t0: f32 = load a @ i0
    t1: f32 = load b @ i0
    t2: f32 = add(t0, t1)
    store c @ i0 = t2
  return c
"""


def planned(text: str = HEAD) -> tuple[Program, ExecPlan, dict[str, int]]:
    program = parse_program(text)
    functions = {kernel.name: number for number, kernel in enumerate(program.kernels)}
    return program, plan(program, functions, tuple(map(KernelInfo, functions)), "cpu"), functions


def changed(steps: ExecPlan, number: int, **parts: object) -> ExecPlan:
    new = list(steps.steps)
    new[number] = replace(new[number], **parts)  # type: ignore[type-var]
    return replace(steps, steps=tuple(new))


def test_the_planner_s_plan_is_accepted() -> None:
    program, steps, functions = planned()
    check_plan(program, steps, functions)


def test_memory_that_is_too_small_is_found() -> None:
    program, steps, functions = planned()
    number = next(n for n, step in enumerate(steps.steps) if isinstance(step, Alloc) and step.workspace)
    with pytest.raises(InvalidPlan, match="k1 needs 32 bytes for b from byte 64 on, of 64"):
        check_plan(program, changed(steps, number, shape=(64,)), functions)


def test_gaps_between_elements_are_memory_too() -> None:
    """A plan that has room for the elements alone, as the planner's had been."""
    program, steps, functions = planned(HEAD.replace("a: f32[8] stride (1)", "a: f32[2, 4] stride (16384, 1)"))
    first = next(n for n, step in enumerate(steps.steps) if isinstance(step, Alloc) and step.workspace)
    with pytest.raises(InvalidPlan, match="k0 needs 65552 bytes for a from byte 0 on, of 128"):
        check_plan(program, changed(steps, first, shape=(128,)), functions)


@pytest.mark.parametrize("operand", [0, 1])
def test_what_lies_at_another_place_is_found(operand: int) -> None:
    program, steps, functions = planned()
    number = max(n for n, step in enumerate(steps.steps) if isinstance(step, Launch))
    launch = steps.steps[number]
    assert isinstance(launch, Launch)
    moved = [*launch.operands]
    moved[operand] = Pointer(moved[operand].slot, 64 - moved[operand].offset)
    with pytest.raises(InvalidPlan, match="in another place than it was written to"):
        check_plan(program, changed(steps, number, operands=tuple(moved)), functions)


def test_memory_of_a_living_buffer_is_not_written() -> None:
    program, steps, functions = planned()
    launches = [n for n, step in enumerate(steps.steps) if isinstance(step, Launch)]
    middle, last = steps.steps[launches[1]], steps.steps[launches[2]]
    assert isinstance(middle, Launch) and isinstance(last, Launch)
    a, x, _ = middle.operands
    with pytest.raises(InvalidPlan, match="k1 writes b over a, which it still reads"):
        check_plan(program, changed(steps, launches[1], operands=(a, x, a)), functions)
    with pytest.raises(InvalidPlan, match="k1 writes b into memory of the caller"):
        check_plan(program, changed(steps, launches[1], operands=(a, x, x)), functions)


def test_memory_that_was_given_back_is_not_used() -> None:
    program, steps, functions = planned()
    number = max(n for n, step in enumerate(steps.steps) if isinstance(step, Launch))
    launch = steps.steps[number]
    assert isinstance(launch, Launch)
    freed = replace(steps, steps=(*steps.steps[:number], Free((launch.operands[0].slot,)), *steps.steps[number:]))
    with pytest.raises(InvalidPlan, match="empty slot"):
        check_plan(program, freed, functions)


def test_memory_elsewhere_is_found() -> None:
    text = HEAD.replace("  kernel k1", "  b = extern aten.relu.default(a)\n  kernel k1", 1)
    program, steps, functions = planned(text.replace("store b @", "store c @").replace("load b @", "load c @"))
    check_plan(program, steps, functions)
    for name, found in (("x", "k0 is given x"), ("a", "k0 is given a"), ("b", "")):
        buffers = tuple(replace(each, device="cuda:0" if each.name == name else "") for each in program.buffers)
        elsewhere = replace(program, buffers=buffers)
        if not found:
            check_plan(elsewhere, steps, functions)
            continue
        with pytest.raises(InvalidPlan, match=f"{found}, which lies on cuda:0"):
            check_plan(elsewhere, steps, functions)


def rows_into_a_batch(a: torch.Tensor) -> torch.Tensor:
    a = a * 1
    for i in range(1, 5):
        row, sub = a[..., i, :i].clone(), a[..., :i, :i].clone()
        a = torch.select_scatter(
            a, torch.slice_scatter(a[..., i, :], torch.ops.aten.copy(a[..., i, :i], row + sub.sum(-2)), -1, 0, i), -2, i
        )
    return a + 1


def test_a_row_of_a_batch_takes_no_more_memory_than_its_elements() -> None:
    x = torch.randn(2, 4, 64, 64)
    graph = check(rows_into_a_batch, x)
    spaces = [step.shape for step in graph.plan.steps if isinstance(step, Alloc) and step.workspace]
    assert all(size < 2 * x.numel() * 4 for (size,) in spaces), graph.text("memory")


def test_buffers_that_a_library_sees_keep_their_strides() -> None:
    text = HEAD.replace("a: f32[8] stride (1)", "a: f32[2, 4] stride (16, 1)")
    seen = text.replace("  return c", "  d = extern aten.mm.default(a, a)\n  return c")
    seen = seen.replace("  kernel k0", "  buffer d: f32[2, 2] stride (2, 1)\n  kernel k0")
    assert close_gaps(parse_program(text), Context()).table()["a"].type.strides == (4, 1)
    assert close_gaps(parse_program(seen), Context()).table()["a"].type.strides == (16, 1)


@pytest.mark.parametrize(
    ("shape", "strides", "closed"),
    [
        ("2, 4", "1, 2", "1, 2"),  # in another order
        ("2, 4, 3", "100, 1, 8", "12, 1, 4"),
        ("2, 4", "0, 1", "1, 2"),  # one element in several places
        ("n, 4", "100, 1", "4, 1"),
        ("n, 4", "n * 4, n", "4, 1"),
        ("n, m", "1, n", "1, n"),
        ("1, 4", "77, 1", "77, 1"),
    ],
)
def test_gaps_are_closed_in_the_order_of_dimensions(shape: str, strides: str, closed: str) -> None:
    text = f"program():\n  buffer a: f32[{shape}] stride ({strides})\n  return\n"
    got = close_gaps(parse_program(text), Context()).table()["a"].type.strides
    assert ", ".join(map(str, got)) == closed


def test_searches_of_long_sequences_are_left_to_the_sanitizer() -> None:
    seen: list[Event] = []
    events = Events()
    events.subscribe(seen.append)
    module = record(torch.searchsorted, torch.arange(1000.0), torch.randn(7))
    compile_graph(module, Context(CHECKED, events=events), CPU)
    (found,) = [event for event in seen if isinstance(event, BoundsChecked)]
    assert found.kernels and found.unproven


def test_every_plan_is_checked_where_programs_are_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr("onegraph.compiler.pipeline.check_plan", lambda *args: seen.append(args))
    compiled(torch.neg, torch.ones(3))
    assert len(seen) == 1 and record(torch.neg, torch.ones(3)) is not None


def test_a_view_may_follow_a_copy_that_is_left_out() -> None:
    def program(x: Tensor, y: Tensor, index: Tensor) -> Tensor:
        y.index_copy_(2, index, x[:, :, :3])
        before = y.clone()
        y.index_copy_(2, index, before[:, :, :3])
        return before.flatten(0, 2)[1:]

    def arguments() -> tuple[Tensor, ...]:
        torch.manual_seed(0)
        return torch.rand(4, 2, 33, 33), torch.rand(4, 2, 33, 33).mT, torch.tensor([2, 0, 1])

    compiled = onegraph.compile(program, dynamic=True, options={"verify": True, "raise_compiler_errors": True})
    expected, found = arguments(), arguments()
    torch.testing.assert_close(compiled(*found), program(*expected))
    torch.testing.assert_close(found, expected)


LIBRARY = """\
program(x):
  buffer x: f32[1024, 1024] stride (1024, 1)
  buffer a: f32[1024, 1024] stride (1024, 1)
  buffer b: f32[1024, 1024] stride (1024, 1)
  buffer c: f32[1024, 1024] stride (1024, 1)
  buffer d: f32[1024, 1024] stride (1024, 1)
  buffer e: f32[1024, 1024] stride (1024, 1)
  a = extern aten.linear.default(x, x)
  kernel k0(i0: 1048576):
    t0: f32 = load a @ i0
    t1: f32 = neg(t0)
    store b @ i0 = t1
  c = extern aten.mm.default(b, x)
  d = extern aten.mm.default(c, x)
  kernel k1(i0: 1048576):
    t0: f32 = load d @ i0
    t1: f32 = neg(t0)
    store e @ i0 = t1
  return e
"""


def test_memory_that_a_library_has_made_is_used_again() -> None:
    program, steps, functions = planned(LIBRARY)
    made, filled = steps.steps[0], steps.steps[-4]
    assert isinstance(made, ExternCall) and isinstance(filled, ExternCall)
    assert ("out", made.outputs[0]) in filled.kwargs
    check_plan(program, steps, functions)
