"""The C extension: the frame hook, the guard evaluator and the graph launcher (csrc/)."""

from array import array
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType, TracebackType
from typing import Any, Final, Generic, Literal, NoReturn, ParamSpec, TypeVar, final

P = ParamSpec("P")
R = TypeVar("R")

class Marker: ...

#: Returned by a context's callback: leave this code alone in this context from now on.
SKIP: Final[Marker]
#: Returned by a context's callback: run this frame, and all that it calls, as they are written.
EAGERLY: Final[Marker]
#: Stands for an unset slot in the `values` that callbacks are given.
NULL: Final[Marker]

#: A slot of the frame each: arguments bound, free variables as the cells of the function's closure.
Values = tuple[Any, ...]

@final
class Context:
    """The identity of one compiled region, and the owner of the entries compiled for it."""

    def __new__(cls, callback: Callable[[FunctionType, CodeType, Values], Entry | Marker | None]) -> Context: ...
    @property
    def callback(self) -> Callable[[FunctionType, CodeType, Values], Entry | Marker | None]: ...
    def clear(self, code: CodeType = ..., /) -> None:
        """Forget the entries and skip marks of this context, or those of one code object."""

    def codes(self) -> tuple[CodeType, ...]: ...

@final
class Entry:
    """One compiled version of a code object: `code` runs instead where `guards` pass (None: always).

    It stands for `levels` frames of the program, one called from another: where the limit of recursion leaves fewer,
    the program runs as it was written, and comes to its limit where it would. While it runs, it counts as `opened`
    frames more: those in which it is where it calls what breaks the graph.
    """

    def __new__(
        cls, code: CodeType, guards: GuardProgram | None, context: Context, levels: int = 1, opened: int = 0
    ) -> Entry: ...
    @property
    def code(self) -> CodeType: ...
    @property
    def guards(self) -> GuardProgram | None: ...
    @property
    def context(self) -> Context: ...
    @property
    def hits(self) -> int: ...

@final
class Region(Generic[P, R]):
    """Calls `function` with the frames that start in it, in this thread, seen by the hook in `context`."""

    __wrapped__: Callable[P, R]
    def __new__(cls, function: Callable[P, R], context: Context) -> Region[P, R]: ...
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., R]: ...
    @property
    def context(self) -> Context: ...

@final
class disabled(Generic[P, R]):  # noqa: N801
    """Calls `function` with the hook off in this thread; with `code`, only for the first frame, if it is of that
    code. Where native code calls it while tracing, `refuse` is called first."""

    __wrapped__: Callable[P, R]
    def __new__(
        cls,
        function: Callable[P, R],
        code: CodeType | None = None,
        refuse: Callable[[disabled[P, R]], object] | None = None,
    ) -> disabled[P, R]: ...
    @property
    def code(self) -> CodeType | None: ...
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., R]: ...

@final
class TailCall:
    """What a replacement returns to have a function called in its place, when its frame has ended."""

    def __new__(cls, function: Callable[..., Any], *args: Any) -> TailCall: ...

def made_dict(object: object, /) -> dict[str, Any] | None:
    """The instance dictionary of an object, or None if it has none yet."""

def resume(call: TailCall, /) -> Any:
    """The result of the call. Its arguments live as long as the called function keeps them."""

def on_failure(listener: Callable[[BaseException], bool] | None, /) -> None:
    """Who is told of each RuntimeError that leaves compiled code, or a pass in C, before its caller sees it, and says
    whether processes could not communicate; None: nobody."""

def hand_over(call: list[Any], names: tuple[str, ...] = (), /) -> Any:
    """Call the first item with the others, the last of which have these names, to itself: the list is emptied."""

@final
class trace_hook:  # noqa: N801
    """In its `with` block each Python frame that starts in this thread comes to `callback`, which returns the code to
    run instead, with tracing off, or None. `trace_hook(None)` suspends tracing."""

    def __new__(cls, callback: Callable[[FunctionType, CodeType, Values], CodeType | None] | None) -> trace_hook: ...
    def __enter__(self) -> trace_hook: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

#: (name, operands, whether it runs code) of each instruction of a guard program, see csrc/guard_ops.def.
GUARD_OPS: Final[tuple[tuple[str, str, int], ...]]

@final
class GuardProgram:
    """Checks to run before a frame, as `capture/guards/encode.py` writes them; they are not looked at again.

    `owned` are the registers that are released at the end; `registers` says how many of objects and of integers it has.
    """

    def __new__(
        cls, code: bytes, owned: bytes, consts: tuple[Any, ...], registers: tuple[int, ...]
    ) -> GuardProgram: ...
    def __len__(self) -> int: ...
    def check(self, function: FunctionType, values: Values, /) -> bool: ...
    def failing(self, function: FunctionType, values: Values, /) -> int: ...

