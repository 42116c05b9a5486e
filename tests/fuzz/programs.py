"""Whole programs: surroundings, helper functions and classes, the function to compile, and the calls of it.

A program is a module. `f` is the function to be compiled; `call_0`, `call_1`, ... are called one after the other:
each may change the surroundings, and returns the arguments of one call of `f`.
"""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.fuzz import blocks
from tests.fuzz.builder import Builder, Helper, Setting, template

FEATURES = (
    "views", "containers", "iterators", "objects", "strange", "globals", "walrus", "breaks", "failing", "mutation",
    "functions", "output", "exceptions", "contexts", "closures", "match", "random", "matrices", "grad", "library",
    "talking", "hatches",
)  # fmt: skip
#: How many of a hundred programs use what is not named in it: half.
SHARES = {"failing": 10, "random": 15, "grad": 15, "output": 30, "matrices": 20, "strange": 25, "breaks": 45}
SHARES |= {"library": 35, "talking": 25, "hatches": 20}

HEADER = """\
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import marshal
import math
import typing

import torch
import torch.nn.functional as F

"""

SURROUNDINGS = """\
LOG = []
COUNT = 1
SCALE = 2.0
TABLE = {"a": 1, "b": 2.5}
ITEMS = []


class Oops(Exception):
    def __init__(self, code):
        super().__init__(code, "oops")
        self.code = code


class Worse(Oops, ValueError):
    def __init__(self, text, code=0):
        super().__init__(code)
        self.text = text

    def __str__(self):
        return f"worse: {self.text}"


class Guard:
    def __init__(self, name, swallow=False):
        self.name, self.swallow = name, swallow

    def __enter__(self):
        LOG.append(("enter", self.name))
        return self

    def __exit__(self, kind, value, trace):
        LOG.append(("exit", self.name, kind and kind.__name__))
        return self.swallow


@contextlib.contextmanager
def traced(name):
    LOG.append(("begin", name))
    try:
        yield name
    finally:
        LOG.append(("end", name))


@contextlib.contextmanager
def swallowing():
    try:
        yield 1
    except Oops as error:
        LOG.append(error.code)
    else:
        LOG.append("fine")


def opaque(n):
    return marshal.loads(marshal.dumps(n))


def identity(t):
    t.sum().item()
    return t


def graph_break():
    marshal.dumps(0)


@torch.compiler.disable
def __hidden__(t, k=1):
    LOG.append("hidden")
    return t * k


@dataclasses.dataclass(order=True)
class Item:
    rank: int
    t: typing.Any = dataclasses.field(default=None, compare=False)
    tags: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.tags.append(self.rank)


class Slotted:
    __slots__ = ("rank", "t")

    def __init__(self, rank, t):
        self.rank, self.t = rank, t


class Point(typing.NamedTuple):
    rank: int
    t: typing.Any


class Level(enum.Enum):
    LOW = 0
    HIGH = 1


def talking(t):
    told = t
    while True:
        try:
            got = yield told
            told = told + 1 if got is None else got * 2
        except Oops as error:
            LOG.append(error.code)
            told = t


def closed(t):
    try:
        yield from talking(t)
    finally:
        LOG.append("silent")
"""

#: Arguments of `f`: the kind, and the texts that calls choose from (`n` is the size of the call).
PARAMETERS = (
    ("n", "I", ("2", "3", "0", "5", "True")),
    ("items", "L", ("[]", "[torch.rand({n})]", "[torch.rand({n}), torch.ones({n}), torch.rand({n})]")),
    ("nums", "N", ("[]", "[1, 2]", "[3, 0, 1]", "[5]")),
    ("table", "D", ("{{}}", "{{'a': 3, 'b': 2}}", "{{'u': torch.rand({n}), 'c': 4}}", "{{'v': x, 'a': 0.5}}")),
    ("box", "O", ("Box(torch.rand({n}))", "Box(torch.ones({n}), 3)", "BOX")),
    ("y", "T", ("torch.rand({n})", "torch.randn({n})")),
    ("text", "C", ("'s'", "'key'", "''")),
    ("chosen", "Q", ("{{1, 2}}", "set()", "{{3}}")),
    ("scale", "F", ("0.5", "1.5", "-1.0", "3")),
    ("stream", "G", ("iter([torch.ones({n})])", "(torch.ones({n}) * i for i in range(3))", "iter([])")),
)  # fmt: skip


def programs() -> st.SearchStrategy[str]:
    """Texts of programs."""
    return st.randoms(use_true_random=True).map(draw_program)


