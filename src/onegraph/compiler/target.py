"""What a graph is compiled for. Nothing behind the lowering knows of a device, or of a processor, but from here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from torch.fx import GraphModule

from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass
from onegraph.base.pipeline import Pass
from onegraph.ir.index import Index
from onegraph.ir.loop import Program
from onegraph.ir.plan import KernelInfo

#: Compiles a graph: what it gives is called with the graph's inputs, and gives a tuple of results.
Compile = Callable[[GraphModule], Callable[..., tuple[Any, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A processor, as far as the scheduler and the writer of kernels ask for it. Sizes are rough: powers of two."""

    #: Elements of 4 bytes that a value has in the vectors of an ordinary body: several registers, to hide latency.
    lanes: int
    #: Elements of running totals that registers hold.
    totals: int
    #: Rows and columns of a product whose totals registers hold beside what is added.
    tile_rows: int
    tile_columns: int
    #: Pieces of work that keep its threads busy.
    threads: int
    #: Pieces into which a long reduction to few results is divided.
    parts: int
    #: What starting a thread costs, in nanoseconds of work that it must be given.
    thread_nanoseconds: int
    #: Additions in a nanosecond, in vectors, on data that is near.
    speed: int
    #: Bytes on the stack, and of the near caches.
    stack: int
    near: int
    #: Bytes that come from memory together.
    line: int
    #: Bytes of a row that stays in a near cache from one loop over it to the next, but must be fetched ahead.
    long_rows: range
    #: Whether a loop whose iterations run in order may be a kernel: where one lane is slow, libraries share it out.
    runs_in_order: bool = True
    #: Threads of eager's kernels that draw random numbers, each from a stream of Philox's that is its own, at most;
    #: 0 where eager draws one number after the other.
    drawing_threads: int = 0


@dataclass(frozen=True, slots=True)
class Code:
    """What the kernels of a program have become.

    `functions` has the number in `kernels` and `addresses` for each kernel of the program by name. The addresses are
    those of C functions, see `onegraph.ir.plan`, which live as long as `keep`. `cached` says that nothing had to be
    compiled; `text` gives the code as text, and `texts` by the names of the stages on the way. `begins` has for each
    kernel how many bytes of each operand its function is not given: it works on what is behind them. `objects` has for
    each function the name under which its code is kept, empty where it is not.

    On a device whose kernels run in a grid of programs, `grids` has for each kernel of the program how many there are
    along x, y and z, over the sizes that it is given, and the addresses are those of `onegraph._C.CudaKernel`.
    """

    functions: Mapping[str, int]
    kernels: tuple[KernelInfo, ...]
    addresses: tuple[int, ...]
    keep: object
    cached: bool
    text: Callable[[], str]
    texts: Mapping[str, Callable[[], str]]
    begins: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    objects: tuple[str, ...] = ()
    grids: Mapping[str, tuple[Index, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The functions of a plan's kernels, which live as long as `keep`."""

    addresses: tuple[int, ...]
    keep: object


@dataclass(frozen=True, slots=True)
class Kept:
    """How code that `build` has kept is found again: `identity` says what it depends on besides the program, with
    these settings; `load` takes the plan's kernels and the names under which their code is kept. `stages` are those
    of which the code has texts."""

    identity: Callable[[Config], str]
    load: Callable[[Sequence[KernelInfo], Sequence[str], Context], Loaded | None]
    stages: tuple[str, ...]


@dataclass(slots=True)
class Shared:
    """What the graphs of a pair share, where their launches begin as a whole: the memory in which the forward graph
    leaves what it saves, by its address; and whether it is not captured."""

    memories: dict[int, Any] = field(default_factory=dict)
    is_refused: bool = False


@dataclass(frozen=True, slots=True)
class Role:
    """What a graph is to its program, for what begins its launches as a whole.

    `part` is its name in reports. The inputs at the positions that are `fixed` are used where they lie. Of a pair, the
    forward graph's results that are `saved` are seen by backward graphs alone, as their inputs that are `taken`.
    `why_not` says why its launches do not begin as a whole.
    """

    part: str = "inference"
    fixed: frozenset[int] = frozenset()
    saved: frozenset[int] = frozenset()
    taken: frozenset[int] = frozenset()
    shared: Shared = field(default_factory=Shared)
    why_not: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """`device` is the kind of device on which all buffers lie, as torch calls it. The way to it, in this order:

    `library` exchanges operators of the graph for calls of the device's libraries, given which inputs are parameters,
    and what compiles a graph alone, to time it.
    `passes` lead from the loops of the lowering to the loops that `build` makes code of.
    `launch` makes a callable of the plan, the addresses of the code and the rest, see `runtime.launcher`.
    `captured` makes a callable of a launched plan, the plan, its role, and the context: it begins the launches as a
    whole; None for a target that has no such thing.
    `kept` finds code that was built before, for plans that are kept on disk; None for a target whose plans are not.
    """

    device: str
    machine: Machine
    library: Callable[[GraphModule, frozenset[int], Config, Compile], GraphModule]
    passes: tuple[Pass[Program], ...]
    build: Callable[[Program, Context], Code]
    launch: Callable[..., Any]
    kept: Kept | None = None
    captured: Callable[..., Any] | None = None
