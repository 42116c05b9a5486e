"""What becomes of each operator of torch's core aten set: loops, simpler operators, or a call of a library.

How often it happens is counted over the samples of the operator database, of which the graphs are lowered and not run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import OpOverload

from onegraph.autograd.decompose import DECOMPOSITIONS
from onegraph.autograd.graphs import functional_graph
from onegraph.base.context import Context
from onegraph.base.events import Event, Events, OperatorFellBack
from onegraph.compiler.cpu import CPU
from onegraph.compiler.lower.graph import lower_graph
from onegraph.compiler.lower.left import UNKNOWN, reason_left
from onegraph.compiler.lower.registry import LOWERINGS
from onegraph.torchlib.aten import functional_form, is_composite, is_mutable
from onegraph.torchlib.fake import FakeMode
from tests.opinfo.harness import as_module, dtype_for, on_tensors, samples

aten = torch.ops.aten

#: Numbers of the graph: index expressions, for which nothing runs.
NUMBERS = {
    aten.sym_numel.default,
    aten.sym_size.int,
    aten.sym_storage_offset.default,
    aten.sym_stride.int,
    aten._local_scalar_dense.default,
}

LOWERED = {"loops", "parts", "number"}


@dataclass(slots=True)
class Uses:
    """How often an operator was lowered, and how often it was left to the library, by reason."""

    lowered: int = 0
    left: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        reasons = ", ".join(f"{count} left: {why}" for why, count in self.left.most_common())
        return f"{self.lowered} uses lowered" + (f", {reasons}" if reasons else "")


def core_operators() -> list[OpOverload]:
    """Every overload of aten that has the tag `core`."""
    found = []
    for full in sorted(torch._C._dispatch_get_all_op_names()):
        name, _, overload = full.removeprefix("aten::").partition(".")
        if full.startswith("aten::") and hasattr(aten, name):
            op = getattr(getattr(aten, name), overload or "default", None)
            if op is not None and torch.Tag.core in op.tags:
                found.append(op)
    return found


def way(op: OpOverload) -> str:
    """What becomes of the operator: "loops", "parts", "number", or why a library is called."""
    if op in NUMBERS:
        return "number"
    if op in DECOMPOSITIONS or is_composite(op):
        return "parts"
    functional = functional_form(op) if is_mutable(op) else op
    return "loops" if functional in LOWERINGS else reason_left(functional)


def count_uses(operators: list[Any], limit: int, tell: Callable[[str], None]) -> dict[str, Uses]:
    """Lower samples of each operator of the database in the type that it is mostly used with."""
    uses: dict[str, Uses] = {}
    for op in operators:
        tell(op.formatted_name)
        for sample in samples(op, dtype_for(op), limit):
            for target, reason in lowered(op.op, (sample.input, tuple(sample.args), dict(sample.kwargs))):
                known = uses.setdefault(target, Uses())
                if reason:
                    known.left[reason] += 1
                else:
                    known.lowered += 1
    return uses


def lowered(function: Callable[..., Any], arguments: Any) -> Iterator[tuple[str, str]]:
    """Each aten operator of the call's graph, with the reason if it is left to the library."""
    flat, inputs = on_tensors(function, arguments)
    left: dict[str, str] = {}
    events = Events()

    def note(event: Event) -> None:
        if isinstance(event, OperatorFellBack):
            left[event.operator] = event.reason

    events.subscribe(note)
    fake = FakeMode()
    try:
        graph = functional_graph(as_module(flat, len(inputs)), [fake.fakeify(x, {}) for x in inputs], Context())
        lower_graph(graph.module, Context(events=events), CPU.device, CPU.machine)
    except Exception:  # a graph break: `check_operator` looks at those
        return
    for node in graph.module.graph.nodes:
        if isinstance(node.target, OpOverload):
            yield str(node.target), left.get(str(node.target), "")


def report(uses: dict[str, Uses]) -> str:
    """One line for each operator that is not always loops, and the share of those that are."""
    ways: dict[str, list[OpOverload]] = {}
    for op in core_operators():
        ways.setdefault(way(op), []).append(op)
    total = sum(map(len, ways.values()))
    lines = []
    called = sorted(ways.keys() - LOWERED - {UNKNOWN})
    for why in [*called, UNKNOWN]:
        listed = [f"  {op}  {uses.get(str(op), '')}".rstrip() for op in ways.get(why, ())]
        lines += [f"{why}:", *listed] if listed else []
    partly = [op for op in ways.get("loops", ()) if str(op) in uses and uses[str(op)].left]
    lines += ["lowered, but not in every use:", *(f"  {op}  {uses[str(op)]}" for op in partly)] if partly else []
    made = sum(len(ways.get(name, ())) for name in LOWERED)
    lines.append(
        f"{made} of {total} core aten operators are lowered ({100 * made / total:.0f} %): "
        f"{len(ways.get('loops', ()))} as loops, {len(ways.get('parts', ()))} as simpler operators, "
        f"{len(ways.get('number', ()))} are numbers; "
        f"{sum(len(ways[why]) for why in called)} are library calls by choice, {len(ways.get(UNKNOWN, ()))} fall back"
    )
    others = sorted(set(uses) - {str(op) for op in core_operators()})
    rest = [f"  {name}  {uses[name]}" for name in others if uses[name].left]
    lines += [f"operators outside of the core set with uses that fall back ({len(rest)}):", *rest]
    return "\n".join(lines)
