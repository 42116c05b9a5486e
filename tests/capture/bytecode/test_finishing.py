"""Instructions that a resume function finishes: behind the inner call it does what Python would have done."""

from __future__ import annotations

import dis
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

from onegraph.capture.bytecode import decode
from onegraph.capture.interp import rests
from onegraph.capture.resume.instruction_rest import taken_by
from onegraph.capture.resume.resume_function import Shape, resume_code
from onegraph.capture.resume.resumed import InnerCall


def resumed(program: Callable[..., Any], op: str, rest: rests.Rest, given: Any, *below: Any) -> Any:
    """What the program gives if its instruction `op` has called something that gives (or raises) `given`.

    `below` are the values that are on the stack under the operands of the instruction.
    """
    bytecode = decode(program.__code__)
    at = next(index for index, instr in enumerate(bytecode.instrs) if instr.op == op)
    assert taken_by(bytecode.instrs[at]) >= 0
    place = next(place for place in rest.finish if place == op)
    way = InnerCall(0, 0, at, rest.finish[place])
    names = program.__code__.co_varnames[: program.__code__.co_argcount]
    code = resume_code(bytecode, Shape(("value",) * len(below), 0, names, (), way, None))

    def inner() -> Any:
        if isinstance(given, BaseException):
            raise given
        return given

    return FunctionType(code, globals())(*below, *(f"<{name}>" for name in names), *rest.values, inner)


def attribute(a):
    return a.b, a


def method(a):
    return a.b(1)


def written(a):
    a.b = 3
    return a


def truth(a):
    return 1 if a else 2


def negated(a):
    return not a


def binary(a, b):
    return [a + b]


def compared(a, b):
    return [a < b]


def equal(a, b):
    return [a == b]


def member(a, b):
    return [a in b]


def no_member(a, b):
    return [a not in b]


def item(a, b):
    return [a[b]]


def context(a):
    with a as b:
        return b


def loop(a):
    for b in a:
        return b
    return "end"


def unpacking(a):
    b, c = a
    return [b, c]


def text(a):
    return f"<{a!r}>"


def formatted(a):
    return f"<{a}>"


def made(a):
    return [a(1)]


class Context:
    def leave(self, *args: Any) -> None:
        pass


FALLBACK = rests.attribute_rest(lambda obj, name: (obj, name), "object", "name")
REFLECTED = rests.binary_rest([(lambda a, b: (a, b), "a", "b")], "unsupported")
NOTHING = rests.binary_rest([(lambda a, b: NotImplemented, "a", "b")], "unsupported")
CASES = [
    (attribute, "LOAD_ATTR", rests.ATTRIBUTE, 5, (5, "<a>")),
    (attribute, "LOAD_ATTR", FALLBACK, 5, (5, "<a>")),
    (attribute, "LOAD_ATTR", FALLBACK, AttributeError("b"), (("object", "name"), "<a>")),
    (attribute, "LOAD_ATTR", FALLBACK, KeyError("b"), KeyError),
    (method, "LOAD_METHOD", rests.ATTRIBUTE, str, "1"),
    (written, "STORE_ATTR", rests.WRITTEN_ATTRIBUTE, 5, "<a>"),
    (truth, "TO_BOOL", rests.TRUTH, True, 1),
    (truth, "TO_BOOL", rests.TRUTH, False, 2),
    (truth, "TO_BOOL", rests.TRUTH, 3, TypeError),
    (truth, "TO_BOOL", rests.TRUTH_OF_LENGTH, 3, 1),
    (truth, "TO_BOOL", rests.TRUTH_OF_LENGTH, -1, ValueError),
    (negated, "TO_BOOL", rests.TRUTH, True, False),
    (binary, "BINARY_OP", REFLECTED, 5, [5]),
    (binary, "BINARY_OP", REFLECTED, NotImplemented, [("a", "b")]),
    (binary, "BINARY_OP", NOTHING, NotImplemented, TypeError),
    (compared, "COMPARE_OP", REFLECTED, NotImplemented, [("a", "b")]),
    (equal, "COMPARE_OP", rests.compare_rest("==", False, 1, 2, [], ""), NotImplemented, [False]),
    (equal, "COMPARE_OP", rests.compare_rest("!=", True, 1, 2, [], ""), 3, [False]),
    (member, "CONTAINS_OP", rests.CONTAINED, [1], [True]),
    (no_member, "CONTAINS_OP", rests.CONTAINED, [1], [False]),
    (item, "BINARY_SUBSCR", rests.ITEM, 5, [5]),
    # From 3.14 on, the method is called by CALL.
    *[(context, "BEFORE_WITH", rests.entering_rest(Context().leave), 5, 5) for op in dis.opmap if op == "BEFORE_WITH"],
    (loop, "FOR_ITER", rests.NEXT, 5, 5),
    (loop, "FOR_ITER", rests.NEXT, StopIteration(), "end"),
    (loop, "FOR_ITER", rests.NEXT, KeyError(), KeyError),
    (loop, "GET_ITER", rests.ITERATOR, iter([7]), 7),
    (loop, "GET_ITER", rests.ITERATOR, [7], TypeError),
    (unpacking, "UNPACK_SEQUENCE", rests.ITERATOR, iter([1, 2]), [1, 2]),
    (unpacking, "UNPACK_SEQUENCE", rests.ITERATOR, iter([1, 2, 3]), ValueError),
    (unpacking, "UNPACK_SEQUENCE", rests.unpacking_rest([1], iter([3, 4])), 2, ValueError),
    (unpacking, "UNPACK_SEQUENCE", rests.unpacking_rest([1], iter([])), 2, [1, 2]),
    (unpacking, "UNPACK_SEQUENCE", rests.unpacking_rest([1], iter([])), StopIteration(), ValueError),
    (text, "CONVERT_VALUE", rests.text_rest("__repr__", "repr"), "text", "<text>"),
    (text, "CONVERT_VALUE", rests.text_rest("__repr__", "repr"), 5, TypeError),
    (formatted, "FORMAT_SIMPLE", rests.FORMATTED, "text", "<text>"),
    (made, "CALL", rests.made_rest("made"), None, ["made"]),
    (made, "CALL", rests.made_rest("made"), 5, TypeError),
]


@pytest.mark.parametrize(
    ("program", "op", "rest", "given", "expected"),
    CASES,
    ids=[f"{case[0].__name__}-{n}" for n, case in enumerate(CASES)],
)
def test_an_instruction_is_finished(program: Any, op: str, rest: Any, given: Any, expected: Any) -> None:
    below = {"loop": ["iterator"] if op == "FOR_ITER" else [], "written": []}.get(program.__name__, [])
    if program is formatted or program is text:
        below = ["<"]
    if isinstance(expected, type):
        with pytest.raises(expected):
            resumed(program, op, rest, given, *below)
    else:
        assert resumed(program, op, rest, given, *below) == expected
