"""What lowerings build with."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch.fx import Node

from onegraph.base.constants import inf
from onegraph.base.context import Context
from onegraph.compiler.body import Body
from onegraph.compiler.library.recipe import Recipe
from onegraph.compiler.lower.arguments import Fraction, literal_argument, number_of, tensor_type, torch_dtype
from onegraph.compiler.lower.left import Left
from onegraph.compiler.lower.scalars import Scalar, absolute, apply, maximum, minimum, power, sqrt
from onegraph.compiler.lower.views import Shape, View, axes_of, coordinates
from onegraph.compiler.target import Machine
from onegraph.ir import loop
from onegraph.ir.index import ONE, ZERO, Index, Symbol, greatest, is_not_negative
from onegraph.ir.loop import (
    ADDRESS,
    EXPECTED,
    PHILOX_STATE,
    Buffer,
    BufferArgument,
    Coordinates,
    Extern,
    Kernel,
    SizeOf,
    Step,
)
from onegraph.ir.scalar import REDUCTIONS
from onegraph.ir.types import BOOL, F64, I64, DType, TensorType, contiguous_strides
from onegraph.torchlib.aten import map_leaves, opened
from onegraph.torchlib.data_sizes import Birth
from onegraph.torchlib.size_expression import Condition, Float


class Lowerer:
    """What lowerings build with: buffers, kernels and library calls of the program under construction."""

    def __init__(self, cx: Context, device: str, machine: Machine) -> None:
        self.cx = cx
        self.device = device
        self.place = torch.device(device)
        self.machine = machine
        self.node: Node  # the one that is being lowered
        self.buffers: dict[str, Buffer] = {}
        self.steps: list[Step] = []
        self.constants: dict[str, torch.Tensor] = {}
        self.recipes: dict[str, Recipe] = {}
        self.left: list[Left] = []
        self.origins: dict[str, str] = {}  # of each buffer: the operator, and the line that asks for it
        self.taken: dict[Float, View] = {}
        self.brought: dict[View, View] = {}  # of numbers and constants elsewhere: where kernels read them
        self.blank: dict[TensorType, str] = {}  # tensors whose elements nobody looks at
        self.sizes: list[SizeOf] = []  # those of results of library calls
        self.checked: set[Condition] = set()
        self._drawn: tuple[int, str, Index, Index] | None = None  # the call that draws, its result, and its arguments
        self._tensors: dict[View, str] = {}
        self._bases: dict[str, str] = {}  # of each buffer that is a view of another one

    # ---- types -------------------------------------------------------------------------------------------------------

    @property
    def result(self) -> TensorType:
        """The type of the node's (only) result."""
        return tensor_type(self.node.meta["val"])

    @property
    def results(self) -> tuple[TensorType, ...]:
        """The types of the node's results, where it has several."""
        return tuple(tensor_type(value) for value in self.node.meta["val"])

    # ---- kernels -----------------------------------------------------------------------------------------------------

    def pointwise(
        self,
        shape: Shape,
        dtype: DType,
        compute: Callable[[Cell], Scalar],
        strides: Sequence[Index] | None = None,
    ) -> View:
        """A tensor of which `compute` gives the element at the cell's `position`."""
        if strides is None and shape == self._result_shape():
            strides = self.result.strides
        name = self.buffer(TensorType(dtype, shape, tuple(strides or contiguous_strides(shape))))
        if is_empty(shape):
            return self.empty(name)
        axes = axes_of(shape, "i")
        cell = Cell(Body(running(axes)), coordinates(axes))
        value = compute(cell).to(dtype)
        cell.body.store(name, Coordinates(cell.position), value.operand)
        self.steps.append(Kernel(f"k_{name}", running(axes), cell.body.block()))
        return self.whole(name)

    def reduction(
        self,
        op: str,
        outer: Shape,
        inner: Shape,
        dtype: DType,
        compute: Callable[[Cell, tuple[Index, ...]], Sequence[Scalar]],
    ) -> View:
        """A tensor of the shape `outer` that gathers what `compute(cell, at)` gives at every position of `inner`."""
        if is_empty(inner):
            return self.pointwise(outer, dtype, lambda cell: cell.literal(_nothing(op, dtype), dtype))
        name = self.buffer(TensorType(dtype, outer, contiguous_strides(outer)))
        if is_empty(outer):
            return self.empty(name)
        axes, over = axes_of(outer, "i"), axes_of(inner, "r")
        cell = Cell(Body(running(axes)), coordinates(axes))
        cell.body.enter(running(over))
        values = compute(cell, coordinates(over))
        if running(over):
            total: Any = cell.body.accumulate(op, dtype, *(value.operand for value in values))
        else:
            total = values[-1].to(dtype).operand  # one element: itself, or its position
        cell.body.leave()
        cell.body.store(name, Coordinates(cell.position), total)
        self.steps.append(Kernel(f"k_{name}", running(axes), cell.body.block()))
        return self.whole(name)

    def empty(self, name: str) -> View:
        """A tensor without elements needs memory of size zero, and no kernel."""
        type = self.buffers[name].type
        options: tuple[tuple[str, Any], ...] = (("dtype", literal_argument(torch_dtype(type.dtype))),)
        if self.device != "cpu":
            options += (("device", literal_argument(torch.device(self.device))),)
        self.steps.append(Extern("aten.empty_strided.default", (type.shape, type.strides), options, (name,)))
        return self.whole(name)

    def assembled(self, pieces: Sequence[tuple[View, int]]) -> View:
        """The result put together from pieces, each behind the one before along its dimension: a kernel for each."""
        result = self.result
        name = self.buffer(result)
        start = ZERO
        for number, (piece, dim) in enumerate(pieces):
            axes = axes_of(piece.shape, "i")
            cell = Cell(Body(running(axes)), coordinates(axes))
            value = cell.load(piece).to(result.dtype)
            at = [p + start if d == dim else p for d, p in enumerate(cell.position)]
            cell.body.store(name, Coordinates(tuple(at)), value.operand)
            self.kernel(f"{name}_{number}", running(axes), cell.body)
            start = start + piece.shape[dim]
        return self.whole(name)

    def kernel(self, name: str, axes: tuple[Symbol, ...], body: Body) -> None:
        """A kernel of any form."""
        self.steps.append(Kernel(f"k_{name}", axes, body.block()))

    def buffer(self, type: TensorType, constant: bool = False, name: str | None = None, device: str = "") -> str:
        """A new buffer, on another device than that of kernels if one is named."""
        name = name or f"b{len(self.buffers)}"
        self.buffers[name] = Buffer(name, type, constant, device)
        where = self.node.meta.get("location")
        self.origins[name] = f"{self.node.target}" + (f" at {where}" if where is not None else "")
        return name

    def constant(self, tensor: torch.Tensor) -> View:
        """A tensor that is part of the program."""
        name = f"const{len(self.constants)}"
        self.buffer(tensor_type(tensor), constant=True, name=name, device=self.elsewhere(tensor))
        self.constants[name] = tensor.detach()
        return self.whole(name)

    def elsewhere(self, tensor: torch.Tensor) -> str:
        """The device of a tensor; empty if kernels run there."""
        return "" if tensor.device == self.place else str(tensor.device)

    def whole(self, buffer: str) -> View:
        """The buffer as a tensor."""
        type = self.buffers[buffer].type
        axes = axes_of(type.shape)
        return View(buffer, type.dtype, type.shape, axes, coordinates(axes))

    # ---- library calls -----------------------------------------------------------------------------------------------

    def extern(
        self, operator: str, args: Sequence[Any], kwargs: dict[str, Any], results: Any, *, ordered: bool = False
    ) -> Any:
        """A library call; `results` are the fake results: one value, or several, lists among them. Gives views."""
        if ordered:
            self._drawn = None  # the call may draw, too
        several = isinstance(results, (tuple, list))
        views = map_leaves(self._result_of_library, results)
        values = opened(views) if several else [views]
        call = Extern(
            operator,
            tuple(self.argument(a) for a in args),
            tuple((name, self.argument(a)) for name, a in kwargs.items()),
            tuple(view.buffer if view is not None else None for view in values),
            several,
            ordered,
        )
        self.steps.append(call)
        return views

    def drawn(self, calls: Index, size: Index = ZERO) -> tuple[View, Index]:
        """Take as many calls from each stream of the device's generator. Gives its seed and its offset as a tensor, and
        how many calls behind that offset these begin. It is checked that as many bytes are less than 2 GiB.

        What is drawn without anything between that may draw, or that gives sizes, is taken at once.
        """
        if self._drawn is None:
            name = self.buffer(TensorType(I64, (Index.of(2),), (ONE,)))
            self._drawn = len(self.steps), name, ZERO, ZERO
            self.steps.append(Extern(PHILOX_STATE, (), (), (name,), ordered=True))
        at, name, before, largest = self._drawn
        self._drawn = at, name, before + calls, greatest(largest, size)
        device = (("device", literal_argument(torch.device(self.device))),)
        given = (before + calls) * 4, greatest(largest, size)
        self.steps[at] = Extern(PHILOX_STATE, given, device, (name,), ordered=True)
        return self.whole(name), before

    def address(self, tensor: str) -> Index:
        """Where the first element of a tensor is in memory."""
        symbol = Symbol(f"address{len(self.steps)}")
        self.steps.append(Extern(ADDRESS, (BufferArgument(tensor),), (), (symbol,)))
        return Index.of(symbol)

    def number_in(self, tensor: View, birth: Birth) -> None:
        """The integer in a tensor of one element is the value of a symbol."""
        self._drawn = None
        value = (BufferArgument(self.tensor(tensor)),)
        self.steps.append(Extern("aten._local_scalar_dense.default", value, (), (birth.symbol,)))

    def sized(self, births: Sequence[Birth], results: Any) -> Any:
        """The results of a library call that gives symbols their values: sizes, which only the data say.

        They get the strides that they have in the graph, which are known only now.
        """
        self._drawn = None
        views = list(results) if isinstance(results, list | tuple) else [results]
        for birth in births:
            self.sizes.append(SizeOf(birth.symbol.name, views[birth.result].buffer, birth.dim))
        for place in {birth.result for birth in births}:
            given = views[place].buffer
            if self.buffers[given].type.rank > 1:
                name = self.buffer(self.buffers[given].type, device=self.buffers[given].device)
                self.steps.append(Extern("aten.alias.default", (BufferArgument(given),), (), (name,)))
                self._bases[name] = given
                views[place] = self.whole(name)
        return type(results)(views) if isinstance(results, list | tuple) else views[0]

    def expect(self, conditions: Iterable[Condition], known: Collection[str]) -> None:
        """Check what the graph is made for, as far as it is asked of sizes that are known by now."""
        for condition in conditions:
            symbols = {symbol.name for symbol in condition.left.symbols | condition.right.symbols}
            if condition not in self.checked and symbols <= set(known):
                self.checked.add(condition)
                self.steps.append(Extern(EXPECTED, (condition.left, condition.right, condition.op), (), (None,)))

    def _result_of_library(self, value: Any) -> View | None:
        if not isinstance(value, torch.Tensor):
            return None
        return self.whole(self.buffer(tensor_type(value), device=self.elsewhere(value)))

    def made(self, recipe: Recipe, tensors: Sequence[Any]) -> Any:
        """What a recipe makes of constants."""
        name = f"recipe.{recipe.__name__}.{len(self.recipes)}"
        self.recipes[name] = recipe
        return self.extern(name, tensors, {}, self.node.meta["val"])

    def argument(self, value: Any) -> loop.Argument:
        """An argument of a library call: views become tensors in memory."""
        if isinstance(value, View):
            return BufferArgument(self.tensor(value))
        if isinstance(value, (list, tuple)):
            return tuple(self.argument(item) for item in value)
        return literal_argument(value)

    def tensor(self, view: View, strides: Sequence[Index] | None = None) -> str:
        """A buffer that holds exactly this tensor: the one it looks at, a view of it with strides, or a copy."""
        if strides is None and view in self._tensors:
            return self._tensors[view]
        base = self.buffers[view.buffer].type
        wanted = None if strides is None else tuple(strides)
        seen = as_strided(view.dtype, view.shape, view.axes, view.indices, base, wanted)
        if seen is None:
            strides = strides or contiguous_strides(view.shape)
            name = self.copied(view, strides)
        elif seen == (base, ZERO):
            name = view.buffer
        else:
            name = self.view(view.buffer, *seen)
        self._tensors[view] = name
        return name

    def view(self, base: str, type: TensorType, offset: Index) -> str:
        """A buffer of this type in the memory of another one, `offset` elements behind its start."""
        name = self.buffer(type, device=self.buffers[base].device)
        self.steps.append(loop.View(name, base, offset))
        self._bases[name] = base
        return name

    def copied(self, view: View, strides: Sequence[Index]) -> str:
        """A buffer of its own that holds the tensor."""
        return self.pointwise(view.shape, view.dtype, lambda cell: cell.load(view), strides).buffer

    def memory_of(self, buffer: str) -> str:
        """The buffer in whose memory this one is."""
        while buffer in self._bases:
            buffer = self._bases[buffer]
        return buffer

    def _result_shape(self) -> Shape | None:
        value = self.node.meta.get("val")
        return tensor_type(value).shape if isinstance(value, torch.Tensor) else None


