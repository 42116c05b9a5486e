"""The backends: what a captured graph becomes.

captured graph --autograd--> functional aten graph --compiler--> native code
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from onegraph import _C
from onegraph.autograd.callable import beneath, compiled_alone, compiled_pair, pair_spec
from onegraph.autograd.cuts import Cut, cut_at_buckets
from onegraph.autograd.function import Backward, Pattern
from onegraph.autograd.graphs import (
    FunctionalGraph,
    GraphPair,
    Program,
    functional_graph,
    other_backward,
    recorded_graphs,
)
from onegraph.autograd.kept_calls import KeptAlone, KeptEager, KeptInference, KeptPair
from onegraph.autograd.regions import with_regions
from onegraph.autograd.runtime import Run, bind
from onegraph.autograd.small import is_too_small
from onegraph.autograd.trace import is_taken
from onegraph.base import events as ev
from onegraph.base.context import Context
from onegraph.base.errors import NO_MEMORY, CompileError
from onegraph.base.late import late_module
from onegraph.base.pipeline import timed
from onegraph.capture.breaks import GraphBreak
from onegraph.capture.examined import examined, note_graph
from onegraph.capture.graph.memory import has_address
from onegraph.compiler import compile_graph
from onegraph.compiler.cpu import CPU
from onegraph.compiler.lower.graph import lower_graph
from onegraph.compiler.pipeline import alone
from onegraph.compiler.target import Target
from onegraph.compiler.targets import target_of
from onegraph.reloading import graph_bytes, note, note_entered, note_other, within_mode
from onegraph.torchlib import private
from onegraph.torchlib.announced import compiling
from onegraph.torchlib.custom_function import applied_in
from onegraph.torchlib.data_sizes import NotKnown
from onegraph.torchlib.graph import devices_of
from onegraph.torchlib.kept_graphs import kept_nodes
from onegraph.torchlib.private import set_grad_enabled
from onegraph.torchlib.regions import OPERATORS
from onegraph.torchlib.settings import CHOOSING_KERNELS
from onegraph.torchlib.size_operations import is_doubtful, may_raise
from onegraph.torchlib.state import enter_inference, exit_inference, without_autocast
from onegraph.torchlib.warned import ruled

if TYPE_CHECKING:
    from onegraph.compiler.interpreted import interpreted
    from onegraph.compiler.library.quantize import quantize
    from onegraph.compiler.runtime.cuda_graphs import unsuitable_call
else:  # for options, and to find a fault
    interpreted = late_module("onegraph.compiler.interpreted").interpreted
    quantize = late_module("onegraph.compiler.library.quantize").quantize
    unsuitable_call = late_module("onegraph.compiler.runtime.cuda_graphs").unsuitable_call

GraphCompiler = Callable[[torch.fx.GraphModule, list[Any], Context], Callable[..., Any]]

LOGGER = logging.getLogger("onegraph")
COMPILER_FAILED = (
    "the native compiler failed on the graph of %s, which runs operator by operator: %s. This is a defect of onegraph: "
    'please report it. options={"raise_compiler_errors": True} raises it, with where it is from.'
)
MEASURED_HERE = "the error of its products in integers was measured for these weights"
BACKWARD_IN_EAGER = "the backward pass of %s runs in eager: %s"


def in_inference_mode(compile_graph: GraphCompiler) -> GraphCompiler:
    """The same backend for graphs that are in inference mode as a whole, too: it is entered around them."""

    @functools.wraps(compile_graph)
    def compiled(module: torch.fx.GraphModule, examples: list[Any], cx: Context) -> Callable[..., Any]:
        inner = within_inference(module)
        if inner is None:
            return compile_graph(module, examples, cx)
        with torch.inference_mode():
            run = compile_graph(inner, examples, cx)
        note_entered(cx)
        return within_mode(run)

    return compiled


def within_inference(module: torch.fx.GraphModule) -> torch.fx.GraphModule | None:
    """The graph without the ends of inference mode, if these are around all of its operators, and no others within."""
    nodes = [node for node in module.graph.nodes if node.op not in ("placeholder", "output")]
    ends = [node for node in nodes if node.target in (enter_inference, exit_inference)]
    if len(ends) != 2 or nodes[0] is not ends[0] or nodes[-1] is not ends[1] or ends[0].args != (True,):
        return None
    graph = torch.fx.Graph()
    copied: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in module.graph.nodes:
        if node not in ends:
            copied[node] = graph.node_copy(node, copied.__getitem__)
    return torch.fx.GraphModule(module, graph)


def eager(module: torch.fx.GraphModule, examples: list[Any], cx: Context) -> Callable[..., Any]:
    """Run the captured graph operator by operator, as PyTorch does."""
    note(cx, lambda: KeptEager(kept_nodes(module)))
    return module.forward


def differentiated(make: Callable[..., Run]) -> GraphCompiler:
    """The backend that runs what `make(cx, graph, consumes, ...)` makes of functional graphs.

    A graph that records gradients is cut in two, forward and backward.
    """

    @in_inference_mode
    def compile_graph(module: torch.fx.GraphModule, examples: list[Any], cx: Context) -> Callable[..., Any]:
        if runs_by_operators(module, cx):
            return module.forward
        if needs_gradients(module, examples):
            return recorded(module, examples, cx, partial(make, cx))
        return functionally(module, examples, cx, partial(make, cx))

    return compile_graph


def functionally(
    module: torch.fx.GraphModule, examples: list[Any], cx: Context, make: Callable[..., Run]
) -> Callable[..., Any]:
    """Run the graph, which records no gradients, as what `make` makes of the functional one."""
    graph = functional(module, examples, cx)
    if graph is None:
        return module.forward
    run = beneath(make(graph.module, False))
    return bind(graph.spec, run, records_writes=False, records_views=False)


def aot_eager(module: torch.fx.GraphModule, examples: list[Any], cx: Context) -> Callable[..., Any]:
    """Run the functional aten graph operator by operator: shows whether a fault is above or below the compiler."""
    return differentiated(by_operators)(module, examples, cx)


def lowered(module: torch.fx.GraphModule, examples: list[Any], cx: Context) -> Callable[..., Any]:
    """Run as `eager` does, and tell what the native compiler would leave to libraries, and keep for gradients."""
    target = target_of(module)
    if target is None or runs_by_operators(module, cx):
        return module.forward
    try:
        if needs_gradients(module, examples):
            planned = plan_gradients(module, examples, cx)
            graphs = planned[1].modules() if planned is not None else []
            refuse_capture(target, cx)
        else:
            graph = functional_graph(module, fake_inputs(module), cx, overlapping(examples)).module
            graphs = [in_integers(target, graph, parameters_among(examples), examples, cx)]
        for graph in graphs:
            calls = lower_graph(graph, cx, target.device, target.machine).calls
            if captures(target, cx) and not needs_gradients(module, examples):
                for why in filter(None, map(unsuitable_call, calls)):
                    cx.emit(ev.LaunchedOneByOne(cx.frame, why))
    except Exception as error:
        cx.emit(ev.OperatorFellBack(cx.frame, "all operators", f"{type(error).__name__}: {error}"))
    return module.forward


@in_inference_mode
def native(module: torch.fx.GraphModule, examples: list[Any], cx: Context) -> Callable[..., Any]:
    """Compile the graph to fused native code; one that records gradients to two of them, forward and backward.

    A graph on which the compiler fails runs operator by operator: a defect of ours costs speed, and a warning says so.
    """
    target = target_of(module)
    return uncompiled(module, examples, cx) if target is None else compiled_for(target, module, examples, cx)


def uncompiled(module: torch.fx.GraphModule, examples: list[Any], cx: Context) -> Callable[..., Any]:
    """Run as `aot_eager` does a graph on devices that there is no compiler for. It is not kept on disk."""
    why = f"there is no compiler for graphs on {' and '.join(map(str, devices_of(module)))}"
    LOGGER.warning("the graph of %s runs operator by operator: %s", cx.frame, why)
    cx.emit(ev.OperatorFellBack(cx.frame, "all operators", why))
    if cx.made is not None:
        cx.made.why = why
    return compiled_or_not(None, module, examples, replace(cx, made=None))


def native_for(target: Target) -> GraphCompiler:
    """The backend `native` for another target, or for the same one with other passes."""
    return in_inference_mode(partial(compiled_for, target))


def compiled_for(target: Target, module: torch.fx.GraphModule, examples: list[Any], cx: Context) -> Callable[..., Any]:
    """What runs the graph, which is kept as it is where that is not compiled code."""
    run = compiled_or_not(target, module, examples, cx)
    if run == module.forward and cx.made is not None:
        cx.made.parts.clear()
        note(cx, lambda: KeptEager(kept_nodes(module)))
    return run


def compiled_or_not(
    target: Target | None, module: torch.fx.GraphModule, examples: list[Any], cx: Context
) -> Callable[..., Any]:
    if runs_by_operators(module, cx):
        return module.forward
    try:
        if needs_gradients(module, examples):
            if is_too_small(module, cx.config.smallest_recorded_graph):
                return module.forward
            refuse_capture(target, cx)
            make = partial(by_operators, cx) if target is None else partial(natively, target, cx)
            return recorded(module, examples, cx, make)
        if target is None:
            return functionally(module, examples, cx, partial(by_operators, cx))
        return compiled_natively(target, module, examples, cx)
    except (GraphBreak, NotKnown):  # an operator must know a number that only the running program has
        cx.emit(ev.OperatorFellBack(cx.frame, "Tensor.item", "the whole graph runs operator by operator"))
        return module.forward
    except Exception as error:
        if cx.config.raise_compiler_errors:
            raise
        reason = f"{type(error).__name__}: {error}"
        note_graph("dynamo", module, examples, cx, native, error)
        cx.emit(ev.OperatorFellBack(cx.frame, "all operators", reason))
        LOGGER.warning(NO_MEMORY if isinstance(error, MemoryError) else COMPILER_FAILED, cx.frame, reason)
        return module.forward


def compiled_natively(
    target: Target, module: torch.fx.GraphModule, examples: list[Any], cx: Context
) -> Callable[..., Any]:
    with timed(cx, "functionalize"), ruled("ignore"):  # what capture has not refused
        graph = functional(module, examples, cx)
    if graph is None:
        return module.forward
    parameters = parameters_among(examples)
    with timed(cx, "compile"), ruled("ignore"):
        module = in_integers(target, graph.module, parameters, examples, cx)
        run = natively(target, cx, module, False, parameters, graph.spec.given_back(), is_alone=True)
    note(cx, partial(KeptInference, graph.spec))
    if module is not graph.module and cx.made is not None:
        cx.made.whole, cx.made.why = None, MEASURED_HERE
    return bind(graph.spec, run, records_writes=False, records_views=False)


def captures(target: Target | None, cx: Context) -> bool:
    """Whether graphs of the target are to begin by one call."""
    return target is not None and target.captured is not None and cx.config.cuda_graphs


def refuse_capture(target: Target | None, cx: Context) -> None:
    """Say of a graph that records gradients that it is launched kernel by kernel, where something else is asked for."""
    if captures(target, cx):
        cx.emit(ev.LaunchedOneByOne(cx.frame, "it records gradients"))


def in_integers(
    target: Target, module: torch.fx.GraphModule, parameters: frozenset[int], given: list[Any], cx: Context
) -> torch.fx.GraphModule:
    """The functional graph as the option `quantize` wants it."""
    if cx.config.quantize is None:
        return module
    with timed(cx, "compile: quantize"):
        return quantize(module, parameters, given, cx, alone(cx, target))


def evaluated(module: torch.fx.GraphModule, examples: list[Any], cx: Context) -> Callable[..., Any]:
    """As `native`, but Python evaluates the loops that kernels are made of: shows whether their code is at fault."""
    return native_for(interpreted(CPU))(module, examples, cx)


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
            run = make(pair.module, False, constant, pair.spec.given_back())
        note(cx, lambda graph: KeptAlone(pair.spec, graph, kept_nodes(module)))
        return compiled_alone(pair.spec, run, module.forward)
    with timed(cx, "compile"):
        forward = make(pair.graphs.forward, False, frozenset(program.parameters) - trained_among(module))
        cuts = cuts_of(module, program, pair, cx)
        graphs = [
            each
            for number, graph in enumerate(pair.graphs.backwards)
            for each in (cuts[number].modules if number in cuts else [graph.module])
        ]
        backwards = [make(graph, True) for graph in graphs]

    def specialize(number: int, pattern: Pattern) -> Backward | None:
        tangents = pair.grad.halves[number].tangents
        missing = [n for n, given in zip(tangents, pattern, strict=True) if not given]
        other = other_backward(program, pair, number, missing, cx)
        with compiling(cx.frame):
            run = None if other is None or other.module is None else make(other.module, True)
        note_other(cx, number, pattern, other)
        return None if other is None else Backward(run, other.half, other.taken)

    def report(reason: str, failure: Exception | None) -> None:
        if failure is not None and cx.config.raise_compiler_errors:
            raise failure
        LOGGER.info(BACKWARD_IN_EAGER, cx.frame, reason)
        cx.emit(ev.OperatorFellBack(cx.frame, "backward", reason))

    functions, call = applied_in(module.graph), pair_spec(pair, {n: cut.pieces for n, cut in cuts.items()})
    note(cx, lambda *graphs: KeptPair(call, graphs[0], graphs[1:], kept_nodes(module)))
    return compiled_pair(call, forward, backwards, specialize, module.forward, report, functions)


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


def by_operators(cx: Context, graph: torch.fx.GraphModule, consumes: bool, *hints: object) -> Run:
    def run(*inputs: Any) -> Any:
        with without_autocast():  # the graph has the casts in it
            return graph.forward(*(inputs[0] if consumes else inputs))

    return with_regions(graph, run, cx, lambda body: by_operators(cx, body, False))


def natively(
    target: Target,
    cx: Context,
    graph: torch.fx.GraphModule,
    consumes: bool,
    parameters: frozenset[int] = frozenset(),
    given: Mapping[int, int] | None = None,
    is_alone: bool = False,
) -> Run:
    note_graph("aot", graph, None, cx, native)
    try:
        compiled = compile_graph(graph, cx, target, parameters, given, consumes)
    except Exception as error:
        note_graph("aot", graph, None, cx, native, error)
        raise
    if cx.made is not None:
        has_regions = any(node.target in OPERATORS for node in graph.graph.nodes)
        cx.made.parts.append(b"" if has_regions else graph_bytes(compiled))
    launched: Run = compiled.run.consume if consumes else compiled.run
    if is_alone and target.captured is not None and cx.config.cuda_graphs:
        launched = target.captured(compiled.run, compiled.plan, parameters.union((given or {}).values()), cx)
    run = with_regions(
        graph,
        launched,
        cx,
        lambda body: natively(target, cx, body, False),
    )
    return examined("aot", graph, run, cx, native, consumes)


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


def runs_by_operators(module: torch.fx.GraphModule, cx: Context) -> bool:
    """Whether the graph runs operator by operator, for what the functional graph has no place for."""
    targets = {node.target for node in module.graph.nodes}
    for what, found in (("a setting of torch", CHOOSING_KERNELS), ("inference_mode", {enter_inference})):
        if not targets.isdisjoint(found):
            cx.emit(ev.OperatorFellBack(cx.frame, what, "the whole graph runs operator by operator"))
            return True
    return takes_numbers(module, cx)


def takes_numbers(module: torch.fx.GraphModule, cx: Context) -> bool:
    """Whether the graph takes numbers out of tensors that the functional graph has no place for."""
    values = {node: node.meta.get("example_value") for node in module.graph.nodes}
    taken = [node for node in values if node.op == "call_method" and node.target == "item"]
    numbers = {node: value.node.value for node, value in values.items() if isinstance(value, torch.SymFloat)}
    unsafe = any(map(may_raise, numbers.values()))
    returned = any(user.op == "output" for node in numbers for user in node.users)
    if any(node in numbers and is_doubtful(numbers[node]) for node in taken):  # it may be too large for an operator
        types = {value.dtype for value in values.values() if isinstance(value, torch.Tensor)}
        unsafe = unsafe or len({dtype for dtype in types if dtype.is_floating_point}) > 1
    found = unsafe or returned or not all(map(is_taken, taken))
    if found:
        cx.emit(ev.OperatorFellBack(cx.frame, "Tensor.item", "the whole graph runs operator by operator"))
    return found


def functional(module: torch.fx.GraphModule, examples: list[Any], cx: Context) -> FunctionalGraph | None:
    """The functional graph of the captured one, or None if it has none."""
    try:
        return functional_graph(module, fake_inputs(module), cx, overlapping(examples))
    except CompileError as error:
        cx.emit(ev.OperatorFellBack(cx.frame, "all operators", str(error)))
        return None


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
