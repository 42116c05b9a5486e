"""Capturing a frame: up to its end or to the first graph break, as a value. Graph breaks are caught here alone.

trace once  ── returns ──────────────► the capture of the whole frame
    └─ breaks at a step ─► trace again up to that step ─► a capture that runs the graph so far, then the breaking
                           instruction in Python, then calls a resume function with the rest
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from onegraph import _C
from onegraph.base import events as ev
from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass
from onegraph.base.errors import ForbiddenCallError, GraphBreakError
from onegraph.base.garbage_collector import COLLECTOR
from onegraph.capture.assumptions import Assumptions, Conditions
from onegraph.capture.breaks import ASYNCHRONOUS, FAILED_OPERATOR, LONG_TRACE, GraphBreak
from onegraph.capture.breaks.reason import Unready
from onegraph.capture.bytecode.frame import Abort, Stopped, Unsupported
from onegraph.capture.captured import GRAPH, Capture, CapturedGraph, Failing, FrameStart, Skipped
from onegraph.capture.directives.handlers import is_strict
from onegraph.capture.graph.effects import fallback_of
from onegraph.capture.graph.late_guards import backwards_of
from onegraph.capture.graph.memory import guard_bases, guard_histories, guard_memory, guard_places
from onegraph.capture.graph.record import Recorder
from onegraph.capture.guards.limits import refuse_too_many
from onegraph.capture.heap.class_facts import guards_of_classes
from onegraph.capture.heap.distinct import guard_distinct
from onegraph.capture.heap.namespaces import guards_of_names
from onegraph.capture.heap.types.handles import register_hooks
from onegraph.capture.interp.defects import Defect
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.residual.generators import waiting
from onegraph.capture.residual.random_draws import write_random_draws
from onegraph.capture.residual.rebuild import Rebuild
from onegraph.capture.resume.continuation import Continuation, deepest, plan_resume, write_value
from onegraph.capture.symbolic.growth import Grown, refuse_grown
from onegraph.capture.symbolic.shape_policy import ShapePolicy
from onegraph.capture.symbolic.shapes import Symbols, sizes_text
from onegraph.capture.tracer.report import message_of
from onegraph.capture.tracer.trace import Trace
from onegraph.torchlib.data_parallel import DELAYING, Buckets, active_buckets, buckets_of, prepared
from onegraph.torchlib.graph import release_source
from onegraph.torchlib.graph_text import graph_text
from onegraph.torchlib.histories import is_view
from onegraph.torchlib.private import set_grad_enabled
from onegraph.torchlib.settings import CHOOSING


@dataclass(frozen=True, slots=True)
class Raises:
    """The frame ends with an exception: what comes before one of the `stops` can be compiled, the best one first."""

    otherwise: Skipped
    stops: tuple[tuple[int, int], ...]


def capture(start: FrameStart, cx: Context, fullgraph: bool, shapes: ShapePolicy) -> Capture | Skipped | Failing:
    """Trace the frame.

    Raises:
        GraphBreakError: under `fullgraph`, or where the program wants it, at the first graph break.
    """
    if active_buckets() == DELAYING:
        return Skipped("its DistributedDataParallel delays gradients", again=cx.config.recompile_limit, whole=True)
    while True:
        try:
            return capture_to_the_end(start, cx, fullgraph, shapes)
        except Grown:  # traced anew with what was learnt
            continue
        except Unready as unready:
            return Skipped(str(unready), again=cx.config.recompile_limit, whole=True)
        except Defect as defect:
            cause, defect.__cause__ = defect.__cause__, None  # which would be the context of its own cause
            assert cause is not None
            raise cause from None


def capture_to_the_end(
    start: FrameStart, cx: Context, fullgraph: bool, shapes: ShapePolicy
) -> Capture | Skipped | Failing:
    outcome = trace_whole(start, cx, fullgraph, shapes)
    if not isinstance(outcome, Raises):
        return outcome
    for stop in outcome.stops:
        result = capture_prefix(start, cx, shapes, stop)
        if isinstance(result, Capture):
            return result
    return outcome.otherwise


def trace_whole(
    start: FrameStart, cx: Context, fullgraph: bool, shapes: ShapePolicy
) -> Capture | Skipped | Failing | Raises:
    with traced(start, cx, shapes, fullgraph) as trace:
        try:
            try:
                result = trace.run()
            except (Abort, KeyboardInterrupt):
                raise
            except BaseException as raised:  # of the program: running it for real raises it again, with all its effects
                if is_strict(trace.tracer):
                    return Failing(trace.raised_event(raised))
                shown = f"{type(raised).__name__}: {message_of(raised)}{trace.raised_at(raised)}"
                if isinstance(raised, RecursionError):  # each call of an endless recursion would find it out anew
                    return Skipped(f"it raises {shown}", again=1)
                skipped = Skipped(f"it raises {shown}", again=cx.config.recompile_limit)
                return Raises(skipped, trace.unhandled_stops())
            if trace.tracer.was_too_deep:
                limit = RecursionError("the program comes to its limit of recursion")
                return Failing(trace.raised_event(limit)) if is_strict(trace.tracer) else Skipped(str(limit))
            return finish(trace, start, cx, (result,), None)
        except Unsupported as unsupported:
            broken = GraphBreak(ASYNCHRONOUS, what=str(unsupported))
            broken.frames = unsupported.frames
        except GraphBreak as found:
            broken = found
        broken.born = trace.tracer.dual_step or broken.born
        broken.__traceback__ = None  # it holds all that the trace has seen, and is held by this frame
        strict = is_strict(trace.tracer)
        event = trace.broken_event(broken)
        if strict and broken.reason is FAILED_OPERATOR:
            return Failing(event)
        if strict or broken.reason.fatal:
            cx.emit(event)
            raise (ForbiddenCallError if broken.reason.fatal else GraphBreakError)(event) from broken.__cause__
        nested = trace.tracer.settings["nested_graph_breaks"] is not False
        preparing = broken.reason is LONG_TRACE and not has_operations(trace.recorder.graph)
    broken.__cause__ = broken.__context__ = None  # their tracebacks hold this frame, which holds the break
    outcome = capture_broken(broken, nested, start, cx, shapes)
    if isinstance(outcome, Capture):
        cx.emit(event)
        return replace(outcome, broken=event)
    cx.emit(replace(event, cost="the whole call runs eagerly"))
    return replace(outcome, again=int(preparing))  # what takes long at the first call may be done at the next


def capture_broken(
    broken: GraphBreak, nested: bool, start: FrameStart, cx: Context, shapes: ShapePolicy
) -> Capture | Skipped:
    """Compile what comes before the break and go on behind it, in the innermost frame in which that can be done."""
    if broken.born is not None:
        result = capture_prefix(start, cx, shapes, broken.born)
        return result if isinstance(result, Capture) else Skipped(f"{broken.summary}; {result}")
    if not broken.frames:
        return Skipped(broken.summary)
    problem = ""
    innermost = min(deepest(broken.frames), len(broken.frames) - (2 if broken.reason.whole_frame else 1))
    innermost = innermost if nested else min(innermost, 0)
    for level in range(innermost, -1, -1):
        frame = broken.frames[level]
        result = capture_prefix(start, cx, shapes, (frame.serial, frame.steps))
        if isinstance(result, Capture):
            return result
        problem = result
    return Skipped(f"{broken.summary}; {problem}" if problem else broken.summary)


def capture_prefix(start: FrameStart, cx: Context, shapes: ShapePolicy, stop: tuple[int, int]) -> Capture | str:
    """Trace again up to a step, and continue from there in Python; or why that cannot be done.

    Where a live value cannot be made again behind the graph, the step that made it is run in Python instead.
    """
    with traced(start, cx, shapes) as trace:
        try:
            trace.run(stop)
        except Stopped as stopped:
            trace.guard_leniency()
            if trace.tracer.was_too_deep:
                return "the program has come to its limit of recursion"
            if trace.tracer.open_levels and trace.tracer.dual_step is None:
                return "a transform of torch.func is open, which the frame that has called it enters again"
            continuation = plan_resume(stopped.frames)
            if isinstance(continuation, str):
                return continuation
            try:
                return finish(trace, start, cx, continuation.values, continuation)
            except GraphBreak as cannot:
                summary, born = cannot.summary, cannot.born
        except GraphBreak as again:
            return f"tracing again stopped earlier: {again.summary}"
        except (Abort, KeyboardInterrupt):
            raise
        except BaseException as raised:  # of the program, which goes another way each time: by chance, or by addresses
            return f"tracing again raised {type(raised).__name__}"
        else:
            return "tracing again went another way"
    if born is None or born == stop:
        return summary
    return capture_prefix(start, cx, shapes, born)


@contextlib.contextmanager
def traced(start: FrameStart, cx: Context, shapes: ShapePolicy, fullgraph: bool = False) -> Iterator[Trace]:
    """A trace of the frame; the process state that tracing changes is put back behind it."""
    looking = _C.looking(True)
    try:
        with COLLECTOR.resting():
            trace = Trace(start.function, start.code, start.values, cx, shapes, fullgraph)
            try:
                yield trace
            finally:
                trace.close()
    finally:
        _C.looking(looking)


def finish(
    trace: Trace, start: FrameStart, cx: Context, values: tuple[Any, ...], continuation: Continuation | None
) -> Capture:
    """The capture of what was traced; it ends with `values`, returned or handed to a continuation."""
    trace.tracer.budget.renew()
    refuse_grown(trace.world, trace.shapes)
    if trace.symbols.scalars.check(trace.recorder, trace.symbols.node):
        trace.tracer.checks += 1
        trace.tracer.expects = True
    if trace.tracer.expects:
        trace.guard_expectation()
    rebuild = Rebuild(trace.world, trace.recorder, start.code, trace.symbol_text)
    draws, behind = write_random_draws(rebuild, trace.tracer.random, has_operations(trace.recorder.graph))
    results = [write_value(rebuild, value) for value in values]
    before = [effect_text(rebuild, effect) for effect in trace.tracer.preparations]
    effects = [effect_text(rebuild, effect) for effect in trace.effects()]
    for generator in list(waiting(trace.world)):  # Python closes it when its object dies, at the end of the code
        rebuild.value(generator)
    writes = rebuild.writes()
    hooks = register_hooks(rebuild, partial(tensors_of, rebuild.outputs), trace.recorder.is_input)
    guard_distinct(trace.world)
    guard_places(trace.recorder, trace.world.guard)
    guard_bases(trace.recorder, trace.world.guard)
    trace.symbols.scalars.erase_unused(trace.recorder, rebuild.outputs)
    trace.check_unchanged()  # the module of the graph is entered in `linecache`, which a program may have looked at
    graph, call = captured_graph(trace, rebuild, cx) if has_operations(trace.recorder.graph) else (None, [])
    ending = f"return {results[0]}" if continuation is None else f"return ({', '.join(results)},)"
    body = [*rebuild.loads, *before, *call, *behind, *rebuild.lines, *effects, *writes, *rebuild.late, ending]
    trace.pause()
    captured = Capture(
        start.code,
        graph,
        assumptions(trace, start),
        tuple(body),
        tuple(rebuild.nonlocals),
        tuple(rebuild.consts),
        None if continuation is None else replace(continuation, values=tuple(results)),
        levels=trace.tracer.levels,
        effects=(*draws, *before, *effects, *writes, *hooks),
        seen=trace.seen() if cx.made is not None else None,
    )
    if graph is not None:
        trace.keep_fakes()
    return captured


def tensors_of(nodes: Sequence[torch.fx.Node]) -> list[torch.Tensor]:
    values = (node.meta.get("example_value") for node in nodes)
    return [value for value in values if isinstance(value, torch.Tensor)]


def assumptions(trace: Trace, start: FrameStart) -> Assumptions:
    refuse_too_many(trace.world.guards)
    facts = guards_of_classes(trace.world, trace.tracer.type_lookup.classes())
    facts += guards_of_names(trace.world.namespaces.values())
    backwards = backwards_of(trace.recorder.graph, trace.world, trace.tracer.late)
    made = Assumptions(
        trace.world.guards,
        tuple(facts),
        trace.state,
        partial(conditions_of, trace.symbols),
        backwards,
        start.function.__globals__,
        trace.symbols,
    )
    trace.symbols.guard = made.add
    return made


def conditions_of(symbols: Symbols) -> Conditions:
    return Conditions(symbols.conditions(None), len(symbols.places), sizes_text(symbols))


def effect_text(rebuild: Rebuild, effect: tuple[Any, tuple[Any, ...], dict[str, Any]]) -> str:
    function, args, kwargs = effect
    values = [rebuild.value(value) for value in args] + [
        f"{name}={rebuild.value(value)}" for name, value in kwargs.items()
    ]
    return f"{rebuild.const(_C.disabled(function))}({', '.join(values)})"


def captured_graph(trace: Trace, rebuild: Rebuild, cx: Context) -> tuple[CapturedGraph, list[str]]:
    """The graph of a trace, and the statement that runs it."""
    graph = trace.recorder.graph
    trace.fake.sizes.sealed = True
    output = graph.output(tuple(rebuild.outputs))
    output.meta["writes"] = [writes_to_output(trace.recorder, node) for node in rebuild.outputs]
    trace.recorder.note_writes()
    placeholders = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    used = []
    for given in trace.recorder.inputs:
        node = placeholders[given.name]
        if node.users:
            node.meta["writes"] = given.written or 0
            node.meta["recorded"], node.meta["had_history"] = given.recorded, given.had_history
            node.meta["is_view"] = given.had_history and is_view(given.example)
            node.meta["trained"] = trace.is_trained(given)
            used.append(given)
        else:
            graph.erase_node(node)
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    release_source(module)
    module.meta["buckets"] = buckets(trace)
    operations = sum(node.op in ("call_function", "call_method", "call_module") for node in graph.nodes)
    cx.emit(ev.GraphCaptured(cx.frame, operations, len(used), partial(graph_text, module), module))
    trace.pause()
    guard_memory(trace.recorder, used, trace.world.guard)
    guard_histories(used, trace.world.guard)
    grad_enabled, unexpected = trace.state.values["grad_mode"], trace.shapes.history.note_unexpected
    generators = trace.tracer.random.saved
    fallback = fallback_of(trace.recorder, used, len(rebuild.outputs), grad_enabled, unexpected, generators, cx)
    if trace.tracer.checks and not fallback.repeatable:
        trace.shapes.history.makes_checks = False
        raise Grown
    arguments = ", ".join(trace.input_text(rebuild, given) for given in used)
    outputs = "".join(f"o{index}_, " for index in range(len(rebuild.outputs)))
    call = f"{rebuild.const(GRAPH)}({arguments})"
    examples = tuple(given.example for given in used)
    return CapturedGraph(module, examples, trace.fake, fallback), [f"{outputs}= {call}" if outputs else call]


def buckets(trace: Trace) -> Buckets | None:
    """How the gradients of the graph travel to other processes, if they do."""
    for function, (ddp, *_), _ in trace.tracer.preparations:
        if function is prepared:
            return buckets_of(trace.world.real(ddp))
    return active_buckets()


def writes_to_output(recorder: Recorder, node: torch.fx.Node) -> int:
    value = node.meta.get("example_value")
    return recorder.writes_since_made(value) if isinstance(value, torch.Tensor) else 0


def has_operations(graph: torch.fx.Graph) -> bool:
    """Whether anything is computed: the state that a frame leaves is left by its residual code too."""
    states = {set_grad_enabled, *CHOOSING}
    return any(node.op != "placeholder" and node.target not in states for node in graph.nodes)
