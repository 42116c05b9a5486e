"""The graphs of a call with what they were called with, as they are captured or as they are behind differentiation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import torch
from torch.fx import GraphModule

from onegraph.autograd.runtime import Run
from onegraph.backends import by_operators, differentiated
from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass
from onegraph.base.events import GraphCaptured, Location
from onegraph.capture.examined import as_given
from onegraph.capture.verified import copies_of
from onegraph.compile import EVENTS, compile
from onegraph.tools.record import recording
from onegraph.tools.shrink import Case, without_numbers
from onegraph.tools.verification.call import Call, Outcome

FUNCTIONAL = Config(smallest_recorded_graph=0)


@dataclass(frozen=True, slots=True)
class GraphCall:
    """One captured graph, and copies of its inputs at its first call; `gradients` says whether they were recorded."""

    number: int
    module: GraphModule
    inputs: tuple[Any, ...]
    frame: Location | None
    gradients: bool


@dataclass(slots=True)
class GraphRecorder:
    """A backend that runs captured graphs as they are, and keeps them in the order of their first calls."""

    frames: Callable[[GraphModule], Location | None]
    calls: list[GraphCall] = field(default_factory=list)

    def __call__(self, module: GraphModule, examples: list[Any]) -> Callable[..., Any]:
        def first(*inputs: Any) -> None:
            self.note(module, inputs, self.frames(module), torch.is_grad_enabled())

        return before_first(first, module.forward)

    def functional(self, module: GraphModule, examples: list[Any]) -> Callable[..., Any]:
        """The backend that keeps the functional graphs, each that is run."""
        frame = self.frames(module)

        def make(cx: Context, graph: GraphModule, consumes: bool, *hints: object) -> Run:
            def first(*inputs: Any) -> None:
                self.note(graph, inputs[0] if consumes else inputs, frame, False)

            return before_first(first, by_operators(cx, graph, consumes))

        return differentiated(make)(module, examples, Context(FUNCTIONAL, frame=frame))

    def note(self, module: GraphModule, inputs: Sequence[Any], frame: Location | None, gradients: bool) -> None:
        copies = tuple(as_given(*pair) for pair in zip(copies_of(inputs), inputs, strict=True))
        case = without_numbers(Case(module, copies))
        self.calls.append(GraphCall(len(self.calls) + 1, case.module, case.inputs, frame, gradients))


def before_first(first: Callable[..., None], run: Callable[..., Any]) -> Callable[..., Any]:
    """The function, in front of whose first call another one is called."""
    is_first = True

    def called(*inputs: Any) -> Any:
        nonlocal is_first
        if is_first:
            is_first = False
            first(*inputs)
        return run(*inputs)

    return called


def captured(call: Call, keywords: Mapping[str, Any], after: str = "dynamo") -> tuple[Outcome, list[GraphCall]]:
    """The call with its graphs run as they are captured, and these graphs; after "aot", the functional ones of them."""
    with recording(EVENTS, (GraphCaptured,)) as recorded:

        def frame_of(module: GraphModule) -> Location | None:
            events = [each.event for each in recorded if isinstance(each.event, GraphCaptured)]
            return next((event.frame for event in events if event.module is module), None)

        recorder = GraphRecorder(frame_of)
        backend = recorder if after == "dynamo" else recorder.functional
        options = {**keywords["options"], "share_versions": False, "repro_after": None}
        outcome = call.run(compile(call.target, **{**keywords, "backend": backend, "options": options}))
    return outcome, recorder.calls