class Cell:
    """One element of the tensor that a kernel computes: its position, and access to other tensors."""

    def __init__(self, body: Body, position: tuple[Index, ...]) -> None:
        self.body = body
        self.position = position

    def load(self, view: View, at: Sequence[Index] | None = None, condition: Scalar | None = None) -> Scalar:
        """The view's element at these coordinates (else at the cell's position, broadcast)."""
        if at is None:
            missing = len(self.position) - view.rank
            at = [ZERO if n == ONE else x for n, x in zip(view.shape, self.position[missing:], strict=True)]
        place = Coordinates(view.at(at))
        operand = self.body.load(view.dtype, view.buffer, place, condition.operand if condition else None)
        return Scalar(self.body, operand, view.dtype)

    def index(self, index: Index | int) -> Scalar:
        """An index expression as a number of type i64."""
        return Scalar(self.body, self.body.index(Index.of(index)), I64)

    def fraction(self, number: Fraction) -> Scalar:
        """A number that is computed from sizes and from numbers in tensors, in double precision."""

        def computed(value: Any) -> Scalar:
            match value:
                case Float() if value in number.taken:
                    return self.load(number.taken[value], ()).to(F64)
                case Float(op, args):
                    return _FRACTIONS[op](*map(computed, args))
                case Index():
                    return self.index(number.simplify(value)).to(F64)
            return self.literal(value, F64)

        return computed(number.value)

    def number(self, value: Fraction | Index | float, dtype: DType) -> Scalar:
        """A number of the program that is not computed from sizes."""
        if isinstance(value, Fraction):
            return self.fraction(value).to(dtype)
        return self.literal(number_of(value), dtype)

    def symbol(self, value: Scalar) -> Index:
        """A number as an index expression."""
        return self.body.symbol(value.to(I64).operand)

    def literal(self, value: float | int | bool, dtype: DType) -> Scalar:
        return Scalar(self.body, self.body.cast(value, dtype), dtype)

    def within(self, index: Index, low: Index | int, high: Index | int) -> Scalar:
        """Whether `low <= index < high`."""
        at = self.index(index)
        found = Scalar(self.body, True, BOOL)
        for op, bound in (("ge", Index.of(low)), ("lt", Index.of(high))):
            certain = _decided(op, index, bound)
            if certain is None:
                test = getattr(at, f"__{op}__")(self.index(bound))
                found = test if found.operand is True else found & test
            elif not certain:
                return Scalar(self.body, False, BOOL)
        return found


