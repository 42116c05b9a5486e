"""Functions of numbers, of which some are symbols: what they give is computed where the program runs.

All functions of `math` are such, the builtin ones, and the methods of integers and floating-point numbers. What gives
neither numbers nor a truth value is given the numbers of the trace, which are guarded.
"""

from __future__ import annotations

import math
import operator
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from onegraph.base.dataclass import dataclass
from onegraph.capture.breaks import NUMPY_ARRAY, GraphBreak
from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.graph.spelling import ELEMENT_TYPES
from onegraph.capture.interp.functions import row_of
from onegraph.capture.policy.python.iteration import StandIn, hidden
from onegraph.capture.policy.torch.copied_tensors import copied
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.symbolic.arithmetic import INTEGERS, NUMBERS
from onegraph.torchlib.arrays.array import Array
from onegraph.torchlib.given import Within


@dataclass(frozen=True, slots=True)
class Place:
    """Where a number stands among the arguments of a call."""

    number: int


@dataclass(frozen=True, slots=True)
class Several:
    """A list or a tuple among the arguments of a call."""

    kind: type
    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Calculation:
    """A call as a function of the numbers in it: of those in lists and tuples, of those by name, besides constants."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]

    def __str__(self) -> str:
        return str(getattr(self.function, "__name__", self.function))

    def __call__(self, *numbers: Any) -> Any:
        args = [_filled(arg, numbers) for arg in self.args]
        return self.function(*args, **{name: _filled(value, numbers) for name, value in self.kwargs})


def _filled(value: Any, numbers: tuple[Any, ...]) -> Any:
    match value:
        case Place(number):
            return numbers[number]
        case Several(kind, items):
            return kind([_filled(item, numbers) for item in items])
    return value


def _opened(value: Any, numbers: list[Any]) -> Any:
    """The value with places for its numbers, which are added to those of the call."""
    if isinstance(value, NUMBERS) and not isinstance(value, bool):
        numbers.append(value)
        return Place(len(numbers) - 1)
    if type(value) in SEVERAL:
        return Several(SEVERAL[type(value)], tuple([_opened(item, numbers) for item in value]))
    return value


def calculated(tracer: Tracing, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function gives for arguments with symbols among their numbers; NotImplemented for others."""
    if tracer.numbers.is_symbolic(*args) and not kwargs:
        return tracer.numbers.computed(function, *args)
    numbers: list[Any] = []
    opened = [_opened(arg, numbers) for arg in args]
    named = [(name, _opened(value, numbers)) for name, value in kwargs.items()]
    if not tracer.numbers.is_symbolic(*numbers) or not all(map(_is_plain, (*opened, *(value for _, value in named)))):
        return NotImplemented
    return tracer.numbers.computed(Calculation(function, tuple(opened), tuple(named)), *numbers)


def _is_plain(value: Any) -> bool:
    """Whether an argument is made of numbers, `None` and texts."""
    if isinstance(value, Several):
        return all(map(_is_plain, value.items))
    return value is None or isinstance(value, Place | bool | str)


