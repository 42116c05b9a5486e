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
    def __index__(self): return self.v
    __hash__ = None

def show(x): print(repr(x)); return x
def note(e): print("note", type(e).__name__, e, type(e.__context__).__name__, e.__traceback__.tb_lineno)
def count(n):
    for i in range(n): got = yield i; print("got", got)
    return n
"""
NAMES = ("a", "b", "c")  # numbers, as a rule
LISTS = ("p", "q")
ERRORS = ("ZeroDivisionError", "TypeError", "(ValueError, IndexError)", "Exception", "NameError", "LookupError")
ARITHMETIC = "+ - * // % & | < <= == != >".split()

names = st.sampled_from(NAMES)
lists = st.sampled_from(LISTS)


def numbers(depth: int) -> st.SearchStrategy[str]:
    """Expressions that mostly give numbers."""
    leaf = st.one_of(names, names, st.integers(-3, 4).map(str), st.sampled_from(("True", "Box(2)", "None", "'x'")))
    if depth == 0:
        return leaf
    one, many = numbers(depth - 1), items(depth - 1)
    pair = st.tuples(one, st.sampled_from(ARITHMETIC), one)
    return st.one_of(
        leaf,
        pair.map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        pair.map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(one, st.sampled_from(("and", "or")), one).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(one, one, one).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
        st.tuples(one, one, one).map(lambda t: f"({t[0]} < {t[1]} <= {t[2]})"),
        st.tuples(many, one).map(lambda t: f"{t[0]}[{t[1]}]"),
        st.tuples(one, st.sampled_from(("in", "not in")), many).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(one, names, many).map(lambda t: f"sum({t[0]} for {t[1]} in {t[2]})"),
        st.tuples(names, one).map(lambda t: f"({t[0]} := {t[1]})"),
        st.tuples(names, one, one).map(lambda t: f"(lambda {t[0]}=1, *r, k=2: {t[1]} + len(r) + k)({t[2]}, 3)"),
        st.tuples(names, one).map(lambda t: f"(lambda: (lambda: {t[0]})() + {t[1]})()"),
        one.map(lambda e: f"show({e})"),
        one.map(lambda e: f"(not {e})"),
        one.map(lambda e: f"(-{e})"),
        many.map(lambda e: f"len({e})"),
        one.map(lambda e: f"getattr({e}, 'v', 7)"),
        one.map(lambda e: f"len(str({e}))"),
    )


def items(depth: int) -> st.SearchStrategy[str]:
    """Expressions that mostly give something to iterate over."""
    leaf = st.one_of(
        lists, lists, st.sampled_from(("[1, 2]", "(3, a)", "{0: 1, 2: b}", "range(3)", "[]", "count(2)", "Box(1)"))
    )
    if depth == 0:
        return leaf
    one, many = numbers(depth - 1), items(depth - 1)
    return st.one_of(
        leaf,
        st.tuples(one, names, many).map(lambda t: f"[{t[0]} for {t[1]} in {t[2]}]"),
        st.tuples(one, names, many, one).map(lambda t: f"[{t[0]} for {t[1]} in {t[2]} if {t[3]}]"),
        st.tuples(one, names, many).map(lambda t: f"{{{t[1]}: {t[0]} for {t[1]} in {t[2]}}}"),
        st.tuples(names, many).map(lambda t: f"[(lambda: {t[0]})() for {t[0]} in {t[1]}]"),
        st.tuples(many, one).map(lambda t: f"[*{t[0]}, {t[1]}]"),
        st.tuples(one, one).map(lambda t: f"[{t[0]}, {t[1]}]"),
        st.tuples(many, one, one).map(lambda t: f"list({t[0]})[{t[1]}:{t[2]}]"),
        many.map(lambda e: f"sorted({e}, key=lambda x: -x)"),
    )


expression = numbers(2)
iterable = items(1)
anything = st.one_of(expression, expression, iterable)


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def block(depth: int, loop: bool, generator: bool) -> st.SearchStrategy[list[str]]:
    """Statements. An error mostly ends one statement only."""
    one = statement(depth, loop, generator)
    guarded = one.map(lambda lines: ["try:", *indented(lines), "except Exception as e:", "    note(e)"])
    return st.lists(st.one_of(one, guarded, guarded), min_size=1, max_size=3).map(lambda parts: sum(parts, []))


def statement(depth: int, loop: bool, generator: bool) -> st.SearchStrategy[list[str]]:
    simple = [
        st.tuples(names, expression).map(lambda t: [f"{t[0]} = {t[1]}"]),
        st.tuples(names, st.sampled_from(("+=", "-=", "*=")), expression).map(lambda t: [f"{t[0]} {t[1]} {t[2]}"]),
        st.tuples(lists, iterable).map(lambda t: [f"{t[0]} = {t[1]}"]),
        st.tuples(names, lists, iterable).map(lambda t: [f"{t[0]}, *{t[1]} = {t[2]}"]),
        st.tuples(lists, expression, expression).map(lambda t: [f"{t[0]}[{t[1]}] = {t[2]}"]),
        st.tuples(lists, expression).map(lambda t: [f"{t[0]} += [{t[1]}]"]),
        anything.map(lambda e: [f"show({e})"]),
        anything.map(lambda e: [f"show(f'{{{e}!r:>5}}|{{a}}')"] if "'" not in e else [f"show({e})"]),
        st.tuples(expression, anything).map(lambda t: [f"assert {t[0]}, {t[1]}"]),
        st.tuples(expression, anything).map(lambda t: [f"if {t[0]}: return {t[1]}"]),
        st.one_of(names, lists, lists.map(lambda n: f"{n}[0]")).map(lambda n: [f"del {n}"]),
        st.sampled_from(ERRORS[:2] + ("ValueError('v')", "KeyError", "")).map(lambda e: [f"raise {e}"]),
    ]
    if loop:
        simple.append(st.sampled_from((["break"], ["continue"])))
    if generator:
        simple.append(st.tuples(names, expression).map(lambda t: [f"{t[0]} = yield {t[1]}"]))
        simple.append(st.tuples(names, iterable).map(lambda t: [f"{t[0]} = yield from {t[1]}"]))
    if depth == 0:
        return st.one_of(simple)
    body, looped = block(depth - 1, loop, generator), block(depth - 1, True, generator)
    compound = [
        st.tuples(expression, body, body).map(lambda t: [f"if {t[0]}:", *indented(t[1]), "else:", *indented(t[2])]),
        st.tuples(names, iterable, looped, body).map(
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
            lambda t: [f"def g({t[0]}, *p, q=(5,)):", *indented(t[1]), f"    return {t[0]}", f"show(g({t[2]}))"]
        ),
        st.tuples(block(depth - 1, False, True), lists).map(
            lambda t: [
                "def gen(b=3, p=(1, 2)):",
                "    c = yield b",
                "    a, q = c, [4]",
                *indented(t[0]),
                f"{t[1]} = list(gen())",
                f"show({t[1]})",
            ]
        ),
        st.tuples(anything, body, body).map(
            lambda t: [f"match {t[0]}:", "    case [x, *y] | {'k': x, **y}:", "        show((x, y))",
                       "    case Box(v=c):", *indented(indented(t[1])),
                       "    case int() | None:", *indented(indented(t[2]))]
        ),
    ]  # fmt: skip
    return st.one_of(*simple, *compound, *compound)


def program(body: list[str]) -> str:
    head = ["def f(a=1, b=2, c=3, p=None, q=(7, 8)):", "    p = [a, b, c]"]
    return "\n".join([*head, *indented(body), "    return a, b, c, p, q", ""])


bodies = st.lists(block(2, False, False), min_size=2, max_size=5).map(lambda parts: sum(parts, []))
programs = bodies.map(program)
