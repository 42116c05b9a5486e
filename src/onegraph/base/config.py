"""The configuration: one frozen dataclass, and the only reader of the environment.

One option is added in exactly one place: a field below. `ONEGRAPH_<FIELD>` sets it from the environment,
`options={...}` of `onegraph.compile` sets it for one region.
"""

from __future__ import annotations

import dataclasses
import os
import pwd
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

from onegraph.base.dataclass import dataclass
from onegraph.base.errors import InvalidArgument
from onegraph.base.events import channels

PREFIX = "ONEGRAPH_"
#: What a graph goes through and could do without, in this order.
PASSES = (
    *("remove_dead_nodes", "remove_copies", "merge_duplicates", "fold_constants", "accumulate_rows", "lean"),
    *("recompute", "choose_calls"),
    *("inline", "pad_in_place", "split_reductions", "fuse", "drop_roundings", "tile_products"),
    *("remove_dead_code", "unroll_and_jam", "close_gaps"),
    *("absorb_views", "split_axes", "merge_axes", "vectorize", "overlap", "reuse_memory"),
)


@dataclass(frozen=True, slots=True)
class Kind:
    """How a field is read from the environment, and which Python values are accepted for it."""

    accepted: str
    parse: Callable[[str], object]
    accepts: Callable[[object], bool]
    #: How an accepted value is kept.
    keep: Callable[[Any], object] = lambda value: value


def _parse_switch(text: str) -> bool:
    match text.strip().lower():
        case "1" | "true" | "yes" | "on":
            return True
        case "" | "0" | "false" | "no" | "off":
            return False
    raise ValueError(text)


def _parse_count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


def _parse_share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError(text)
    return value


def _parse_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _parse_calls(text: str) -> str:
    if text not in _CALLS_ACCEPTED:
        raise ValueError(text)
    return text


def _parse_quantize(text: str) -> str | None:
    if text not in ("", *_QUANTIZE_ACCEPTED):
        raise ValueError(text)
    return text or None


def _parse_stage(text: str) -> str | None:
    if text not in ("", *_STAGES_ACCEPTED):
        raise ValueError(text)
    return text or None


def _parse_level(text: str) -> int:
    value = int(text)
    if value not in _LEVELS_ACCEPTED:
        raise ValueError(text)
    return value


def _parse_passes(text: str) -> tuple[str, ...]:
    found = _parse_names(text)
    if not {*found} <= {*PASSES}:
        raise ValueError(text)
    return found


def _parse_folder(text: str) -> Path:
    if not text:
        raise ValueError(text)
    try:
        return Path(text).expanduser().absolute()
    except (RuntimeError, OSError):  # no such user, no home, or no current folder any more
        raise ValueError(text) from None


def _parse_functions(text: str) -> tuple[Callable[..., Any], ...]:
    found = tuple(import_module("pydoc").locate(name) for name in _parse_names(text))
    if not all(map(callable, found)):
        raise ValueError(text)
    return found


def _parse_function(text: str) -> Callable[..., Any] | None:
    found = _parse_functions(text)
    if len(found) > 1:
        raise ValueError(text)
    return found[0] if found else None


def _are_functions(value: object) -> bool:
    return isinstance(value, tuple | list | set | frozenset) and all(map(callable, value))


