"""One model, captured: everything that a capture must show, measured in one go."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import torch

import onegraph
from onegraph.base.events import Event, FrameStarted, GraphBroken, GraphCaptured, GuardsBuilt, OperatorFellBack
from onegraph.compile import EVENTS

from .compare import difference, largest_error
from .fingerprint import changes, fingerprint
from .row import Model


@dataclass(frozen=True, slots=True)
class Outcome:
    """`seconds` is the first call; `failures` is empty where all is well."""

    model: Model
    graphs: int = 0
    operations: int = 0
    guards: int = 0
    fallbacks: int = 0
    breaks: tuple[str, ...] = ()
    seconds: float = 0.0
    error: float = float("nan")
    failures: tuple[str, ...] = ()


def attempt(model: Model, backend: Any = "native", fullgraph: bool = True) -> Outcome:
    """Compile the model and call it twice, with fresh inputs of the same shapes."""
    expected, module = model.build(), model.build()
    failures: list[str] = []
    events: list[Event] = []
    unsubscribe = EVENTS.subscribe(events.append)
    try:
        with torch.no_grad():
            untouched = fingerprint(expected)
            results = [call(expected, model, 1)]
            written = set(changes(untouched, fingerprint(expected)))
            results.append(call(expected, model, 2))
            before = fingerprint(module)
            options = {"check_unchanged": True, "raise_compiler_errors": True}
            compiled = onegraph.compile(module, fullgraph=fullgraph, backend=backend, options=options)
            began = time.perf_counter()
            first = call(compiled, model, 1)
            seconds = time.perf_counter() - began
            unlike = written.symmetric_difference(changes(before, fingerprint(module)))
            failures += [f"not what eager writes: {change}" for change in sorted(unlike)[:5]]
            first_events = tuple(events)
            events.clear()
            second = call(compiled, model, 2)
    finally:
        unsubscribe()
    for which, wanted, got in (("first", results[0], first), ("second", results[1], second)):
        if found := difference(wanted, got):
            failures.append(f"{which} call: {found}")
    if count(events, FrameStarted):
        failures.append(f"the second call compiled again: {recompile_reasons(events)}")
    outcome = summary(model, first_events)
    if outcome.graphs != 1:
        failures.append(f"{outcome.graphs} graphs")
    error = max(largest_error(results[0], first), largest_error(results[1], second))
    return replace(outcome, seconds=seconds, error=error, failures=tuple(failures))


def call(module: Any, model: Model, seed: int) -> Any:
    args, kwargs = model.inputs(seed)
    return module(*args, **kwargs)


def summary(model: Model, events: tuple[Event, ...]) -> Outcome:
    return Outcome(
        model,
        graphs=count(events, GraphCaptured),
        operations=sum(event.operations for event in events if isinstance(event, GraphCaptured)),
        guards=sum(event.count for event in events if isinstance(event, GuardsBuilt)),
        fallbacks=count(events, OperatorFellBack),
        breaks=tuple(event.reason for event in events if isinstance(event, GraphBroken)),
    )


def count(events: Any, kind: type[Event]) -> int:
    return sum(isinstance(event, kind) for event in events)


def recompile_reasons(events: list[Event]) -> str:
    return "; ".join(str(event.reason) for event in events if hasattr(event, "reason"))
