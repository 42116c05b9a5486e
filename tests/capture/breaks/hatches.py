"""Marked functions."""

from __future__ import annotations

from dataclasses import dataclass

import torch

import onegraph
from onegraph.capture import breaks as b
from tests.capture.breaks.table import breaks
from tests.capture.directives.triton_stand_in import jit

WEIGHT = torch.full((4,), 2.0)


@onegraph.disallow_in_graph
def kept_out(x):
    return x + 1


@onegraph.disallow_in_graph
def let_in(x):
    return x + 1


onegraph.allow_in_graph(let_in)


@breaks(b.DISALLOWED, uses=(kept_out,))
def calls_kept_out(x):
    return kept_out(x) * 2


@calls_kept_out.fixed("undo it", uses=(let_in,))
def calls_let_in(x):
    return let_in(x) * 2


@onegraph.forbid_in_graph
def forbidden(x):
    return x + 1


@breaks(b.FORBIDDEN, uses=(forbidden,), runs=False)
def calls_forbidden(x):
    return forbidden(x) * 2


@calls_forbidden.fixed("call it outside")
def calls_forbidden_before(graph, x):
    return graph(lambda y: y * 2)(forbidden(x))


@breaks(b.ABOUT_COMPILER)
def forgets(x):
    onegraph.reset()
    return x + 1


@forgets.fixed("call it outside")
def forgets_before(graph, x):
    onegraph.reset()
    return graph(lambda y: y + 1)(x)


class Plain:
    """A pair that nobody knows."""

    def __init__(self, first: torch.Tensor, second: torch.Tensor) -> None:
        self.first, self.second = first, second


@dataclass
class Known:
    """A pair that is registered."""

    first: torch.Tensor
    second: torch.Tensor


torch.utils._pytree.register_dataclass(Known)


@onegraph.nonstrict_trace
def makes_plain(x):
    return Plain(x, x + 1)


@onegraph.nonstrict_trace
def makes_known(x):
    return Known(x, x + 1)


@breaks(b.NOT_A_TREE, uses=(Plain, makes_plain))
def uses_plain(x):
    pair = makes_plain(x)
    return pair.first * pair.second


@uses_plain.fixed("register the class", uses=(Known, makes_known))
def uses_known(x):
    pair = makes_known(x)
    return pair.first * pair.second


@breaks(b.LOCAL_FUNCTION)
def marks_local(x):
    def double(y):
        return x + y

    return onegraph.nonstrict_trace(double)(x)


def double_of(x, y):
    return x + y


@marks_local.fixed("define the function outside", uses=(double_of,))
def marks_outer(x):
    return onegraph.nonstrict_trace(double_of)(x, x)


@onegraph.allow_in_graph
def weighted(x):
    return x * WEIGHT


@onegraph.allow_in_graph
def weighted_by(x, weight):
    return x * weight


@onegraph.nonstrict_trace
def weighted_nonstrictly(x):
    return x * WEIGHT


@breaks(b.CAPTURED_TENSOR, uses=(weighted,))
def reads_outer(x):
    return weighted(x + 1)


@reads_outer.fixed("pass the tensor", uses=(weighted_by,))
def passes_outer(x):
    return weighted_by(x + 1, WEIGHT)


@reads_outer.fixed("mark the function", uses=(weighted_nonstrictly,))
def reads_constant(x):
    return weighted_nonstrictly(x + 1)


@onegraph.assume_constant_result
def size_of(item):
    return len(item)


@breaks(b.NOT_CONSTANT, uses=(size_of,))
def asks_about_result(x):
    return x * size_of(x + 1)


@asks_about_result.fixed("call it with constants")
def asks_about_argument(x):
    return x * size_of(x)


@jit
def add_entry(program, x, out, numbers):
    out += x + numbers["n"]


@jit
def add_number(program, x, out, number):
    out += x + number


@breaks(b.TRITON_KERNEL)
def launches_with_dict(x):
    out = torch.zeros_like(x)
    launch = add_entry[(1,)]
    launch(x, out, {"n": 2})
    return out


@launches_with_dict.fixed("pass tensors")
def launches_with_number(x):
    out = torch.zeros_like(x)
    launch = add_number[(1,)]
    launch(x, out, 2)
    return out