@lru_cache(maxsize=1 << 10)
def as_strided(
    dtype: DType,
    shape: Shape,
    axes: tuple[Symbol, ...],
    indices: tuple[Index, ...],
    base: TensorType,
    wanted: tuple[Index, ...] | None,
) -> tuple[TensorType, Index] | None:
    """A view as sizes, strides and an offset in the memory of its buffer; None if it has no such form."""
    if dtype is not base.dtype:
        return None
    offset = rest = base.offset(indices)
    strides: list[Index] = []
    natural = contiguous_strides(shape)
    for dim, axis in enumerate(axes):
        step = offset.coefficient(axis)
        if step is None or step.symbols & set(axes) or not is_not_negative(step):
            return None
        rest = rest - step * Index.of(axis)
        if shape[dim] == ONE:
            step = wanted[dim] if wanted is not None else natural[dim]
        elif wanted is not None and wanted[dim] != step:
            return None
        strides.append(step)
    return TensorType(dtype, shape, tuple(strides)), rest


_FRACTIONS: dict[Any, Callable[..., Scalar]] = {
    torch.sym_float: lambda x: x,
    math.sqrt: sqrt,
    max: maximum,
    min: minimum,
    abs: absolute,
    operator.add: operator.add,
    operator.sub: operator.sub,
    operator.mul: operator.mul,
    operator.truediv: operator.truediv,
    operator.neg: operator.neg,
    operator.pow: power,
    operator.floordiv: lambda x, y: apply("floor_div", x, y),
    operator.mod: lambda x, y: apply("remainder", x, y),
}


def _decided(op: str, index: Index, bound: Index) -> bool | None:
    """Whether the comparison is certain to hold, or certain not to."""
    from_bound = index - bound
    if op == "ge":
        return True if is_not_negative(from_bound) else (False if is_not_negative(-from_bound - 1) else None)
    return True if is_not_negative(-from_bound - 1) else (False if is_not_negative(from_bound) else None)


def running(axes: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
    """The axes that have more than one element (or none)."""
    return tuple(axis for axis in axes if axis.extent != ONE)


def is_empty(shape: Shape) -> bool:
    return any(size == ZERO for size in shape)


def _nothing(op: str, dtype: DType) -> float:
    """What a reduction of no elements gives."""
    identity = REDUCTIONS[op].identity
    if not isinstance(identity, str):
        return identity
    sign = -1 if identity == "lowest" else 1
    return sign * inf if dtype.is_float else 0
