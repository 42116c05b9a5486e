"""An array in terms of a tensor: what it is, how it is indexed and written to.

Sources: NumPy's manual, "Indexing on ndarrays" and NEP 50.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from types import EllipsisType
from typing import Any

import numpy as np
import torch

from onegraph.torchlib.arrays.elements import CPU, Unsupported, numpy_type, torch_type

SIZES = int | torch.SymInt
#: The functions of NumPy by the function itself, and the methods and attributes of arrays by name.
FUNCTIONS: dict[Any, Callable[..., Any]] = {}
METHODS: dict[str, Callable[..., Any]] = {}
ATTRIBUTES: dict[str, Callable[[Array], Any]] = {}


class Array:
    """An array with the elements of `tensor`, whose dimensions in `flipped` run backwards.

    Fields:
        tensor: shares the memory of the array. Tensors have no negative strides, which `flipped` stands for.
        is_scalar: whether it is one of NumPy's scalars (`np.float64(1.0)`), not an array of no dimensions.
        is_writeable: whether NumPy lets the program write to it.
    """

    __slots__ = ("flipped", "is_scalar", "is_writeable", "tensor")

    def __init__(
        self,
        tensor: torch.Tensor,
        is_scalar: bool = False,
        flipped: frozenset[int] = frozenset(),
        is_writeable: bool = True,
    ) -> None:
        numpy_type(tensor)
        self.tensor = tensor
        self.is_scalar = is_scalar
        self.flipped = flipped
        self.is_writeable = is_writeable and not is_scalar

    @property
    def kind(self) -> type:
        """The type of what it stands for."""
        return numpy_type(self.tensor).type if self.is_scalar else np.ndarray

    def read(self) -> torch.Tensor:
        """The elements in the array's order: the tensor itself, or a copy."""
        return self.tensor.flip(sorted(self.flipped)) if self.flipped else self.tensor

    def view(self) -> torch.Tensor:
        """The tensor, of which views are to be made.

        Raises:
            Unsupported: the order of its elements is another one.
        """
        if self.flipped:
            raise Unsupported("a view of an array with a negative stride")
        return self.tensor

    def write(self, values: torch.Tensor) -> None:
        """Write to all elements."""
        if not self.is_writeable:
            raise Unsupported("a write to an array that is read-only")
        if self.flipped:
            values = values.expand(self.tensor.shape).flip(sorted(self.flipped))
        self.tensor.copy_(values)

    # ---- items -------------------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Array:
        items = index if type(index) is tuple else (index,)
        if not all(map(is_basic, items)):
            return result(chosen(self.read(), items))
        made = basic_view(self, items)
        return Array(made.tensor.clone(), is_scalar=True) if is_one_item(made, items) else made

    def __setitem__(self, index: Any, value: Any) -> None:
        items = index if type(index) is tuple else (index,)
        if not self.is_writeable:
            raise Unsupported("a write to an array that is read-only")
        given = stored(value, self.tensor.dtype)
        if not all(map(is_basic, items)):
            is_number = isinstance(value, bool | int | float | complex)
            self.view()[translated(self.tensor, items)] = value if is_number else given
            return
        made = basic_view(self, items)
        if made.flipped:
            given = given.expand(made.tensor.shape).flip(sorted(made.flipped))
        made.tensor.copy_(given)

    def __len__(self) -> Any:
        if self.tensor.dim() == 0:
            raise TypeError("len() of unsized object")
        return self.tensor.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if self.tensor.dim() == 0:
            raise TypeError("iteration over a 0-d array")
        if not isinstance(self.tensor.shape[0], int):
            raise Unsupported("iteration over an array whose length changes")
        return iter([self[index] for index in range(self.tensor.shape[0])])

    def __hash__(self) -> int:
        raise Unsupported("the hash of a number that is not known, or of an array")

    def __bool__(self) -> bool:
        return bool(self.tensor)

    def __int__(self) -> int:
        return int(self.tensor)

    def __float__(self) -> float:
        return float(self.tensor)

    def __complex__(self) -> complex:
        return complex(self.tensor)

    def __index__(self) -> int:
        return operator.index(self.tensor.item())  # type: ignore[arg-type]  # which raises


def result(tensor: torch.Tensor) -> Array:
    """What NumPy gives that has computed these elements: one alone is a scalar."""
    return Array(tensor, is_scalar=tensor.dim() == 0)


def results(value: Any) -> Any:
    """The same in tuples and lists."""
    match value:
        case torch.Tensor():
            return result(value)
        case tuple() | list():
            return type(value)(map(results, value))
    return value


def tensor_of(value: Any) -> torch.Tensor:
    """The elements of what NumPy takes for an array: an array, a scalar, a number, or lists and tuples of these.

    Raises:
        Unsupported: it is none of these.
    """
    match value:
        case Array():
            return value.read()
        case np.generic():
            return torch.full((), value.item(), dtype=torch_type(value.dtype), device=CPU)
        case bool():
            return torch.full((), value, dtype=torch.bool, device=CPU)
        case int() | torch.SymInt():
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                raise Unsupported("a number that is too large")
            return torch.full((), value, dtype=torch.int64, device=CPU)  # type: ignore[arg-type]  # symbols are numbers
        case float() | torch.SymFloat():
            return torch.full((), value, dtype=torch.float64, device=CPU)  # type: ignore[arg-type]
        case complex():
            return torch.full((), value, dtype=torch.complex128, device=CPU)
        case list() | tuple() if not holds_arrays(value):
            return torch.tensor(value, dtype=torch_type(np.asarray(value).dtype), device=CPU)
        case list() | tuple():
            items = [tensor_of(item) for item in value]
            wanted = torch_type(np.result_type(*map(numpy_type, items)))
            return torch.stack([item.to(wanted) for item in items])
        case torch.Tensor():
            return value
    raise Unsupported(f"a {type(value).__name__} in the place of an array")


