"""What a captured graph that records gradients becomes: a forward graph and its backward graphs, or one graph if none
of its results has gradients.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from onegraph import _C
from onegraph.autograd.callable import compiled_alone, compiled_pair, pair_spec
from onegraph.autograd.cuts import Cut, cut_at_buckets
from onegraph.autograd.function import Backward, Pattern
from onegraph.autograd.graphs import FunctionalGraph, GraphPair, Program, other_backward, recorded_graphs
from onegraph.autograd.kept_calls import KeptAlone, KeptPair
from onegraph.autograd.runtime import Run
from onegraph.base import events as ev
from onegraph.base.context import Context
from onegraph.base.errors import CompileError
from onegraph.base.late import late_module
from onegraph.base.pipeline import timed
from onegraph.capture.graph.memory import has_address
from onegraph.compiler.target import Role
from onegraph.reloading import note, note_other
from onegraph.torchlib import private
from onegraph.torchlib.announced import compiling
from onegraph.torchlib.custom_function import applied_in
from onegraph.torchlib.kept_graphs import kept_nodes
from onegraph.torchlib.private import set_grad_enabled

if TYPE_CHECKING:
    from onegraph.roles import Roles
else:  # for graphs that record gradients
    Roles = late_module("onegraph.roles").Roles

LOGGER = logging.getLogger("onegraph")
BACKWARD_IN_EAGER = "the backward pass of %s runs in eager: %s"


def plan_gradients(
    module: torch.fx.GraphModule, examples: list[Any], cx: Context
) -> tuple[Program, GraphPair | FunctionalGraph] | None:
    """The graphs of a captured one that records gradients; None, and it is said why, if there are none."""
    reason = unrecordable(cx)
    if cx.config.quantize is not None:
        cx.emit(ev.ProductsQuantized(cx.frame, cx.config.quantize, reason="it records gradients"))
    program = Program(module, fake_inputs(module), overlapping(examples), parameters_among(examples))
    if not reason:
        try:
            with timed(cx, "functionalize"):
                return program, recorded_graphs(program, cx)
        except CompileError as error:
            reason = str(error)
    cx.emit(ev.OperatorFellBack(cx.frame, "autograd", f"{reason}; the whole graph runs operator by operator"))
    return None


def recorded(
    module: torch.fx.GraphModule, examples: list[Any], cx: Context, make: Callable[..., Run]
) -> Callable[..., Any]:
    """Run the graph as two, which `make` makes of functional ones, in eager's autograd; as it is if that cannot be.

    Backward graphs consume what they take: they are called with a list of it. Without results that have gradients,
    there is one graph, as where none are recorded.
    """
    planned = plan_gradients(module, examples, cx)
    if planned is None:
        return module.forward
    program, pair = planned
    if isinstance(pair, FunctionalGraph):
        with timed(cx, "compile"):
            constant = frozenset(program.parameters) - trained_among(module)
            given = pair.spec.given_back()
            fixed = frozenset(program.parameters).union(given.values())
            run = make(pair.module, False, constant, given, Role(fixed=fixed))
        note(cx, lambda graph: KeptAlone(pair.spec, graph, kept_nodes(module), tuple(sorted(fixed))))
        return compiled_alone(pair.spec, run, module.forward)
    cuts = cuts_of(module, program, pair, cx)
    call = pair_spec(pair, {n: cut.pieces for n, cut in cuts.items()})
    roles = Roles(call, frozenset(program.parameters))
    with timed(cx, "compile"):
        constant = frozenset(program.parameters) - trained_among(module)
        forward = make(pair.graphs.forward, False, constant, None, roles.forward())
        graphs = [
            each
            for number, graph in enumerate(pair.graphs.backwards)
            for each in (cuts[number].modules if number in cuts else [graph.module])
        ]
        backwards = [
            make(graph, True, frozenset(), None, role) for graph, role in zip(graphs, roles.backwards(), strict=True)
        ]

    def specialize(number: int, pattern: Pattern) -> Backward | None:
        tangents = pair.grad.halves[number].tangents
        missing = [n for n, given in zip(tangents, pattern, strict=True) if not given]
        other = other_backward(program, pair, number, missing, cx)
        run = None
        with compiling(cx.frame):
            if other is not None and other.module is not None:
                run = make(other.module, True, frozenset(), None, roles.backward(number, other.taken))
        note_other(cx, number, pattern, other)
        return None if other is None else Backward(run, other.half, other.taken)

    def report(reason: str, failure: Exception | None) -> None:
        if failure is not None and cx.config.raise_compiler_errors:
            raise failure
        LOGGER.info(BACKWARD_IN_EAGER, cx.frame, reason)
        cx.emit(ev.OperatorFellBack(cx.frame, "backward", reason))

    parameters = tuple(sorted(program.parameters))
    note(cx, lambda *graphs: KeptPair(call, graphs[0], graphs[1:], kept_nodes(module), parameters))
    return compiled_pair(call, forward, backwards, specialize, module.forward, report, applied_in(module.graph))


def cuts_of(module: torch.fx.GraphModule, program: Program, pair: GraphPair, cx: Context) -> dict[int, Cut]:
    """The backward graphs that run in pieces, by their number: of those that give gradients of parameters which travel
    to other processes in buckets."""
    buckets = module.meta.get("buckets") if cx.config.optimize_ddp else None
    if buckets is None:
        return {}
    sizes = {index: program.inputs[index].nbytes for index in program.parameters}
    cuts = {
        number: cut_at_buckets(graph.module, half, sizes, buckets.limits)
        for number, (graph, half) in enumerate(zip(pair.graphs.backwards, pair.grad.halves, strict=True))
    }
    return {number: cut for number, cut in cuts.items() if cut is not None}


def parameters_among(examples: list[Any]) -> frozenset[int]:
    return frozenset(i for i, value in enumerate(examples) if isinstance(value, torch.nn.Parameter))


def trained_among(module: torch.fx.GraphModule) -> frozenset[int]:
    """The inputs that steps of training change: weights packed for a library would serve a single call."""
    return frozenset(i for i, node in enumerate(inputs_of(module)) if node.meta.get("trained", True))


def unrecordable(cx: Context) -> str:
    """Why a graph that needs gradients cannot be compiled; empty if nothing is known against it."""
    if not cx.config.compile_gradients:
        return "the option compile_gradients is off"
    if private.forward_level() >= 0:
        return "it takes tangents along"
    if not torch.is_grad_enabled():
        return "it begins under no_grad"
    return ""


def overlapping(examples: list[Any]) -> tuple[tuple[int, int], ...]:
    """The pairs of inputs that share elements. Guards hold each call to them, as far as one is written to."""
    tensors = {i: value for i, value in enumerate(examples) if isinstance(value, torch.Tensor) and has_address(value)}
    places, everywhere = tuple(tensors), (True,) * len(tensors)
    meetings = _C.Memory(tuple(tensors.values()), everywhere, everywhere).meetings
    return tuple((places[a], places[b]) for a, b in meetings)


def needs_gradients(module: torch.fx.GraphModule, examples: list[Any]) -> bool:
    """Whether PyTorch's autograd would record anything in this graph, or take tangents along."""
    if private.forward_level() >= 0:
        return True
    recording = torch.is_grad_enabled()
    if not recording and is_recorded_within(module):
        return False
    for node in module.graph.nodes:
        if node.target is set_grad_enabled:
            recording = node.args != (False,)
        elif recording and node.op.startswith("call") and is_recorded(node):
            return True
    return False


def is_recorded_within(module: torch.fx.GraphModule) -> bool:
    """Whether gradients are recorded for values of the graph alone, as by transforms: none goes in or comes out."""
    (output,) = next(iter(reversed(module.graph.nodes))).args
    return not any(map(requires_grad, (*inputs_of(module), *output)))


def is_recorded(node: torch.fx.Node) -> bool:
    """Whether autograd records a call: its result has gradients, or what it writes to may have, if it gives nothing."""
    value = node.meta.get("example_value")
    if value is None:
        return any(map(requires_grad, node.all_input_nodes))
    return requires_grad(node) or isinstance(value, tuple | list) and any(map(requires_grad, node.users))


def requires_grad(node: torch.fx.Node) -> bool:
    """Whether there are gradients for the tensor that a node gives."""
    value = node.meta.get("example_value")
    return isinstance(value, torch.Tensor) and value.requires_grad


def fake_inputs(module: torch.fx.GraphModule) -> list[Any]:
    return [node.meta["example_value"] for node in inputs_of(module)]


def inputs_of(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [node for node in module.graph.nodes if node.op == "placeholder"]
