"""Parameters and other leaves that a graph makes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.overrides import handle_torch_function

from onegraph.torchlib.private import FakeTensor, has_torch_function_unary, make_subclass


def parameter(data: Tensor, requires_grad: bool) -> Tensor:
    """A parameter in the memory of a tensor. A fake is one by a mark, which `isinstance` asks for."""
    if has_torch_function_unary(data):
        made: Tensor = handle_torch_function(parameter, (data,), data, requires_grad)
        return made
    if not isinstance(data, FakeTensor):
        return as_parameter(data, requires_grad)
    made = data.detach().requires_grad_(requires_grad)
    made._is_param = True
    return made


def as_parameter(data: Tensor, requires_grad: bool) -> Tensor:
    """The tensor as a parameter, itself if it is one."""
    if type(data) is torch.nn.Parameter:
        return data
    made: Tensor = make_subclass(torch.nn.Parameter, data, requires_grad)
    return made


def as_leaf(result: Tensor) -> Tensor:
    """The result of a graph as a leaf: one that has recorded nothing gives a tensor without gradients."""
    return result if result.requires_grad else result.requires_grad_()
