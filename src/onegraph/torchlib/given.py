"""Numbers and devices that the program was given, as arguments of operators."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import torch

from onegraph.base.constants import inf
from onegraph.base.dataclass import dataclass
from onegraph.ir.index import Index, Symbol
from onegraph.torchlib.aten import OpOverload, leaves, map_leaves
from onegraph.torchlib.meta_tensors import laid_over
from onegraph.torchlib.private import DisableTorchDispatch, FakeTensor
from onegraph.torchlib.size_expression import Whole
from onegraph.torchlib.state import accelerator_kind


@dataclass(frozen=True, slots=True)
class Within:
    """Whether all operators take a number where `limit` is the largest one: some refuse finite ones beyond it."""

    limit: float

    def __str__(self) -> str:
        return f"is_within({self.limit:.2g})"

    def __call__(self, number: float) -> bool:
        return not self.limit < abs(number) < inf


def indexed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a function of torch, where integers are index expressions, or what they are in this trace."""
    wholes = [whole for arg in (*args, *kwargs.values()) for whole in wholes_in(arg)]
    if not any([whole.node.index.constant is not None for whole in wholes]):
        return args, kwargs
    return map_leaves(plain, args), map_leaves(plain, kwargs)


def wholes_in(value: Any) -> Iterator[torch.SymInt]:
    """The known integers that are no index expressions yet, of those that a function is given."""
    match value:
        case torch.SymInt() if isinstance(value.node.value, Whole) and value.node.is_known:
            yield value
        case list() | tuple():
            for item in value:
                yield from wholes_in(item)
        case slice():
            yield from wholes_in((value.start, value.stop, value.step))


def plain(value: Any) -> Any:
    """A symbolic integer that has become a constant as that, anything else as it is."""
    constant = value.node.constant if isinstance(value, torch.SymInt) and value.node.is_known else None
    return value if constant is None else constant


def bounded_arguments(
    func: OpOverload, args: Any, kwargs: Any, tensors: Iterable[torch.Tensor]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of an operator, where those that it takes as numbers are within the limit.

    A number in the place of a tensor is converted as tensors are, without being refused.
    """
    types = {tensor.dtype for tensor in tensors} | {kwargs.get("dtype") or torch.get_default_dtype()}
    kinds = {argument.name: argument.type for argument in func._schema.arguments}

    def taken(value: Any, kind: Any) -> Any:
        return value if isinstance(kind, torch.TensorType) else bounded(value, types, "number" in str(kind))

    positional = tuple(map(taken, args, kinds.values()))
    return positional, {name: taken(value, kinds.get(name)) for name, value in kwargs.items()}


def bounded(arguments: Any, types: Collection[torch.dtype], is_scalar: bool) -> Any:
    """The arguments of an operator: numbers that every type of the tensors holds, which is guarded, stay symbols.

    Integers may be sizes, unless the operator takes scalars.
    """
    floats = {dtype for dtype in types if dtype.is_floating_point} or {torch.get_default_dtype()}
    within = Within(min(torch.finfo(dtype).max for dtype in floats))
    limit = min(map(_largest, types))
    lowest = 0 if any(is_unsigned(dtype) for dtype in types) else -limit

    def number(value: Any) -> Any:
        if isinstance(value, torch.SymInt) and is_scalar and limit < 1 << 62 and value.node.is_known:
            return value if lowest <= value <= limit else value.node.guard_int()
        if not isinstance(value, torch.SymFloat) or not value.node.is_given:
            return value
        return value if value.node.sizes.ask(within, (value.node.value,)) else value.node.guard_float()

    return map_leaves(number, arguments)


def is_unsigned(dtype: torch.dtype) -> bool:
    return not (dtype.is_signed or dtype is torch.bool)


def _largest(dtype: torch.dtype) -> float:
    """The largest number of a type; all are converted to truth values, and those of others are their parts'."""
    if dtype is torch.bool or dtype.is_complex:
        return inf
    return torch.finfo(dtype).max if dtype.is_floating_point else torch.iinfo(dtype).max


def has_symbols(args: Any, kwargs: Any) -> bool:
    return any(
        leaf._has_symbolic_sizes_strides if isinstance(leaf, FakeTensor) else isinstance(leaf, torch.SymInt)
        for leaf in leaves(args, kwargs)
    )


def symbols_of(args: Any, kwargs: Any) -> set[Symbol]:
    """The symbols in the sizes and strides of tensors, and in numbers."""
    found: set[Symbol] = set()
    for leaf in leaves(args, kwargs):
        numbers = (*leaf.shape, *leaf.stride()) if isinstance(leaf, FakeTensor) else (leaf,)
        for number in numbers:
            if isinstance(number, torch.SymInt) and isinstance(number.node.value, Index):
                found |= number.node.value.symbols
    return found


def are_settled(args: Any, kwargs: Any) -> bool:
    """Whether all sizes, strides and offsets of tensors, and all numbers, are constants by now."""
    for leaf in leaves(args, kwargs):
        number = plain(leaf.storage_offset()) if isinstance(leaf, FakeTensor) else leaf
        if isinstance(number, torch.SymInt | torch.SymFloat):
            return False
    return not symbols_of(args, kwargs)


def with_numbers(mode: Any, arguments: Any) -> Any:
    """The arguments with plain sizes, which become guards; tensors over the same storages."""

    def number(value: Any) -> Any:
        match value:
            case torch.SymInt():
                return value.node.guard_int()
            case torch.SymFloat():
                return value.node.guard_float()
            case FakeTensor() if value._has_symbolic_sizes_strides:
                size, stride = ([number(n) for n in sizes] for sizes in (value.shape, value.stride()))
                storage, offset = value.untyped_storage(), number(value.storage_offset())
                with DisableTorchDispatch():
                    return mode._wrap(laid_over(storage, value.dtype, offset, size, stride), value.fake_device)
        return value

    return map_leaves(number, arguments)


def with_index(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], current: Callable[[], int]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a function of torch, with the number of the device where only its kind is named.

    Without it, where a tensor is made depends on the device that is the current one when the call is made.
    """
    place = _PLACES.get(func)
    if place is None and kwargs.get("device") is None:
        return args, kwargs
    kind = accelerator_kind()
    if kind is None:
        return args, kwargs

    def numbered(value: Any) -> Any:
        return torch.device(kind, current()) if _is_named(value, kind) else value

    if place is not None and len(args) > place:
        args = (*args[:place], numbered(args[place]), *args[place + 1 :])
    elif func is torch.Tensor.cuda and kwargs.get("device") is None and kind == "cuda":
        kwargs = {**kwargs, "device": torch.device(kind, current())}
    if "device" in kwargs:
        kwargs = {**kwargs, "device": numbered(kwargs["device"])}
    return args, kwargs


def _is_named(value: Any, kind: str) -> bool:
    """Whether a value names a device of this kind without its number."""
    if type(value) is str:
        return value == kind
    return isinstance(value, torch.device) and value.index is None and value.type == kind


#: Functions that take a device by its position, and which.
_PLACES: dict[Any, int] = {torch.Tensor.to: 1, torch.Tensor.cuda: 1, torch.as_tensor: 2}
