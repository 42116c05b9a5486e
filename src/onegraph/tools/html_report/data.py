"""What a report shows of a run, as data. Lists are ranked by cost, and where it is equal, in order of appearance."""

from __future__ import annotations

from onegraph.base.dataclass import dataclass
from onegraph.base.events import Location


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the program with the part that it is about: `before`, `marked` and `after` make up its text."""

    place: Location
    before: str = ""
    marked: str = ""
    after: str = ""

    @classmethod
    def at(cls, place: Location) -> SourceLine:
        """Read the line now: its file may change while the program runs."""
        try:
            text, marks = place.source_line(), place.underline()
        except ValueError:  # no file has such a name
            return cls(place)
        if not marks:
            return cls(place, text)
        first = max(marks.index("^") - 4, 0)  # marks stand under the line as a traceback indents it
        end = first + marks.count("^")
        return cls(place, text[:first], text[first:end], text[end:])


@dataclass(frozen=True, slots=True)
class Graph:
    """A captured graph, as readable Python code."""

    operations: int
    inputs: int
    code: str


@dataclass(frozen=True, slots=True)
class GraphRuns:
    """How often graphs ran, in how many seconds, and how many of these were inside of kernels and libraries."""

    runs: int = 0
    seconds: float = 0.0
    inside: float = 0.0

    @property
    def around(self) -> float:
        """Seconds between the kernels: what is lost where there are many small ones."""
        return max(self.seconds - self.inside, 0.0)


@dataclass(frozen=True, slots=True)
class Version:
    """One compilation of a frame. `reason` says why it was needed; `cause` is the line whose assumption failed.

    `again` is true of a recompilation. `seconds` are of the processor, and include what was compiled for it later, such
    as the graph of its gradients. `runs` are those of all its graphs.
    """

    reason: str
    cause: SourceLine | None
    again: bool
    seconds: float
    graphs: tuple[Graph, ...]
    guards: int
    breaks: int
    runs: GraphRuns


@dataclass(frozen=True, slots=True)
class Frame:
    """All compilations of one function: of the code behind its graph breaks, too.

    `caller` is the line that was running when the first one began; `shared` counts versions of equal functions.
    """

    place: Location
    caller: SourceLine | None
    seconds: float
    versions: tuple[Version, ...]
    left_out: int
    shared: int
    kernels: int
    peak: int
    eager_calls: int
    #: Bytes that its largest plan holds, behind each step that changes them.
    memory: tuple[int, ...]

    @property
    def runs(self) -> GraphRuns:
        """Of the graphs of all versions."""
        found = [version.runs for version in self.versions]
        return GraphRuns(*(sum(getattr(each, name) for each in found) for name in ("runs", "seconds", "inside")))

    @property
    def graphs(self) -> int:
        return sum(len(version.graphs) for version in self.versions)

    @property
    def operations(self) -> int:
        return sum(graph.operations for version in self.versions for graph in version.graphs)

    @property
    def breaks(self) -> int:
        return sum(version.breaks for version in self.versions)

    @property
    def again(self) -> tuple[Version, ...]:
        """The recompilations."""
        return tuple(version for version in self.versions if version.again)


@dataclass(frozen=True, slots=True)
class Break:
    """A graph break at one place. `seconds` are those of the compilations that it ended; `stack` ends at its line.

    `runs` are those of the graphs that it ends.
    """

    code: str
    reason: str
    explanation: str
    hints: tuple[str, ...]
    values: tuple[str, ...]
    cost: str
    stack: tuple[SourceLine, ...]
    count: int
    seconds: float
    runs: GraphRuns


@dataclass(frozen=True, slots=True)
class Fallback:
    """An operator that graphs call as it is. `nanoseconds` is about what its calls take each time the graphs run.

    Where the time is not known, it is a whole graph that runs operator by operator.
    """

    operator: str
    reason: str
    place: Location
    count: int
    moved: int
    nanoseconds: int

    @property
    def of_whole_graph(self) -> bool:
        return not self.nanoseconds


@dataclass(frozen=True, slots=True)
class Eager:
    """Calls that run as they are written, and why: `kind` is 'skipped', 'limit' or 'failed'.

    `count` is how often it was told; `calls`, how often the function ran so.
    """

    kind: str
    place: Location
    reason: str
    count: int
    calls: int


@dataclass(frozen=True, slots=True)
class Gradients:
    """What one graph keeps for its backward graph, and what that computes again."""

    place: Location
    kept: int
    values: int
    recomputed: int
    text: str


@dataclass(frozen=True, slots=True)
class Kernels:
    """Kernels that were made, and those that were found on disk; the same in native modules, and in seconds."""

    compiled: int = 0
    found: int = 0
    modules_compiled: int = 0
    modules_found: int = 0
    seconds_compiled: float = 0.0
    seconds_found: float = 0.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What the machine reaches at most, in bytes and operations of arithmetic in a second."""

    bandwidth: float
    arithmetic: float


