"""The guard evaluator: every instruction passes and fails where it should, and wrong programs are refused."""

from __future__ import annotations

import collections
import enum
import itertools
import math
import types
import weakref
from array import array
from types import FunctionType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from native.guarding import Plain, check, frame, program

from onegraph import _C

LARGE = 2**70


class Loud:
    """Equal to everything, and says so in Python."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class Color(enum.Enum):
    RED = 1


# ---- loads ----


def test_arguments_and_unset_slots() -> None:
    assert check(1, ("IS", 0, 0), consts=[1])
    two = program(("ARG", 0, 0), ("ARG", 1, 1), ("SAME", 0, 1))
    assert two.check(frame, (1, 1)) and two.failing(frame, (1, _C.NULL)) == 1
    assert program(("ARG", 0, 7)).failing(frame, (1, 2)) == 0


def closure_over(value: Any) -> FunctionType:
    def inner(a):
        return value

    return inner


def test_free_variables_and_cells() -> None:
    function = closure_over(5)
    values = (1, function.__closure__[0])
    assert program(("FREE", 0, 0), ("EQ", 0, 0), consts=[5]).check(function, values)
    assert program(("FREE", 0, 1)).failing(function, values) == 0, "no such free variable"
    assert program(("FREE", 0, 0)).failing(frame, (1, 2)) == 0, "no closure at all"
    assert program(("ARG", 0, 1)).failing(function, values) == 0, "in the frame, free variables are not there yet"
    cell = function.__closure__[0]
    assert check(cell, ("CELL", 1, 0), ("EQ", 1, 0), consts=[5])
    assert not check(5, ("CELL", 1, 0))
    del cell.cell_contents
    assert not check(cell, ("CELL", 1, 0))
    assert program(("FREE", 0, 0)).failing(function, values) == 0


def test_globals_are_those_of_the_function() -> None:
    assert program(("GLOBALS", 0), ("IS", 0, 0), consts=[frame.__globals__]).check(frame, (1, 2))
    other = FunctionType(frame.__code__, {"x": 1})
    look = program(("GLOBALS", 0), ("ITEM", 1, 0, 0), ("EQ", 1, 1), consts=["x", 1])
    assert look.check(other, (1, 2)) and look.failing(frame, (1, 2)) == 1


def test_attributes() -> None:
    class Thing:
        slot = "class"

        @property
        def computed(self):
            return "property"

        @property
        def broken(self):
            raise ValueError

    thing = Thing()
    thing.own = "own"
    for name in ("slot", "computed", "own"):
        assert check(thing, ("ATTR", 1, 0, 0), ("EQ", 1, 1), consts=[name, getattr(thing, name)])
        assert not check(thing, ("LACKS_ATTR", 0, 0), consts=[name])
    for name in ("missing", "broken"):
        assert not check(thing, ("ATTR", 1, 0, 0), consts=[name])
    assert check(thing, ("LACKS_ATTR", 0, 0), consts=["missing"])
    assert not check(thing, ("LACKS_ATTR", 0, 0), consts=["broken"]), "an error is no proof of absence"


def test_referents_are_what_they_are_while_they_live() -> None:
    thing = Plain()
    reference = weakref.ref(thing)
    assert check(thing, ("REFERENT", 1, 0), ("SAME", 0, 1), consts=[reference])
    assert not check(Plain(), ("REFERENT", 1, 0), ("SAME", 0, 1), consts=[reference])
    del thing
    assert not check(None, ("REFERENT", 1, 0), consts=[reference])
    assert not check(None, ("REFERENT", 1, 0), ("SAME", 0, 1), consts=[reference])
    with pytest.raises(ValueError, match="of type ReferenceType is expected"):
        program(("REFERENT", 0, 0), consts=[None])


def test_instance_dicts() -> None:
    def function():
        return None

    class Slotted:
        __slots__ = ()

    for owner in (Plain(x=1), types.ModuleType("m"), type("T", (), {"x": 1}), function, TypeError()):
        owner.x = 1
        assert check(owner, ("DICTOF", 1, 0), ("ITEM", 2, 1, 0), ("EQ", 2, 1), consts=["x", 1])
        del owner.x
        assert not check(owner, ("DICTOF", 1, 0), ("ITEM", 2, 1, 0), consts=["x"])
        assert check(owner, ("DICTOF", 1, 0), ("LACKS", 1, 0), consts=["x"])
    assert check(function, ("DICTOF", 1, 0), ("LEN", 1, 0)), "a dict that was never made is empty"
    assert check(int, ("DICTOF", 1, 0), ("HAS", 1, 0), consts=["bit_length"])
    assert not check(Slotted(), ("DICTOF", 1, 0))
    assert not check(5, ("DICTOF", 1, 0))


def test_items_are_looked_up_in_the_storage() -> None:
    class Tricky(dict):
        def __getitem__(self, key):
            return "overridden"

        def __missing__(self, key):
            return "missing"

    for container, key, expected in [
        ({"k": 1}, "k", 1),
        ({(1, 2): 3}, (1, 2), 3),
        (Tricky(k=1), "k", 1),
        (collections.OrderedDict(k=1), "k", 1),
        ([1, 2, 3], 1, 2),
        ([1, 2, 3], -1, 3),
        ((1, 2), 0, 1),
    ]:
        assert check(container, ("ITEM", 1, 0, 0), ("EQ", 1, 1), consts=[key, expected])
    for container, key in [
        ({}, "k"),
        (Tricky(), "k"),
        (collections.defaultdict(int), "k"),
        ([1], 1),
        ([1], -2),
        ((), 0),
        ([1], "0"),
        ([1], LARGE),
        ({1: 1}, []),
        ("abc", 0),
        (None, 0),
    ]:
        assert not check(container, ("ITEM", 1, 0, 0), consts=[key])
    assert len(collections.defaultdict(int)) == 0


def test_types_and_calls() -> None:
    assert check(True, ("TYPE", 1, 0), ("IS", 1, 0), consts=[bool])
    assert check([3, 1, 2], ("CALL", 1, 0, 0), ("EQ", 1, 1), consts=[max, 3])
    assert not check(5, ("CALL", 1, 0, 0), consts=[max])


# ---- checks ----


def test_identity_and_type() -> None:
    thing = Plain()
    assert check(thing, ("IS", 0, 0), consts=[thing]) and not check(Plain(), ("IS", 0, 0), consts=[thing])
    assert check(1, ("TYPE_IS", 0, 0), consts=[int]) and not check(True, ("TYPE_IS", 0, 0), consts=[int])
    pair = program(("ARG", 0, 0), ("ARG", 1, 1), ("SAME", 0, 1))
    assert pair.check(frame, (thing, thing)) and not pair.check(frame, (thing, Plain()))
    others = array("H", [1, 2]).tobytes()
    apart = program(("ARG", 0, 0), ("ARG", 1, 1), ("CONST", 2, 1), ("DIFFERENT", 0, 0), consts=[others, Plain])
    assert apart.check(frame, (thing, Plain()))
    assert not apart.check(frame, (thing, thing)) and not apart.check(frame, (Plain, thing))
    for wrong in (b"\x00", array("H", [1]).tobytes(), array("H", [65_535]).tobytes()):
        with pytest.raises(ValueError, match="a register that was written before|not a multiple"):
            program(("ARG", 0, 0), ("DIFFERENT", 0, 0), consts=[wrong])


NANS = (float("nan"), math.copysign(float("nan"), -1.0))
SAMPLES: list[Any] = [
    None, True, False, 0, 1, -1, LARGE, 0.0, -0.0, 1.0, math.inf, NANS[0], NANS[1], 0j, complex(0.0, -0.0),
    complex(NANS[0], 1), "", "a", "b", "é", "日", b"", b"a", (), (1,), (1.0,), (True,), (0.0,), (-0.0,), (NANS[0],),
    ("a", (1, None)), ("a", (1, ...)), frozenset({1}), frozenset(), slice(1, 2), slice(1, 3), range(3), int, float,
    Color.RED, Plain,
]  # fmt: skip


def same(a: Any, b: Any) -> bool:
    """What EQ promises, said in Python."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    match a:
        case float():
            return a.hex() == b.hex() and math.copysign(1, a) == math.copysign(1, b)
        case complex():
            return same(a.real, b.real) and same(a.imag, b.imag)
        case tuple():
            return len(a) == len(b) and all(map(same, a, b))
    return a == b