def draw_program(random: Random) -> str:
    """The text of a program."""
    features = {"core"} | {name for name in FEATURES if random.randrange(100) < SHARES.get(name, 50)}
    b = Builder(random, frozenset(features))
    if {"objects", "strange"} & features:
        a_class(b)
    else:
        b.lines += PLAIN_BOX
    for _ in range(b.below(3)):
        b.one((a_helper, a_helper, a_generator, a_recursion, a_decorated))(b)
    parameters = [PARAMETERS[i] for i in range(len(PARAMETERS)) if b.chance(35)]
    a_function(b, parameters)
    the_calls(b, parameters)
    return HEADER + SURROUNDINGS + "\n".join(b.lines) + "\n"


PLAIN_BOX = [
    "",
    "class Box:",
    "    count = 0",
    "",
    "    def __init__(self, t, n=1):",
    "        self.t = t",
    "        self.n = n",
]
PLAIN_BOX += ["        self.items = [t]", "", "BOX = Box(torch.ones(1))", ""]


def begin(b: Builder, head: str, **given: str) -> None:
    """The head of a function, in a scope that has only its parameters and the globals."""
    b.line(head)
    b.indent += 1
    b.scope, b.assignable, b.doubtful = {}, set(), {}
    blocks.declare_globals(b)
    if "globals" in b.features:
        b.define("ITEMS", "L", False)
        b.define("TABLE", "D", False)
        b.define("BOX", "O", False)
    for name, kind in given.items():
        b.define(name, kind)


def end(b: Builder) -> None:
    b.indent = 0
    b.line("")
    b.scope, b.assignable, b.doubtful = {}, set(), {}


def body(b: Builder, most: int, setting: Setting) -> None:
    with b.at(setting):
        b.statements(most)


# ---- helpers ---------------------------------------------------------------------------------------------------------


def a_helper(b: Builder) -> None:
    name = b.fresh("H")
    head, call = b.one(
        (
            ("{}(x, k)", "{}(<T>, <I>)"),
            ("{}(x, k=2)", "{}(<T>)"),
            ("{}(x, *rest, k=1)", "{}(<T>, <I>, k=<I>)"),
            ("{}(x, k=1, **options)", "{}(<T>, depth=<I>)"),
            ("{}(x, /, k, *, y=1)", "{}(<T>, k=<I>, y=<I>)"),
        )
    )
    begin(b, f"def {head.format(name)}:", x="T", k="I")
    body(b, 4, Setting())
    b.line(f"return {b.expr('T')}")
    end(b)
    b.helpers.append(Helper(template(call.format(name)), "T"))


def a_generator(b: Builder) -> None:
    name = b.fresh("H")
    begin(b, f"def {name}(x, k=2):", x="T", k="I")
    body(b, 4, Setting(generator=True))
    b.line(f"yield {b.expr('T')}")
    if b.chance(30):
        b.line(f"return {b.expr('I')}")
    end(b)
    b.helpers += [Helper(template(f"{name}(<T>, <I> % 3)"), "G"), Helper(template(f"{name}(<T>)"), "G")]


def a_recursion(b: Builder) -> None:
    name = b.fresh("H")
    begin(b, f"def {name}(x, depth=2):", x="T")
    b.line("if depth <= 0:")
    b.line(f"    return {b.expr('T')}")
    body(b, 3, Setting())
    b.line(f"return {name}({b.expr('T')}, depth - 1) + {b.expr('T')}")
    end(b)
    b.helpers.append(Helper(template(f"{name}(<T>, <I> % 3)"), "T"))


def a_decorated(b: Builder) -> None:
    decorator, name = b.fresh("H"), b.fresh("H")
    b.line(f"def {decorator}(function):")
    b.indent = 1
    b.line("@functools.wraps(function)")
    begin(b, "def wrapper(x, *rest):", x="T")
    body(b, 2, Setting())
    b.line("return function(x, *rest)")
    b.indent = 1
    b.line("return wrapper")
    end(b)
    b.line(f"@{decorator}")
    begin(b, f"def {name}(x, k=1):", x="T", k="I")
    body(b, 2, Setting())
    b.line(f"return {b.expr('T')}")
    end(b)
    b.helpers.append(Helper(template(f"{name}(<T>)"), "T"))


# ---- a class ---------------------------------------------------------------------------------------------------------


METHODS = {
    "__len__": ("", "I"), "__getitem__": (", k", "T"), "__call__": (", x", "T"), "__add__": (", x", "T"),
    "__bool__": ("", "B!"), "__contains__": (", k", "B!"), "__eq__": (", x", "B"), "__iter__": ("", "G!"),
    "__getattr__": (", name", "A"), "__setitem__": (", k, x", ""), "__radd__": (", x", "T"), "__iadd__": (", x", "S"),
    "__setattr__": (", name, value", "W"), "next": ("", "I"),
}  # fmt: skip


