"""Events as lines of text on a stream: what `ONEGRAPH_LOGS=graph_breaks,guards` prints.

`describe` is the one place that knows how an event reads; a new event type gets its line there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import TextIO

from onegraph.base import events as ev
from onegraph.base.errors import InvalidArgument
from onegraph.base.events import Event, Events, Location, channels, text_of
from onegraph.base.settings import config
from onegraph.base.text import Printer, plural
from onegraph.tools.torch_log_names import ROUTES
from onegraph.torchlib.ranks import rank


def attach(events: Events, names: Iterable[str], stream: TextIO | None = None) -> Callable[[], None]:
    """Print the events of the named channels ('all': of every channel); the result ends it.

    Where `onegraph.config.logs` is set, it counts in the place of the names.
    """
    chosen = _chosen(names)

    def show(event: Event) -> None:
        given = config.given("logs")
        if event.channel in (chosen if given is None else _chosen(given)):
            print(render(event), file=stream or sys.stderr)

    return events.subscribe(show)


def _chosen(names: Iterable[str]) -> frozenset[str]:
    known = channels()
    names = frozenset(names)
    unknown = sorted(names - {*known, "all"})
    if unknown:
        name, accepted = unknown[0], ", ".join(known)
        raise InvalidArgument(f"unknown log channel '{name}'{near(name)}; accepted: all, {accepted}")
    return frozenset(known) if "all" in names else names


def near(name: str) -> str:
    """What may have been meant by an unknown channel: what torch logs under this name, or a channel like it."""
    for channel, route in ROUTES.items():
        if name in route.artifacts:
            return f" (torch's '{name}' is the channel '{channel}')"
    found = get_close_matches(name, ["all", *channels()], n=1)
    return f" (did you mean '{found[0]}'?)" if found else ""


def render(event: Event) -> str:
    """The event as text: a headline with channel and frame, then the indented program that it carries, if any."""
    out = Printer()
    where = f" {event.frame}:" if event.frame else ""
    process = "" if (number := rank()) is None else f"[rank {number}] "
    out.line(f"{process}[{event.channel}]{where} {describe(event)}")
    with out.indented():
        out.lines(details(event))
        body = text_of(getattr(event, "text", ""))
        if body:
            out.line(body.rstrip("\n"))
    return out.text()


def describe(event: Event) -> str:
    """The headline of an event."""
    match event:
        case ev.FrameStarted(compile_index=index):
            return f"compiling, version {index}"
        case ev.BytecodeDecoded():
            return "bytecode in normal form"
        case ev.GraphCaptured(operations=operations, inputs=inputs):
            return f"captured a graph of {plural(operations, 'operation')} and {plural(inputs, 'input')}"
        case ev.SizesMadeSymbolic(count=count):
            return plural(count, "symbolic size")
        case ev.GuardsBuilt(count=count):
            return plural(count, "guard")
        case ev.ResidualCode():
            return "residual code"
        case ev.GraphBroken(code=code, reason=reason):
            return f"graph break: {reason} [{code}]"
        case ev.FrameSkipped(reason=reason):
            return f"runs eagerly: {reason}"
        case ev.RanEagerly():
            return "runs eagerly once more"
        case ev.Recompiled(reason=reason, compile_index=index):
            return f"version {index} is needed, because {reason}"
        case ev.FrameEnded(seconds=seconds, error=error):
            return f"took {seconds:.3f} s" + (f" and raised {error}" if error else "")
        case ev.VersionShared():
            return "uses a version of an equal function"
        case ev.RecompileLimitReached(limit=limit, reason=reason):
            return f"reached the limit of {plural(limit, 'version')}; another version is needed, because {reason}"
        case ev.GraphFailed(error=error, resolved=resolved):
            return f"the graph failed: {error}" + ("; the frame runs as it was written" if resolved else "")
        case ev.GraphExamined(error=error):
            return f"looks at a graph that failed: {error}" if error else "looks at a graph before it runs"
        case ev.FunctionalGraphBuilt(operations=operations):
            return f"functional graph of {plural(operations, 'operation')}"
        case ev.GradientsPlanned(kept=kept, values=values, recomputed=recomputed):
            again = f"computes {len(recomputed)} again"
            return f"keeps {plural(kept, 'byte')} for gradients in {plural(values, 'value')}, {again}"
        case ev.ProductsQuantized(way=way, reason=reason) if reason:
            return f"{way}: the graph stays in float: {reason}"
        case ev.ProductsQuantized(way=way, products=products):
            errors = [each.error or 0.0 for each in products if not each.why]
            head = f"{way}: {len(errors)} of {plural(len(products), 'product')} with parameters in integers"
            if not errors:
                return head
            return f"{head}, relative error {sum(errors) / len(errors):.2%} on average, {max(errors):.2%} at worst"
        case ev.LoweringDone(kernels=kernels):
            return f"lowered to {plural(kernels, 'kernel')}"
        case ev.FusionDone(kernels=kernels):
            return f"fused to {plural(kernels, 'kernel')}"
        case ev.CommunicationScheduled(transfers=transfers):
            overlapped = sum(bool(each.kernels or each.operators) for each in transfers)
            return f"{plural(len(transfers), 'collective')}, of which {overlapped} travel while something is computed"
        case ev.BoundsChecked(kernels=kernels, unproven=unproven):
            return f"checked the bounds of {plural(kernels, 'kernel')}; {len(unproven)} accesses are not proven"
        case ev.MemoryPlanned(total=total, peak=peak):
            return f"allocates {plural(total, 'byte')}, at most {peak} at one time"
        case ev.KernelsCompiled(kernels=kernels, seconds=seconds, cached=cached):
            return f"{'loaded' if cached else 'compiled'} {plural(kernels, 'kernel')} in {seconds:.3f} s"
        case ev.LaunchedOneByOne(reason=reason, part=part):
            return f"kernels of the {part} graph are launched one by one: {reason}"
        case ev.OperatorFellBack(operator=operator, reason=reason):
            return f"{operator} is called as it is" + (f": {reason}" if reason else "")
        case ev.CaptureMissed(reason=reason):
            return f"a capture on disk does not hold: {reason}"
        case ev.CaptureKept(size=size):
            return f"the capture is kept on disk: {plural(size, 'byte')}"
        case ev.CaptureUnkept(reason=reason):
            return f"the capture is not kept on disk: {reason}"
        case ev.DiskSearched(stage=stage, found=found, reason=reason):
            return f"{stage}: {'found' if found else 'not found'} on disk" + (
                f"; nothing is kept: {reason}" if reason else ""
            )
        case ev.PassRun(stage=stage, name=name, seconds=seconds):
            return f"{stage}: {name} ({seconds * 1e3:.1f} ms)"
        case ev.StageTimed(stage=stage, seconds=seconds):
            return f"{stage}: {seconds:.3f} s"
    return type(event).__name__


def details(event: Event) -> list[str]:
    """The lines under the headline that are not the program itself: why, where, and what to do."""
    match event:
        case ev.GraphBroken():
            return event.details()
        case ev.Recompiled(cause=Location() as cause):
            return ["from user code:", *cause.traceback_lines()]
        case ev.CommunicationScheduled(transfers=transfers):
            return list(map(transfer_line, transfers))
        case ev.ProductsQuantized(products=products):
            return list(map(product_line, products))
    return []


def product_line(product: ev.QuantizedProduct) -> str:
    """A product, its error, and why it is not computed in integers."""
    rows, inner, columns = product.sizes
    error = "" if product.error is None else f"relative error {product.error:.2%}"
    stays = f"stays in float: {product.why}" if product.why else ""
    return ", ".join(filter(None, (f"{product.parameter}, {rows} x {inner} x {columns}", error, stays)))


def transfer_line(transfer: ev.Transfer) -> str:
    """A collective, and what runs while it travels."""
    what = f"{', '.join(transfer.results)} = {transfer.operator}, {plural(transfer.size, 'byte')}"
    meanwhile = [*transfer.kernels, *transfer.operators]
    kernels, calls = plural(len(transfer.kernels), "kernel"), plural(len(transfer.operators), "library call")
    return f"{what}: {kernels} and {calls} meanwhile" + (f": {', '.join(meanwhile)}" if meanwhile else "")
