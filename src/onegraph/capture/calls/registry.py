"""The table of what calls do, a row for each function, and the rules for the functions that are not in it."""

from __future__ import annotations

import datetime
import decimal
import functools
import operator
import re
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Literal, TypeVar, overload

import torch

from onegraph.capture.breaks import TORCH_CONTEXT, GraphBreak, Reason
from onegraph.capture.breaks.hints import OUTSIDE_MODULES, public_name, reason_of_function
from onegraph.capture.calls.arity import refusing
from onegraph.capture.calls.tracing import Handler, PassingHandler
from onegraph.capture.pyobject.exact_types import isinstance, once_for_each_class, plain
from onegraph.capture.pyobject.native_iterators import FORWARD, OVER_TABLES
from onegraph.capture.pyobject.native_members import FUNC_OF
from onegraph.torchlib.private import NATIVE

H = TypeVar("H", bound=Handler)
P = TypeVar("P", bound=PassingHandler)
Depth = Literal["identity", "level", "pairs", "deep"]


@dataclass(slots=True)
class Row:
    """What a call of a function does while tracing.

    A `handler` replaces it by a version that knows the shadow world, which `passes_rest` if it takes what is done
    behind the call. Run natively, the function looks at its arguments to a `depth`: not at all ("identity"), at one
    level, at the pairs in lists of them, or deep. `breaks` is why it breaks the graph, and its name there.
    """

    function: Any
    handler: Callable[..., Any] | None = None
    passes_rest: bool = False
    depth: Depth | None = None
    breaks: tuple[Reason, str] | None = None

    def refuse(self) -> None:
        """Break the graph, if the function does so."""
        if self.breaks is not None:
            reason, name = self.breaks
            raise GraphBreak(reason, name=name, what=name)


EMPTY_CELL = types.CellType()
_ROWS: dict[int, Row] = {}  # by the identity of functions, which they keep alive
NOTHING_KNOWN = Row(None)


def row_of(function: Any) -> Row:
    """What is known of a function."""
    return _ROWS.get(id(function), NOTHING_KNOWN)


def _row(function: Any) -> Row:
    return _ROWS.setdefault(id(function), Row(function))


@overload
def policy(*functions: Any, passing: Literal[False] = False) -> Callable[[H], H]: ...
@overload
def policy(*functions: Any, passing: Literal[True]) -> Callable[[P], P]: ...
def policy(*functions: Any, passing: bool = False) -> Any:
    """Handle calls of these functions (by identity) with the decorated one.

    With `passing` the handler takes what is left of the instruction behind the call, and passes it on.
    """

    def register(handler: Any) -> Any:
        for function in functions:
            row = _row(function)
            row.handler, row.passes_rest = refusing(function, handler), passing
        return handler

    return register


def native(depth: Depth, *functions: Any) -> None:
    """Run these functions natively, or their handlers may do so; they look at their arguments to this depth."""
    for function in functions:
        _row(function).depth = depth


def breaks(reason: Reason, *functions: Any) -> None:
    """Calls of these functions break the graph for this reason."""
    for function in functions:
        _row(function).breaks = (reason, public_name(function))


def break_at(function: FunctionType) -> tuple[Reason, str] | None:
    """The reason and the name of a Python function that must run for real, or None if it is traced.

    torch's compiler puts wrappers in the place of some functions of torch: they break for the same reason.
    """
    reason = reason_of_function(function)
    if reason is not None:
        return reason, f"{function.__module__}.{function.__qualname__}"
    owner, _, name = function.__qualname__.rpartition(".")
    foreign = (function.__module__ or "").startswith("torch._dynamo")  # they are marks
    if name == "__enter__" and owner not in CONTEXTS and not foreign and runs_natively(function):
        return TORCH_CONTEXT, f"{function.__module__}.{owner}"
    return row_of(getattr(function, "__wrapped__", None)).breaks


#: Context managers of torch, in Python, that tracing follows: those that choose a device or a stream of CUDA.
CONTEXTS = frozenset({"device", "StreamContext", "_DeviceGuard"})

#: Modules whose native functions have no effect but on their arguments.
PURE_MODULES = frozenset(
    """builtins math cmath _operator operator itertools _functools functools _collections collections _struct _bisect
    _heapq _json _sre _abc abc _weakref _string string _datetime datetime unicodedata binascii zlib array _stat _typing
    typing types _ast enum numbers dataclasses copy re inspect""".split()
)

