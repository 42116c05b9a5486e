"""How a graph fails with a backend where eager mode does not: it raises, or its results or gradients differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Any

import torch

from onegraph.base.dataclass import dataclass
from onegraph.base.errors import UNEXPECTED, BackendError
from onegraph.base.events import GraphFailed
from onegraph.compile import EVENTS, compile
from onegraph.tools.record import Recorded, recording
from onegraph.tools.shrink import Case
from onegraph.tools.verification.call import Call
from onegraph.tools.verification.graphs import GraphCall, captured
from onegraph.tools.verification.trial import Trial
from onegraph.torchlib.state import GlobalState

#: What is compiled is all of a graph, now, and its failures are raised.
WHOLE: Mapping[str, Any] = {
    "share_versions": False,
    "smallest_recorded_graph": 0,
    "raise_compiler_errors": True,
    "verify_correctness": False,
    "repro_after": None,
}
DIFFERS = "differs from eager mode"
LARGE = 0.1  # a difference that is not one of rounding, as a share of the values


@dataclass(frozen=True, slots=True)
class Failure:
    """How a graph fails, as text; empty, and false, if it does not. Values have a `gap`, see `Difference`."""

    text: str = ""
    gap: float = inf

    def __bool__(self) -> bool:
        return bool(self.text)

    @property
    def kind(self) -> str:
        """The failure without what depends on values: the type of the exception, or that there is a difference."""
        return self.text.partition(":")[0]

    def is_like(self, other: Failure) -> bool:
        """Whether it is of the same kind; a difference not one of rounding where that was much larger."""
        return self.kind == other.kind and self.gap >= min(other.gap, LARGE) / 100


def failure_of(case: Case, gradients: bool, keywords: Mapping[str, Any]) -> Failure:
    """How a graph fails that eager mode runs; none if it does not, or if eager mode refuses it."""
    state = GlobalState.snapshot()
    try:
        with torch.set_grad_enabled(gradients):
            trial = Trial.of(Call.of(giving_tuple(case.module.forward), case.inputs, {}))
            if trial.eager.error is not None:
                return Failure()
            made = torch.fx.GraphModule(case.module, case.module.graph)
            options = {**keywords["options"], **WHOLE}
            compiled = compile(made.forward, backend=keywords["backend"], dynamic=keywords["dynamic"], options=options)
            with recording(EVENTS, (GraphFailed,)) as recorded:
                outcome = trial.call.run(giving_tuple(compiled))
            if raised := error_of_graph(recorded):
                return Failure(f"raises {raised}")
            if (error := outcome.error) is not None:
                own = error.__cause__ if isinstance(error, BackendError) and error.__cause__ is not None else error
                return Failure(f"raises {type(own).__name__}: {str(own).partition(chr(10))[0]}")
            found = trial.differences_of(outcome)
            return Failure(f"{DIFFERS}: {found[0]}", max(each.gap for each in found)) if found else Failure()
    finally:
        state.restore()  # which a part of a graph may have left changed


def error_of_graph(recorded: Iterable[Recorded]) -> str:
    """What a compiled graph has raised, also where its frame ran as it was written in its place; empty if nothing.

    That a size is another than the graph is made for is no failure.
    """
    errors = [each.event.error for each in recorded if isinstance(each.event, GraphFailed)]
    return next((error.partition("\n")[0] for error in errors if UNEXPECTED not in error), "")


def first_failing(
    calls: Iterable[GraphCall], keywords: Mapping[str, Any], counts: Callable[[Failure], bool]
) -> tuple[GraphCall, Failure] | None:
    """The first of the graphs that fails, and how; only failures that count."""
    for call in calls:
        failure = failure_of(Case(call.module, call.inputs), call.gradients, keywords)
        if failure and counts(failure):
            return call, failure
    return None


def captured_anew(case: Case) -> Case:
    """The case with a graph that knows the sizes of these inputs."""
    _, calls = captured(Call.of(giving_tuple(case.module.forward), case.inputs, {}), {"options": {}, "dynamic": False})
    return Case(calls[0].module, calls[0].inputs) if len(calls) == 1 else case


def giving_tuple(run: Callable[..., Any]) -> Callable[..., Any]:
    """The results of a graph as a tuple: backends may give a list."""
    return lambda *inputs: tuple(run(*inputs))
