"""From a call that fails to its cause: the graph, a small part of it that fails alone, and the stage that brings it in.

The graphs of a call are run as they are captured. If that differs, capture is at fault. Otherwise the first graph that
fails alone is shrunk, and what is left of it is compiled with less and less switched off. Where none fails alone, as
where transforms of torch.func are open in it, its functional graphs are tried, and then the call as a whole.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch.fx import Node

from onegraph.base.config import Config
from onegraph.base.dataclass import dataclass
from onegraph.compile import compile
from onegraph.tools.shrink import Case, shrink
from onegraph.tools.verification.call import Call, Outcome
from onegraph.tools.verification.eager_graph import eager_graph
from onegraph.tools.verification.failing import Failure, captured_anew, failure_of, first_failing, giving_tuple
from onegraph.tools.verification.graphs import GraphCall, captured
from onegraph.tools.verification.replay import Replay
from onegraph.tools.verification.report import Fault
from onegraph.tools.verification.stages import SMALL, Backend, Step, first_step
from onegraph.tools.verification.trial import Trial
from onegraph.tools.verification.values import first_unknown, watched
from onegraph.torchlib.graph_text import graph_text, node_text, operator_name


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A graph that fails, of so many: how, and what is left of it.

    `last` is the last operator of that, as it was captured.
    """

    call: GraphCall
    graphs: int
    failure: Failure
    operators: int
    small: Case
    nodes: tuple[Node, ...]

    @property
    def last(self) -> Node | None:
        if not self.nodes:
            return None
        node = self.nodes[-1]  # or the operator with several results that it is one of
        is_part = node.target is operator.getitem and isinstance(node.args[0], Node)
        return node.args[0] if is_part and node.args[0].op != "placeholder" else node  # type: ignore[return-value,union-attr]

    def code(self) -> str:
        return graph_text(self.small.module)

    def replay(self, file: Path | None, keywords: Mapping[str, Any]) -> Path | None:
        """The program of what is left."""
        small, failure = self.small, self.failure.text.partition(": result")[0]
        return Replay(file, keywords, small.module, small.inputs, self.call.gradients, failure).write()


def first_narrowed(
    trial: Trial,
    outcome: Outcome,
    calls: Sequence[GraphCall],
    keywords: Mapping[str, Any],
    counts: Callable[[Failure], bool],
    tests: int,
) -> Narrowed | None:
    """The first graph of a call that fails, made small. `outcome` is that of the call with its captured graphs."""

    def groups() -> Iterator[Sequence[GraphCall]]:
        if trial.differences_of(outcome):
            yield [eager_graph(trial.call)] if trial.eager.error is None else []
        else:
            yield calls
            yield captured(trial.call, keywords, after="aot")[1]

    for graphs in groups():
        failing = first_failing(graphs, keywords, counts)
        if failing is not None:
            return narrowed(*failing, len(graphs), keywords, tests)
    return None


def narrowed(call: GraphCall, failure: Failure, graphs: int, keywords: Mapping[str, Any], tests: int) -> Narrowed:
    """The graph of a call that fails, made small as long as it fails in the same way."""
    whole = Case(call.module, call.inputs)
    small = shrink(whole, lambda case: failure_of(case, call.gradients, keywords).is_like(failure), tests)
    anew = captured_anew(small)
    kept = anew if failure_of(anew, call.gradients, keywords).is_like(failure) else small
    return Narrowed(call, graphs, failure, len(whole.operators), kept, tuple(small.operators))


def step_of(found: Narrowed, keywords: Mapping[str, Any], config: Config) -> Step:
    """The stage that makes a small graph fail."""
    size = sum(getattr(value, "nbytes", 0) for value in found.small.inputs)

    def fails(backend: Backend, gradients: bool) -> bool:
        return failure_of(found.small, gradients, {**keywords, "backend": backend}).is_like(found.failure)

    call = Call.of(giving_tuple(found.small.module.forward), found.small.inputs, {})
    return first_step(fails, keywords["backend"], config, found.call.gradients, call, size <= SMALL)


@dataclass(frozen=True, slots=True)
class Search:
    """What is searched: the backend that differs, its options as a configuration, and where a replay is left."""

    trial: Trial
    keywords: Mapping[str, Any]
    config: Config
    file: Path | None
    tests: int = 300

    def fault(self, counts: Callable[[Failure], bool]) -> Fault:
        """Where the difference comes from; only failures of graphs that count."""
        outcome, calls = captured(self.trial.call, self.keywords)
        found = first_narrowed(self.trial, outcome, calls, self.keywords, counts, self.tests)
        if found is None:
            if self.trial.differences_of(outcome):
                return self._fault_of_capture(calls)
            step = self._step_of_call()
            return Fault(step.stage, step.name, graphs=len(calls), avoiding=step.avoiding)
        step = step_of(found, self.keywords, self.config)
        fault = Fault(step.stage, step.name, avoiding=step.avoiding)
        if self.file is not None or len(found.nodes) < found.operators:  # else the program is as small itself
            fault = dataclasses.replace(fault, file=found.replay(self.file, self.keywords))
        return fault if found.last is None else self._at(fault, found.call, found.last, found.graphs)

    def _step_of_call(self) -> Step:
        """The stage that makes the whole call differ."""

        def fails(backend: Backend, gradients: bool) -> bool:
            options = {**self.keywords["options"], "share_versions": False}
            function = compile(self.trial.call.target, **{**self.keywords, "backend": backend, "options": options})
            return gradients and bool(self.trial.differences(function))

        return first_step(fails, self.keywords["backend"], self.config, True, self.trial.call, small=False)

    def _fault_of_capture(self, calls: Sequence[GraphCall]) -> Fault:
        _, watching = watched(self.trial.call)
        found = first_unknown(calls, watching)
        if found is None:
            return Fault("capture", graphs=len(calls))
        return self._at(Fault("capture"), found[0], found[1], len(calls))

    def _at(self, fault: Fault, call: GraphCall, node: Node, count: int) -> Fault:
        return dataclasses.replace(
            fault,
            graph=call.number,
            graphs=count,
            frame=call.frame,
            operator=operator_name(node),
            node=node_text(node),
            location=node.meta.get("location"),
        )
