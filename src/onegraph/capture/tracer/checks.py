"""Checks of data: branches on a tensor, one side of which only raises (`if not valid.all(): raise`, `assert`).

The graph asserts that the other side is taken. Where that does not hold the graph fails, nothing of the frame has
happened yet, and the frame runs as it was written: the program raises its own exception at its own line (see
`onegraph.capture.graph.fallback`). So nothing is wrong if the side that was taken to raise does something else. One
that raises what its frame catches is taken as often as it proves to be rare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from onegraph.base.errors import UNEXPECTED
from onegraph.capture.breaks import DATA_DEPENDENT_ASSERT, GraphBreak
from onegraph.capture.breaks.hints import reason_of_truth
from onegraph.capture.bytecode import Bytecode
from onegraph.capture.bytecode.flow import raising, throwing
from onegraph.capture.bytecode.frame import Frame
from onegraph.capture.calls.registry import policy
from onegraph.capture.tracer.frames import Frames
from onegraph.torchlib.private import (
    ASSERTIONS,
    DisableTorchFunction,
    all_true_or_assert,
    is_functorch_wrapped_tensor,
)
from onegraph.torchlib.shapes import Condition, Sizes


def checked_truth(tracer: Frames, condition: torch.Tensor) -> bool:
    """The truth of a tensor that a check wants; anything else that asks for it breaks the graph."""
    frame = tracer.frames[-1]
    wanted = wanted_truth(frame)
    if wanted is None and tracer.joins and tracer.joins[-1][0] is frame:
        wanted = tracer.joins[-1][1]
    line = frame.position[0] if frame.position else 0
    what = f"the check at {frame.bytecode.code.co_filename}:{line} does not hold"
    if wanted is None and tracer.recorder.fake.sizes.data.are_wanted():
        wanted = wanted_truth(frame, throwing)
        tracer.expects = tracer.expects or wanted is not None
        what = f"{UNEXPECTED}: {what}"
    if wanted is None or not is_single(condition):
        raise GraphBreak(reason_of_truth(frame))
    make_check(tracer, condition, wanted, what)
    return wanted


def checked_number(tracer: Frames, condition: Condition | bool, sizes: Sizes) -> bool:
    """The truth of what is asked of numbers.

    What is asked of those that only the data say has to be a check. Where a size is asked only whether it is 0, it is
    taken not to be, and the graph checks that.
    """
    if isinstance(condition, bool):
        return condition
    if not sizes.is_open(condition):
        return sizes.holds(condition)
    wanted = wanted_truth(tracer.frames[-1])
    if wanted is None:
        answer = sizes.data.unless_empty(sizes, condition)
        if answer is not None:
            return answer
        sizes.refuse(condition)
    assert wanted is not None
    sizes.expect(condition, wanted)
    return wanted


@policy(all_true_or_assert)
def check_of_distribution(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """From torch 2.15 on, distributions take the truth of what they check in a function of its own."""
    make_check(tracer, args[0].all(), True, args[1])
    return True


def make_check(tracer: Frames, condition: torch.Tensor, wanted: bool, what: str) -> None:
    """Have the graph fail where the condition is not what is wanted."""
    why = refusal(tracer, condition)
    if why is not None:
        raise GraphBreak(DATA_DEPENDENT_ASSERT, why=why)
    ASSERTIONS.assert_async(condition if wanted else condition.logical_not(), what)
    tracer.checks += 1


def wanted_result(tracer: Frames) -> bool | None:
    """What the running call has to give so that its frame does not raise, or that of `all` or `any` which draws it."""
    frame = tracer.frames[-1]
    follows = frame.bytecode.instrs[frame.ip + 1].op
    if follows == "YIELD_VALUE" and tracer.joins and len(tracer.frames) > 1:
        joining, wanted = tracer.joins[-1]
        return wanted if joining is tracer.frames[-2] else None
    return wanted_truth(frame, ahead=1) if follows == "TO_BOOL" else None


@contextmanager
def joined(tracer: Frames, answer: bool) -> Iterator[None]:
    """While active, `all` or `any` draws elements: a check that wants this answer of it wants it of each element."""
    tracer.joins.append((tracer.frames[-1], answer if wanted_result(tracer) is answer else None))
    try:
        yield
    finally:
        tracer.joins.pop()


@policy(all)
def all_of(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    with joined(tracer, True):
        return all(tracer.truth(item) for item in tracer.iterate(args[0]))


@policy(any)
def any_of(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    with joined(tracer, False):
        return any(tracer.truth(item) for item in tracer.iterate(args[0]))


def wanted_truth(frame: Frame, ends_of: Callable[[Bytecode], list[bool]] = raising, ahead: int = 0) -> bool | None:
    """What an instruction has to find of a condition so that its frame does not raise; None if no side has to.

    A copy of the condition below it is a value of `and` or `or`, which is kept.
    """
    instrs, here = frame.bytecode.instrs, frame.ip + ahead
    if instrs[here].op != "TO_BOOL" or here and instrs[here - 1].op == "COPY":
        return None
    jump = instrs[here + 1]
    if jump.op not in ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE") or jump.target is None:
        return None
    ends = ends_of(frame.bytecode)
    jumping, following = ends[jump.target], ends[here + 2]
    return None if jumping == following else following == (jump.op == "POP_JUMP_IF_TRUE")


def is_single(condition: torch.Tensor) -> bool:
    """Whether it has one element: the truth of others is an error."""
    with DisableTorchFunction():
        return all(type(size) is int and size == 1 for size in condition.shape)


def refusal(tracer: Frames, condition: torch.Tensor) -> str | None:
    """Why a graph cannot make a check, or could not be undone where it fails."""
    with DisableTorchFunction():
        place = condition.device.type
    if place != "cpu":  # where an assertion that fails stops the process
        return f"which is on {place}"
    if not ASSERTIONS.is_there:
        return "which this torch cannot make in a graph"
    if is_functorch_wrapped_tensor(condition):
        return "under a transform of torch.func"
    return refusal_of_any(tracer)


def refusal_of_any(tracer: Frames) -> str | None:
    """Why a graph could not be undone if it fails here."""
    if tracer.late.active:
        return "in the backward pass of a custom function"
    if any(given.written is not None for given in tracer.recorder.inputs):
        return "behind a write to a tensor from outside"
    if tracer.recorder.fake.effects.unknown or not tracer.makes_checks:
        return "in a graph that does what cannot be undone"
    return None
