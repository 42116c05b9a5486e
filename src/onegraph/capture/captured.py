"""What was captured of a frame, as one value: a graph, what it assumes of the world, and the code around it.

`str(capture)` shows all of it. A backend makes a callable of the graph; `onegraph.capture.replacement` makes of both
the code that runs in the place of the frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import torch

from onegraph.base import events as ev
from onegraph.base.dataclass import dataclass
from onegraph.base.late import late_module
from onegraph.capture.guards.source import Seen
from onegraph.capture.pyobject.value_text import short
from onegraph.capture.residual.code import residual_text

if TYPE_CHECKING:
    from onegraph.capture.assumptions import Assumptions
    from onegraph.capture.graph.fallback import Fallback
    from onegraph.capture.resume.continuation import Continuation, Exit
    from onegraph.torchlib.fake import FakeMode
    from onegraph.torchlib.fake_memory import forget_fakes
    from onegraph.torchlib.graph_text import graph_text
else:
    forget_fakes = late_module("onegraph.torchlib.fake_memory").forget_fakes
    graph_text = late_module("onegraph.torchlib.graph_text").graph_text


@dataclass(frozen=True, slots=True)
class FrameStart:
    """A frame before its first instruction: `values` are its first slots (`_C.NULL` where unset)."""

    function: FunctionType
    code: CodeType
    values: tuple[Any, ...]


#: Stands among the constants of a capture for the compiled graph.
GRAPH = object()
#: What a capture from disk has been seen to depend on: it is kept already.
FROM_DISK = Seen((), (), "it is from disk", order=False)


@dataclass(frozen=True, slots=True)
class CapturedGraph:
    """The operations of a frame.

    `examples` are the inputs in the call that was captured; `fakes` is what the values of the nodes were made in.
    `fallback` says what can be done where a call of the compiled graph fails.
    """

    module: torch.fx.GraphModule
    examples: tuple[Any, ...]
    fakes: FakeMode
    fallback: Fallback

    def release(self) -> None:
        """Let go of the fakes: no backend looks at the graph any more."""
        forget_fakes(self.fakes)


@dataclass(frozen=True, slots=True)
class Capture:
    """What replaces a frame while its assumptions hold.

    `body` is its statements, over the frame's variables, the `nonlocals` among them, and the constants `k0_`, `k1_`,
    ... in `consts`, of which `GRAPH` is called where the graph runs. The last statement returns the result, or with a
    `continuation` a tuple of the values that this goes on with (whose own are the names of these).

    `levels` counts the frames of the program that it enters, one from another. `effects` are the statements that write
    to objects of the program, or call what it calls behind the graph. `seen` is for those who keep it on disk,
    and `broken` what is told of the graph break that it ends with. (One
    from there has no graph: what runs it was found there, too.)
    """

    code: CodeType
    graph: CapturedGraph | None
    assumptions: Assumptions
    body: tuple[str, ...]
    nonlocals: tuple[str, ...]
    consts: tuple[Any, ...]
    continuation: Continuation | None
    levels: int
    effects: tuple[str, ...] = ()
    seen: Seen | None = None
    broken: ev.GraphBroken | None = None

    def __str__(self) -> str:
        return "\n".join(sections(self))


@dataclass(frozen=True, slots=True)
class Skipped:
    """The frame runs as it was written; `again`: how many more of its calls are worth being looked at.

    `whole` says that all that it calls does too.
    """

    reason: str
    again: int = 0
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Failing:
    """The program raises where a graph break is an error: it runs as it was written, with its effects and its error.

    `broken` is what is wrong if that raises nothing.
    """

    broken: ev.GraphBroken


def sections(capture: Capture) -> Iterator[str]:
    if capture.graph is not None:
        yield "graph:"
        yield indented(graph_text(capture.graph.module))
    yield "assumptions:"
    yield indented("\n".join(capture.assumptions.texts()))
    yield "replacement:"
    yield indented(residual_text(capture.code, capture.body, capture.nonlocals, ()))
    if capture.consts:
        yield "constants:"
        yield indented("\n".join(f"k{index}_: {constant_text(value)}" for index, value in enumerate(capture.consts)))
    if capture.continuation is not None:
        yield "then:"
        yield indented("\n".join(continuation_lines(capture.continuation)))


def constant_text(value: Any) -> str:
    if value is GRAPH:
        return "the compiled graph"
    if isinstance(value, FunctionType | BuiltinFunctionType):
        return f"the function {value.__qualname__}"
    return short(value)


def continuation_lines(continuation: Continuation) -> Iterator[str]:
    """The instruction that breaks the graph, and where the program goes on behind it."""
    yield str(continuation.instruction)
    ways = (("following", continuation.following), ("jumping", continuation.jumping), ("raising", continuation.raising))
    for name, way in ways:
        if way is not None:
            yield f"{name}: {way_text(continuation, way)}"


def way_text(continuation: Continuation, way: Exit) -> str:
    def named(numbers: Iterable[int]) -> list[str]:
        return [continuation.values[number] for number in numbers]

    given = [*named(way.leading), *["result"] * sum(way.results), *named(way.values)]
    return f"{continuation.values[way.function]}({', '.join(given)})"


def indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.rstrip("\n").split("\n"))
