"""The event stream: everything that can be observed about a compilation, as typed facts.

Stages emit; logs, progress bars, reports and tests subscribe. An event never carries advice on how to show it, and a
stage never prints. Texts of programs may be given as a callable: they are then only made when someone reads them.

One event type is added in exactly one place: a class below. `channel` is the name by which `ONEGRAPH_LOGS` selects it.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from types import CodeType
from typing import Any, ClassVar

from onegraph.base.dataclass import dataclass

Text = str | Callable[[], str]
Subscriber = Callable[["Event"], None]


@dataclass(frozen=True, slots=True)
class Location:
    """A line of user code: what an event or an error is about.

    `span` says which part of it: the first column, the last line and the last column, in bytes as bytecode counts them.
    """

    filename: str
    line: int
    function: str
    span: tuple[int, int, int] | None = None

    @classmethod
    def of_code(cls, code: CodeType) -> Location:
        """Where a code object begins."""
        return cls(code.co_filename, code.co_firstlineno, code.co_name)

    def __str__(self) -> str:
        return f"{self.function} ({self.filename}:{self.line})"

    def source_line(self) -> str:
        """The text of the line, or an empty string where there is no source."""
        return linecache.getline(self.filename, self.line).strip()

    def traceback_lines(self) -> list[str]:
        """The two lines that Python's own traceback prints for a frame."""
        lines = [f'  File "{self.filename}", line {self.line}, in {self.function}']
        source = self.source_line()
        return [*lines, f"    {source}"] if source else lines

    def underline(self) -> str:
        """Marks under the part of the line that the span names, or an empty string."""
        source = linecache.getline(self.filename, self.line).rstrip("\n")
        if self.span is None or not source.strip():
            return ""
        column, end_line, end_column = self.span
        encoded = source.encode()
        first = len(encoded[:column].decode(errors="replace"))
        last = len(encoded[:end_column].decode(errors="replace")) if end_line == self.line else len(source.rstrip())
        return " " * (4 + first - (len(source) - len(source.lstrip()))) + "^" * max(last - first, 1)


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events. `frame` is where the frame that is being compiled begins (None: outside of any frame)."""

    channel: ClassVar[str] = ""
    frame: Location | None


# ---- capture ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FrameStarted(Event):
    """Translation of a frame begins. `compile_index` counts the versions of this code: 0 is the first.

    `number` is the same for all versions of one code in one compiled function. `line` is where that begins: what goes
    on behind a graph break begins within its function. `config` is the `Config` of this version.
    """

    channel: ClassVar[str] = "frames"
    compile_index: int = 0
    number: int = 0
    line: int = 0
    config: object = None


@dataclass(frozen=True, slots=True)
class BytecodeDecoded(Event):
    """The frame's bytecode in normal form."""

    channel: ClassVar[str] = "bytecode"
    text: Text = ""


@dataclass(frozen=True, slots=True)
class GraphCaptured(Event):
    """A torch-level graph, `module`, was captured. `operations` counts its call nodes; `text` is its Python code."""

    channel: ClassVar[str] = "graph_code"
    operations: int = 0
    inputs: int = 0
    text: Text = ""
    module: Any = None


@dataclass(frozen=True, slots=True)
class SizesMadeSymbolic(Event):
    """Sizes of a graph are symbols. `text` has a line for each, and one for each condition that they are held to."""

    channel: ClassVar[str] = "dynamic"
    count: int = 0
    text: Text = ""


@dataclass(frozen=True, slots=True)
class GuardsBuilt(Event):
    """The conditions under which this version may be reused. `text` has one guard per line, with source and cause."""

    channel: ClassVar[str] = "guards"
    count: int = 0
    text: Text = ""


@dataclass(frozen=True, slots=True)
class ResidualCode(Event):
    """The code that runs in place of the frame. `filename` is the name by which `linecache` and debuggers know it."""

    channel: ClassVar[str] = "residual"
    text: Text = ""
    filename: str = ""


@dataclass(frozen=True, slots=True)
class GraphBroken(Event):
    """A graph break. `user_stack` runs from the outermost user frame to the line that broke; `hints` remove it.

    `values` are what the breaking expression works on, in words: element types and shapes of tensors. `cost` is what
    becomes of the graphs.
    """

    channel: ClassVar[str] = "graph_breaks"
    code: str = ""
    reason: str = ""
    explanation: str = ""
    hints: tuple[str, ...] = ()
    user_stack: tuple[Location, ...] = ()
    values: tuple[str, ...] = ()
    cost: str = ""

    @property
    def page(self) -> str:
        """The command that prints the page on this kind of break: programs that break like this, mended ones too."""
        return f"onegraph explain-break {self.code}"

    def details(self) -> list[str]:
        """All but the reason itself, as lines of text."""
        given = {"Explanation": self.explanation, "Values": "; ".join(self.values), "Cost": self.cost}
        lines = [f"{name}: {text}" for name, text in given.items() if text]
        return [*self.user_code(), *lines, *(f"Hint: {hint}" for hint in self.hints), f"Page: {self.page}"]

    def user_code(self) -> list[str]:
        """The user's frames as a traceback shows them, with marks under the expression that broke."""
        if not self.user_stack:
            return []
        lines = [line for location in self.user_stack for line in location.traceback_lines()]
        return ["from user code (most recent call last):", *lines, *filter(None, [self.user_stack[-1].underline()])]


