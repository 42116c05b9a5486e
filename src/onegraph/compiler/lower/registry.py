"""The table of lowerings.

To lower an operator, decorate a function with `@lower(aten.foo.default)` in the file of its family. It is called as
`function(g, *args, **kwargs)` with the `Lowerer` g and the arguments of the node, in which

    a tensor           is a `View` (a buffer seen through index expressions)
    an integer         is an `Index` (a static one is a constant)
    anything else      is what it was: float, bool, None, dtype, list

and returns a `View` (or a tuple of them, for several results), with sizes and element type as the node's fake result
says; it may use strides of its own. Returning `NotImplemented` leaves this call to the library, as does having no
lowering at all. Operators that work element by element are easier through `@pointwise` in `lower/pointwise.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

from onegraph.compiler.lower.views import View
from onegraph.torchlib.aten import OpOverload, OpOverloadPacket

Lowering = Callable[..., Any]
L = TypeVar("L", bound=Lowering)
#: What a lowering returns that may leave a call to the library: checkers of types take `NotImplemented` for `Any`.
MaybeView: TypeAlias = View | Any

_TABLE: dict[OpOverload, Lowering] = {}
LOWERINGS = MappingProxyType(_TABLE)
POINTWISE: set[OpOverload] = set()  # those that compute with numbers which depend on sizes
FRACTIONAL: set[OpOverload] = set()  # others that take symbolic fractions
DRAWS: set[OpOverload] = set()  # those that draw random numbers in kernels


def overloads(op: OpOverload | OpOverloadPacket) -> list[OpOverload]:
    """The overload itself, or all of a packet."""
    if isinstance(op, OpOverload):
        return [op]
    return [getattr(op, name) for name in op.overloads()]


def lower(*ops: OpOverload | OpOverloadPacket, draws: bool = False) -> Callable[[L], L]:
    """Register a lowering for the operators; a packet stands for all its overloads. It may draw random numbers."""

    def register(function: L) -> L:
        for op in ops:
            for overload in overloads(op):
                known = _TABLE.get(overload, function)
                if (known.__module__, known.__qualname__) != (function.__module__, function.__qualname__):
                    raise ValueError(f"{overload} has two lowerings: {known} and {function}")
                _TABLE[overload] = function
                if draws:
                    DRAWS.add(overload)
        return function

    return register
