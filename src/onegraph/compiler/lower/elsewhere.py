"""Tensors on other devices than that of the kernels: operators on them, and copies, are calls of torch's operators.

Zero-dimensional tensors of the CPU are numbers to operators of any device. Kernels read them from memory of their own
device, which is filled with the number, as eager's kernels are given it: that waits for nothing on the device, as a
copy would. Constants are there before the first call.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

from onegraph.compiler.lower.arguments import dtype_of
from onegraph.compiler.lower.lowerer import Lowerer
from onegraph.compiler.lower.views import View
from onegraph.ir.loop import BufferArgument, Extern
from onegraph.ir.types import TensorType
from onegraph.torchlib.graph import tensors_in


def why_elsewhere(g: Lowerer, node: Node, values: Mapping[Node, Any]) -> str:
    """Why kernels cannot compute a node for where its tensors lie; empty if they can, `with_brought` tensors."""
    for value in tensors_in(node.meta["val"]):
        if g.elsewhere(value):
            return f"its result lies on {value.device}"
    for argument in node.all_input_nodes:
        for value in tensors_in(argument.meta["val"]):
            if g.elsewhere(value) and not is_number(value) and not is_constant(g, values[argument]):
                return f"it takes a tensor on {value.device}"
    return ""


def is_number(value: torch.Tensor) -> bool:
    """Whether operators of other devices take the tensor as a number."""
    return value.device.type == "cpu" and value.dim() == 0 and value.layout is torch.strided


def is_constant(g: Lowerer, value: Any) -> bool:
    return isinstance(value, View) and value.buffer in g.constants


def with_brought(g: Lowerer, node: Node, values: Mapping[Node, Any]) -> Mapping[Node, Any]:
    """The values, of those that the node takes what lies elsewhere as kernels read it."""
    found = {}
    for argument in node.all_input_nodes:
        fake = argument.meta["val"]
        if isinstance(fake, torch.Tensor) and g.elsewhere(fake):
            found[argument] = brought(g, values[argument], fake)
    return ChainMap(found, values) if found else values  # type: ignore[arg-type]


def brought(g: Lowerer, value: View, fake: torch.Tensor) -> View:
    """The number in a tensor of one element, or a constant, as kernels read it."""
    if not g.elsewhere(fake):
        return value
    if value not in g.brought:
        dtype = dtype_of(fake.dtype)
        if not is_constant(g, value):
            g.brought[value] = filled(g, value, TensorType(dtype, (), ()))
        elif is_number(fake):
            number = g.constants[value.buffer].item()
            g.brought[value] = g.pointwise((), dtype, lambda cell: cell.literal(number, dtype))
        else:
            g.brought[value] = g.constant(g.constants[value.buffer].to(g.place))
    return g.brought[value]


def filled(g: Lowerer, number: View, type: TensorType) -> View:
    """A tensor of this type without dimensions on the device of the kernels, which holds the number."""
    if type not in g.blank:  # it only says what is to be filled: the operator gives memory of its own
        g.blank[type] = g.empty(g.buffer(type)).buffer
    memory, name = g.blank[type], g.buffer(type)
    given = g.tensor(number)
    if number.rank:
        single = g.buffer(type, device=g.buffers[given].device)
        g.steps.append(Extern("aten.view.default", (BufferArgument(given), ()), (), (single,)))
        given = single
    g.steps.append(Extern("aten.fill.Tensor", (BufferArgument(memory), BufferArgument(given)), (), (name,)))
    return g.whole(name)