@dataclass(frozen=True, slots=True)
class FrameSkipped(Event):
    """The frame runs eagerly, as written. `reason` says why."""

    channel: ClassVar[str] = "skips"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RanEagerly(Event):
    """A call of a frame that is left alone, or has no version that fits. Told under the option `measure` only."""

    channel: ClassVar[str] = "skips"


@dataclass(frozen=True, slots=True)
class Recompiled(Event):
    """No version fits. `reason` is the guard that failed in the newest one, `cause` the user line that needed it."""

    channel: ClassVar[str] = "recompiles"
    reason: str = ""
    cause: Location | None = None
    compile_index: int = 0


@dataclass(frozen=True, slots=True)
class FrameEnded(Event):
    """Translation of a frame has ended, after `seconds` of the processor. `error` is what it raised, if it did."""

    channel: ClassVar[str] = "frames"
    seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class VersionShared(Event):
    """A version that was compiled for an equal function, or an equal module, fits and is used here, too."""

    channel: ClassVar[str] = "frames"


@dataclass(frozen=True, slots=True)
class RecompileLimitReached(Event):
    """No further version is compiled: calls that match none of the existing ones run eagerly from now on."""

    channel: ClassVar[str] = "recompiles"
    limit: int = 0
    reason: str = ""


# ---- autograd --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GraphFailed(Event):
    """A compiled graph raised an exception; `resolved` if the frame ran as it was written instead."""

    channel: ClassVar[str] = "fallbacks"
    error: str = ""
    resolved: bool = False


@dataclass(frozen=True, slots=True)
class GraphExamined(Event):
    """Under `repro_after`: a graph is about to run for the first time, or has failed with the `error`.

    `after` says which graph it is: "dynamo" for a captured one, "aot" for one behind differentiation. `inputs` are
    copies of what the `module` is called with, None if not known; `gradients` says whether they are recorded.
    """

    channel: ClassVar[str] = "fallbacks"
    after: str = ""
    module: Any = None
    inputs: tuple[Any, ...] | None = None
    compile_graph: Any = None
    gradients: bool = False
    config: Any = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class FunctionalGraphBuilt(Event):
    """The functional aten graph, after functionalization, decomposition and clean-up.

    `part` is which one it is: "forward" or "backward", or "inference" where no gradients are recorded.
    """

    channel: ClassVar[str] = "aten"
    operations: int = 0
    text: Text = ""
    part: str = "inference"


# ---- compiler --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GradientsPlanned(Event):
    """A graph that records gradients was cut into a forward and a backward graph.

    `kept` are the bytes that live for the backward graph only, `values` counts what it is given of the forward graph,
    `recomputed` names what it computes again; `text` lists them. `joint` is the graph before it was cut.
    """

    channel: ClassVar[str] = "gradients"
    kept: int = 0
    values: int = 0
    recomputed: tuple[str, ...] = ()
    text: Text = ""
    joint: Text = ""


@dataclass(frozen=True, slots=True)
class QuantizedProduct:
    """A product of rows, what is summed over, columns. `error` is None if not measured. `why` says why it is float."""

    parameter: str
    sizes: tuple[int, int, int]
    error: float | None
    why: str