def rebuilt(value: Any) -> Any:
    """An equal object that is another one, where there is such a thing."""
    match value:
        case str() if value:
            return "".join([*value, ""])
        case float():
            return float.fromhex(value.hex()) if value == value else value * 1.0
        case tuple():
            return tuple(map(rebuilt, value))
        case int() if type(value) is int:
            return int(str(value))
    return value


def test_equality_is_of_type_and_value() -> None:
    for a, b in itertools.product(SAMPLES, SAMPLES):
        expected = same(rebuilt(a), b)
        assert check(rebuilt(a), ("EQ", 0, 0), consts=[b]) == expected, (a, b)


@given(st.lists(st.one_of(st.integers(), st.floats(), st.text(), st.booleans(), st.none(), st.binary()), max_size=4))
def test_a_value_equals_a_copy_of_itself(values: list[Any]) -> None:
    assert check(tuple(map(rebuilt, values)), ("EQ", 0, 0), consts=[tuple(values)])
    assert not check(tuple(values), ("EQ", 0, 0), consts=[(*values, 0)])


def test_equality_never_asks_an_object_of_another_type() -> None:
    assert not check(Loud(), ("EQ", 0, 0), consts=[1])
    assert check(Loud(), ("EQ", 0, 0), consts=[Loud()])


def test_code_is_equal_where_it_does_the_same_and_comes_from_the_same_place() -> None:
    def used(items):
        return [item + 1 for item in items]

    for _ in range(100):  # by which it is specialized
        used([1, 2])
    code = used.__code__
    assert check(code.replace(), ("EQ", 0, 0), consts=[code]) and check(code, ("EQ", 0, 0), consts=[code.replace()])
    for field, value in {"co_name": "b", "co_qualname": "b", "co_filename": "b", "co_consts": (None, 7)}.items():
        assert not check(code.replace(**{field: value}), ("EQ", 0, 0), consts=[code]), field


