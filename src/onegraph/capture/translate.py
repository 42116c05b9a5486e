"""From a frame that is about to start to the code that replaces it: capture, compile, write the replacement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import CO_VARARGS, CO_VARKEYWORDS
from typing import Any

import torch

from onegraph import _C
from onegraph.base.context import Context
from onegraph.base.errors import BackendError
from onegraph.base.garbage_collector import COLLECTOR
from onegraph.capture.capture_frame import capture
from onegraph.capture.captured import Capture, CapturedGraph, Failing, FrameStart, Skipped
from onegraph.capture.examined import examined, note_graph
from onegraph.capture.kept.store import Shelf
from onegraph.capture.replacement import Translated, checked, replacement
from onegraph.capture.reported import reported
from onegraph.capture.symbolic.shape_policy import ShapePolicy
from onegraph.capture.verified import verified
from onegraph.torchlib.state import autocast_uncached

CompileGraph = Callable[[torch.fx.GraphModule, list[Any], Context], Any]


def translate(
    start: FrameStart,
    compile_graph: CompileGraph,
    cx: Context,
    fullgraph: bool,
    shapes: ShapePolicy,
    shelf: Shelf | None = None,
) -> Translated | Skipped | Failing:
    """Capture the frame, compile its graph, and make the replacement of both, which is kept on the `shelf` on disk.

    Raises:
        GraphBreakError: under `fullgraph`, or where the program wants it, at the first graph break.
        BackendError: when the backend fails on the captured graph.
    """
    cx = cx if shelf is None else cx.keeping()
    while True:
        captured = capture(start, cx, fullgraph, shapes)
        if not isinstance(captured, Capture):
            return captured
        try:
            compiled = None if captured.graph is None else call_backend(compile_graph, captured.graph, cx)
        except Exception:  # it may not know how to take numbers out of tensors, or sizes that only the data say
            if not shapes.keep_floats_constant() and (cx.config.raise_compiler_errors or not shapes.give_up_sizes()):
                raise
        else:
            graph = captured.graph
            around = None if graph is None or compiled is None else graph.fallback.around(compiled)
            made = checked(replacement(captured, around, start, cx), start, cx)
            if shelf is None:
                return made
            return replace(made, kept=shelf.store(captured, start, shapes.history, cx))


def call_backend(compile_graph: CompileGraph, graph: CapturedGraph, cx: Context) -> Callable[..., Any]:
    looking = _C.looking(False)
    try:
        with COLLECTOR.resting(), autocast_uncached():
            note_graph("dynamo", graph.module, graph.examples, cx, compile_graph)
            make = reported(compile_graph) if cx.config.raise_compiler_errors else compile_graph
            compiled: Callable[..., Any] = make(graph.module, list(graph.examples), cx)
    except Exception as error:
        note_graph("dynamo", graph.module, graph.examples, cx, compile_graph, error)
        raise
    finally:
        _C.looking(looking)
        graph.release()
    if not callable(compiled):
        raise BackendError(f"the backend returned {type(compiled).__name__}, which cannot be called")
    compiled = examined("dynamo", graph.module, compiled, cx, compile_graph)
    return verified(graph.module, compiled, cx) if cx.config.verify_correctness else compiled


def run_as_written(start: FrameStart) -> None:
    """Call the function of a frame that is about to start, with its arguments, and without compiling anything."""
    code = start.code
    values = iter(start.values)
    positional = [next(values) for _ in range(code.co_argcount)]
    names = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    named = {name: next(values) for name in names}
    if code.co_flags & CO_VARARGS:
        positional += next(values)
    if code.co_flags & CO_VARKEYWORDS:
        named |= next(values)
    _C.disabled(start.function)(*positional, **named)
