"""Answers about all elements of two tensors (`torch.equal`, `torch.allclose`), which are numbers of Python.

A check wants one answer (`if not torch.equal(a, b): raise`), which the graph asserts. Elsewhere the answer is taken to
be what it is now: that of a tensor and itself, of two that the same operators have made, of two inputs. The graph
checks it, and where it is another one the frame runs as it was written; if that is so often, graphs end before it.
"""

from __future__ import annotations

from typing import Any

import torch

from onegraph.base.errors import UNEXPECTED
from onegraph.capture.calls.registry import policy
from onegraph.capture.tracer.checks import make_check, wanted_result
from onegraph.capture.tracer.frames import Frames
from onegraph.torchlib.private import DisableTorchFunction
from onegraph.torchlib.state import untraced

#: How far back two tensors are compared by what has made them.
DEPTH = 6


@policy(torch.equal, torch.Tensor.equal)
def equal(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if kwargs or len(args) != 2 or not are_alike(args):
        return bool(tracer.run_native(torch.equal, args, kwargs))
    return answer(tracer, torch.equal, args, {}, lambda: tracer.call(torch.eq, args, {}))


@policy(torch.allclose, torch.Tensor.allclose)
def allclose(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if len(args) < 2 or not are_alike(args[:2]):
        return bool(tracer.run_native(torch.allclose, args, kwargs))
    return answer(tracer, torch.allclose, args, kwargs, lambda: tracer.call(torch.isclose, args, kwargs))


def are_alike(tensors: tuple[Any, ...]) -> bool:
    """Whether these are tensors of one type and constant shape: others have an answer, or an error, of their own."""
    if not all(isinstance(each, torch.Tensor) for each in tensors):
        return False
    with DisableTorchFunction():
        kinds = [(tuple(each.shape), each.dtype, each.device, each.layout) for each in tensors]
    return all(type(size) is int for size in kinds[0][0]) and kinds[0] == kinds[1]


def answer(tracer: Frames, function: Any, args: Any, kwargs: Any, compared: Any) -> bool:
    """The answer that a check wants, or the one that it has now; else the call breaks the graph."""
    wanted = wanted_result(tracer)
    if wanted is not None:
        frame = tracer.frames[-1]
        line = frame.position[0] if frame.position else 0
        what = f"the check at {frame.bytecode.code.co_filename}:{line} does not hold"
        make_check(tracer, compared().all(), wanted, what)
        return wanted
    found = known_answer(tracer, function, args, kwargs) if tracer.recorder.fake.sizes.data.are_wanted() else None
    if found is None:
        return bool(tracer.run_native(function, args, kwargs))  # type: ignore[attr-defined]
    make_check(tracer, compared().all(), found, f"{UNEXPECTED}: {function.__name__} has another answer")
    tracer.expects = True
    return found


def known_answer(tracer: Frames, function: Any, args: Any, kwargs: Any) -> bool | None:
    """What the answer is now, or None."""
    recorder = tracer.recorder
    first, second = args[:2]
    if first is second:
        return True
    given = [next((each for each in recorder.inputs if each.fake is value), None) for value in (first, second)]
    if all(each is not None and each.written is None for each in given):
        with untraced():
            return bool(function(*(each.example for each in given if each is not None), *args[2:], **kwargs))
    node = recorder.nodes.get(id(first))
    return True if node is not None and is_same(node, recorder.nodes.get(id(second)), DEPTH) else None


def is_same(a: Any, b: Any, depth: int) -> bool:
    """Whether two arguments of nodes are written alike."""
    if a is b:
        return True
    if not (isinstance(a, torch.fx.Node) and isinstance(b, torch.fx.Node)):
        if type(a) is type(b) and isinstance(a, tuple | list):
            return len(a) == len(b) and all(is_same(x, y, depth) for x, y in zip(a, b, strict=True))
        return type(a) is type(b) and isinstance(a, str | int | float | torch.dtype | None) and a == b
    if not depth or (a.op, a.target) != (b.op, b.target) or a.op == "placeholder" or a.kwargs.keys() != b.kwargs.keys():
        return False
    pairs = [*zip(a.kwargs.values(), b.kwargs.values(), strict=True)]
    return is_same(a.args, b.args, depth - 1) and all(is_same(x, y, depth - 1) for x, y in pairs)
