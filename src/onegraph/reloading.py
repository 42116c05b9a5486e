"""Compiled calls as data, and back: what the backends put on disk beside a capture, and run again without its graph.

native ──► KeptInference, KeptPair ... ──► bytes ──► what runs        (of the graphs, plans and names of code)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from onegraph.autograd.call_check import check_call, check_other, check_pair
from onegraph.autograd.kept_calls import (
    CODEC,
    KeptAlone,
    KeptEager,
    KeptInference,
    KeptOther,
    KeptPair,
    read_nodes,
    run_eagerly,
)
from onegraph.autograd.runtime import Run, bind
from onegraph.base import events as ev
from onegraph.base.codec import Unkept
from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass
from onegraph.base.errors import EntryRefused
from onegraph.base.late import late_module
from onegraph.compiler import kept_graphs
from onegraph.compiler.cpu_code import KEPT
from onegraph.compiler.kept_graphs import relaunched
from onegraph.compiler.target import Role
from onegraph.torchlib.state import enter_inference, exit_inference

if TYPE_CHECKING:
    from onegraph.autograd.callable import compiled_alone, compiled_pair
    from onegraph.autograd.function import Backward
    from onegraph.autograd.graphs import OtherBackward
    from onegraph.compiler.pipeline import NativeGraph
    from onegraph.roles import Roles
else:  # for graphs that record gradients
    compiled_alone = late_module("onegraph.autograd.callable").compiled_alone
    compiled_pair = late_module("onegraph.autograd.callable").compiled_pair
    Backward = late_module("onegraph.autograd.function").Backward
    Roles = late_module("onegraph.roles").Roles

PART_MISSING = "its graph has functions (torch.cond ...), constants that are large or elsewhere, or kernels not on disk"


def graph_bytes(compiled: NativeGraph) -> bytes:
    """A compiled graph as bytes; none if it cannot be kept."""
    try:
        return b"" if compiled.kept is None else kept_graphs.CODEC.encode(compiled.kept)
    except ValueError:
        return b""


def note(cx: Context, form: Callable[..., Any]) -> None:
    """Put together what `form` makes of the compiled graphs, if all of it can be kept."""
    made = cx.made
    if made is None:
        return
    graphs = tuple(made.parts)
    made.parts.clear()
    made.whole = None
    if not all(graphs):
        made.why = PART_MISSING
        return
    try:
        made.whole = CODEC.encode(form(*graphs))
    except (Unkept, ValueError) as why:
        made.why = f"{why}"


def note_other(cx: Context, number: int, pattern: tuple[bool, ...], other: OtherBackward | None) -> None:
    """One more backward graph was made, for a pattern of gradients."""
    made = cx.made
    if made is None or made.whole is None:
        return
    graph = made.parts.pop() if made.parts else None
    known = CODEC.decode(made.whole)
    if graph == b"" or not isinstance(known, KeptPair):
        return
    half, taken = (None, ()) if other is None else (other.half, other.taken)
    kept = KeptOther(number, pattern, half, graph, taken)
    made.whole = CODEC.encode(replace(known, others=(*known.others, kept)))
    if made.renew is not None:
        made.renew(made.whole)


def note_entered(cx: Context) -> None:
    """What was put together is to run within inference mode."""
    if cx.made is not None and cx.made.whole is not None:
        call = CODEC.decode(cx.made.whole)
        entered = isinstance(call, KeptInference)
        cx.made.whole = CODEC.encode(replace(call, entered=True)) if entered else None


def within_mode(run: Run) -> Run:
    """`run`, with inference mode entered around it."""

    def entered(*inputs: Any) -> Any:
        opened = enter_inference(True)
        try:
            return run(*inputs)
        finally:
            exit_inference(opened)

    return entered


def reloaded(data: bytes, cx: Context, outputs: int, outgrown: Callable[[], object]) -> Callable[..., Any] | None:
    """What runs as the call that these bytes are of; None where its code is gone.

    `outgrown` is called when it turns out that something is needed that only the captured graph has.

    Raises:
        ValueError, LookupError, AttributeError, TypeError: nobody has written these bytes.
    """

    def refused(why: str) -> None:
        cx.emit(ev.CaptureMissed(cx.frame, why))
        outgrown()

    match CODEC.decode(data):
        case KeptEager(eager):
            return read_nodes(eager, outputs)
        case KeptInference(call, fixed, encoded, entered):
            graph = decoded(encoded)
            check_call(call, outputs, graph.ends(), fixed)
            run = relaunched(graph, cx, False, refused, Role(fixed=frozenset(fixed)))
            bound = None if run is None else bind(call, run, records_writes=False, records_views=False)
            return within_mode(bound) if bound is not None and entered else bound
        case KeptAlone(call, encoded, eager, fixed):
            graph = decoded(encoded)
            check_call(call, outputs, graph.ends(), fixed)
            run = relaunched(graph, cx, False, refused, Role(fixed=frozenset(fixed)))
            return None if run is None else compiled_alone(call, run, run_eagerly(eager))
        case KeptPair(pair, forward, backwards, eager, parameters, others):
            first, *halves = map(decoded, (forward, *backwards))
            check_pair(pair, outputs, first.ends(), [half.ends() for half in halves], parameters)
            for each in others:
                check_other(each, pair, first.ends(), None if each.graph is None else decoded(each.graph).ends())
            roles = Roles(pair, frozenset(parameters))
            runs = [relaunched(first, cx, False, refused, roles.forward())]
            for half, role in zip(halves, roles.backwards(), strict=True):
                runs.append(relaunched(half, cx, True, refused, role))
            if any(run is None for run in runs):
                return None
            known = {(each.number, each.pattern): each for each in others}
            specialize = _Others(known, cx, outgrown, refused, roles)
            consuming = [run.consume for run in runs[1:]]
            report = _reporting(cx, refused)
            return compiled_pair(pair, runs[0], consuming, specialize, run_eagerly(eager), report, (), untried=True)
    raise ValueError("these bytes are no compiled call")


def objects_of(data: bytes) -> set[str]:
    """The names of the objects that have the code of a call of these bytes."""
    match CODEC.decode(data):
        case KeptInference(graph=graph) | KeptAlone(graph=graph):
            graphs = [graph]
        case KeptPair(forward=forward, backwards=backwards, others=others):
            graphs = [forward, *backwards, *(each.graph for each in others if each.graph is not None)]
        case _:
            graphs = []
    return {name for graph in graphs for name in kept_graphs.CODEC.decode(graph).objects}


def decoded(graph: bytes) -> kept_graphs.KeptGraph:
    """Raises ValueError where these are not the bytes of a graph."""
    found = kept_graphs.CODEC.decode(graph)
    if not isinstance(found, kept_graphs.KeptGraph):
        raise ValueError("these bytes are no graph")
    return found


@dataclass(frozen=True, slots=True)
class _Others:
    """The backward graphs for gradients that are missing. One that was not kept is not made: eager does its part, and
    the next call is captured anew."""

    known: dict[tuple[int, tuple[bool, ...]], KeptOther]
    cx: Context
    outgrown: Callable[[], object]
    refused: Callable[[str], object]
    roles: Roles

    def __call__(self, number: int, pattern: tuple[bool, ...]) -> Backward | None:
        kept = self.known.get((number, pattern))
        graph = None if kept is None else kept.graph
        run = None
        if kept is not None and graph is not None:
            role = self.roles.backward(number, kept.taken)
            run = relaunched(decoded(graph), self.cx, True, self.refused, role)
        if kept is None or (kept.graph is not None and run is None):
            self.outgrown()
            return None
        if kept.half is None:
            return None
        return Backward(None if run is None else run.consume, kept.half, kept.taken, untried=True)


def _reporting(cx: Context, refused: Callable[[str], object]) -> Callable[[str, Exception | None], object]:
    def report(reason: str, failure: Exception | None) -> None:
        if isinstance(failure, EntryRefused):
            refused(reason)
        elif failure is not None and cx.config.raise_compiler_errors:
            raise failure
        cx.emit(ev.OperatorFellBack(cx.frame, "backward", reason))

    return report


def identity(config: Config) -> str:
    """What native code depends on besides the program."""
    return KEPT.identity(config)
