"""Computing with symbolic numbers: what stays symbolic, and what is taken for the number that it is in the trace."""

from __future__ import annotations

from typing import Any

import torch

from onegraph.capture.breaks import CHANGING_NUMBER, DRAWN_NUMBER, GraphBreak
from onegraph.capture.pyobject.contents import members_of
from onegraph.capture.pyobject.exact_types import defines, isinstance, plain
from onegraph.capture.pyobject.layout import VIEWS, behind_proxy
from onegraph.capture.symbolic.changing import Numbers
from onegraph.ir.index import Index
from onegraph.torchlib.given import Within
from onegraph.torchlib.shapes import Float, SizeNode, Whole

SYMBOLIC = torch.SymInt | torch.SymFloat | torch.SymBool
INTEGERS = int | torch.SymInt
NUMBERS = int | float | torch.SymInt | torch.SymFloat


class Arithmetic:
    """Computes with the symbolic numbers of one trace, and asks about them; what is asked is guarded."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._sizes = numbers.sizes

    def is_symbolic(self, *values: Any, kinds: Any = torch.SymInt | torch.SymFloat) -> bool:
        """Whether these are numbers, and symbols of these kinds are among them, all of which have values."""
        if self._sizes.is_static or not any(isinstance(value, kinds) for value in values):
            return False
        symbols = (value for value in values if isinstance(value, SYMBOLIC))
        return all(isinstance(value, NUMBERS) for value in values) and all(symbol.node.is_known for symbol in symbols)

    def computed(self, function: Any, *values: Any) -> Any:
        """What a function gives for numbers; symbols are among them."""
        return self._number(self._sizes.computed(function, tuple(map(expression, values))))

    def asked(self, function: Any, *values: Any) -> Any:
        """What a function says of numbers; symbols are among them.

        Raises:
            GraphBreak: one of them is drawn at random, and the program asks.
        """
        if not isinstance(function, Within) and any(self._numbers.is_drawn(expression(value)) for value in values):
            raise GraphBreak(DRAWN_NUMBER)
        return self._sizes.ask(function, tuple(map(expression, values)))

    def answered(self, value: torch.SymBool) -> bool | torch.SymBool:
        """What was asked of numbers, if it is known, or a guard can hold it."""
        return value if self._sizes.is_open(value.node.truth()) else bool(value)

    def decides(self, value: Any) -> bool:
        """Whether a number depends on one whose digits are not to be asked for."""
        return self._numbers.decide(value)

    def concrete(self, value: Any, what: str) -> Any:
        """A number that native code can look at: a symbolic one as it is in this trace, which is guarded.

        Raises:
            GraphBreak: its digits are not to be asked for, in order to do `what`.
        """
        if isinstance(value, SYMBOLIC):
            if self.decides(value):
                is_drawn = self._numbers.is_drawn(value.node.value)
                raise GraphBreak(DRAWN_NUMBER if is_drawn else CHANGING_NUMBER, what=what)
            return specialized(value)
        return value

    def truth_value(self, value: Any) -> Any:
        """What a comparison of symbolic numbers gave, where it matters that it is True or False itself."""
        return self.concrete(value, "truth value") if isinstance(value, torch.SymBool) else value

    def holds_symbols(self, value: Any) -> bool:
        """Whether a value is a symbolic number or a container, at any depth, of one."""
        has_symbols = self._sizes.has_unknown or not self._sizes.is_static
        return has_symbols and contains_symbolic(value, set())

    def concrete_deep(self, value: Any, what: str) -> Any:
        """A value whose containers native code will look into."""
        if not self.holds_symbols(value):
            return value
        match plain(value):
            case torch.Size():
                return torch.Size([self.concrete(item, what) for item in tuple.__iter__(value)])
            case tuple() if type(value) is tuple:
                return tuple(self.concrete_deep(item, what) for item in value)
            case tuple() if defines(type(value), "_make"):
                return type(value)._make([self.concrete_deep(item, what) for item in tuple.__iter__(value)])
            case list():
                list.__setitem__(value, slice(None), [self.concrete_deep(item, what) for item in list.__iter__(value)])
            case dict():
                for key, item in list(dict.items(value)):
                    dict.__setitem__(value, key, self.concrete_deep(item, what))
            case _ if isinstance(value, VIEWS):
                self.concrete_deep(behind_proxy(value), what)
        return self.concrete(value, what)

    def _number(self, result: Any) -> Any:
        match result:
            case Index() if result.constant is not None:
                return result.constant
            case Whole() if self._numbers.is_drawn(result):
                return self._numbers.drawn_integer(result)
            case Index() | Whole():
                return torch.SymInt(SizeNode(self._sizes, result))
            case Float():
                return torch.SymFloat(SizeNode(self._sizes, result))
            case tuple():
                return tuple(map(self._number, result))
        return result


def expression(value: Any) -> Any:
    """What a symbolic number is computed from; a plain one is itself."""
    return value.node.value if isinstance(value, SYMBOLIC) else value


def specialized(value: Any) -> Any:
    """A symbolic number as the number it is in this trace (which is guarded); anything else as it is."""
    match plain(value):
        case torch.SymInt():
            return int(value)
        case torch.SymFloat():
            return float(value)
        case torch.SymBool():
            if value.node.sizes.is_open(value.node.truth()):
                value.node.sizes.refuse(value.node.value)
            return bool(value)
    return value


def contains_symbolic(value: Any, seen: set[int]) -> bool:
    """Whether a value is a symbolic number or holds one in a list, tuple or dict."""
    if isinstance(value, VIEWS):
        return contains_symbolic(behind_proxy(value), seen)
    if not isinstance(value, list | tuple | dict) or id(value) in seen:
        return isinstance(value, SYMBOLIC)
    seen.add(id(value))
    items = dict.values(value) if isinstance(value, dict) else members_of(value)
    return any(contains_symbolic(item, seen) for item in items)