def stored(value: Any, dtype: torch.dtype) -> torch.Tensor:
    """The elements of a value as NumPy stores them in an array of this type.

    Raises:
        Unsupported: NumPy refuses it, or warns: numbers that the type does not hold, complex ones in real arrays.
    """
    if not holds_arrays(value) and not isinstance(value, np.generic) and not dtype.is_floating_point:
        known = np.asarray(value)
        if not dtype.is_complex and dtype is not torch.bool and known.size and known.dtype.kind in "iuf":
            bounds = torch.iinfo(dtype)
            if not np.isfinite(known).all() or known.min() < bounds.min or known.max() > bounds.max:
                raise Unsupported("a number that its type does not hold")
    tensor = tensor_of(value)
    if tensor.dtype.is_complex > dtype.is_complex:
        raise Unsupported("complex numbers without their imaginary parts, of which NumPy warns")
    return tensor.to(dtype)


def holds_arrays(value: Any) -> bool:
    """Whether there are arrays, or numbers that change, in lists and tuples."""
    if isinstance(value, list | tuple):
        return any(map(holds_arrays, value))
    return isinstance(value, Array | torch.Tensor | torch.SymInt | torch.SymFloat)


# ---- indices ---------------------------------------------------------------------------------------------------------


def is_basic(item: Any) -> bool:
    """Whether a part of an index chooses a view: a number, a slice, None or an ellipsis."""
    if isinstance(item, bool | np.bool_):
        return False
    return item is None or isinstance(item, SIZES | slice | EllipsisType | np.integer)


def is_one_item(made: Array, items: tuple[Any, ...]) -> bool:
    return made.tensor.dim() == 0 and ... not in items


def basic_view(array: Array, items: tuple[Any, ...]) -> Array:
    """The view of an array that numbers and slices choose; slices may run backwards."""
    dims = array.tensor.dim()
    consumed = sum(item is not None and item is not ... for item in items)
    if consumed > dims or sum(item is ... for item in items) > 1:
        raise Unsupported("too many indices")
    if ... not in items:
        items = (*items, ...)
    index: list[Any] = []
    flipped: set[int] = set()
    dim = made = 0
    for item in items:
        if item is ...:
            wide = dims - consumed
            flipped.update(made + each - dim for each in range(dim, dim + wide) if each in array.flipped)
            index.append(...)
            dim, made = dim + wide, made + wide
        elif item is None:
            index.append(None)
            made += 1
        elif isinstance(item, slice):
            chosen_slice, backwards = along(array.tensor.shape[dim], item, dim in array.flipped)
            index.append(chosen_slice)
            flipped.update({made} if backwards else ())
            dim, made = dim + 1, made + 1
        else:
            place = item if isinstance(item, torch.SymInt) else operator.index(item)
            index.append(-1 - place if dim in array.flipped else place)
            dim += 1
    return Array(array.tensor[tuple(index)], flipped=frozenset(flipped), is_writeable=array.is_writeable)


def along(size: Any, item: slice, is_flipped: bool) -> tuple[slice, bool]:
    """The slice of a dimension that has the elements of `item`, and whether these are in the other order."""
    step = 1 if item.step is None else operator.index(item.step)
    if not is_flipped and step > 0:
        return slice(item.start, item.stop, step), False
    if item.start is None and item.stop is None and step in (1, -1):
        return slice(None), is_flipped == (step == 1)
    if not isinstance(size, int):
        raise Unsupported("a slice that runs backwards over a dimension whose size changes")
    found = (range(size)[::-1] if is_flipped else range(size))[item]
    if not found:
        return slice(0, 0), False
    if found.step > 0:
        return slice(found[0], found[-1] + 1, found.step), False
    return slice(found[-1], found[0] + 1, -found.step), True


def translated(tensor: torch.Tensor, items: tuple[Any, ...]) -> tuple[Any, ...]:
    """An index with arrays in it, as torch takes it: a number beside them is one of them.

    Raises:
        Unsupported: NumPy's result would be another one.
    """
    made = tuple(as_index(item) for item in items)
    if any(isinstance(item, torch.Tensor) and item.dim() for item in made):
        made = tuple(as_places(item) for item in made)
    places = [position for position, item in enumerate(made) if isinstance(item, SIZES | torch.Tensor)]
    if places != list(range(places[0], places[-1] + 1)):
        raise Unsupported("an index of arrays with slices between them")
    if any(isinstance(item, slice) and item.step is not None and item.step < 0 for item in made):
        raise Unsupported("a slice that runs backwards beside arrays")
    return made


def as_places(item: Any) -> Any:
    """A part of an index that is broadcast with others: a number beside arrays is an array, too."""
    if isinstance(item, SIZES):
        return torch.full((1,), item, device=CPU)  # type: ignore[arg-type]  # symbols are numbers
    return item.reshape(1) if isinstance(item, torch.Tensor) and not item.dim() else item


def as_index(item: Any) -> Any:
    if isinstance(item, np.integer):
        return int(item)
    if is_basic(item):
        return item
    if isinstance(item, bool | np.bool_):
        raise Unsupported("a truth value as an index")
    tensor = tensor_of(item)
    if tensor.dtype is torch.bool:
        if tensor.dim() == 0:
            raise Unsupported("a truth value as an index")
        return tensor
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        raise Unsupported("numbers that are no integers as an index")
    return tensor.to(torch.int64)


def chosen(tensor: torch.Tensor, items: tuple[Any, ...]) -> torch.Tensor:
    """The elements that arrays choose: a copy."""
    return tensor[translated(tensor, items)]
