"""Between which numbers the floating-point values of a kernel lie, where that is certain and none of them is a NaN."""

from __future__ import annotations

import math
from collections.abc import Callable

from onegraph.ir.index import Index, bounds
from onegraph.ir.loop import Apply, Cast, Constant, Operand
from onegraph.ir.types import F64, DType

Range = tuple[float, float]
LARGEST = 1e30  # what is beyond may become infinite, and then a NaN
ROUNDING = {True: 2.0**-50, False: 2.0**-7}  # relative to a value, of double precision and of all others


class RealRanges:
    """The ranges of values by name. `number` gives the index expression that an integer operand is, if it is one."""

    def __init__(self, number: Callable[[Operand], Index | None]) -> None:
        self.number = number
        self.known: dict[str, Range] = {}

    def let(self, name: str, dtype: DType, value: object) -> None:
        """Note the range of a value, if there is one."""
        found = self.of(value)
        if found is None:
            return
        low, high = found
        if isinstance(value, Cast) or isinstance(value, Apply) and value.op in ("add", "sub", "mul"):
            share = ROUNDING[dtype is F64]
            low, high = low - abs(low) * share, high + abs(high) * share
        if -LARGEST < low and high < LARGEST and (dtype.size > 2 or max(-low, high) < 6e4):
            self.known[name] = low, high

    def integers(self, name: str) -> tuple[int, int] | None:
        """The integers between which the value lies when it is cut to one."""
        found = self.known.get(name)
        return (math.trunc(found[0]), math.trunc(found[1])) if found is not None else None

    def operand(self, operand: Operand) -> Range | None:
        if isinstance(operand, str):
            return self.known.get(operand)
        return (float(operand), float(operand)) if math.isfinite(operand) else None

    def of(self, value: object) -> Range | None:
        match value:
            case Constant(literal):
                return self.operand(literal)
            case Cast(arg):
                return self.known.get(arg) or self._of_integer(arg)
            case Apply("floor", (a,)):
                found = self.operand(a)
                return (math.floor(found[0]), math.floor(found[1])) if found is not None else None
            case Apply(op, (a, b)):
                first, second = self.operand(a), self.operand(b)
                return _combined(op, first, second) if first is not None and second is not None else None
        return None

    def _of_integer(self, arg: str) -> Range | None:
        index = self.number(arg)
        low, high = bounds(index) if index is not None else (None, None)
        if low is None or high is None or low.constant is None or high.constant is None:
            return None
        return float(low.constant), float(high.constant)


def _combined(op: str, a: Range, b: Range) -> Range | None:
    match op:
        case "add":
            return a[0] + b[0], a[1] + b[1]
        case "sub":
            return a[0] - b[1], a[1] - b[0]
        case "mul":
            products = [x * y for x in a for y in b]
            return min(products), max(products)
        case "minimum":
            return min(a[0], b[0]), min(a[1], b[1])
        case "maximum":
            return max(a[0], b[0]), max(a[1], b[1])
    return None