def test_lengths() -> None:
    for value in ([], [1, 2], (1, 2, 3), {1: 2}, {1, 2}, "abc", b"ab", range(4), collections.deque([1])):
        assert check(value, ("LEN", 0, len(value))) and not check(value, ("LEN", 0, len(value) + 1))
    assert not check(5, ("LEN", 0, 0))


def test_keys_in_their_order() -> None:
    key = Plain()
    assert check({"a": 1, key: 2}, ("KEYS", 0, 0), consts=[("a", key)])
    assert check({}, ("KEYS", 0, 0), consts=[()])
    assert check({rebuilt("abc"): 1, 300: 2}, ("KEYS", 0, 0), consts=[("abc", int("300"))])
    for value in ({key: 2, "a": 1}, {"a": 1}, {"a": 1, key: 2, "c": 3}, {"a": 1, Plain(): 2}, [("a", 1)], None):
        assert not check(value, ("KEYS", 0, 0), consts=[("a", key)])
    assert not check({True: 1}, ("KEYS", 0, 0), consts=[(1,)])
    ordered = collections.OrderedDict(a=1, b=2)
    ordered.move_to_end("a")
    assert check(ordered, ("KEYS", 0, 0), consts=[("b", "a")])
    assert not check(ordered, ("KEYS", 0, 0), consts=[("a", "b")])


def test_containment() -> None:
    for container in ({"k": 1}, {"k"}, frozenset({"k"}), collections.OrderedDict(k=1)):
        assert check(container, ("HAS", 0, 0), consts=["k"]) and not check(container, ("LACKS", 0, 0), consts=["k"])
        assert check(container, ("LACKS", 0, 0), consts=["x"]) and not check(container, ("HAS", 0, 0), consts=["x"])
    for other in (["k"], "k", None):
        assert not check(other, ("HAS", 0, 0), consts=["k"]) and not check(other, ("LACKS", 0, 0), consts=["k"])
    assert not check({}, ("LACKS", 0, 0), consts=[[]]), "an unhashable key is an error, and an error fails"


def test_callables_must_say_true() -> None:
    assert check(5, ("CHECK", 0, 0), consts=[lambda x: x == 5])
    assert not check(5, ("CHECK", 0, 0), consts=[lambda x: x == 4])
    assert not check(5, ("CHECK", 0, 0), consts=[lambda x: 1])
    assert not check(5, ("CHECK", 0, 0), consts=[lambda x: 1 / 0])


# ---- integers ----


def integers(a: int, b: int, op: str) -> Any:
    """`a op b` by the evaluator: the number that it equals among the likely ones, or "fails"."""
    prefix = [("ICONST", 0, a), ("ICONST", 1, b), (op, 2, 0, 1)]
    if program(*prefix).failing(frame, (1, 2)) != -1:
        return "fails"
    for likely in {expected(a, b, name) for name in REFERENCE} - {None}:
        if program(*prefix, ("ICONST", 3, likely), ("IEQ", 4, 2, 3), ("ICHECK", 4)).check(frame, (1, 2)):
            return likely
    return "something else"


REFERENCE = {
    "IADD": lambda a, b: a + b,
    "IMUL": lambda a, b: a * b,
    "IFLOORDIV": lambda a, b: a // b,
    "IMOD": lambda a, b: a % b,
    "IMIN": min,
    "IMAX": max,
    "IEQ": lambda a, b: int(a == b),
    "INE": lambda a, b: int(a != b),
    "ILT": lambda a, b: int(a < b),
    "ILE": lambda a, b: int(a <= b),
}


def expected(a: int, b: int, op: str) -> int | None:
    try:
        value = REFERENCE[op](a, b)
    except ZeroDivisionError:
        return None
    return value if -(2**63) <= value < 2**63 else None


INTEGERS = st.one_of(st.integers(-5, 5), st.sampled_from([2**63 - 1, -(2**63), 2**32, -(2**31)]))


@given(INTEGERS, INTEGERS, st.sampled_from(sorted(REFERENCE)))
def test_integer_arithmetic_is_pythons_or_fails(a: int, b: int, op: str) -> None:
    value = expected(a, b, op)
    if value is None or (op in ("IFLOORDIV", "IMOD") and (a, b) == (-(2**63), -1)):
        assert integers(a, b, op) == "fails"
    else:
        assert integers(a, b, op) == value


def test_integers_from_python_and_checks() -> None:
    def is_seven(value: Any) -> bool:
        return check(value, ("IPY", 0, 0), ("ICONST", 1, 7), ("IEQ", 2, 0, 1), ("ICHECK", 2))

    assert is_seven(7) and not is_seven(8)
    for value in (7.0, "7", True, None, LARGE, -LARGE):
        assert not is_seven(value)
    for name in ("ISIZE", "ISTRIDE"):
        assert not check(5, (name, 0, 0, 0))
