"""From a difference to its cause: the stage that brings it in, the graph, and the operator.

The graphs of a call are run as they are captured. If that differs, capture is at fault. Otherwise each graph is
compiled and compared alone, on the inputs that it had, with one stage more each time; then it is cut shorter as long as
it differs, and the operator that it ends with is the cause.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Node

from onegraph.backend_registry import OURS, find_backend
from onegraph.backends import GraphCompiler, aot_eager, native, native_for
from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass
from onegraph.compiler.cpu import CPU
from onegraph.compiler.target import Target
from onegraph.tools.verification.call import Call
from onegraph.tools.verification.compare import Difference
from onegraph.tools.verification.graphs import GraphCall, GraphFunction, captured, copy_of, ending_early, operators
from onegraph.tools.verification.replay import Replay
from onegraph.tools.verification.report import Fault
from onegraph.tools.verification.trial import Trial
from onegraph.tools.verification.values import first_unknown, watched
from onegraph.torchlib.graph_text import node_text, operator_name
from onegraph.torchlib.regions import forget_regions

#: The pass without which there is no code: it gives buffers their strides.
NEEDED = "flatten"


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage by its name, and the backend that goes as far as it, and no further."""

    name: str
    backend: GraphCompiler
    step: str = ""


@dataclass(frozen=True, slots=True)
class Search:
    """What is searched: the backend that differs, its options as a configuration, and where a replay is left."""

    trial: Trial
    keywords: Mapping[str, Any]
    config: Config
    file: Path | None

    def fault(self) -> Fault:
        """Where the difference comes from."""
        outcome, calls = captured(self.trial.call, self.keywords)
        if self.trial.differences_of(outcome):
            return self._fault_of_capture(calls)
        for call in calls:
            for stage in stages(self.keywords["backend"]):
                if self._differs(call, call.module, stage.backend):
                    return self._fault_of_graph(call, stage, len(calls))
        return Fault(graphs=len(calls))

    def _fault_of_capture(self, calls: Sequence[GraphCall]) -> Fault:
        _, watching = watched(self.trial.call)
        found = first_unknown(calls, watching)
        if found is None:
            return Fault("capture", graphs=len(calls))
        return self._at(Fault("capture"), found[0], found[1], len(calls))

    def _fault_of_graph(self, call: GraphCall, stage: Stage, count: int) -> Fault:
        found = operators(call.module)
        high = self._shortest(call, stage, len(found))
        shortest = ending_early(call.module, high) if high < len(found) else call.module
        exact = self._exact(call, shortest, stage)
        file = Replay(self.file, self.keywords, shortest, call.inputs, call.gradients).write()
        fault = Fault(exact.name, exact.step, file=file)
        return self._at(fault, call, found[high - 1], count) if found else fault

    def _shortest(self, call: GraphCall, stage: Stage, count: int) -> int:
        """With how many of its `count` operators a graph still differs, where it does not with one less."""
        answers: dict[int, bool | None] = {count: True}
        low, high = 0, count
        while high - low > 1:
            middle = (low + high) // 2
            answers[middle] = self._differs(call, ending_early(call.module, middle), stage.backend)
            if answers[middle] is False:
                low = middle
            else:  # which it may be because the graph is not compiled
                high = middle
        return min(number for number, answer in answers.items() if answer)

    def _exact(self, call: GraphCall, module: GraphModule, stage: Stage) -> Stage:
        """The stage with what is only asked of the shortest graph: which pass, and whether gradients are at fault."""
        if stage.name == "passes":
            within = (each for each in passes() if self._differs(call, module, each.backend))
            return next(within, stage)
        if stage.name == "differentiation" and self._differs(call, module, stage.backend, records=False):
            return dataclasses.replace(stage, name="decomposition")
        return stage

    def _differs(
        self, call: GraphCall, module: GraphModule, backend: GraphCompiler, records: bool = True
    ) -> bool | None:
        """Whether a compiled graph is not the captured one; None if it is not compiled."""
        gradients = call.gradients and records
        found = differences_of_graph(module, call.inputs, gradients, backend, Context(self.config, frame=call.frame))
        return None if found is None else bool(found)

    def _at(self, fault: Fault, call: GraphCall, node: Node, count: int) -> Fault:
        if node.target is operator.getitem and isinstance(node.args[0], Node):  # an operator with several results
            node = node.args[0]
        return dataclasses.replace(
            fault,
            graph=call.number,
            graphs=count,
            frame=call.frame,
            operator=operator_name(node),
            node=node_text(node),
            location=node.meta.get("location"),
        )


def differences_of_graph(
    module: GraphModule, inputs: Sequence[Any], gradients: bool, backend: GraphCompiler, cx: Context
) -> tuple[Difference, ...] | None:
    """What a compiled graph does otherwise than the captured one. None if the backend leaves it as it is."""
    with torch.set_grad_enabled(gradients):
        captured_graph = GraphFunction(module.forward)
        trial = Trial.of(Call.of(captured_graph, tuple(inputs), {}))
        forget_regions(module)
        try:
            copied = copy_of(module, captured_graph.writes)
            compiled = backend(copied, list(inputs), cx)
        except Exception:  # a graph that ends early may be one that capture would not make
            return None
        if compiled == copied.forward:
            return None
        return trial.differences(GraphFunction(compiled))


def stages(backend: object) -> list[Stage]:
    """The stages behind capture on the way to a backend, the first one first."""
    if backend in ("eager", "lowered"):
        return []
    known = OURS.get(backend) if isinstance(backend, str) else None
    if known not in ("aot_eager", "native"):
        return [Stage("backend", find_backend(backend))]  # type: ignore[arg-type]
    differentiated = Stage("differentiation", aot_eager)
    if known == "aot_eager":
        return [differentiated]
    needed = tuple(each for each in CPU.passes if each.name == NEEDED)
    plain = dataclasses.replace(CPU, passes=needed)
    without_library = dataclasses.replace(plain, library=lambda module, parameters, config: module)
    return [
        differentiated,
        Stage("lowering", native_for(without_library)),
        Stage("library calls", native_for(plain)),
        Stage("passes", native),
    ]


def passes() -> list[Stage]:
    """The passes of the compiler, each with those before it."""
    names = [each.name for each in CPU.passes]
    return [Stage("passes", native_for(with_passes(number)), names[number]) for number in range(len(names))]


def with_passes(last: int) -> Target:
    chosen = tuple(each for number, each in enumerate(CPU.passes) if number <= last or each.name == NEEDED)
    return dataclasses.replace(CPU, passes=chosen)
