"""Special methods of operators and containers."""

# Odd on purpose.
# ruff: noqa: B012, B018, B019, B023, B030, B904, E501, E731, F632, F821, F841, I001, UP008, UP031

import dataclasses
import enum
import functools
import operator
import types

from capture.interp.programs import program


@program
def arithmetic_methods():
    class V:
        def __init__(self, v):
            self.v = v

        def __add__(self, other):
            return ("add", self.v, getattr(other, "v", other))

        def __radd__(self, other):
            return ("radd", self.v, other)

        def __iadd__(self, other):
            self.v += getattr(other, "v", other)
            return self

        def __sub__(self, other):
            return NotImplemented

        def __neg__(self):
            return V(-self.v)

        def __pos__(self):
            return "pos"

        def __invert__(self):
            return "inv"

        def __matmul__(self, other):
            return "matmul"

        def __pow__(self, other):
            return "pow"

        def __rmul__(self, other):
            return ("rmul", other)

        def __index__(self):
            return self.v

    class W(V):
        def __radd__(self, other):
            return ("W.radd", getattr(other, "v", other))

        def __rsub__(self, other):
            return "W.rsub"

    a = V(1)
    a += 5
    out = [a.v, V(2) + 3, 4 + V(5), V(1) + W(2), W(1) + V(2), [1] + V(3), 2 * V(1), "ab" * V(2), V(1) @ 2, V(1) ** 2]
    out += [(-V(3)).v, +V(1), ~V(1), V(1) - W(2)]
    for act in (lambda: V(1) - 1, lambda: V(1) - V(2), lambda: V(1) << 2, lambda: [] - V(1), lambda: V(1) % 2):
        try:
            act()
        except TypeError as e:
            out.append(str(e))
    return out


@program
def mappings():
    class Keys:
        def __init__(self, keys):
            self.names = keys

        def keys(self):
            return self.names.copy()

        def __getitem__(self, key):
            return key * 2

    out = []
    for given in (Keys(["a", "b"]), Keys(()), Keys(3), Keys([1]), 5, [("a", 1)]):
        for act in (lambda: {**given}, lambda: dict(**given), lambda: (lambda **named: named)(**given)):
            try:
                out.append(act())
            except TypeError as e:
                out.append(str(e).partition("argument")[2] or "TypeError")
    return out


@program
def repeated_sequences():
    class Times(int):
        def __imul__(self, other):
            return NotImplemented

    class Plain:
        def __imul__(self, other):
            return NotImplemented

    class Reflected(Plain):
        def __rmul__(self, other):
            return "rmul"

    class Items(list):
        pass

    class Scaled(list):
        def __mul__(self, other):
            return "scaled"

        def __add__(self, other):
            return "added"

    class Unscaled(list):
        def __mul__(self, other):
            return NotImplemented

    class Reversed(tuple):
        def __rmul__(self, other):
            return "reversed"

    class Also(Reversed):
        pass

    class Members(set):
        def __rsub__(self, other):
            return "rsub"

    def repeated(value, right):
        value *= right
        return value

    def extended(value, right):
        value += right
        return value

    def raised(value, right):
        value **= right
        return value

    def reduced(value, right):
        value -= right
        return value

    out = []
    for make in (lambda: Times(2), Plain, lambda: 2, lambda: [1], Reflected, lambda: Items([1]), lambda: Scaled([1]),
                 lambda: Unscaled([1]), lambda: {1, 2}, Reversed):  # fmt: skip
        for right in ([7], (8,), "ab", 3, Reflected(), None, Items([3]), Members({1}), Also((1,))):
            for act in (repeated, extended, raised, reduced, lambda a, b: a * b, lambda a, b: a + b):
                try:
                    out.append(act(make(), right))
                except TypeError as e:
                    out.append(str(e))
    return [item if type(item) in (int, str, list, tuple) else type(item).__name__ for item in out]


@program
def indices():
    class Second:
        def __index__(self):
            return 1

    class Number(int):
        def __index__(self):
            return 0

    class Bad:
        def __index__(self):
            return "0"

    out = []
    for items in ([4, 5, 6], (4, 5, 6), "abc", range(4, 7)):
        for index in (Second(), Number(2), True, Bad(), 1.0):
            try:
                out.append(items[index])
            except TypeError as e:
                out.append(str(e))
    return out, [1, 2, 3][Number(1) :], [1, 2, 3][Second() :]


@program
def operators_that_are_none():
    class N:
        __add__ = None
        __iadd__ = None
        __contains__ = None
        __iter__ = None

    out = []
    n = N()
    for act in (lambda: n + 1, lambda: 1 in n, lambda: list(n), lambda: operator.iadd(n, 1), lambda: [*n]):
        try:
            act()
        except TypeError as e:
            out.append(str(e))
    return out


