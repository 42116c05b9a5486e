"""What needs the digits of a number that changes: each other number has a version of its own.

All else that Python computes with numbers is an expression: two versions serve any of them. A truth value, a type and
an error are decided, and each that comes up has its version. The page docs/programming_model/dynamic_shapes.md is made
from this table; a test calls every function of the modules that are named here, and those that are not.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Need:
    """Functions, methods and statements that need the digits of a number, and why."""

    what: str
    why: str
    names: frozenset[str]


def _need(what: str, why: str, names: str) -> Need:
    return Need(what, why, frozenset(names.split()))


NEEDS: tuple[Need, ...] = (
    _need(
        "a text: `str`, `repr`, an f-string, `'%d' % n`, `print`",
        "programs look into texts: at their length, their letters, as keys",
        """ascii bin chr format hex oct print repr str int.__repr__ int.__str__ int.__format__ float.__repr__
        float.__str__ float.__format__ float.hex""",
    ),
    _need("bytes", "as texts", "bytes bytearray int.to_bytes"),
    _need(
        "a key of a dict, a member of a set, a part of what is hashed",
        "which key it meets is decided while tracing",
        "set frozenset hash operator.countOf",
    ),
    _need(
        "the length of a list, a tuple or a text: `[0] * n`, `range(n)` and loops over it",
        "loops are unrolled, and containers filled, while tracing",
        "range operator.mul operator.imul operator.getitem",
    ),
    _need("an item of a list: `layers[n]`", "which one it is, is decided while tracing", "operator.getitem"),
    _need(
        "`n is m`", "Python's small integers are each one object, larger ones are not", "operator.is_ operator.is_not"
    ),
    _need("a complex number", "there are no symbols of them", "complex"),
    _need("the order of numbers: `sorted`", "comparisons are decided, and each order has a version", "sorted"),
)