_SWITCH = Kind("True or False", _parse_switch, lambda v: isinstance(v, bool))
_COUNT = Kind("an integer of 0 or more", _parse_count, lambda v: type(v) is int and v >= 0)
_LOGS = Kind(
    f"a tuple of names: {', '.join(('all', *channels()))}",
    _parse_names,
    lambda v: isinstance(v, tuple) and {*v} <= {"all", *channels()},
)
_FOLDER = Kind("a path", _parse_folder, lambda v: isinstance(v, Path))
_FOLDER_OR_NONE = Kind("a path or None", _parse_folder, lambda v: v is None or isinstance(v, Path))
_FUNCTIONS = Kind("a collection of functions, or names separated by commas", _parse_functions, _are_functions, tuple)
_FUNCTION = Kind("a function or None, or the name of one", _parse_function, lambda v: v is None or callable(v))
_CALLS_ACCEPTED = ("measured", "aten", "onednn", "packed", "tiles")
_CALLS = Kind(f"one of {', '.join(_CALLS_ACCEPTED)}", _parse_calls, lambda v: v in _CALLS_ACCEPTED)
_QUANTIZE_ACCEPTED = ("int8-dynamic", "int8-weights", "int4-weights")
_QUANTIZE = Kind(
    "'int8-dynamic', 'int8-weights', 'int4-weights' or None",
    _parse_quantize,
    lambda v: v is None or v in _QUANTIZE_ACCEPTED,
)
_STAGES_ACCEPTED = ("dynamo", "aot")
_STAGE = Kind("'dynamo', 'aot' or None", _parse_stage, lambda v: v is None or v in _STAGES_ACCEPTED)
_LEVELS_ACCEPTED = range(1, 5)
_LEVEL = Kind("an integer from 1 to 4", _parse_level, lambda v: type(v) is int and v in _LEVELS_ACCEPTED)
_PASSES = Kind(
    f"names of {', '.join(PASSES)}",
    _parse_passes,
    lambda v: isinstance(v, tuple | list | set | frozenset) and {*v} <= {*PASSES},
    lambda v: tuple(name for name in PASSES if name in v),
)
_NAMES = Kind(
    "a collection of names",
    _parse_names,
    lambda v: isinstance(v, tuple | list | set | frozenset) and all(isinstance(name, str) for name in v),
    lambda v: tuple(sorted(v)),
)
_SHARE = Kind("a number from 0 to 1", _parse_share, lambda v: isinstance(v, int | float) and 0 <= v <= 1, float)
_TEXT = Kind("a string", str, lambda v: isinstance(v, str))
_BACKEND = Kind("a name, or a function of a graph and its inputs", str, lambda v: isinstance(v, str) or callable(v))


def _option(kind: Kind, default: Any, doc: str, also: tuple[str, ...] = ()) -> Any:
    """`also` are variables of torch's compiler that set it where ours does not."""
    return field(default=default, metadata={"kind": kind, "doc": doc, "also": also})


def is_on(variable: str) -> bool:
    """Whether a variable that is no option says yes. False where it is not set.

    Raises:
        InvalidArgument: for a value that says neither yes nor no.
    """
    text = os.environ.get(variable, "")
    try:
        return _parse_switch(text)
    except ValueError:
        raise InvalidArgument(f"{variable}={text!r} is not accepted: expected {_SWITCH.accepted}") from None


def rank() -> int | None:
    """The number of this process among those that torchrun has started; None if it says nothing."""
    text = os.environ.get("RANK", "")
    return int(text) if text.isdecimal() else None


def restarts() -> str:
    """How often torchrun has started the processes anew; "" if it says nothing."""
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "")


def user_cache(environment: Mapping[str, str] | None = None) -> Path | None:
    """Where the user's caches are by the rules of XDG, None without a home. Paths that are not absolute are ignored.

    Source: XDG Base Directory Specification. Where HOME is not set at all, the user's entry in passwd has it.
    """
    environment = os.environ if environment is None else environment
    given = Path(environment.get("XDG_CACHE_HOME", ""))
    if given.is_absolute():
        return given / "onegraph"
    home = environment.get("HOME")
    if home is None:
        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            return None
    return Path(home) / ".cache" / "onegraph" if Path(home).is_absolute() else None


