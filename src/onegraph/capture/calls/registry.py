"""The table of what calls do, a row for each function, and the rules for the functions that are not in it."""

from __future__ import annotations

import decimal
import functools
import operator
import os
import re
import sys
import types
from collections.abc import Callable
from types import FunctionType
from typing import Any, Literal, NoReturn, TypeVar, overload

import torch

from onegraph.base.dataclass import dataclass
from onegraph.capture.breaks import TORCH_CONTEXT, GraphBreak, Reason
from onegraph.capture.breaks.hints import OUTSIDE_MODULES, public_name, reason_of_function
from onegraph.capture.calls.arity import refusing
from onegraph.capture.calls.tracing import Handler, PassingHandler
from onegraph.capture.interp.functions import Depth, Refusal, row_for, row_of
from onegraph.capture.pyobject.exact_types import isinstance, once_for_each_class, plain
from onegraph.capture.pyobject.native_members import FUNC_OF
from onegraph.torchlib.private import NATIVE

H = TypeVar("H", bound=Handler)
P = TypeVar("P", bound=PassingHandler)


@dataclass(frozen=True, slots=True)
class Breaking:
    """A call that breaks the graph for this reason; `name` is the function's in the message, `why` what it does."""

    reason: Reason
    name: str
    why: str = ""

    def __call__(self) -> NoReturn:
        raise GraphBreak(self.reason, name=self.name, what=self.name, why=self.why)


@dataclass(frozen=True, slots=True)
class Access:
    """What a native function or method does with its arguments besides reading them.

    Fields:
        writes: whether it may write to them; of a method, to its receiver.
        compares: whether a method compares its argument with the "items" of the receiver, or with the receiver itself.
        looks_up: whether a method looks for its first argument by its hash, where the receiver is a table.
    """

    writes: bool = False
    compares: Literal["items", "receiver"] | None = None
    looks_up: bool = False


EMPTY_CELL = types.CellType()
#: Where the code of functions with rows comes from: those of Python, torch, NumPy and here. Some of Python's modules
#: are frozen, and older NumPys make functions of text.
LIBRARIES = (
    *(os.path.dirname(sys.modules[name].__file__ or "") + os.sep for name in ("os", "torch", "numpy", "onegraph")),
    *("<frozen ", "<__array_function__ internals>"),
)


@overload
def policy(*functions: Any, passing: Literal[False] = False) -> Callable[[H], H]: ...
@overload
def policy(*functions: Any, passing: Literal[True]) -> Callable[[P], P]: ...
def policy(*functions: Any, passing: bool = False) -> Any:
    """Handle calls of these functions (by identity) with the decorated one.

    With `passing` the handler takes what is left of the instruction behind the call, and passes it on.
    """

    def register(handler: Any) -> Any:
        for function in filter(is_original, functions):
            row = row_for(function)
            row.handler, row.passes_rest = refusing(function, handler), passing
        return handler

    return register


def is_original(function: Any) -> bool:
    """Whether a function is that of its library, and none that the program has put in its place.

    A program may replace functions of torch before it compiles anything. What it calls then are functions of its own.
    """
    return type(function) is not FunctionType or function.__code__.co_filename.startswith(LIBRARIES)


def native(depth: Depth, *functions: Any) -> None:
    """Run these functions natively, or their handlers may do so; they look at their arguments to this depth."""
    for function in filter(is_original, functions):
        row_for(function).depth = depth


def breaks(reason: Reason, *functions: Any) -> None:
    """Calls of these functions break the graph for this reason."""
    for function in filter(is_original, functions):
        row_for(function).refuse = Breaking(reason, public_name(function))


#: The functions that fill the table for modules that are imported when they are first used, by the module.
LATE_ROWS: dict[str, Callable[[], None]] = {}


def fill_late_rows(function: Any) -> bool:
    """Fill the rows of the module that a native function is of; whether there are more now."""
    module = getattr(function, "__module__", None) if LATE_ROWS else None
    found = [name for name in LATE_ROWS if isinstance(module, str) and module.startswith(name)]
    for name in found:
        LATE_ROWS.pop(name)()
    return bool(found)


