"""Index expressions: canonical form, division by what is known of ranges, evaluation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onegraph.ir.index import Index, Symbol, greatest, is_within, least
from onegraph.ir.ranges import decide

SIZE = Symbol("s")
AXES = [Symbol("i", Index.of(6)), Symbol("j", Index.of(4)), Symbol("k", Index.of(SIZE))]


def of(value: Symbol | int) -> Index:
    return Index.of(value)


def expressions() -> st.SearchStrategy[Index]:
    leaves = st.sampled_from([of(axis) for axis in AXES] + [of(SIZE)]) | st.integers(-9, 9).map(Index.of)
    positive = st.sampled_from([of(1), of(2), of(3), of(4), of(12), of(SIZE) + 1, of(SIZE) * 4 + 4])

    def extend(inner: st.SearchStrategy[Index]) -> st.SearchStrategy[Index]:
        return st.one_of(
            st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
            st.tuples(inner, inner).map(lambda p: p[0] - p[1]),
            st.tuples(inner, leaves).map(lambda p: p[0] * p[1]),
            st.tuples(inner, positive).map(lambda p: p[0] // p[1]),
            st.tuples(inner, positive).map(lambda p: p[0] % p[1]),
            st.tuples(inner, inner).map(lambda p: least(*p)),
            st.tuples(inner, inner).map(lambda p: greatest(*p)),
        )

    return st.recursive(leaves, extend, max_leaves=12)


@st.composite
def points(draw: st.DrawFn) -> dict[str, int]:
    size = draw(st.integers(1, 9))
    return {"s": size, "i": draw(st.integers(0, 5)), "j": draw(st.integers(0, 3)), "k": draw(st.integers(0, size - 1))}


@given(expressions(), expressions(), points())
def test_arithmetic_means_what_python_means(a: Index, b: Index, at: dict[str, int]) -> None:
    x, y = a.evaluate(at), b.evaluate(at)
    assert (a + b).evaluate(at) == x + y
    assert (a - b).evaluate(at) == x - y
    assert (a * b).evaluate(at) == x * y
    assert (a // 6).evaluate(at) == x // 6
    assert (a % 6).evaluate(at) == x % 6
    assert (a // (of(SIZE) + 2)).evaluate(at) == x // (at["s"] + 2)
    assert (a % (of(SIZE) * 3 + 3)).evaluate(at) == x % (at["s"] * 3 + 3)


@given(expressions(), expressions(), points())
def test_what_is_decided_is_true(a: Index, b: Index, at: dict[str, int]) -> None:
    x, y = a.evaluate(at), b.evaluate(at)
    for op, holds in (("lt", x < y), ("le", x <= y), ("gt", x > y), ("ge", x >= y)):
        assert decide(op, a, b) in (None, holds)
    if is_within(a, b):
        assert 0 <= x < y


@given(expressions(), points())
def test_text_and_equality(a: Index, at: dict[str, int]) -> None:
    def names(symbol: Symbol) -> Index:
        return Index.of(symbol)

    again = a.substitute({symbol: names(symbol) for symbol in a.symbols})
    assert again == a and hash(again) == hash(a) and str(again) == str(a)
    assert eval(str(a), {}, {**at, "min": min, "max": max}) == a.evaluate(at)


@given(expressions(), points(), st.integers(0, 5))
def test_substitution(a: Index, at: dict[str, int], value: int) -> None:
    assert a.substitute({AXES[0]: Index.of(value)}).evaluate(at) == a.evaluate({**at, "i": value})


A, B, C = (of(axis) for axis in AXES)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (A * 4 + B, "i * 4 + j"),
        ((A * 4 + B) // 4, "i"),
        ((A * 4 + B) % 4, "j"),
        ((A * 12 + B * 3) // 3, "i * 4 + j"),
        ((A * of(SIZE) + C) // of(SIZE), "i"),
        ((A * of(SIZE) + C) % of(SIZE), "k"),
        (((A * 4 + B) // 3) * 3 + (A * 4 + B) % 3, "i * 4 + j"),
        ((A * 8 + B * 2) // 4, "(j // 2) + i * 2"),
        ((of(SIZE) // 6) * 6 + (of(SIZE) // 2 % 3) * 2 + of(SIZE) % 2, SIZE.name),
        ((A // 2) // 3, "0"),
        (C // 2, "(k // 2)"),
        (least(B, 3), "j"),
        (greatest(C - 1, 0), "max(k - 1, 0)"),
        (of(0) * A, "0"),
        (-B, "-j"),
        ((of(SIZE) * 2) // of(SIZE), "2"),
        (((of(SIZE) - 2) * 3) // (of(SIZE) - 2), "3"),
        ((A * of(SIZE) + A * 2) % (of(SIZE) + 2), "0"),
    ],
)
def test_simplification(expression: Index, text: str) -> None:
    assert str(expression) == text


def test_division_by_zero_is_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        A // 0


def test_linear_parts() -> None:
    expression = A * of(SIZE) * 2 + B
    assert expression.coefficient(AXES[0]) == of(SIZE) * 2
    assert expression.coefficient(AXES[1]) == 1
    assert (A * A).coefficient(AXES[0]) is None
    assert (C // 3).coefficient(AXES[2]) is None
    assert expression.coefficient(Symbol("other")) == 0
