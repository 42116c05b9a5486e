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

from onegraph.autograd.callable import beneath
from onegraph.autograd.graphs import FunctionalGraph, functional_graph
from onegraph.autograd.kept_calls import KeptEager, KeptInference
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
from onegraph.compiler import compile_graph
from onegraph.compiler.cpu import CPU
from onegraph.compiler.lower.graph import lower_graph
from onegraph.compiler.pipeline import alone
from onegraph.compiler.target import Role, Target
from onegraph.compiler.targets import target_of
from onegraph.pairs import fake_inputs, needs_gradients, overlapping, parameters_among, plan_gradients, recorded
from onegraph.reloading import graph_bytes, note, note_entered, within_mode
from onegraph.torchlib.data_sizes import NotKnown
from onegraph.torchlib.graph import devices_of
from onegraph.torchlib.kept_graphs import kept_nodes
from onegraph.torchlib.regions import OPERATORS
from onegraph.torchlib.settings import CHOOSING_KERNELS
from onegraph.torchlib.size_operations import is_doubtful, may_raise
from onegraph.torchlib.state import enter_inference, exit_inference, without_autocast
from onegraph.torchlib.warned import ruled

if TYPE_CHECKING:
    from onegraph.compiler.interpreted import interpreted
    from onegraph.compiler.library.quantize import quantize
    from onegraph.compiler.runtime.cuda_graphs import unsuitable_parts
else:  # for options, and to find a fault
    interpreted = late_module("onegraph.compiler.interpreted").interpreted
    quantize = late_module("onegraph.compiler.library.quantize").quantize
    unsuitable_parts = late_module("onegraph.compiler.runtime.cuda_graphs").unsuitable_parts

GraphCompiler = Callable[[torch.fx.GraphModule, list[Any], Context], Callable[..., Any]]

LOGGER = logging.getLogger("onegraph")
COMPILER_FAILED = (
    "the native compiler failed on the graph of %s, which runs operator by operator: %s. This is a defect of onegraph: "
    'please report it. options={"raise_compiler_errors": True} raises it, with where it is from.'
)
MEASURED_HERE = "the error of its products in integers was measured for these weights"


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
            parts = ("forward", *["backward"] * len(graphs)) if len(graphs) > 1 else ("inference",)
        else:
            graph = functional_graph(module, fake_inputs(module), cx, overlapping(examples)).module
            graphs, parts = [in_integers(target, graph, parameters_among(examples), examples, cx)], ("inference",)
        calls = [lower_graph(graph, cx, target.device, target.machine).calls for graph in graphs]
        if captures(target, cx):
            for part, why in unsuitable_parts(zip(parts, calls, strict=False)):
                cx.emit(ev.LaunchedOneByOne(cx.frame, why, part))
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
        given = graph.spec.given_back()
        fixed = parameters.union(given.values())
        run = natively(target, cx, module, False, parameters, given, Role(fixed=fixed))
    note(cx, partial(KeptInference, graph.spec, tuple(sorted(fixed))))
    if module is not graph.module and cx.made is not None:
        cx.made.whole, cx.made.why = None, MEASURED_HERE
    return bind(graph.spec, run, records_writes=False, records_views=False)


def captures(target: Target | None, cx: Context) -> bool:
    """Whether graphs of the target are to begin by one call."""
    return target is not None and target.captured is not None and cx.config.cuda_graphs


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
    role: Role | None = None,
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
    launched: Any = compiled.run
    if role is not None and target.captured is not None and cx.config.cuda_graphs:
        launched = target.captured(launched, compiled.plan, role, cx)
    run = with_regions(
        graph,
        launched.consume if consumes else launched,
        cx,
        lambda body: natively(target, cx, body, False),
    )
    return examined("aot", graph, run, cx, native, consumes)


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
