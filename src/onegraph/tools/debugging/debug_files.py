"""The files of a piece in the debug directory: of which event each is made, and what it tells a reader.

A file is added in exactly one place: a row of FILES.
"""

from __future__ import annotations

from collections.abc import Callable

from onegraph.base import events as ev
from onegraph.base.dataclass import dataclass
from onegraph.base.events import Event, text_of
from onegraph.tools.debugging.graph_program import graph_program
from onegraph.tools.logs import describe


@dataclass(frozen=True, slots=True)
class File:
    """A file, made of each event of a kind by `text`. A `{part}` in its name is that of the event.

    One that `collects` has the texts of all those events behind each other; else each further one is a file of its own.
    """

    name: str
    kind: type[Event]
    about: str
    text: Callable[[Event], str]
    collects: bool = False


def plain(event: Event) -> str:
    """The text that an event carries."""
    return text_of(getattr(event, "text", ""))


def _program(event: Event) -> str:
    return graph_program(event.module, str(event.frame)) if isinstance(event, ev.GraphCaptured) else ""


def _joint(event: Event) -> str:
    return text_of(event.joint) if isinstance(event, ev.GradientsPlanned) else ""


def _assembly(event: Event) -> str:
    return text_of(event.assembly) if isinstance(event, ev.KernelsCompiled) else ""


def _residual(event: Event) -> str:
    name = event.filename if isinstance(event, ev.ResidualCode) else ""
    return f"{plain(event)}\n# Debuggers know it as {name}\n"


def _after_pass(event: Event) -> str:
    return f"==== {describe(event)}\n{plain(event)}\n\n"


FILES = (
    File("bytecode.txt", ev.BytecodeDecoded, "the bytecode of the frame, in normal form", plain),
    File("graph.txt", ev.GraphCaptured, "the captured graph, with the type of each value", plain),
    File("graph.py", ev.GraphCaptured, "the same as a program that runs by itself, on random inputs", _program),
    File("sizes.txt", ev.SizesMadeSymbolic, "the symbolic sizes, and the conditions that they are held to", plain),
    File("guards.txt", ev.GuardsBuilt, "the conditions under which this version is used", plain),
    File("residual.py", ev.ResidualCode, "the code that runs in place of the frame", _residual),
    File("aten_joint.txt", ev.GradientsPlanned, "the functional graph, forward and backward in one", _joint),
    File(
        "gradients.txt", ev.GradientsPlanned, "what is kept for the backward graph, and what it computes again", plain
    ),
    File("aten_{part}.txt", ev.FunctionalGraphBuilt, "a functional graph: inference, or forward and backward", plain),
    File("passes.txt", ev.PassRun, "the functional graphs and the kernels after each pass", _after_pass, collects=True),
    File("loops.txt", ev.LoweringDone, "the kernels of a functional graph, one for each operation", plain),
    File("fused.txt", ev.FusionDone, "the kernels as they are compiled, fused", plain),
    File("kernels.ll", ev.KernelsCompiled, "the kernels as LLVM text", plain),
    File("kernels.s", ev.KernelsCompiled, "the kernels as assembly", _assembly),
    File("memory.txt", ev.MemoryPlanned, "the execution plan: allocations, kernels, library calls", plain),
)