@dataclass(frozen=True, slots=True)
class KernelRow:
    """A kernel, or an operator of a library, in all its runs: what they moved and computed (0: not known)."""

    name: str
    place: Location
    of_library: bool
    runs: int
    nanoseconds: int
    moved: int
    flops: int

    def with_more(self, other: KernelRow) -> KernelRow:
        """Both together."""
        sums = (getattr(self, name) + getattr(other, name) for name in ("runs", "nanoseconds", "moved", "flops"))
        return KernelRow(self.name, self.place, self.of_library, *sums)

    def share(self, limits: Limits) -> float:
        """How much of the machine's limit it reaches: of that of memory or of arithmetic, whichever is nearer."""
        seconds = max(self.nanoseconds, 1) / 1e9
        return max(self.moved / seconds / limits.bandwidth, self.flops / seconds / limits.arithmetic)

    def is_bound_by_memory(self, limits: Limits) -> bool:
        return self.moved / limits.bandwidth >= self.flops / limits.arithmetic


@dataclass(frozen=True, slots=True)
class MemoryCurve:
    """The memory of the process: (seconds, bytes) from the begin of the report; `compiled` are spans of seconds."""

    samples: tuple[tuple[float, int], ...] = ()
    compiled: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Lookup:
    """What was looked for on disk for one function: how often a stage found its part, missed it, or keeps none."""

    stage: str
    place: Location
    found: int
    missed: int
    reason: str


@dataclass(frozen=True, slots=True)
class Memory:
    """What the plans of all graphs allocate, and the largest peak of one of them."""

    plans: int = 0
    total: int = 0
    peak: int = 0


@dataclass(frozen=True, slots=True)
class Stage:
    """Seconds of the processor in one stage, without the stages inside of it."""

    name: str
    runs: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that costs: what it is, where, what to do about it, and its part of the page.

    `line` is the user's, with the part that it is about.
    It costs the `seconds` in which the processor compiled, those that were `lost` between kernels when it ran, and
    `calls` that ran eagerly.
    """

    title: str
    place: Location | None
    seconds: float
    advice: tuple[str, ...]
    anchor: str
    lost: float = 0.0
    calls: int = 0
    line: SourceLine | None = None

    @property
    def cost(self) -> tuple[float, int]:
        """What findings are ranked by."""
        return self.seconds + self.lost, self.calls


@dataclass(frozen=True, slots=True)
class Counts:
    """How often something happened, where it is not shown one by one, too; `frames` are those that are shown."""

    frames: int
    graphs: int
    breaks: int
    recompilations: int
    fallbacks: int


@dataclass(frozen=True, slots=True)
class ProgramError:
    """What the program raised: the last line of the traceback, and all of it."""

    line: str
    traceback: str


@dataclass(frozen=True, slots=True)
class Report:
    """A run of a program."""

    command: str
    counts: Counts
    frames: tuple[Frame, ...]
    breaks: tuple[Break, ...]
    fallbacks: tuple[Fallback, ...]
    eager: tuple[Eager, ...]
    gradients: tuple[Gradients, ...]
    kernels: Kernels
    memory: Memory
    stages: tuple[Stage, ...]
    lookups: tuple[Lookup, ...] = ()
    rows: tuple[KernelRow, ...] = ()
    runs: GraphRuns = GraphRuns()
    limits: Limits | None = None
    curve: MemoryCurve = MemoryCurve()
    #: What is not shown, in words.
    left_out: tuple[str, ...] = ()
    error: ProgramError | None = None

    @property
    def seconds(self) -> float:
        """Seconds of the processor in all stages of compilation."""
        return sum(stage.seconds for stage in self.stages)
