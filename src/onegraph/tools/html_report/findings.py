"""What costs most, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator

from onegraph.base.events import Location
from onegraph.base.text import plural
from onegraph.tools.html_report.data import Break, Eager, Fallback, Finding, Frame, Report

SIZES = (
    "say which size changes, before the first call: `onegraph.mark_dynamic(tensor, dim)`",
    "or make all sizes symbols from the start: `onegraph.compile(f, dynamic=True)`",
)
VALUES = (
    "keep this value the same between calls, or pass it as a tensor",
    "the page `onegraph docs where_to_compile` says what makes another version",
)
OBJECTS = ("compile the function once, outside of what makes it anew",)
AT_THE_LIMIT = (
    "remove the reason of the recompilations",
    "or allow more versions: `onegraph.compile(f, recompile_limit=N)`",
)
SKIPPED = ("the page `onegraph docs skipped_functions` says what is not compiled, and what to do",)
FAILED = ("mend the error if it is the program's; a call that fails in a graph runs once more as it is written",)
BY_OPERATORS = (
    "take what the reason names out of the compiled function",
    "with `raise_compiler_errors=True` an error of the compiler is raised, and shows where it comes from",
)


def findings(report: Report) -> list[Finding]:
    """All findings, the dearest first.

    What is counted for each are the seconds in which the processor compiled: for a break those of the compilations that
    it ended, for recompilations their own, for what runs eagerly those of its function, which were spent for nothing.
    To these come, where runs are measured, the seconds between the kernels of graphs that a break ends.
    """
    spent = {frame.place: frame.seconds for frame in report.frames}
    found = [
        *(of_break(number, broken) for number, broken in enumerate(report.breaks, 1)),
        *(of_recompilations(number, frame) for number, frame in enumerate(report.frames, 1) if frame.again),
        *(of_eager(eager, spent) for eager in report.eager),
        *of_whole_graphs(report.fallbacks, spent),
    ]
    return sorted(found, key=lambda finding: finding.cost, reverse=True)


def of_break(number: int, broken: Break) -> Finding:
    advice = (*broken.hints, f"read `onegraph explain-break {broken.code}`")
    line = broken.stack[-1] if broken.stack else None
    place = None if line is None else line.place
    title, lost = f"Graph break: {broken.reason}", broken.runs.around
    return Finding(title, place, broken.seconds, advice, f"break-{number}", lost, line=line)


def of_recompilations(number: int, frame: Frame) -> Finding:
    """The reason and the place are those of the dearest one."""
    dearest = max(frame.again, key=lambda version: version.seconds)
    reasons = {version.reason for version in frame.again}
    more = f"; and {plural(len(reasons) - 1, 'other reason')}" if len(reasons) > 1 else ""
    title = f"{plural(len(frame.again), 'recompilation')} of `{frame.place.function}`: {dearest.reason}{more}"
    line = dearest.cause or frame.caller
    spent = sum(version.seconds for version in frame.again)
    place = frame.place if line is None else line.place
    return Finding(title, place, spent, advice_on(dearest.reason), f"frame-{number}", line=line)


def advice_on(reason: str) -> tuple[str, ...]:
    """What to do about the reason of a recompilation, as it is printed."""
    if " had size " in reason or " had strides " in reason or ".size(" in reason:
        return SIZES
    return OBJECTS if "another compiled function" in reason else VALUES


def of_eager(eager: Eager, spent: dict[Location, float]) -> Finding:
    title, advice = {
        "skipped": ("Runs eagerly", SKIPPED),
        "limit": ("Too many versions", AT_THE_LIMIT),
        "failed": ("A graph failed", FAILED),
    }[eager.kind]
    seconds = spent.get(eager.place, 0.0)
    return Finding(f"{title}: {eager.reason}", eager.place, seconds, advice, "eager", calls=eager.calls)


def of_whole_graphs(fallbacks: tuple[Fallback, ...], spent: dict[Location, float]) -> Iterator[Finding]:
    for call in fallbacks:
        if call.of_whole_graph:
            title = f"A graph runs operator by operator ({call.operator}): {call.reason}"
            yield Finding(title, call.place, spent.get(call.place, 0.0), BY_OPERATORS, "operators")