def a_class(b: Builder) -> None:
    base = b.chance(30)
    b.line("class Base:")
    b.line("    count = 0")
    b.line("    def __init__(self, t, n=1):")
    b.line("        self.t, self.n, self.items = t, n, []")
    b.line("    def step(self, x, k=1):")
    b.line("        self.n += 1")
    b.line("        return x + self.t * k")
    b.line("class Box(Base):")
    if b.chance(20):
        b.line("    __slots__ = ('label',)" if b.chance(50) else "    total = None")
    b.line("    def __init__(self, t, n=1):")
    b.line("        super().__init__(t, n)")
    b.line("        self.items.append(t)")
    method(b, "@property\n    def twice(self):", "T")
    if b.chance(90):
        method(b, "@twice.setter\n    def twice(self, x):", "")
    if base:
        method(b, "def step(self, x, k=1):", "T")
        b.lines[-1] = "        return super().step(x, k)"
    wanted = list(METHODS) if "strange" in b.features else ["__len__", "__call__", "__getitem__", "next"]
    for name in wanted:
        if b.chance(60):
            parameters, kind = METHODS[name]
            method(b, f"def {name}(self{parameters}):", kind)
    b.line("BOX = Box(torch.ones(1))")
    b.line("")


def method(b: Builder, head: str, returns: str) -> None:
    for line in head.split("\n    "):
        b.line("    " + line)
    b.scope, b.assignable, b.doubtful = {}, set(), {}
    features, b.features = b.features, b.features - {"objects"}
    for name, kind in (("x", "T"), ("k", "I")):
        if f", {name}" in head:
            b.define(name, kind)
    b.indent = 2
    blocks.declare_globals(b)
    if not b.known("T") and returns not in ("A", "W"):
        b.line("x = self.t")
        b.define("x", "T")
    match returns:
        case "A":
            b.line("if name == 'extra':")
            b.line("    return self.t + 1")
            b.line("raise AttributeError(name)")
        case "W":
            b.line("LOG.append(name)")
            b.line("object.__setattr__(self, name, value)")
        case _:
            if b.chance(50):
                b.line(
                    b.one(
                        (
                            "self.n += 1",
                            "self.items.append(x)",
                            "LOG.append(self.n)",
                            "self.t = self.t + 1",
                            "Box.count += 1",
                        )
                    )
                )
            if b.chance(40):
                with b.at(Setting(depth=2, returns="T" if returns == "T" else "I")):
                    b.statements(2)
            ending(b, returns)
    b.features = features
    end(b)


def ending(b: Builder, returns: str) -> None:
    match returns:
        case "T":
            b.line(f"return {b.expr('T')}")
        case "I":
            b.line(f"return abs({b.expr('I')})")
        case "B":
            b.line(f"return {b.expr('B')}")
        case "B!":
            b.line(f"return bool({b.expr('B')})")
        case "G!":
            b.line(f"return iter({b.expr('L')})" if b.chance(50) else "yield from self.items")
        case "S":
            b.line("self.t = self.t + x")
            b.line("return self")
        case _:
            b.line("LOG.append('set')")


# ---- the function and its calls --------------------------------------------------------------------------------------


def a_function(b: Builder, parameters: list[Any]) -> None:
    names = ["x", *(name for name, _, _ in parameters)]
    begin(b, f"def f({', '.join(names)}):", x="T", **{name: kind for name, kind, _ in parameters})
    with b.at(Setting()):
        for _ in range(2 + b.below(6)):
            b.statement()
    known = [name for kind in "TSVINLDQCFPO" for name in b.known(kind) if name[0].islower()]
    chosen = [name for name in known if b.chance(40)]
    if b.known("G") and b.chance(20):
        chosen.append(b.one(b.known("G")))
    b.line(f"return {b.expr('T')}{''.join(', ' + name for name in chosen)}")
    end(b)


CHANGES = (
    "COUNT = 3", "SCALE = 0.5", "TABLE['a'] = 2", "LOG.clear()", "BOX.n = 4", "Box.count = 7", "TABLE.pop('b', None)",
    "ITEMS.append(torch.rand(1))", "BOX.t = torch.rand(1)", "TABLE['u'] = torch.ones(1)",
)  # fmt: skip


def the_calls(b: Builder, parameters: list[Any]) -> None:
    size = 2 + b.below(4)
    for number in range(2 + b.below(2)):
        b.line(f"def call_{number}():")
        if number and b.chance(40):
            size = 2 + b.below(4)
            b.line("    global COUNT, SCALE")
            b.line("    " + b.one(CHANGES).format(n=size))
        grad = "grad" in b.features and b.chance(50)
        x = b.one(("torch.randn({n})", "torch.rand({n})", "torch.zeros({n})", "torch.rand(2 * {n})[{n}:]")).format(
            n=size
        )
        b.line(f"    x = {x}{'.requires_grad_()' if grad else ''}")
        given = [b.one(texts).format(n=size) for _, _, texts in parameters]
        if "y" in (names := [name for name, _, _ in parameters]) and b.chance(20):
            given[names.index("y")] = b.one(("x", "x.view(-1)", "x[:]"))
        b.line(f"    return {', '.join(['x', *given])},")
        b.line("")
