"""Functionalization: a program that writes to tensors becomes one that only makes new values.

It happens while the program is recorded. Tensors that share storage form a family with one root; every other member is
a view, known by its parent and the view operator. A write to a member

    y = x[0]            select = select(x, 0)
    y.add_(1)           add = add(select, 1)
    x.sum()             x' = select_scatter(x, add, 0);  sum(x')

is the functional operator, whose result is scattered upwards to the root; the family's version grows, and members that
are read later replay their view from the new root.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from onegraph.autograd.views import View, scatter
from onegraph.base.dataclass import dataclass
from onegraph.base.errors import CompileError
from onegraph.torchlib.aten import (
    functional_form,
    is_mutable,
    is_random,
    leaves,
    may_view,
    on_copies,
    opened,
    results_of,
    written_tensors,
)
from onegraph.torchlib.fake import LIFTS, FakeMode, FakeTensor
from onegraph.torchlib.overlaps import is_written_twice
from onegraph.torchlib.private import wait_tensor
from onegraph.torchlib.recorder import AtenRecorder, Rule
from onegraph.torchlib.state import without_modes
from onegraph.torchlib.strides import is_certainly_equal, is_dense, memory_order

aten = torch.ops.aten
# What autograd reads; the tensor and its values stay the same.
_MARKS = frozenset({aten.detach_.default, aten.requires_grad_.default})
REACHES = "as_strided reaches memory beyond a tensor, and there are writes"


@dataclass(slots=True)
class Family:
    """The tensors that share one storage."""

    root: Value
    version: int = 0


@dataclass(slots=True, eq=False)
class Value:
    """What one tensor is in the graph: `node` computes it as of `version` of its family."""

    tensor: Any
    node: Node
    family: Family = field(init=False)
    version: int = 0
    parent: Value | None = None
    view: View | None = None


class Functionalizer(AtenRecorder):
    """Records a functional graph of a program that may write to its inputs and to views."""

    def __init__(self, fake: FakeMode, rules: Mapping[Any, Rule]) -> None:
        super().__init__(fake, rules)
        self._values: dict[int, Value] = {}
        #: Inputs of which a view by strides may reach elements that the inputs do not have, or their gaps.
        self.reaching: list[Value] = []

    # --- reading -------------------------------------------------------------------------------------------------

    def bind(self, tensor: Tensor, node: Node) -> None:
        value = Value(tensor, node)
        value.family = Family(value)
        self._values[id(tensor)] = value
        self._alive.append(tensor)

    def node_of(self, tensor: Tensor) -> Node:
        value = self._values.get(id(tensor))
        if value is None:
            value = self._adopt(tensor)
        return self.current(value)

    def value_of(self, tensor: Tensor) -> Value:
        value = self._values.get(id(tensor))
        if value is None:  # a function transformation that is still open wraps it
            raise CompileError("functionalize", "a result is none that the operators of the graph have given")
        return value

    def knows(self, tensor: Tensor) -> bool:
        return id(tensor) in self._values

    def _adopt(self, tensor: Tensor) -> Value:
        """A real tensor that the program made from literals is a constant of the graph."""
        if isinstance(tensor, FakeTensor):
            raise CompileError("functionalize", f"a tensor of shape {tuple(tensor.shape)} comes from outside the graph")
        node = self.constant(tensor)
        fake = node.meta["val"] = self.fake.fakeify(tensor)
        self.bind(fake, node)
        value = self._values[id(tensor)] = self._values[id(fake)]
        self._alive.append(tensor)
        return value

    def current(self, value: Value) -> Node:
        """The node of a value, its view replayed if its family was written to since."""
        if value.version != value.family.version:
            view, parent = value.view, value.parent
            assert view is not None and parent is not None, "the root of a family is always current"
            node = self.current(parent)
            if not view.is_whole:
                result = value.tensor if view.index is None else view.results
                node = self.emit(view.op, (node, *view.args), view.kwargs, result)
            if view.index is not None:
                node = self.emit(operator.getitem, (node, view.index), {}, value.tensor)
            value.node, value.version = node, value.family.version
        return value.node

    # --- recording -----------------------------------------------------------------------------------------------

    def record(self, func: Any, args: Any, kwargs: Any) -> Any:
        if is_mutable(func):
            return self._record_write(func, args, kwargs)
        result = func(*args, **kwargs)
        if func is wait_tensor:
            return self._record_wait(result)
        if func is aten.as_strided.default:
            args, kwargs = self._block_of(args[0], result), {}
        if func in LIFTS and not isinstance(args[0], FakeTensor):
            # The caller may write to it, so each run makes a new one.
            func, args = aten.clone.default, (self._adopt(args[0]).tensor,)
        if not may_view(func) or not isinstance(args[0], Tensor):  # backward formulas may give a number
            self.bind_result(self.computed(func, args, kwargs, result), result)
        elif is_same(result, args[0]):
            if result is not args[0]:
                self.bind(result, self.node_of(args[0]))
                self._link(result, args[0], View(func, tuple(args[1:]), kwargs, is_whole=True))
        else:
            self.bind_result(self.computed(func, args, kwargs, result), result)
            self._link(result, args[0], View(func, tuple(args[1:]), kwargs))
        return result

    def _record_wait(self, tensor: Tensor) -> Tensor:
        """Whoever uses a tensor, or a view of it, from here on uses it when it is complete."""
        value, node = self.value_of(tensor), self.emit(wait_tensor, (tensor,), {}, tensor)
        if value.family.root.node.op != "placeholder":
            self._replace(tensor, node)
        elif value.parent is None:  # which is no write
            value.node = node
        return tensor

    def _block_of(self, base: Tensor, result: Tensor) -> tuple[Any, ...]:
        """The arguments of `as_strided` on all of the memory that `base` looks at, as a tensor of one dimension.

        These elements are those of the family's root, in whatever order a backend may keep them. What reaches beyond
        them, or beyond what is known of them, is left as it is.
        """
        layout = (list(result.shape), list(result.stride()), result.storage_offset())
        root = self.value_of(base).family.root
        whole = root.tensor
        alike = (whole.dtype, whole.is_conj(), whole.is_neg()) == (base.dtype, base.is_conj(), base.is_neg())
        order = memory_order(whole) if alike and whole.storage_offset() == 0 else None
        last = sum(((n - 1) * step for n, step in zip(*layout[:2], strict=True)), layout[2])
        if order is None or not last < whole.numel():
            self.reaching.append(root)
            return base, *layout
        with self:
            if order != sorted(order):
                whole = aten.permute.default(whole, order)
            if whole.dim() != 1:
                whole = aten.view.default(whole, [whole.numel()])
        return whole, *layout

    def _link(self, result: Any, base: Tensor, view: View) -> None:
        """Enter results that share the storage of `base` into its family."""
        storage = base.untyped_storage()._cdata
        parent = self._values[id(base)]
        several = isinstance(result, (list, tuple))
        for index, item in enumerate(result if several else (result,)):
            if item is base or item.untyped_storage()._cdata != storage:
                continue
            value = self._values[id(item)]
            value.parent, value.family, value.version = parent, parent.family, parent.family.version
            value.view = View(view.op, view.args, view.kwargs, index, result) if several else view

    # --- writing -------------------------------------------------------------------------------------------------

    def _record_write(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func in _MARKS:
            return func(*args, **kwargs)
        if func is aten.resize_.default:
            return self._record_resize(*args)
        if torch.Tag.inplace_view in func.tags:
            return self._record_metadata_write(func, args, kwargs)
        if func is aten.copy_.default:
            if args[0] is not args[1]:
                self.write(args[0], args[1])
            return args[0]
        targets = written_tensors(func, args, kwargs)
        # Into a new tensor, random numbers may go in another order than into one that is not contiguous.
        ordered = is_random(func) and not all(target.is_contiguous() for target in targets)
        twin = on_copies(func, gaps=True) if ordered else functional_form(func)
        self._refuse_shared_memory(twin, targets, args, kwargs)
        with self:
            results = results_of(twin, twin(*args, **_arguments_of_twin(func, twin, args, kwargs)))
        plain = sum(item.alias_info is None for item in func._schema.returns)
        for target, value in zip(targets, opened(results[plain:]), strict=True):
            if target.shape != value.shape and any(target is out for out in kwargs.values()):
                self._resize(target, value)
            self.write(target, value)
        return _as_returned(func, results[:plain], targets)

    def _refuse_shared_memory(self, twin: Any, targets: list[Tensor], args: Any, kwargs: Any) -> None:
        """Refuse a call that sees its own writes. The new values are made apart from each other, and would not."""
        operands = targets
        if twin.namespace == "onegraph":  # what is written is a copy, one for each tensor that is given
            tensors = {id(leaf): leaf for leaf in leaves(args, kwargs) if isinstance(leaf, Tensor)}
            operands = list(tensors.values())
        families = [self._values[id(tensor)].family for tensor in operands if id(tensor) in self._values]
        if any(families.count(self._values[id(target)].family) > 1 for target in targets):
            raise CompileError("functionalize", f"{twin} would write to memory that its arguments share")

    def write(self, target: Tensor, value: Tensor) -> None:
        """Let `target`, and everything that shares its storage, hold `value`."""
        with self:
            if value.dtype != target.dtype or value.device != target.device:
                value = aten._to_copy.default(value, dtype=target.dtype, device=target.device)
            if value.shape != target.shape:
                value = aten.expand.default(value, list(target.shape))
        node = self.node_of(value)
        known = self._values[id(target)]
        if value.stride() != target.stride() and (known.parent is None or is_dense(target.shape, target.stride())):
            # Operators that run as they are give what comes from it the strides that it has.
            node = self.emit(aten.copy.default, (self.current(known), node), {}, target)
        self._replace(target, node, exact=value.stride() == target.stride())

    def _replace(self, target: Tensor, node: Node, exact: bool = True) -> None:
        """Make `node` the value of `target`: scatter it up to the root, and let the rest of the family go stale."""
        self.fake.forget_value(target)
        written = value = self._values[id(target)]
        if value.family.root in self.reaching:
            raise CompileError("functionalize", REACHES)
        replacement = node
        while value.parent is not None:
            assert value.view is not None
            parent, views = value.parent, [value.view]
            # Other elements of it that are at the place of one that is written would be the old ones.
            while parent.parent is not None and is_written_twice(parent.tensor):
                assert parent.view is not None
                views = [parent.view, *views]
                parent = parent.parent
            replacement = scatter(self, self.current(parent), parent.tensor, replacement, value.tensor, *views)
            value = parent
        family = value.family
        family.version += 1
        value.node, value.version = replacement, family.version
        if exact:
            written.node, written.version = node, family.version

    def _record_resize(self, target: Tensor, size: list[int]) -> Tensor:
        if list(target.shape) != list(size):
            with self:
                self._resize(target, aten.empty.memory_format(size, dtype=target.dtype, device=target.device))
        return target

    def _resize(self, target: Tensor, value: Tensor) -> None:
        """An empty tensor gets the size of `value` and its elements."""
        if self._values[id(target)].family.root.node.op == "placeholder" or target.numel():
            raise CompileError("functionalize", "an input, or a tensor that holds values, is resized")
        with without_modes():
            target.resize_(value.shape).as_strided_(value.shape, value.stride())
        self.bind(target, self.node_of(value))

    def _record_metadata_write(self, func: Any, args: Any, kwargs: Any) -> Any:
        """`x.t_()`, `x.unsqueeze_(0)` ...: the same tensor object becomes a view of what it was."""
        target = args[0]
        old = self._values[id(target)]
        if old.node.op == "placeholder":
            raise CompileError("functionalize", f"{func} changes the shape of an input")
        twin = functional_form(func)
        if not may_view(twin):
            raise CompileError("functionalize", f"{func} has no functional form")
        old.tensor = aten.alias.default(target)
        self.current(old)
        for node in self.graph.nodes:
            if node.meta["val"] is target:
                node.meta["val"] = old.tensor
        self._values[id(old.tensor)] = old
        self._alive.append(old.tensor)
        node = self.emit(twin, (old.tensor, *args[1:]), kwargs, target)
        func(*args, **kwargs)
        value = Value(target, node, old.family.version, old, View(twin, tuple(args[1:]), kwargs))
        value.family = old.family
        self._values[id(target)] = value
        return target


def _layout_of(tensor: Tensor) -> tuple[Any, ...]:
    return (*tensor.shape, *tensor.stride(), tensor.storage_offset())


def is_same(result: Any, base: Tensor) -> bool:
    """Is the view `result` all of `base`, as it is? That must be certain: nothing is asked of symbolic sizes."""
    return (
        isinstance(result, Tensor)
        and result.dim() == base.dim()
        and all(map(is_certainly_equal, _layout_of(result), _layout_of(base)))
        and result.dtype == base.dtype
        and result.is_conj() == base.is_conj()
        and result.is_neg() == base.is_neg()
        and result.untyped_storage()._cdata == base.untyped_storage()._cdata
    )


def _arguments_of_twin(op: Any, twin: Any, args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments for the functional form: without `out`, and with the defaults that only `op` has."""
    names = {argument.name for argument in twin._schema.arguments}
    given = {name: value for name, value in kwargs.items() if name in names}
    for argument in op._schema.arguments[len(args) :]:
        if argument.name in names and argument.name not in given and argument.has_default_value():
            given[argument.name] = argument.default_value
    return given


def _as_returned(func: Any, plain: list[Any], written: list[Tensor]) -> Any:
    """The results of a writing operator in the form that its schema promises."""
    fresh, targets = iter(plain), iter(written)
    values: list[Any] = []
    for item in func._schema.returns:
        if item.alias_info is None:
            values.append(next(fresh))
        else:
            values.append(written if isinstance(item.type, torch.ListType) else next(targets))
    if not values:
        return None
    return values[0] if len(values) == 1 else tuple(values)
