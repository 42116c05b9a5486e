"""Random small programs: a Hypothesis strategy for the source of a function `f`, which always ends."""

from __future__ import annotations

from hypothesis import strategies as st

PRELUDE = """
class Manager:
    def __init__(self, swallow): self.swallow = swallow
    def __enter__(self): print("enter"); return 5
    def __exit__(self, kind, value, tb): print("exit", kind and kind.__name__); return self.swallow

class Box:
    def __init__(self, v): self.v = v
    def __add__(self, o): print("add"); return Box(self.v + getattr(o, "v", o))
    def __radd__(self, o): return Box(o + self.v)
    def __eq__(self, o): return isinstance(o, Box) and self.v == o.v
    def __lt__(self, o): return self.v < getattr(o, "v", o)
    def __bool__(self): return bool(self.v)
    def __getitem__(self, i): return [self.v, i][i]
    def __iter__(self): yield self.v; yield 2
    def __len__(self): return 2
    def __repr__(self): return f"Box({self.v!r})"
    __hash__ = None

def show(x): print(repr(x)); return x
def count(n):
    for i in range(n): got = yield i; print("got", got)
    return n
"""
NAMES = ("a", "b", "c")
ERRORS = ("ZeroDivisionError", "TypeError", "(ValueError, IndexError)", "Exception", "NameError", "LookupError")

names = st.sampled_from(NAMES)
atoms = st.one_of(
    names,
    st.integers(-3, 4).map(str),
    st.sampled_from(
        ("None", "True", "'x'", "'ab'", "[1, 2]", "(3, a)", "{'k': 1, 'j': b}", "Box(2)", "[]", "range(3)")
    ),
)


def expressions(depth: int) -> st.SearchStrategy[str]:
    if depth == 0:
        return atoms
    inner = expressions(depth - 1)
    return st.one_of(
        atoms,
        st.tuples(inner, st.sampled_from("+ - * // % & | < <= == != > in is and or".split()), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} < {t[1]} < {t[2]})"),
        st.tuples(inner, inner).map(lambda t: f"{t[0]}[{t[1]}]"),
        st.tuples(inner, names, inner).map(lambda t: f"[{t[0]} for {t[1]} in {t[2]}]"),
        st.tuples(inner, names, inner).map(lambda t: f"{{{t[1]}: {t[0]} for {t[1]} in {t[2]}}}"),
        st.tuples(inner, names, inner).map(lambda t: f"sum({t[0]} for {t[1]} in {t[2]})"),
        st.tuples(inner, inner).map(lambda t: f"[*{t[0]}, {t[1]}]"),
        st.tuples(names, inner).map(lambda t: f"({t[0]} := {t[1]})"),
        st.tuples(names, inner, inner).map(lambda t: f"(lambda {t[0]}=1, *r, k=2: ({t[1]}, r))({t[2]})"),
        inner.map(lambda e: f"show({e})"),
        inner.map(lambda e: f"(not {e})"),
        inner.map(lambda e: f"(-{e})"),
        inner.map(lambda e: f"f'{{{e}!r:>4}}'" if "'" not in e and "{" not in e else f"str({e})"),
        inner.map(lambda e: f"len({e})"),
        inner.map(lambda e: f"getattr({e}, 'v', 7)"),
    )


expression = expressions(2)


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def block(depth: int, loop: bool, generator: bool) -> st.SearchStrategy[list[str]]:
    return st.lists(statement(depth, loop, generator), min_size=1, max_size=3).map(lambda parts: sum(parts, []))


def statement(depth: int, loop: bool, generator: bool) -> st.SearchStrategy[list[str]]:
    simple = [
        st.tuples(names, expression).map(lambda t: [f"{t[0]} = {t[1]}"]),
        st.tuples(names, st.sampled_from(("+=", "-=", "*=")), expression).map(lambda t: [f"{t[0]} {t[1]} {t[2]}"]),
        st.tuples(names, names, expression).map(lambda t: [f"{t[0]}, *{t[1]} = {t[2]}"]),
        st.tuples(names, expression, expression).map(lambda t: [f"{t[0]}[{t[1]}] = {t[2]}"]),
        expression.map(lambda e: [f"show({e})"]),
        expression.map(lambda e: [f"assert {e}, 'assertion'"]),
        expression.map(lambda e: [f"return {e}"]),
        names.map(lambda n: [f"del {n}"]),
        st.sampled_from(ERRORS[:2] + ("ValueError('v')", "KeyError", "")).map(lambda e: [f"raise {e}"]),
    ]
    if loop:
        simple.append(st.sampled_from((["break"], ["continue"])))
    if generator:
        simple.append(st.tuples(names, expression).map(lambda t: [f"{t[0]} = yield {t[1]}"]))
        simple.append(st.tuples(names, expression).map(lambda t: [f"{t[0]} = yield from {t[1]}"]))
    if depth == 0:
        return st.one_of(simple)
    body, looped = block(depth - 1, loop, generator), block(depth - 1, True, generator)
    compound = [
        st.tuples(expression, body, body).map(lambda t: [f"if {t[0]}:", *indented(t[1]), "else:", *indented(t[2])]),
        st.tuples(names, expression, looped, body).map(
            lambda t: [f"for {t[0]} in {t[1]}:", *indented(t[2]), "else:", *indented(t[3])]
        ),
        st.tuples(expression, looped).map(
            lambda t: ["fuel = 3", f"while fuel and ({t[0]} or True):", "    fuel -= 1", *indented(t[1])]
        ),
        st.tuples(body, st.sampled_from(ERRORS), body, body).map(
            lambda t: ["try:", *indented(t[0]), f"except {t[1]} as e:", "    print('caught', e, repr(e.__context__))",
                       *indented(t[2]), "finally:", "    print('finally')", *indented(t[3])]
        ),
        st.tuples(body, body).map(
            lambda t: ["try:", *indented(t[0]), "except TypeError:", "    raise", "else:", *indented(t[1])]
        ),
        st.tuples(st.booleans(), names, body).map(lambda t: [f"with Manager({t[0]}) as {t[1]}:", *indented(t[2])]),
        st.tuples(names, block(depth - 1, False, False), expression).map(
            lambda t: [f"def g({t[0]}, b=2):", *indented(t[1]), f"show(g({t[2]}))"]
        ),
        st.tuples(block(depth - 1, False, True), names).map(
            lambda t: ["def gen(b=3):", "    c = yield b", *indented(t[0]), f"{t[1]} = list(gen())", f"show({t[1]})"]
        ),
        st.tuples(expression, body, body).map(
            lambda t: [f"match {t[0]}:", "    case [x, *y] | {'k': x, **y}:", "        show((x, y))",
                       "    case Box(v=c):", *indented(indented(t[1])),
                       "    case int() | None:", *indented(indented(t[2]))]
        ),
    ]  # fmt: skip
    return st.one_of(*simple, *compound, *compound)


def program(body: list[str]) -> str:
    return "\n".join(["def f(a=1, b=[2, 0], c=None):", *indented(body), "    return a, b, c", ""])


programs = block(2, False, False).map(program)
