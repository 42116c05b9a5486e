"""Operators and native functions."""

from __future__ import annotations

import ctypes
import hashlib
import pickle
import xxsubtype

import numpy
import torch

import onegraph
from onegraph.capture import breaks as b
from tests.capture.breaks.table import breaks


@torch.library.custom_op("table_of_breaks::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@double.register_fake
def _(x):
    raise RuntimeError("double does not accept this")


@torch.library.custom_op("table_of_breaks::corrected_double", mutates_args=())
def corrected_double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@corrected_double.register_fake
def _(x):
    return torch.empty_like(x)


@breaks(b.FAILED_OPERATOR, uses=(double,))
def failing(x):
    return double(x + 1)


@failing.fixed("correct its fake implementation", uses=(corrected_double,))
def not_failing(x):
    return corrected_double(x + 1)


@breaks(b.OPERATOR_WARNING)
def warning(x):
    return torch.nn.functional.softmax(x + 1)


@warning.fixed("call it as the warning asks for")
def not_warning(x):
    return torch.nn.functional.softmax(x + 1, dim=-1)


LIBRARY = torch.library.Library("table_of_breaks", "FRAGMENT")
LIBRARY.define("triple(Tensor x) -> Tensor")
LIBRARY.impl("triple", lambda x: x * 3, "CPU")
LIBRARY.define("known_triple(Tensor x) -> Tensor")
LIBRARY.impl("known_triple", lambda x: x * 3, "CPU")
torch.library.register_fake("table_of_breaks::known_triple", torch.empty_like, lib=LIBRARY)


@breaks(b.UNTRACEABLE_OPERATOR)
def unknown_operator(x):
    return torch.ops.table_of_breaks.triple(x) + 1


@unknown_operator.fixed("register a fake implementation")
def known_operator(x):
    return torch.ops.table_of_breaks.known_triple(x) + 1


@unknown_operator.fixed("call it outside")
def operator_outside(graph, x):
    return graph(lambda y: y + 1)(torch.ops.table_of_breaks.triple(x))


@torch.library.custom_op("table_of_breaks::largest", mutates_args=())
def largest(x: torch.Tensor) -> float:
    return float(x.max())


largest.register_fake(lambda x: 0.0)


@torch.library.custom_op("table_of_breaks::largest_tensor", mutates_args=())
def largest_tensor(x: torch.Tensor) -> torch.Tensor:
    return x.max().clone()


largest_tensor.register_fake(lambda x: x.new_empty(()))


@breaks(b.NUMBER_OF_OPERATOR, uses=(largest,))
def scaled_by_number(x):
    return x * largest(x)


@scaled_by_number.fixed("let the operator give a tensor", uses=(largest_tensor,))
def scaled_by_tensor(x):
    return x * largest_tensor(x)


@scaled_by_number.fixed("call it outside")
def number_passed_in(graph, x):
    return graph(lambda x, number: x * number)(x, largest(x))


@breaks(b.SPARSE_RESULT)
def sparse(x):
    return (x * 2).to_sparse().to_dense()


@sparse.fixed("stay with dense tensors")
def dense(x):
    return x * 2


chosen = []


def note_and_sine(x):
    chosen.append("sine")
    return x.sin()


@breaks(b.CONTROL_FLOW_OPERATOR, runs=False, uses=(note_and_sine,))
def condition(x):
    return torch.cond(x.sum() > 0, note_and_sine, torch.cos, (x,))


@condition.fixed("let the functions return all that they compute")
def pure_branches(x):
    is_positive = x.sum() > 0
    return torch.cond(is_positive, torch.sin, torch.cos, (x,)), is_positive


@condition.fixed("compute both branches")
def both_branches(x):
    return torch.where(x.sum() > 0, torch.sin(x), torch.cos(x))


def scaled(x):
    return x * 2 + 1


scripted = torch.jit.trace(scaled, (torch.ones(4),))


@breaks(b.SCRIPTED, uses=(scaled,))
def calls_script(x):
    return scripted(x) + 1


@calls_script.fixed("call the Python function", uses=(scaled,))
def calls_python(x):
    return scaled(x) + 1


@breaks(b.UNKNOWN_NATIVE_CLASS)
def native_list(x):
    return x + len(xxsubtype.spamlist([1, 2]))


@native_list.fixed("make it outside")
def native_list_outside(graph, x):
    return graph(lambda x, number: x + number)(x, len(xxsubtype.spamlist([1, 2])))


@breaks(b.UNSEEN)
def script_in_nonstrict_code(x):
    return onegraph.nonstrict_trace(scripted)(x + 1) * 2


@torch.library.custom_op("table_of_breaks::scripted", mutates_args=())
def scripted_operator(x: torch.Tensor) -> torch.Tensor:
    return scripted(x)


scripted_operator.register_fake(torch.empty_like)


@script_in_nonstrict_code.fixed("wrap what makes it", uses=(scripted_operator,))
def script_in_an_operator(x):
    return scripted_operator(x + 1) * 2


@breaks(b.UNKNOWN_NATIVE)
def checksum(x):
    return x + hashlib.md5(b"seed").digest()[0]


@checksum.fixed("call it outside")
def checksum_outside(graph, x):
    return graph(lambda x, number: x + number)(x, hashlib.md5(b"seed").digest()[0])


@torch.library.custom_op("table_of_breaks::add_checksum", mutates_args=())
def add_checksum(x: torch.Tensor) -> torch.Tensor:
    return x + hashlib.md5(b"seed").digest()[0]


@add_checksum.register_fake
def _(x):
    return torch.empty_like(x)


@checksum.fixed("wrap it in torch.library.custom_op", uses=(add_checksum,))
def checksum_as_operator(x):
    return add_checksum(x)


@breaks(b.NUMPY)
def weights(x):
    return x * torch.from_numpy(numpy.interp([0, 1, 2, 3], [0, 3], [0, 1]))


@weights.fixed("use the function of torch")
def weights_of_torch(x):
    return x * torch.linspace(0, 1, 4, dtype=torch.float64)


@weights.fixed("call it outside")
def weights_passed(graph, x):
    return graph(lambda x, w: x * w)(x, torch.from_numpy(numpy.interp([0, 1, 2, 3], [0, 3], [0, 1])))


@breaks(b.FOREIGN_LIBRARY)
def c_library(x):
    return x + ctypes.CDLL(None).abs(-2)


@torch.library.custom_op("table_of_breaks::add_abs", mutates_args=())
def add_abs(x: torch.Tensor, number: int) -> torch.Tensor:
    return x + ctypes.CDLL(None).abs(number)


@add_abs.register_fake
def _(x, number):
    return torch.empty_like(x)


@c_library.fixed("wrap the call in torch.library.custom_op", uses=(add_abs,))
def c_library_as_operator(x):
    return add_abs(x, -2)


@breaks(b.PICKLING)
def pickled(x):
    return x + 1, pickle.dumps({1, 2})


@pickled.fixed("pickle outside")
def pickled_outside(graph, x):
    return graph(lambda x: x + 1)(x), pickle.dumps({1, 2})