@dataclass(frozen=True, slots=True)
class Config:
    """All settings. A field's documentation stands beside it and is printed by `onegraph config`."""

    logs: tuple[str, ...] = _option(_LOGS, (), "event channels to print on standard error; 'all' for every one")
    debug: bool = _option(
        _SWITCH, False, "write what each stage makes to files, in a folder for each process", ("TORCH_COMPILE_DEBUG",)
    )
    debug_dir: Path | None = _option(
        _FOLDER_OR_NONE,
        None,
        "where debug makes them, if not in onegraph_debug in the working directory",
        ("TORCH_COMPILE_DEBUG_DIR",),
    )
    debug_files: tuple[str, ...] = _option(
        _LOGS, ("all",), "channels whose programs debug writes, named as for logs; 'all' for every one"
    )
    trace_dir: Path | None = _option(
        _FOLDER_OR_NONE, None, "where structured traces are written, for tlparse", ("ONEGRAPH_TRACE", "TORCH_TRACE")
    )
    backend: str | Callable[..., Any] = _option(
        _BACKEND,
        "native",
        "what compile takes where it is told no backend, when a function is given to it",
    )
    verify: bool = _option(_SWITCH, False, "run the checker of each program after every pass")
    sanitize: bool = _option(
        _SWITCH,
        False,
        "kernels check each access, memory is poisoned before it is written, and fenced: to find defects, slowly",
    )
    verify_correctness: bool = _option(
        _SWITCH, False, "compare the results of each compiled graph with eager's at its first call"
    )
    repro_after: str | None = _option(
        _STAGE,
        None,
        "write a small program that fails as a graph does: a captured one (dynamo), or a functional one (aot)",
        ("TORCHDYNAMO_REPRO_AFTER",),
    )
    repro_level: int = _option(
        _LEVEL,
        2,
        "which: 1 the whole graph that fails, 2 a small one, 3 every whole graph before it runs, 4 a small one that"
        " differs",
        ("TORCHDYNAMO_REPRO_LEVEL",),
    )
    repro_forward_only: bool = _option(
        _SWITCH, False, "programs of captured graphs compute no gradients", ("TORCHDYNAMO_REPRO_FORWARD_ONLY",)
    )
    skipped_passes: tuple[str, ...] = _option(
        _PASSES, (), "passes that graphs do without, to find one that is at fault: onegraph.verify names it"
    )
    skipped_lowerings: tuple[str, ...] = _option(
        _NAMES, (), "aten operators that are called as in eager mode, by name: aten.exp, or aten.exp.default"
    )
    fallback_random: bool = _option(
        _SWITCH, False, "random numbers of GPUs are drawn by torch's operators, in calls of their own"
    )
    check_unchanged: bool = _option(_SWITCH, False, "prove after each capture that tracing changed nothing real")
    disable: bool = _option(
        _SWITCH,
        False,
        "compile nothing: everything runs as it is written",
        ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"),
    )
    recompile_limit: int = _option(_COUNT, 8, "versions of one code object before calls that match none run eagerly")
    accumulated_recompile_limit: int = _option(
        _COUNT, 256, "versions of one code object in all compiled functions before it runs eagerly where none matches"
    )
    share_versions: bool = _option(
        _SWITCH,
        True,
        "functions and modules with equal code that are compiled with the same settings use each other's versions",
    )
    fail_on_recompile_limit_hit: bool = _option(
        _SWITCH, False, "raise RecompileLimitError at the limit of versions, as fullgraph=True does"
    )
    error_on_recompile: bool = _option(
        _SWITCH, False, "raise FailOnRecompileError where another version of a code object would be compiled"
    )
    assume_static_by_default: bool = _option(
        _SWITCH, True, "sizes are constants until they change; off: dynamic=True where compile was told nothing"
    )
    automatic_dynamic_shapes: bool = _option(
        _SWITCH,
        True,
        "sizes and numbers that change become symbols; off: dynamic=False where compile was told nothing",
        ("TORCHDYNAMO_DYNAMIC_SHAPES",),
    )
    specialize_int: bool = _option(_SWITCH, False, "integers that change make another version for each value")
    specialize_float: bool = _option(_SWITCH, False, "floats that change make another version for each value")
    trace_limit: int = _option(
        _COUNT,
        2_000_000,
        "steps of one trace (instructions, guarded facts, an operation counts as 100) before the function runs eagerly;"
        " where breaks are no errors, a twentieth of them without an operation on tensors",
    )
    loop_limit: int = _option(
        _COUNT,
        1_000,
        "operations that one loop of more than 200 turns may add to a graph before each of its turns is a graph of its"
        " own; where breaks are errors, loops are always unrolled",
    )
    raise_compiler_errors: bool = _option(
        _SWITCH, False, "raise what onegraph itself fails on; by default that runs eagerly, with a warning"
    )
    suppress_errors: bool = _option(
        _SWITCH,
        False,
        "run a frame eagerly where a stage of onegraph fails, and say so",
        ("TORCHDYNAMO_SUPPRESS_ERRORS",),
    )
    capture_scalar_outputs: bool = _option(
        _SWITCH,
        False,
        "operators take floats that item() takes out of tensors; such graphs may run operator by operator",
        ("TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS",),
    )
    trace_numpy: bool = _option(
        _SWITCH, True, "NumPy's arrays and functions are parts of graphs; otherwise NumPy runs between graphs"
    )
    guard_filter_fn: Callable[..., Any] | None = _option(
        _FUNCTION, None, "which guards are kept: a function of their list that gives a list of True and False"
    )
    reorderable_logging_functions: tuple[Callable[..., Any], ...] = _option(
        _FUNCTIONS, (), "functions like print, called in their order behind the graph in the place of breaking it"
    )
    ignore_logging_functions: tuple[Callable[..., Any], ...] = _option(
        _FUNCTIONS, (), "functions like print, whose calls in compiled code are left out"
    )
    cache: bool = _option(_SWITCH, True, "keep compiled kernels on disk")
    cache_plans: bool = _option(
        _SWITCH,
        True,
        "keep on disk, too, what graphs are compiled to; off: each process lowers and schedules its graphs anew",
    )
    cache_captures: bool = _option(
        _SWITCH,
        True,
        "keep on disk, too, what was captured of frames; off: each process traces its frames anew",
    )
    cache_dir: Path | None = field(
        default_factory=user_cache,
        metadata={
            "kind": _FOLDER,
            "doc": "where compiled kernels are kept, if not with the user's other caches",
            "also": (),
        },
    )
    library_calls: str = _option(
        _CALLS,
        "measured",
        "how matrix products, convolutions and attention are computed: measured, aten, onednn, packed or tiles",
    )
    quantize: str | None = _option(
        _QUANTIZE,
        None,
        "compute products with parameters in integers where no gradients are recorded: int8-dynamic, or int8-weights"
        " and int4-weights for few rows; the error is measured",
    )
    freeze_parameters: bool = _option(
        _SWITCH, False, "parameters change by operators that bump their version only, not through .data or NumPy"
    )
    watch_parameters: bool = _option(
        _SWITCH,
        True,
        "ask the kernel whether parameters were written to, where it can tell; off: read them in every call",
    )
    large_pages: bool = _option(
        _SWITCH,
        False,
        "move weights that products with few rows read to large pages of memory at the first call, as for generation",
    )
    eager_rounding: bool = _option(
        _SWITCH,
        True,
        "round bfloat16 and float16 behind every operator, as eager does; off: only what goes through memory",
    )
    smallest_recorded_graph: int = _option(
        _COUNT,
        5,
        "graphs that record gradients and have fewer operations, all on small tensors, run operator by operator",
    )
    compile_gradients: bool = _option(
        _SWITCH,
        True,
        "compile graphs that record gradients, forward and backward; off: they run operator by operator",
    )
    optimize_ddp: bool = _option(
        _SWITCH,
        True,
        "cut backward passes under DistributedDataParallel behind each bucket of gradients, which travels early then",
    )
    memory_budget: float = _option(
        _SHARE,
        1.0,
        "the share of the memory between forward and backward that is kept; for less, more is computed again",
    )
    progress: bool = _option(
        _SWITCH,
        True,
        "show on a terminal what is being compiled, and in which stage it is, where it takes over 2 seconds",
    )
    measure: bool = _option(
        _SWITCH, False, "count how often each kernel runs, and how long it takes, for a report of the run"
    )
    perf_map: bool = _option(
        _SWITCH, False, "tell perf the names of kernels, in /tmp/perf-PID.map, as far as they are compiled with it on"
    )
    threads: int = _option(_COUNT, 0, "threads for kernels; 0 follows torch.get_num_threads()")
    target_cpu: str = _option(_TEXT, "", "LLVM name of the cpu to compile for; '' is this one")
    cuda_graphs: bool = _option(
        _SWITCH,
        False,
        "graphs on GPUs are captured by CUDA, at the second call with the same sizes, and then begin by one call",
    )
    cuda_driver: str = _option(
        _TEXT, "libcuda.so.1", "the library of NVIDIA's driver, opened when the first kernel for a GPU is loaded"
    )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Config:
        """The defaults, overridden by the variables `ONEGRAPH_<FIELD>`, or by torch's."""
        environment = os.environ if environment is None else environment
        given: dict[str, Any] = {"cache_dir": user_cache(environment)}
        for item in dataclasses.fields(cls):
            kind, variable = item.metadata["kind"], PREFIX + item.name.upper()
            if variable not in environment:
                for other in item.metadata["also"]:
                    if other in environment:
                        with suppress(ValueError):  # it is not ours to complain about
                            given.setdefault(item.name, kind.parse(environment[other]))
                continue
            try:
                given[item.name] = kind.parse(environment[variable])
            except ValueError:
                text = environment[variable]
                raise InvalidArgument(f"{variable}={text!r} is not accepted: expected {kind.accepted}") from None
        return cls(**given)

    def replace(self, **options: object) -> Config:
        """A copy with these fields changed; an unknown name or a value of the wrong kind is refused by name."""
        kinds = {item.name: item.metadata["kind"] for item in dataclasses.fields(self)}
        for name, value in options.items():
            if name not in kinds:
                near = get_close_matches(name, kinds, n=1)
                hint = f" (did you mean '{near[0]}'?)" if near else ""
                raise InvalidArgument(f"unknown option '{name}'{hint}; accepted: {', '.join(sorted(kinds))}")
            if not kinds[name].accepts(value):
                raise InvalidArgument(f"option '{name}' expects {kinds[name].accepted}, got {value!r}")
        kept = {name: kinds[name].keep(value) for name, value in options.items()}
        return dataclasses.replace(self, **kept)
