"""Pairs whose calls, and the nodes of autograd that they make, run in C: those without anything around their graphs.

C makes ordinary passes, and leaves all others to Python: a pass that is differentiated, one of which gradients are
missing, one that a mode sees, one behind a write or another pass. Python takes over what the node keeps then, and the
node stays with it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onegraph import _C
from onegraph.autograd.function import DIFFERENTIATE, GONE, Call, Compiled, CompiledGraph, Node, note_hooks
from onegraph.autograd.runtime import Run, as_laid_out, gradient
from onegraph.autograd.spec import CallSpec, Computed, Gradient, Input, Tangent
from onegraph.torchlib.primals import recorder, version_probe


def native_pair(rest: CallSpec, compiled: Compiled, otherwise: Run) -> Run:
    """`otherwise`, as a call in C if it can be one: `rest` is what is done around the graphs in either case."""
    outputs = [output.index for output in rest.outputs if isinstance(output, Computed)]
    if len(outputs) < len(rest.outputs) or rest.mutations or rest.written or rest.freed:
        return otherwise
    if not isinstance(compiled.forward, _C.Plan) or len(compiled.nodes) != 1 or compiled.nodes[0].groups:
        return otherwise
    if compiled.mutations or compiled.counts or compiled.written or compiled.views or compiled.passed:
        return otherwise
    if compiled.functions:
        return otherwise
    (node,) = compiled.nodes
    kept = [place.index if isinstance(place, Input) else -place.index - 1 for place in node.saved.places]
    found = [node.half.gradients[index] for index in node.reached]
    try:
        pair = _C.Pair(
            forward=compiled.forward,
            record=recorder(NativeNode, node.half.name, noted, _C.differentiate),
            otherwise=otherwise,
            later=later,
            probe=probe,
            laid_out=as_laid_out,
            gradient=gradient,
            draws=torch.get_rng_state if compiled.random else None,
            owner=(compiled, node),
            outputs=tuple(outputs),
            followed=node.results,
            reached=node.reached,
            kept=tuple(kept),
            shown=node.shown,
            probed=tuple(place.index for place in probed(compiled, node)),
            gradients=tuple(map(position, found)),
            parts=tuple(None if isinstance(place, Computed | Tangent) else place for place in found),
            frees=bool(node.half.frees),
        )
    except NotImplementedError:
        return otherwise
    use(pair)
    return pair


def probed(compiled: Compiled, node: Node) -> list[Input | Computed]:
    """What nobody may write to before the backward pass, although the node does not keep it."""
    return [place for place, _ in compiled.watched if place not in node.saved.places]


def position(place: Gradient) -> int:
    """Where a gradient is: result n of the backward graph, tangent n as -n - 1. Parts are made of either."""
    match place:
        case Computed(index):
            return index
        case Tangent(position):
            return -position - 1
    return -1


def probe(tensor: Tensor) -> tuple[Tensor, torch.Size]:
    return version_probe(tensor), tensor.shape


def use(pair: _C.Pair) -> None:
    """Let C make the passes, if the backward graph is one for it. One that was read has a first run in Python."""
    _, node = pair.owner
    backward = node.backwards[(True,) * len(node.results)]
    plan = getattr(backward.run, "__self__", None)
    if isinstance(plan, _C.Plan) and not backward.untried:
        pair.differentiate_by(plan)


class NativeNode(CompiledGraph):
    """The node that C makes. Its attribute `recorded` has what it keeps, as long as Python has not taken over."""

    forward = staticmethod(_C.record)  # type: ignore[assignment]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        return later(ctx, *gradients)


def noted(ctx: Any, result: Tensor) -> None:
    take_over(ctx)
    note_hooks(ctx, result)


def later(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
    take_over(ctx)
    found = DIFFERENTIATE(ctx, gradients)
    pair = ctx.recorded.pair
    if pair.backward is None:
        use(pair)
    return None, *[found[index] for index in ctx.node.reached]


def take_over(ctx: Any) -> None:
    """Have the node keep what Python knows how to use: see `Call.keep`."""
    values = ctx.recorded.values()
    if values is None:
        return
    inputs, kept, probes, versions, ctx.layouts, random = values
    graph, ctx.node = ctx.recorded.pair.owner
    node: Node = ctx.node
    ctx.hooked = False
    ctx.call = call = Call(graph, inputs or ())
    call.given, call.random = (), random
    if inputs is None:  # a pass over all results has let go of them
        call.inputs, call.left = None, 0
        ctx.kept = [GONE] * len(node.saved.places)
        ctx.passed, ctx.freed = frozenset(range(len(node.results))), node.half.frees
    else:
        ctx.kept, ctx.passed, ctx.freed = [*kept], frozenset(), frozenset()
        call.versions, counted = [*versions[: len(inputs)]], versions[len(inputs) :]
        for at, version in zip(node.shown, counted, strict=False):
            if isinstance(kept[at], Tensor):
                tensor, shape = probe(kept[at])
                call.probes[node.saved.places[at]] = tensor, version, shape
        behind = counted[len(node.shown) :]
        for place, version, probe_or_result in zip(probed(graph, node), behind, probes, strict=True):
            tensor, shape = probe_or_result if isinstance(probe_or_result, tuple) else probe(probe_or_result)
            call.probes[place] = tensor, version, shape
    ctx.recorded.take_over()
