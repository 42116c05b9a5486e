"""From a capture and its compiled graph to the code that runs in the place of the frame."""

from __future__ import annotations

from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Any

from onegraph.base import events as ev
from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass
from onegraph.base.keeping import Kept
from onegraph.base.late import late_module
from onegraph.capture.captured import FROM_DISK, GRAPH, Capture, FrameStart
from onegraph.capture.guards.program import GuardProgram
from onegraph.capture.residual.code import compile_residual, knows_globals

if TYPE_CHECKING:
    from onegraph.capture.guards.filtering import filtered
    from onegraph.capture.resume.splice import splice
else:  # most replacements need neither
    filtered = late_module("onegraph.capture.guards.filtering").filtered
    splice = late_module("onegraph.capture.resume.splice").splice


NOT_KEPT = "captures were not kept then: the cache was off, a setting shows all stages, or the backend keeps nothing"


@dataclass(frozen=True, slots=True)
class Translated:
    """The replacement of a frame, valid while the guards hold."""

    code: CodeType
    guards: GuardProgram
    levels: int  #: how many frames the program enters in it, one from another
    opened: int  #: how many of them, besides the first, it is in at the graph break
    kept: Kept | str = NOT_KEPT  #: where it is on disk, or why it is not


def replacement(capture: Capture, around: Any, start: FrameStart, cx: Context) -> Translated:
    """The code of the capture of a frame, around what runs its graph (None if it has no graph): see `Fallback`."""
    consts = [around if value is GRAPH else value for value in capture.consts]
    code, text = compile_residual(capture.code, capture.body, capture.nonlocals, consts)
    if capture.seen is FROM_DISK and knows_globals(code):
        raise ValueError(f"residual code names something that is not there: {text}")
    filename, continuation = code.co_filename, capture.continuation
    if continuation is not None:
        code = splice(code, continuation, capture.code)
    cx.emit(ev.ResidualCode(cx.frame, text, filename))
    choose = cx.config.guard_filter_fn
    guards = capture.assumptions.assembled(
        None if choose is None else partial(filtered, choose, function=start.function, values=start.values)
    )
    conditions = capture.assumptions.conditions
    if symbols := conditions().symbols:
        cx.emit(ev.SizesMadeSymbolic(cx.frame, symbols, lambda: conditions().text))
    cx.emit(ev.GuardsBuilt(cx.frame, len(capture.assumptions.guards), guards.listing))
    return Translated(code, guards, capture.levels, 0 if continuation is None else continuation.opened)


def checked(translated: Translated, start: FrameStart, cx: Context) -> Translated:
    """The replacement, if its guards hold for the call that it was made for: anything else is a fault of the tracer."""
    if not translated.guards.native.check(start.function, start.values):
        failed = translated.guards.failing(start.function, start.values) or "the state of the process"
        raise AssertionError(f"the guards of {cx.frame} do not hold for the call that made them: {failed}")
    return translated
