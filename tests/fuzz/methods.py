"""Programs about special methods: classes that answer, refuse or fail what operators and native functions ask of them.

Classes may have a native base. Each method notes that it was asked; what each operation gives, or how it fails, is
kept. The words of a TypeError are not, nor whether `__len__` is asked only to make room: neither is promised.
"""

from __future__ import annotations

from random import Random

HEADER = """\
import copy
import math
import operator

import torch

LOG = []


def told(value, depth=3):
    if isinstance(value, str):
        return str.__str__(value)
    if value is None or type(value) in (int, float, bool, complex, bytes):
        return value
    name = type(value).__name__
    if isinstance(value, torch.Tensor):
        return name, list(value.shape)
    if isinstance(value, (list, tuple)) and depth:
        native = list if isinstance(value, list) else tuple
        return name, [told(item, depth - 1) for item in native.__iter__(value)]
    if isinstance(value, dict) and depth:
        return name, [told(key, depth - 1) for key in dict.keys(value)]
    for native in (int, float, set, frozenset):
        if isinstance(value, native):
            return name, native.__repr__(value) if native in (int, float) else native.__len__(value)
    return name


def attempt(act):
    try:
        return told(act())
    except TypeError:
        return "TypeError"
    except Exception as error:
        return type(error).__name__, str(error)


def seconds(value, limit=5):
    found = []
    for item in value:
        found.append(item)
        if len(found) == limit:
            break
    return found
"""

BASES = {
    "object": "", "list": "[3, 1]", "int": "5", "str": "'ab'", "dict": "{'a': 1}", "tuple": "(3, 1)", "set": "{1, 2}",
    "float": "2.5", "frozenset": "{1}",
}  # fmt: skip
OTHERS = ("3", "[1]", "'a'", "None", "(1,)", "0.5", "{1}", "{'a': 2}", "b'z'", "True", "x")
NUMERIC = """add radd iadd sub rsub isub mul rmul imul matmul rmatmul truediv rtruediv floordiv mod rmod imod pow rpow
    ipow divmod rdivmod lshift rlshift and rand iand or ror ior xor rxor eq ne lt le gt ge""".split()
#: What a method gives that gives what is expected of it.
GIVES = {
    "str": "'S'", "repr": "'R'", "format": "'F'", "len": "3", "length_hint": "3", "bool": "False", "hash": "7",
    "index": "1", "int": "4", "float": "1.5", "complex": "2j", "contains": "True", "bytes": "b'x'",
    "iter": "iter([7, 8])", "reversed": "iter([8, 7])", "exit": "True", "keys": "['a', 'b']",
}  # fmt: skip
OTHER_METHODS = (
    *GIVES, "neg", "pos", "invert", "abs", "trunc", "floor", "ceil", "round", "enter", "call", "getitem", "setitem",
    "delitem", "missing", "copy", "next",
)  # fmt: skip
METHODS = (*NUMERIC, *OTHER_METHODS)
#: Those that native code may ask only to make room.
UNNOTED = ("len", "length_hint")
BINARY = (
    "+",
    "-",
    "*",
    "@",
    "/",
    "//",
    "%",
    "**",
    "<<",
    ">>",
    "&",
    "|",
    "^",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "in",
    "not in",
)
UNARY = (
    "-{a}", "+{a}", "~{a}", "not {a}", "abs({a})", "bool({a})", "len({a})", "hash({a})", "str({a})", "repr({a})",
    "ascii({a})", "f'{{{a}}}'", "f'{{{a}!r:>4}}'", "format({a}, '>4')", "int({a})", "float({a})", "complex({a})",
    "bytes({a})", "round({a})", "round({a}, 1)", "math.floor({a})", "math.ceil({a})", "math.trunc({a})",
    "math.sqrt({a})", "operator.index({a})", "hex({a})", "chr({a})", "iter({a})", "next({a})", "seconds({a})",
    "list({a})", "tuple({a})",
    "sorted({a})", "seconds(reversed({a}))", "min({a})", "max({a})", "sum({a})", "any({a})", "all({a})", "[*{a}]",
    "{{**{a}}}", "dict({a})", "set({a})", "len({{{a}, 1}})", "{{{a}: 1}}[{a}]", "[1, 2, 3][{a}]", "[1, 2, 3, 4][{a}:]",
    "'abc'[{a}]", "list(range({a}))", "'ab' * {a}", "','.join({a})", "'%s' % {a}", "'%r' % ({a},)", "'%d' % {a}",
    "'{{}}|{{!r}}'.format({a}, {a})", "list(zip({a}, [1, 2]))", "list(map(str, {a}))", "list(enumerate({a}))",
    "(lambda *items: items)(*{a})", "(lambda **named: named)(**{a})", "1 if {a} else 2", "{a}()", "copy.copy({a})",
    "torch.ones(2) + {a}", "x * {a}", "[{a}, 1].index(1)", "[1, {a}].count({a})", "isinstance({a}, int)",
)  # fmt: skip
PAIRS = (
    "divmod({a}, {b})", "pow({a}, {b}, 7)", "{a}[{b}]", "min({a}, {b})", "sorted([{a}, {b}])", "sum([{a}, {b}], {a})",
    "[{b}, 1].index({a})", "{a} in [{b}, 1]", "{a}({b})", "max([{a}, {b}], key=str)", "{a} if {b} else 0",
)  # fmt: skip
STATEMENTS = (
    "{a}[{b}] = 4", "del {a}[{b}]", "p, q = {a}", "p, *q = {a}", "with {a} as p: LOG.append(told(p))",
    "with {a}: raise ValueError('inside')", "for p in seconds({a}): LOG.append(told(p))",
    *(f"{{a}} {op}= {{b}}" for op in BINARY[:13]), *(f"{{b}} {op}= {{a}}" for op in BINARY[:13]),
)  # fmt: skip