def _calculated(function: Any) -> None:
    @policy(function)
    def calculate(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        special = f"__{getattr(function, '__name__', '')}__"
        if args and isinstance(args[0], Array) and special in vars(Array):
            return tracer.call(vars(Array)[special], args, kwargs)
        result = calculated(tracer, function, args, kwargs)
        if result is not NotImplemented or any(isinstance(arg, Array) for arg in args[1:]):
            return result  # arrays answer for themselves what a number on their left is asked
        call = tracer.run_torch if isinstance(function, types.FunctionType) else tracer.call_native
        return call(function, args, kwargs)


def _over_items(function: Any, sequences: int) -> None:
    @policy(function)
    def calculate(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The first arguments are iterable, and asked for their items."""
        items = [list(tracer.iterate(arg)) for arg in args[:sequences]]
        args = (*items, *args[sequences:])
        result = calculated(tracer, function, args, kwargs)
        return tracer.call_native(function, args, kwargs) if result is NotImplemented else result


@policy(math.prod)
def prod(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    items = list(tracer.iterate(args[0]))
    result = kwargs.get("start", 1)
    if tracer.numbers.is_symbolic(result, *items) and all(isinstance(item, INTEGERS) for item in (result, *items)):
        for item in items:
            result = tracer.binary("*", result, item)
        return result
    result = calculated(tracer, math.prod, (items,), kwargs)
    return tracer.call_native(math.prod, (items,), kwargs) if result is NotImplemented else result


@policy(torch.Size.numel)
def numel(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return prod(tracer, args, kwargs)


#: What `sum` adds in C, and what stands for it.
SUMMED = (int, float, complex, bool, torch.SymInt, torch.SymFloat)


@policy(sum)
def sum_(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Numbers are added as Python adds them, which is more exact than one by one."""
    total = kwargs.get("start", args[1] if len(args) > 1 else 0)
    if isinstance(total, str | bytes | bytearray):
        return sum((), total)  # which is refused
    numbers: list[Any] | None = [] if type(total) in SUMMED else None
    for item in tracer.iterate(args[0]):
        if numbers is not None and type(item) in SUMMED:
            numbers.append(item)
            continue
        if numbers is not None:
            total, numbers = _sum_of_numbers(tracer, numbers, total), None
        total = tracer.binary("+", total, item)
    return total if numbers is None else _sum_of_numbers(tracer, numbers, total)


def _sum_of_numbers(tracer: Tracing, numbers: list[Any], start: Any) -> Any:
    if not tracer.numbers.is_symbolic(start, *numbers):
        return sum(numbers, start)
    if not all(isinstance(number, INTEGERS) for number in (start, *numbers)):
        result = calculated(tracer, sum, (numbers, start), {})
        if result is not NotImplemented:
            return result
    for number in numbers:
        start = tracer.binary("+", start, number)
    return start


@policy(torch.sym_sum)
def sym_sum(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    items = args[0] if len(args) == 1 and isinstance(args[0], list | tuple) else args
    return tracer.call(sum, (items,), {})


@policy(operator.length_hint)
def length_hint(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    if not isinstance(args[0], StandIn):
        result = calculated(tracer, operator.length_hint, args, kwargs)
        return tracer.run_native(operator.length_hint, args, kwargs) if result is NotImplemented else result
    count = getattr(args[0], "count_left", None)
    if count is None:
        raise hidden(args[0])
    return int(count())


#: Those that copy a tensor that they are given.
COPYING = (torch.tensor, torch.Tensor.new_tensor)


def _of_contents(function: Any, is_method: bool = False) -> None:
    """A function that makes a tensor of numbers; one of a tensor makes it of the same type, and on its device."""

    @policy(function)
    def make(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args and isinstance(args[-1], Array):
            return of_array(tracer, function, args, kwargs)
        made = copied(tracer, function, args, kwargs) if function in COPYING else None
        if made is not None:
            return made
        if not tracer.numbers.holds_symbols(args):
            return tracer.call_native(function, args, kwargs)
        named = {"dtype": args[0].dtype, "device": args[0].device, **kwargs} if is_method else kwargs
        made = tensor_of(tracer, args[-1], named) if len(args) == 1 + is_method else None
        if made is not None:
            return made
        return tracer.call_native(function, tracer.numbers.concrete_deep(args, "contents of a tensor"), kwargs)


def of_array(tracer: Tracing, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A tensor of an array: in the same memory, or a copy. Torch warns of memory that may not be written to."""
    *others, array = args
    if others or not array.is_writeable or array.flipped:
        raise GraphBreak(NUMPY_ARRAY, why=f"{function.__name__} is called with other arguments, or warns of it")
    tensor = array.tensor.detach()
    return tracer.call_native(torch.asarray, (tensor,), {**kwargs, "copy": True} if function in COPYING else kwargs)


def tensor_of(tracer: Tracing, contents: Any, kwargs: dict[str, Any]) -> Any:
    """A tensor of one number, or of several in a list; None for what has to be made as Python makes it."""
    if tracer.numbers.is_symbolic(contents) or isinstance(contents, torch.SymInt):
        return scalar_tensor(tracer, contents, kwargs)
    if type(contents) not in SEVERAL or kwargs.get("requires_grad"):
        return None
    items = list(tracer.iterate(contents))
    if not (tracer.numbers.is_symbolic(*items) or any(isinstance(item, torch.SymInt) for item in items)):
        return None
    floating = any(isinstance(item, float | torch.SymFloat) for item in items)
    named = {"dtype": torch.get_default_dtype() if floating else torch.int64, **kwargs}
    scalars = [scalar_tensor(tracer, item, named) for item in items]
    return None if any(scalar is None for scalar in scalars) else tracer.call_native(torch.stack, (scalars,), {})


def scalar_tensor(tracer: Tracing, number: Any, kwargs: dict[str, Any]) -> Any:
    """A tensor of one number; None where the type of its elements does not hold it as `torch.tensor` has it."""
    whole = isinstance(number, INTEGERS)
    given: Any = kwargs.get("dtype")
    dtype = ELEMENT_TYPES.get(given, given) or (torch.int64 if whole else torch.get_default_dtype())
    unknown = isinstance(number, torch.SymInt) and not number.node.is_known
    fits = dtype is torch.int64 if unknown else dtype.is_floating_point or whole and dtype is torch.int64
    if isinstance(number, bool) or not fits:
        return None
    limit = EXACT if whole else torch.finfo(dtype).max
    numbers = tracer.numbers
    if numbers.is_symbolic(number) and dtype is not torch.int64 and not numbers.asked(Within(limit), number):
        return None
    return tracer.call_native(torch.scalar_tensor, (number,), {**kwargs, "dtype": dtype})


_of_contents(torch.tensor)
_of_contents(torch.as_tensor)
_of_contents(torch.asarray)
_of_contents(torch.Tensor.new_tensor, is_method=True)

#: The integers that are floating-point numbers of 64 bits.
EXACT = 1 << 53


#: What stands for lists and tuples of numbers.
SEVERAL: dict[type, type] = {list: list, tuple: tuple, torch.Size: torch.Size}
#: The functions that take their numbers in iterables, and how many of those.
ITERATING = {"fsum": 1, "dist": 2, "sumprod": 2}
METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType)


def _functions() -> Iterator[Any]:
    """The functions of numbers that have no policy of their own."""
    yield from (function for function in vars(math).values() if isinstance(function, types.BuiltinFunctionType))
    yield from (abs, operator.abs, operator.index, round, pow, divmod)
    yield from (function for name, function in vars(torch).items() if name in SYMBOLIC_FUNCTIONS)
    for kind in (int, float):
        yield from (method for name, method in vars(kind).items() if type(method) in METHODS and name not in OF_OBJECTS)


#: What torch has for numbers that may be symbols.
SYMBOLIC_FUNCTIONS = ("sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_sqrt")
#: Methods of all objects.
OF_OBJECTS = ("__getattribute__", "__repr__", "__str__", "__format__")
for _name, _count in ITERATING.items():
    if hasattr(math, _name):
        _over_items(getattr(math, _name), _count)
for _function in _functions():
    if row_of(_function).handler is None:
        _calculated(_function)
