"""What a structured trace says of an event: records by the names that torch's compiler gives them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import torch
from torch.fx import GraphModule

from onegraph.base import events as ev
from onegraph.base.dataclass import dataclass
from onegraph.base.events import Event, text_of
from onegraph.tools.debugging.trace_file import Json
from onegraph.tools.logs import describe, details

#: Programs that torch has no record for: artifacts, by these names.
ARTIFACTS: dict[type[Event], str] = {
    ev.BytecodeDecoded: "bytecode",
    ev.SizesMadeSymbolic: "symbolic_sizes",
    ev.ResidualCode: "residual_code",
    ev.GradientsPlanned: "gradients",
    ev.LoweringDone: "loops",
    ev.FusionDone: "fused_loops",
    ev.MemoryPlanned: "memory_plan",
}
#: Headlines with details that are artifacts, by the names of torch where it has them.
REPORTS: dict[type[Event], str] = {
    ev.GraphBroken: "dynamo_graph_break_reason",
    ev.Recompiled: "recompile_reasons",
    ev.FrameSkipped: "skipped",
    ev.OperatorFellBack: "fallback",
    ev.ProductsQuantized: "quantized",
    ev.LaunchedOneByOne: "cuda_graphs",
    ev.GraphFailed: "graph_failed",
    ev.RecompileLimitReached: "recompile_limit",
}


@dataclass(frozen=True, slots=True)
class Record:
    """One record: its name, what it says in short, and a long text."""

    name: str
    facts: Json
    payload: str


def records(event: Event) -> Iterator[Record]:
    """The records of an event; none for one that says nothing there."""
    if type(event) in REPORTS:
        yield _artifact(REPORTS[type(event)], "\n".join([describe(event), *details(event)]))
    if type(event) in ARTIFACTS:
        yield _artifact(ARTIFACTS[type(event)], text_of(getattr(event, "text", "")))
    match event:
        case ev.GraphCaptured(text=text, module=GraphModule() as module):
            yield Record("dynamo_output_graph", {"sizes": _sizes(module)}, text_of(text))
        case ev.GradientsPlanned(joint=joint):
            yield Record("aot_joint_graph", {}, text_of(joint))
        case ev.FunctionalGraphBuilt(part=part, text=text):
            yield Record(f"aot_{part}_graph", {}, text_of(text))
        case ev.KernelsCompiled(text=text):
            yield Record("inductor_output_code", {"filename": "kernels.ll"}, text_of(text))
        case ev.GuardsBuilt(text=text):
            program = text_of(text)
            yield Record("dynamo_guards", {}, json.dumps([{"code": guard} for guard in _guards(program)], indent=0))
            yield Record("dynamo_cpp_guards_str", {}, program)


def _artifact(name: str, text: str) -> Record:
    return Record("artifact", {"name": name, "encoding": "string"}, text)


def _guards(program: str) -> dict[str, None]:
    """What the guards say, each once: the comments of the instructions that check them."""
    return dict.fromkeys(line.partition("# ")[2] or line for line in program.splitlines())


def _sizes(module: GraphModule) -> dict[str, Json]:
    """The sizes of each tensor in a graph, symbols by their names."""
    values = {node.name: node.meta.get("example_value") for node in module.graph.nodes}
    return {
        name: [size if isinstance(size, int) else str(size.node) for size in value.shape]
        for name, value in values.items()
        if isinstance(value, torch.Tensor)
    }