def refusal_of(function: FunctionType) -> Refusal | None:
    """Raises the graph break of a Python function that must run for real; None if it is traced.

    torch's compiler puts wrappers in the place of some functions of torch: they break for the same reason.
    """
    reason = reason_of_function(function)
    if reason is not None:
        return Breaking(reason, f"{function.__module__}.{function.__qualname__}")
    owner, _, name = function.__qualname__.rpartition(".")
    foreign = (function.__module__ or "").startswith("torch._dynamo")  # they are marks
    if name == "__enter__" and not foreign and runs_natively(function):
        return Breaking(TORCH_CONTEXT, f"{function.__module__}.{owner}")
    return row_of(getattr(function, "__wrapped__", None)).refuse


#: What native functions of modules do that have no effect but on their arguments.
MODULES: dict[str, Access] = {
    **dict.fromkeys(
        """builtins math cmath itertools _functools functools collections _sre _json abc _abc _weakref _string string
        _datetime datetime unicodedata binascii zlib _stat _typing typing types _ast enum numbers dataclasses copy re
        inspect""".split(),
        Access(),
    ),
    **dict.fromkeys("_operator operator _collections _struct _bisect _heapq array".split(), Access(writes=True)),
}

#: What native methods do, by their names: containers of one protocol agree. Any other may write.
METHODS: dict[str, Access] = {
    **dict.fromkeys(
        """keys values items copy union intersection difference symmetric_difference issubset issuperset isdisjoint
        __len__ __iter__ __repr__ __str__ __hash__ __reversed__ __getattribute__ __add__ __mul__ __rmul__ __or__
        __and__ __sub__ __xor__""".split(),
        Access(),
    ),
    **dict.fromkeys(("count", "index"), Access(compares="items")),
    "remove": Access(writes=True, compares="items", looks_up=True),
    "__contains__": Access(compares="items", looks_up=True),
    **dict.fromkeys(("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"), Access(compares="receiver")),
    **dict.fromkeys(("get", "__getitem__"), Access(looks_up=True)),
    **dict.fromkeys(
        "pop setdefault move_to_end add discard __setitem__ __delitem__".split(), Access(writes=True, looks_up=True)
    ),
}
_ANY_METHOD = Access(writes=True)


def access_of_method(name: str) -> Access:
    """What the native methods of this name do."""
    return METHODS.get(name, _ANY_METHOD)


#: Native types whose instances have no state that changes, or none that the program can see: known by identity.
IMMUTABLE: tuple[type, ...] = (
    re.Pattern, re.Match, decimal.Decimal, types.CodeType, functools._lru_cache_wrapper, operator.attrgetter,
    operator.itemgetter, operator.methodcaller, torch.torch_version.TorchVersion,
)  # fmt: skip

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
    "torch.distributed.algorithms._checkpoint",
    "torch.distributed.tensor._api",
    "torch.distributed.tensor.parallel",
    "torch.utils._contextlib",
    "torch.autograd.grad_mode",
    "torch.amp.autocast_mode",
    "torch.cpu.amp.autocast_mode",
    "torch.cuda.amp.autocast_mode",
    "torch._functorch.apis",
    "torch._functorch.vmap",
    "torch._functorch.eager_transforms",
    "torch._functorch.functional_call",
    "torch.autograd.forward_ad",
    "torch._higher_order_ops.associative_scan",
    "torch._dynamo.external_utils",
    "torch.ao",
    "torch.backends",
)


@once_for_each_class
def is_outside_class(cls: type) -> bool:
    """Whether other threads or the world outside may change instances of the class at any time."""
    return any(kind.__module__.partition(".")[0] in OUTSIDE_MODULES for kind in cls.__mro__)


#: Native functions that set something for the thread or the process. (What tensors are is none of it, and gradients
#: have a policy of their own; tracing itself has modes of torch functions.)
SETS = re.compile(r"_?set_(?!(fwd_)?grad_enabled|conj|neg|tensor_metadata|torch_function_state|dispatch_mode)\w+")
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