class Drawer:
    """Draws the text of one program."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def classes(self) -> tuple[list[str], list[str]]:
        """The lines of two classes, and how one of each is made."""
        lines: list[str] = []
        made: list[str] = []
        for index in range(2):
            base, contents = self._random.choice(list(BASES.items()))
            if index and self._random.random() < 0.3:
                base, contents = "K0", made[0][3:-1]
            names = self._random.sample(METHODS, self._random.choice([1, 1, 2, 3, 5]))
            behaviour = self._random.choice(["gives", "refuses", "mistakes", "fails", "itself", "base"])
            lines += ["", "", f"class K{index}({base}):"]
            for name in names:
                lines += self.method(name, behaviour)
            made.append(f"K{index}({contents})")
        return lines, made

    def method(self, name: str, behaviour: str) -> list[str]:
        special = name if name == "keys" else f"__{name}__"
        lines = [f"    def {special}(self, *args, **kwargs):"]
        if name not in UNNOTED:
            lines.append(f"        LOG.append('{name}')")
        if name == "next":
            lines += ["        if LOG.count('next') > 12:", "            raise StopIteration"]
        if name == "getitem":
            lines += ["        if isinstance(args[0], int) and args[0] > 3:", "            raise IndexError(args[0])"]
        answer = {
            "gives": f"return {GIVES.get(name, 11)}",
            "refuses": "return NotImplemented",
            "mistakes": "return []" if name not in ("iter", "reversed") else "return 5",
            "fails": f"raise ValueError('{name}')",
            "itself": "return self",
            "base": f"return super().{special}(*args, **kwargs)",
        }[behaviour]
        return [*lines, f"        {answer}", ""]

    def operation(self) -> list[str]:
        kind = self._random.randrange(6)
        a, b = self._random.choice([("a", "b"), ("a", "b"), ("b", "a"), ("a", "a")])
        if kind == 0:
            statement = self._random.choice(STATEMENTS).format(a="v", b="w")
            body = f"        {statement}\n        found.append(told(v))"
            caught = ["    except TypeError:", "        found.append('TypeError')", "    except Exception as error:"]
            caught.append("        found.append((type(error).__name__, str(error)))")
            return [f"    v, w = {a}, {b}", "    try:", *body.split("\n"), *caught]
        if kind < 3:
            expression = f"{a} {self._random.choice(BINARY)} {b}"
        elif kind < 5:
            expression = self._random.choice(UNARY).format(a=a)
        else:
            expression = self._random.choice(PAIRS).format(a=a, b=b)
        return [f"    found.append(attempt(lambda: {expression}))"]

    def program(self) -> str:
        lines, made = self.classes()
        other = self._random.choice([made[1], made[0], self._random.choice(OTHERS)])
        here = self._random.random() < 0.3
        lines += ["", "", "def f(x, a, b):", "    LOG.clear()", "    found = []"]
        if here:
            lines.append(f"    a, b = {made[0]}, {other}")
        for _ in range(self._random.randint(3, 9)):
            lines += self.operation()
        lines += ["    return x + 1, found, list(LOG)", ""]
        for number in range(2):
            lines += ["", f"def call_{number}():", "    x = torch.rand(3)", f"    return x, {made[0]}, {other}", ""]
        return HEADER + "\n".join(lines)


def draw_methods(random: Random) -> str:
    """The text of one program."""
    return Drawer(random).program()