@dataclass(frozen=True, slots=True)
class ProductsQuantized(Event):
    """Products are in integers by the option `quantize`. `reason` says why a graph stays as it is."""

    channel: ClassVar[str] = "quantization"
    way: str = ""
    products: tuple[QuantizedProduct, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LoweringDone(Event):
    """The loop program before any scheduling: one kernel or library call per operation."""

    channel: ClassVar[str] = "loops"
    kernels: int = 0
    text: Text = ""


@dataclass(frozen=True, slots=True)
class FusionDone(Event):
    """The loop program as it will be compiled: kernels fused, axes merged."""

    channel: ClassVar[str] = "fusion"
    kernels: int = 0
    text: Text = ""


@dataclass(frozen=True, slots=True)
class Transfer:
    """A collective: the operator, the buffers of its results, the bytes that it holds, and what runs while it travels:
    kernels, and operators of libraries."""

    operator: str
    results: tuple[str, ...]
    size: int
    kernels: tuple[str, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommunicationScheduled(Event):
    """When the collectives of a graph are issued and waited for."""

    channel: ClassVar[str] = "communication"
    transfers: tuple[Transfer, ...] = ()


@dataclass(frozen=True, slots=True)
class BoundsChecked(Event):
    """Under `verify`: every access of every kernel is proven to lie in its buffer, but for the `unproven` ones."""

    channel: ClassVar[str] = "bounds"
    kernels: int = 0
    unproven: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryPlanned(Event):
    """The execution plan: allocations, launches, library calls. `total` and `peak` are bytes, results included.

    `plan` is the `ExecPlan` itself. `times` are filled as it runs, under the option `measure`; see `launcher`.
    """

    channel: ClassVar[str] = "memory"
    total: int = 0
    peak: int = 0
    text: Text = ""
    plan: Any = None
    times: Any = None


@dataclass(frozen=True, slots=True)
class KernelsCompiled(Event):
    """Native code was made (or, with `cached`, loaded). `text` is the LLVM text of the module, `assembly` its code."""

    channel: ClassVar[str] = "output_code"
    kernels: int = 0
    seconds: float = 0.0
    cached: bool = False
    text: Text = ""
    assembly: Text = ""


@dataclass(frozen=True, slots=True)
class LaunchedOneByOne(Event):
    """Why the launches of a graph on a GPU, or of its forward or backward `part`, are not captured as is asked for."""

    channel: ClassVar[str] = "cuda_graphs"
    reason: str = ""
    part: str = "inference"


@dataclass(frozen=True, slots=True)
class OperatorFellBack(Event):
    """An aten operator without a lowering: it is called as it is, and still works.

    `moved` are the bytes that the call reads and writes, `nanoseconds` is about how long that takes; 0 if not known.
    """

    channel: ClassVar[str] = "fallbacks"
    operator: str = ""
    reason: str = ""
    moved: int = 0
    nanoseconds: int = 0


# ---- what is kept on disk -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CaptureMissed(Event):
    """An entry on disk does not hold for this call, or for this program."""

    channel: ClassVar[str] = "cache"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CaptureKept(Event):
    """A capture was kept on disk for other processes."""

    channel: ClassVar[str] = "cache"
    size: int = 0


@dataclass(frozen=True, slots=True)
class CaptureUnkept(Event):
    """A capture cannot be kept on disk: each process captures the frame anew."""

    channel: ClassVar[str] = "cache"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DiskSearched(Event):
    """The cache on disk was asked for what a stage makes. `reason` says why nothing of it is kept there."""

    channel: ClassVar[str] = "cache"
    stage: str = ""
    found: bool = False
    reason: str = ""


# ---- any stage -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PassRun(Event):
    """One pass of a pipeline ran. `text` prints the program after it."""

    channel: ClassVar[str] = "passes"
    stage: str = ""
    name: str = ""
    seconds: float = 0.0
    text: Text = ""


@dataclass(frozen=True, slots=True)
class StageTimed(Event):
    """A stage took this long, in seconds of the processor: 'translate', 'functionalize', 'compile: lower', ..."""

    channel: ClassVar[str] = "time"
    stage: str = ""
    seconds: float = 0.0


def text_of(text: Text) -> str:
    """The text itself, made now if it was given as a callable."""
    return text() if callable(text) else text


def kinds() -> tuple[type[Event], ...]:
    """Every event type. (By name, since `slots=True` makes a class twice and the first may still be alive.)"""
    return tuple({kind.__name__: kind for kind in Event.__subclasses__()}.values())


def channels() -> tuple[str, ...]:
    """Every channel that `ONEGRAPH_LOGS` can name, in the order of the stages."""
    return tuple(dict.fromkeys(kind.channel for kind in kinds()))


class Events:
    """A stream of events. Subscribers are called at once, in the emitting thread, in the order in which they came."""

    __slots__ = ("_subscribers",)

    def __init__(self) -> None:
        self._subscribers: tuple[Subscriber, ...] = ()

    def __bool__(self) -> bool:
        """Whether anybody listens: lets a stage skip work that only an event needs."""
        return bool(self._subscribers)

    def emit(self, event: Event) -> None:
        for subscriber in self._subscribers:
            subscriber(event)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Add a subscriber; the result removes it again (and may be called more than once)."""
        cell: Subscriber = lambda event: subscriber(event)  # noqa: E731 - a fresh identity, so that one may subscribe twice
        self._subscribers = (*self._subscribers, cell)

        def unsubscribe() -> None:
            self._subscribers = tuple(s for s in self._subscribers if s is not cell)

        return unsubscribe