#: Pure modules with functions that write to their arguments.
WRITING_MODULES = frozenset("_heapq _bisect _collections operator _operator _struct array".split())
#: Methods of native containers that only read; any other may write.
READS = frozenset(
    """get keys values items copy index count union intersection difference symmetric_difference issubset issuperset
    isdisjoint __getitem__ __contains__ __len__ __iter__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __repr__ __str__
    __hash__ __reversed__ __getattribute__ __add__ __mul__ __rmul__ __or__ __and__ __sub__ __xor__""".split()
)
#: Methods of lists and tuples that compare their argument with the items.
COMPARING = frozenset({"count", "index", "remove", "__contains__"})
#: Methods that compare their argument with the object.
COMPARISONS = frozenset({"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"})
#: Methods of dicts and sets that look for their first argument.
KEYED = frozenset(
    "get pop setdefault move_to_end add discard remove __contains__ __getitem__ __setitem__ __delitem__".split()
)
#: Types whose native methods may run on values that the trace owns.
SAFE_RECEIVERS: tuple[type, ...] = (
    int, float, complex, bool, str, bytes, bytearray, list, tuple, dict, set, frozenset, range, slice, type(None),
    type({}.keys()), type({}.values()), type({}.items()), *FORWARD, *OVER_TABLES, type(reversed([])), enumerate, zip,
    map, filter, object, BaseException, property, classmethod, staticmethod, super, re.Pattern, re.Match,
    datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone,
)  # fmt: skip

#: Native types whose instances have no state that changes, or none that the program can see: known by identity.
IMMUTABLE: tuple[type, ...] = (
    re.Pattern, re.Match, decimal.Decimal, types.CodeType, functools._lru_cache_wrapper, operator.attrgetter,
    operator.itemgetter, operator.methodcaller, torch.torch_version.TorchVersion,
)  # fmt: skip

#: Enumerations of torch's native code: their members have equals, but nothing that changes.
NATIVE_ENUMS = tuple(
    kind for kind in vars(NATIVE).values() if isinstance(kind, type) and isinstance(vars(kind).get("__entries"), dict)
)

#: Packages whose modules' globals and functions are a library's own: used without guards. (The environment is in `os`.)
LIBRARIES = frozenset({"torch", "onegraph", "numpy"}) | frozenset(sys.stdlib_module_names) - {"__main__", "test", "os"}

#: Python functions of these modules are interpreted although they belong to torch.
INTERPRETED = (
    "torch.nn.modules",
    "torch.nn.utils",
    "torch.nn.parameter",
    "torch.nn.parallel",
    "torch.nn.attention",
    "torch.optim",
    "torch.utils._foreach_utils",
    "torch.utils._pytree",
    "torch.distributions",
    "torch.utils._contextlib",
    "torch.autograd.grad_mode",
    "torch.amp.autocast_mode",
    "torch.cpu.amp.autocast_mode",
    "torch.cuda.amp.autocast_mode",
    "torch._functorch.apis",
    "torch._functorch.vmap",
    "torch._higher_order_ops.associative_scan",
    "torch._dynamo.external_utils",
    "torch.ao",
    "torch.backends",
)


@once_for_each_class
def is_outside_class(cls: type) -> bool:
    """Whether other threads or the world outside may change instances of the class at any time."""
    return any(kind.__module__.partition(".")[0] in OUTSIDE_MODULES for kind in cls.__mro__)


def is_library(module: str) -> bool:
    """Whether a module belongs to Python or torch, whose own constants are not guarded."""
    return module.partition(".")[0] in LIBRARIES


#: Native functions that set something for the thread or the process. (What tensors are is none of it, and gradients
#: have a policy of their own; tracing itself has modes of torch functions.)
SETS = re.compile(r"_?set_(?!grad_enabled|conj|neg|tensor_metadata|torch_function_state|dispatch_mode)\w+")
#: What torch calls that which seeds, saves and sets random numbers, for all devices.
RANDOM_STATE = re.compile(r"(manual_|initial_)?seed(_all)?|\w*rng_state\w*|\w+_rng|default_generators?|Generator")


def runs_natively(function: FunctionType) -> bool:
    """Whether a Python function is called as it is: torch's own functions, whose operations the recorder sees."""
    module = function.__globals__.get("__name__") or ""
    ours = module.partition(".")[0] == "torch" and not module.startswith(INTERPRETED)
    return ours and not touches_state(function.__code__) and not warns_unseen(function.__code__)


def runs_programs(function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a function of torch is given code of the program, or has it in its cells: to be followed, not called.

    What such code reads and writes is seen by the interpreter only.
    """
    cells = (cell.cell_contents for cell in function.__closure__ or () if cell != EMPTY_CELL)
    return any(map(_is_program, (*args, *kwargs.values(), *cells)))


def _is_program(value: Any) -> bool:
    match plain(value):
        case FunctionType():
            return not runs_natively(value)
        case types.MethodType():
            return _is_program(value.__func__)
        case functools.partial():
            return _is_program(FUNC_OF(value))
    return False


@functools.cache
def touches_state(code: types.CodeType) -> bool:
    """Whether code names what sets something in torch, or the state of random numbers: not to be used while tracing."""
    return any(
        RANDOM_STATE.fullmatch(name) or (SETS.fullmatch(name) and hasattr(NATIVE, name)) for name in code.co_names
    )


@functools.cache
def warns_unseen(code: types.CodeType) -> bool:
    """Whether a function for users warns, and the recorder does not see it, which looks for warnings itself."""
    seen = code.co_name.startswith("_") or any(name.startswith("has_torch_function") for name in code.co_names)
    return "warnings" in code.co_names and "warn" in code.co_names and not seen