@final
class TensorSpec:
    """A tensor of the same Python type, dtype, device, layout, dispatch keys, requires_grad, sizes and strides.
    `sizes` and `strides` replace the tensor's own; None in them is not checked."""

    def __new__(
        cls,
        tensor: Any,
        sizes: Sequence[int | None] | None = None,
        strides: Sequence[int | None] | None = None,
    ) -> TensorSpec: ...
    def matches(self, object: object, /) -> bool: ...
    @property
    def type(self) -> type: ...
    @property
    def dtype(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def requires_grad(self) -> bool: ...
    @property
    def sizes(self) -> tuple[int | None, ...]: ...
    @property
    def strides(self) -> tuple[int | None, ...] | None: ...
    @property
    def parts(self) -> tuple[Any, int]:
        """All that is compared, but for the type."""

@final
class Memory:
    """Which pairs of tensors, one of them written to, have common bytes; `varying`: whose sizes may change."""

    def __new__(cls, tensors: tuple[Any, ...], written: tuple[bool, ...], varying: tuple[bool, ...]) -> Memory: ...
    def holds(self, tensors: tuple[Any, ...], /) -> bool: ...
    @property
    def meetings(self) -> tuple[tuple[int, int], ...]: ...
    @property
    def written(self) -> tuple[bool, ...]: ...
    @property
    def varying(self) -> tuple[bool, ...]: ...

@final
class Graph:
    """A compiled graph in residual code; where it fails and `failed` returns True, its frame runs as it was written.

    `misfit` is called with a result that is no tuple or list of `outputs` items, and raises. Signals wait while a
    `whole` graph runs.
    """

    def __new__(
        cls,
        function: Callable[..., Any],
        failed: Callable[..., bool],
        before: Callable[..., Any] | None = None,
        outputs: int = 0,
        misfit: Callable[[Any], NoReturn] | None = None,
        whole: bool = False,
    ) -> Graph: ...
    def __call__(self, *args: Any) -> Any: ...
    @property
    def function(self) -> Callable[..., Any]: ...

class Fact:
    """`check(object)` of a class or dict is True; asked again only when the version of that is another one."""

    def __new__(cls, check: Callable[[Any], bool]) -> Fact: ...

class GlobalState:
    """A snapshot of torch's state: grad and inference mode, autocast, default dtype, determinism, active
    modes and transforms."""

    lenient: bool
    """Whether it does not hold where the program wants an error for each graph break."""
    unhandled: bool
    """Whether it does not hold where an exception is being handled."""

    def __new__(cls) -> GlobalState: ...
    def holds(self) -> bool: ...
    @property
    def values(self) -> dict[str, Any]: ...

@final
class Plan:
    """A compiled graph: called with its inputs, it returns the tuple of its results.

    The parts are 64-bit words, written by `compiler/runtime/launcher.py` and not checked: of the steps, of where the
    inputs go, of the constants, of the registers' first values. `room`: how many pointers, sizes and arguments a step
    needs at most. `sanitizer` is told who wrote over a fence, and raises. A call is a range of this `name` for torch's
    profiler, and adds to the `times`. Raises NotImplementedError where this torch has not what it needs. Runs below
    autograd and autocast.
    """

    def __new__(
        cls,
        steps: bytes,
        inputs: bytes,
        constants: bytes,
        registers: bytes,
        objects: tuple[Any, ...],
        slots: int,
        room: tuple[int, int, int],
        threads: int = 0,
        keep: object = None,
        sanitizer: Callable[[object, int], None] | None = None,
        name: str = ...,
        times: array[int] | None = None,
    ) -> Plan: ...
    def __call__(self, *args: Any) -> tuple[Any, ...]: ...
    def on_trial(self, trial: object) -> None:
        """Before the first call `trial.begin(inputs)` is asked, which may raise; it is told if that fails."""

    def consume(self, inputs: list[Any], /) -> tuple[Any, ...]:
        """As a call with the inputs of a list, which are taken out of it: each lives as long as it is needed."""

@final
class CudaKernel:
    """A kernel of `name` in a `cubin`, loaded by a CUDA device, that is launched with these `threads` in a block and
    these bytes of `shared` memory. Its parameters are `pointers`, `sizes` as 64-bit integers, and two null pointers.

    `address` stands in plans for the kernel, which lives as long as this does. `registers` and `local` are those of a
    thread: the registers, and the bytes that did not fit into them. The first one opens the `driver`.

    With `general`, pointers are multiples of 16 bytes; a launch with others asks that for a kernel which takes them,
    once, and what it raises is the launch's error.

    Raises RuntimeError, in CUDA's words where they are its errors: there is no driver, or it is too old, or there is no
    such device, or the kernel was made for another one, or needs more threads or shared memory than a block may have,
    or has other parameters.
    """

    def __new__(
        cls,
        cubin: bytes,
        name: str,
        threads: int,
        shared: int,
        pointers: int,
        sizes: int,
        driver: str = "libcuda.so.1",
        device: int = 0,
        general: Callable[[], CudaKernel] | None = None,
    ) -> CudaKernel: ...
    @property
    def address(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def threads(self) -> int: ...
    @property
    def shared(self) -> int: ...
    @property
    def registers(self) -> int: ...
    @property
    def local(self) -> int: ...

@final
class CudaGraph:
    """What a function has torch's current stream do on a CUDA device, captured once and launched again as a whole.

    `places` has an address and a number of bytes for each input: they are copied there before each launch, unless they
    are 0. One that shares the memory of another, `beside`, is launched behind it, and it behind this one, on whatever
    streams. RuntimeError in CUDA's words: something cannot be captured, or fails.
    """

    def __new__(
        cls,
        places: tuple[tuple[int, int], ...],
        driver: str = "libcuda.so.1",
        device: int = 0,
        beside: CudaGraph | None = None,
    ) -> CudaGraph: ...
    def capture(self, function: Callable[[], R], keep: object, /) -> R:
        """Call the function, whose launches are kept in the place of being made; `keep` lives as long as they do."""

    def replay(self, *inputs: Any) -> None:
        """Fill the places from these tensors, and begin the launches on torch's current stream."""

def captures_cuda(driver: str, device: int, /) -> bool:
    """Whether torch's current stream captures what is launched on it, in the place of running it."""

def launch_cuda_kernel(
    address: int, grid: tuple[int, ...], pointers: tuple[int, ...], sizes: tuple[int, ...], /
) -> None:
    """Begin the CudaKernel at this address on torch's current stream."""

@final
class Pair:
    """The graphs of a pair as a function that records gradients: called with the inputs of `forward`, it returns the
    `outputs` among its results, of which those in `followed` have a node of autograd behind them.

    The node is made by `record`, the `apply` of a `torch.autograd.Function` whose `forward` is `_C.record`, and whose
    node has `_C.differentiate` as its `apply`; it gives the `gradients` of the `reached` inputs: result n of the
    backward graph, or tangent n as -n - 1; or what `gradient` makes of the part in `parts`, if that is not None.
    `kept` is what the backward graph takes in front of the tangents: input n, or result n as -n - 1; those at the
    positions `shown` are also given to the caller. Nobody may write to the results in `probed` either. What
    `draws` gives is kept, too. `frees`: a pass
    frees what is kept. Unusual calls are `otherwise`'s, unusual passes are `later`'s. Raises NotImplementedError where
    this torch has not what it needs.
    """

    def __new__(
        cls,
        *,
        forward: Plan,
        record: Callable[..., Any],
        otherwise: Callable[..., Any],
        later: Callable[..., Any],
        probe: Callable[[Any], tuple[Any, Any]],
        laid_out: Callable[[Any, tuple[int, ...]], Any],
        gradient: Callable[..., Any],
        draws: Callable[[], Any] | None,
        owner: Any,
        outputs: tuple[int, ...],
        followed: tuple[int, ...],
        reached: tuple[int, ...],
        kept: tuple[int, ...],
        shown: tuple[int, ...],
        probed: tuple[int, ...],
        gradients: tuple[int, ...],
        parts: tuple[Any, ...],
        frees: bool,
    ) -> Pair: ...
    def __call__(self, *inputs: Any) -> tuple[Any, ...]: ...
    def differentiate_by(self, plan: Plan, /) -> None:
        """Ordinary passes are made by this backward graph from now on."""

    @property
    def backward(self) -> Plan | None: ...
    @property
    def owner(self) -> Any: ...

@final
class Recorded:
    """What a node of autograd keeps of one call of a `pair`."""

    def values(self) -> tuple[Any, ...] | None:
        """The inputs, what the backward graph takes and the probes (None: a pass has let go of them), the versions of
        all three, the strides of the followed results, and what `draws` gave. None: they were taken over."""

    def take_over(self) -> None:
        """Let go of all that, which Python has: C makes no pass over this node any more."""

    @property
    def pair(self) -> Pair: ...

def record(ctx: Any, recorded: Recorded, /, *reached: Any) -> tuple[Any, ...]:
    """The forward of a native node."""

def differentiate(ctx: Any, /, *tangents: Any) -> tuple[Any, ...]:
    """The `apply` of a native node, which binds as a function does."""

def current_context() -> Context | None:
    """The Context of the region that runs in this thread."""

def entries(code: CodeType, context: Context = ..., /) -> tuple[Entry, ...]:
    """The entries of a code object, of one context or of all."""

def looking(flag: bool, /) -> bool:
    """Say whether this thread asks objects for their classes on its own behalf: then no `__getattribute__` of the
    program is called for it. Returns what was said before."""

def exchange_setting(
    name: Literal["error_on_graph_break", "nested_graph_breaks"], value: bool | None = ..., /
) -> bool | None:
    """Set what this thread says of graph breaks (None: nothing), and return what it said. Without a value nothing
    changes."""

def working(flag: bool, /) -> bool:
    """Say whether this thread works on a frame; whether it did before.

    While it does, other frames that start in it run as they are written, and Python's handlers of signals wait: they
    run when it no longer does, and what they raise is raised here.
    """

def deepen(count: int, /) -> None:
    """Let this thread enter so many more Python frames than its limit of recursion, or fewer again."""

def frames_left() -> int:
    """How many more Python frames the program may enter in this thread."""

def cached_result(wrapper: Any, key: Any, known: Any, missing: Any, /) -> Any:
    """The result that a function with `functools.lru_cache` has for a key, which does not count as a hit; or `missing`.

    In a cache of limited size it is found by the object that it has as the key, `known`.
    """

def float_tensor(number: float, /) -> Any:
    """A tensor of type float64 without dimensions that holds the number. RuntimeError: this torch does not make tensors
    as expected."""

def is_of(value: object, kinds: Any, /) -> bool:
    """Whether the type of a value is one of the kinds, as `issubclass` takes them. The value is not asked."""

def class_version(cls: type, /) -> int:
    """A number that changes with the attributes of the class and of its bases; 0 if it has none."""

def answers_itself(cls: type, /) -> bool:
    """Whether objects of the class say with code of the program what their class is."""

def look_up(cls: type, name: str, missing: Any, /) -> Any:
    """What a class has under a name, itself or by inheritance, not bound to anything; or `missing`."""

def is_generic(method: object, /) -> bool:
    """Whether a special method reads or writes attributes as that of `object` does: native classes have their own."""

def force_eager(forced: bool, /) -> None:
    """Whether regions run their functions as they are written, in all threads."""

def prefer_large_pages(address: int, size: int, /) -> None:
    """Let memory that is not written to yet be had in large pages."""

def release_memory() -> int:
    """Give back the memory that waits for large allocations of calls; gives how many bytes."""

def move_to_large_pages(address: int, size: int, /) -> int:
    """Move memory in use to large pages, where it is for the program; gives how many bytes are in them."""

def flush_denormals(flush: bool, /) -> bool:
    """Have this thread take denormal numbers for zero, or not; whether it did before."""

def tensor_abi(use: Literal["libtorch", "python"] | None = None) -> Literal["libtorch", "python"]:
    """How tensors are read. The first call with torch loaded compares the two; a test may choose one."""

def can_watch() -> bool:
    """Whether the kernel tells of writes to memory: Linux 6.7 and later, outside of sandboxes."""

@final
class Kept:
    """Called with dense tensors (or None), gives `make(digests, *tensors)`, kept until one of them changes or dies.

    How a change is noticed: by a digest of the contents; by a watch, for which the kernel protects their memory (by the
    digest where it cannot); or by identity, memory and version. What is watched is not read: in the place of its digest
    is a name of what the watch saw.
    """

    def __new__(
        cls, make: Callable[..., Any], itemsizes: tuple[int, ...], check: Literal["digest", "watch", "version"]
    ) -> Kept: ...
    def __call__(self, *tensors: Any) -> Any: ...
    def clear(self, *ignored: object) -> None: ...
    @property
    def value(self) -> Any: ...
    @property
    def watched(self) -> int:
        """How many of the tensors are watched."""

@final
class KeptForEach:
    """Called as a Kept, of which it has one for each first tensor that is there."""

    def __new__(
        cls, make: Callable[..., Any], itemsizes: tuple[int, ...], check: Literal["digest", "watch", "version"]
    ) -> KeptForEach: ...
    def __call__(self, *tensors: Any) -> Any: ...
    @property
    def all(self) -> tuple[Kept, ...]:
        """Each Kept that there is."""