@program
def comparisons():
    log = []

    class C:
        def __init__(self, v):
            self.v = v

        def __eq__(self, other):
            log.append(("eq", self.v))
            return NotImplemented if not isinstance(other, C) else self.v == other.v

        def __lt__(self, other):
            log.append(("lt", self.v))
            return self.v < other.v if isinstance(other, C) else NotImplemented

        __hash__ = None

    class D(C):
        def __gt__(self, other):
            log.append(("D.gt", self.v))
            return "reflected"

    out = [C(1) == C(1), C(1) != C(2), C(1) == 1, 1 == C(1), C(1) < C(2), C(1) > C(2), C(1) < D(2), 1 != C(1)]
    for act in (lambda: C(1) < 1, lambda: C(1) <= C(2), lambda: object() < object()):
        try:
            act()
        except TypeError as e:
            out.append(str(e))
    return out, log


@program
def chained_comparisons():
    log = []

    def v(x):
        log.append(x)
        return x

    return v(1) < v(2) < v(3), v(1) < v(0) < v(9), v(1) == v(1.0) is not None, v(1) in [1] in [[1]], log


@program
def truth_and_length():
    class B:
        def __bool__(self):
            return False

    class L:
        def __len__(self):
            return 3

    class E(L):
        def __len__(self):
            return 0

    class Bad:
        def __bool__(self):
            return 1

    class BadLen:
        def __len__(self):
            return -1

    out = [bool(B()), not B(), bool(L()), not E(), len(L()), B() or "right", L() and "right", "y" if E() else "n"]
    for act in (lambda: not Bad(), lambda: len(BadLen()), lambda: bool(BadLen()), lambda: len(5)):
        try:
            act()
        except (TypeError, ValueError) as e:
            out.append(str(e))
    return out


@program
def containers_in_python():
    class Seq:
        def __init__(self, *items):
            self.items = list(items)

        def __getitem__(self, key):
            return ("slice", key.start, key.stop, key.step) if isinstance(key, slice) else self.items[key]

        def __setitem__(self, key, value):
            self.items[key] = ("set", value)

        def __delitem__(self, key):
            del self.items[key]

    class Iter(Seq):
        def __iter__(self):
            return iter(self.items)

    class Contains:
        def __contains__(self, item):
            return item == "yes"

    s = Seq(1, 2, 3)
    out = [s[0], s[1:2], s[::2], s[:], list(s), 2 in s, 9 in s]
    s[0] = 5
    s[1:2] = [7, 8]
    del s[2]
    out.append(s.items)
    i = Iter(4, 5)
    a, b = i
    first, *rest = Iter(1, 2, 3)
    out += [[*i], a, b, first, rest, 4 in i, 6 in i, "yes" in Contains(), "no" not in Contains(), {*i}, max(*i)]
    return out


@program
def iterators_in_python():
    class Count:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            if self.n == 0:
                raise StopIteration
            self.n -= 1
            return self.n

    class NotIterator:
        def __iter__(self):
            return 5

    out = [list(Count(3)), [x for x in Count(2)], sum(Count(4)), next(Count(0), "default"), tuple(map(str, Count(2)))]
    for act in (lambda: iter(NotIterator()), lambda: [*5], lambda: next([]), lambda: [x for x in 3]):
        try:
            act()
        except TypeError as e:
            out.append(str(e))
    return out


@program
def text_of_objects():
    class R:
        def __repr__(self):
            return "R<é>"

        def __format__(self, spec):
            return f"formatted[{spec}]"

    class S(R):
        def __str__(self):
            return "str"

    class Bad:
        def __str__(self):
            return 5

    class Unshown(int):
        def __repr__(self):
            return 5

    r, s, width = R(), S(), 12
    out = [
        f"{r}",
        f"{r!r}",
        f"{r!s:>10}",
        f"{r!a}",
        f"{s!s}",
        f"{r:{width}}",
        str(s),
        repr(s),
        format(r, "x"),
        f"{3.14159:.2f}",
    ]
    out += [f"{'a':>{width}}|{1:03d}|{[1, 2]}", f"{object.__name__=}", "%s %r" % (s, s)]
    unshown = Unshown()
    for act in (
        lambda: f"{Bad()!s}", lambda: str(Bad()), lambda: f"{[]:x}",
        lambda: str(unshown), lambda: f"{unshown!s}", lambda: repr(unshown),
    ):  # fmt: skip
        try:
            act()
        except (TypeError, ValueError) as e:
            out.append(str(e))
    return out
