"""Under `repro_after`: graphs that fail, or are about to run, are told of, with copies of what they are called with.

Who hears of that can run the graph alone, and write a program that fails as it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onegraph.base.context import Context
from onegraph.base.events import GraphExamined
from onegraph.capture.verified import copies_of

ALWAYS, ACCURACY = 3, 4  #: levels at which graphs are told of before they are compiled, or run


def note_graph(
    after: str,
    module: torch.fx.GraphModule,
    inputs: Sequence[Any] | None,
    cx: Context,
    made_by: Any,
    error: Exception | None = None,
) -> None:
    """Tell of a graph that is about to be compiled, or could not be. `inputs` are None where they are not known."""
    config = cx.config
    if config.repro_after == after and (error is not None or config.repro_level == ALWAYS):
        given = None if inputs is None else copied(inputs)
        text = "" if error is None else f"{type(error).__name__}: {error}"
        cx.emit(GraphExamined(cx.frame, after, module, given, made_by, torch.is_grad_enabled(), config, text))


def examined(
    after: str,
    module: torch.fx.GraphModule,
    run: Callable[..., Any],
    cx: Context,
    made_by: Any,
    consumes: bool = False,
) -> Callable[..., Any]:
    """The compiled graph, which is told of before its first call, or when it fails, by the option `repro_level`."""
    if cx.config.repro_after != after:
        return run
    is_first = True

    def watched(*inputs: Any) -> Any:
        nonlocal is_first
        gradients = torch.is_grad_enabled()
        before = copied(inputs[0] if consumes else inputs)
        if is_first and cx.config.repro_level == ACCURACY:
            cx.emit(GraphExamined(cx.frame, after, module, before, made_by, gradients, cx.config))
        is_first = False
        try:
            return run(*inputs)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            cx.emit(GraphExamined(cx.frame, after, module, before, made_by, gradients, cx.config, text))
            raise

    return watched


def copied(inputs: Sequence[Any]) -> tuple[Any, ...] | None:
    """Copies of what a graph is called with; None if there is something among it that has none."""
    try:
        return tuple(as_given(*pair) for pair in zip(copies_of(inputs), inputs, strict=True))
    except (RuntimeError, TypeError, NotImplementedError):
        return None


def as_given(copy: Any, given: Any) -> Any:
    """The copy of an input as what the input was: a parameter, a leaf, or what autograd has made."""
    if isinstance(given, torch.nn.Parameter):
        return torch.nn.Parameter(copy.detach(), requires_grad=given.requires_grad)
    if isinstance(given, torch.Tensor) and given.requires_grad and not given.is_leaf:
        with torch.enable_grad():
            return copy.clone()
    return copy
