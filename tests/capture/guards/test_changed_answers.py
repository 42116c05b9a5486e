"""Answers that change between calls, of what Python and libraries keep: each program is as in eager mode."""

from __future__ import annotations

import typing

import pytest
import torch

import onegraph
from tests.capture.guards.test_dropped_guards import ONE, asked, program, same

LIBRARY = """
import sys
made = types.ModuleType("torch.nn.modules.made_for_a_test")
sys.modules[made.__name__] = made
exec("table, flag, found = {}, 1, []\\ndef get(): return table\\ndef look(k): return table.get(k, flag)", vars(made))
"""
COLORS = """
import enum
class Color(enum.Enum):
    RED = 1
    def __init__(self, number):
        self.seen, self.number = [], number
"""
COUNTING = """
class Counting(collections.OrderedDict):
    def __len__(self): return super().__len__() + 1
class Text(str): pass
k, c = Text("a"), Counting()
c[k] = 1
"""
DISPATCH = """
def general(k): return "general"
def special(k): return "special"
c = functools.singledispatch(general)
class Plain: pass
k = Plain()
"""
SPACE = """
class Space(types.ModuleType): pass
c = Space("made_by_a_test")
c.a = 1
"""
COUNT = "if {0} not in c: c[{0}] = 0\nc[{0}] += 1\nreturn c[{0}], x + 1"


def counted(key: str, setup: str = "") -> str:
    """A program that counts under a key which it finds itself."""
    return program(COUNT.format(key), (ONE,) * 4, f"c = {{}}\n{setup}")


PROGRAMS = {
    "container of a library": asked("'a' in made.get()", LIBRARY, "made.table['a'] = 1"),
    "setting of a library": asked("made.look('a')", LIBRARY, "made.flag = 2"),
    "what a library finds": asked("made.look('a')", LIBRARY, "made.table['a'] = 3"),
    "container of a library that replaces it": asked("len(made.get())", LIBRARY, "made.table = {1: 1, 2: 2}"),
    "value in a class of a library": program(
        "return torch.nn.Identity().dump_patches, x + 1",
        (ONE, f"torch.nn.Module.dump_patches = 5 -> {ONE}", f"torch.nn.Module.dump_patches = False -> {ONE}"),
    ),
    "class that a library hands out": asked(
        "getattr(made.get(), 'a', 0)", LIBRARY + "class Plain: pass\nmade.table = Plain", "Plain.a = 1"
    ),
    "equality of a read-only view": asked(
        "c == {3: 1}", "d = {4: 1, 3: 1}\nc = types.MappingProxyType(d)", "d.pop(4)"
    ),
    "names of a module that is written to as a dict": program(
        "c.__dict__['a'] = 1\nfound = 'a' in dir(c)\ndel c.__dict__['a']\nreturn found, 'a' in dir(c), x + 1",
        (ONE,) * 2,
        "c = types.ModuleType('made')",
    ),
    "weak reference of a library": asked(
        "made.found() is None",
        LIBRARY + "import weakref\nclass Plain: pass\nkept = [Plain()]\nmade.found = weakref.ref(kept[0])",
        "kept.clear()",
    ),
    "references to nothing": program(
        "c['a'] = dead()\nreturn x + 1",
        ("SEEN.append(c.get('a')) -> (torch.ones(2),)",) * 4,
        "import weakref\nclass Plain: pass\nc, SEEN = {}, []\n"
        "def dead(): return weakref.ref(Plain(), lambda _: None)",
    ),
    "names of the builtins": asked(
        "'a_test' in vars(builtins)", "import builtins\nvars(builtins).pop('a_test', None)", "builtins.a_test = 1"
    ),
    "name that another one covers": program(
        "return 'len' in globals(), len([1]), x + 1", (ONE, f"globals().update(len=lambda c: 7) -> {ONE}", ONE)
    ),
    "attribute of a function": asked("getattr(c, '__wrapped__', 0)", "def c(): pass", "c.__wrapped__ = len"),
    "attribute of the function of a method": asked(
        "c.m.seen", "class Plain:\n    def m(self): pass\nc = Plain()\nPlain.m.seen = 1", "Plain.m.seen = 2"
    ),
    "attribute of an exception": asked("getattr(c, 'a', 0)", "c = ValueError(1)", "c.a = 7"),
    "attribute of a class, asked of object": program(
        "try: return object.__getattribute__(A, 'a'), x\nexcept AttributeError: return 0, x",
        (ONE, f"del A.a -> {ONE}", ONE),
        "class A: a = 1",
    ),
    "attribute by a getter": asked(
        "operator.attrgetter('a')(c)", "import operator\ndef c(): pass\nc.a = 1", "c.a = 7"
    ),
    "attributes by a getter": asked(
        "operator.attrgetter('a', 'a')(c)", "import operator\ndef c(): pass\nc.a = 1", "c.a = 7"
    ),
    "value of a member": asked("Color.RED.value", COLORS, "Color.RED._value_ = 7"),
    "attribute of a member": asked("Color.RED.number", COLORS, "Color.RED.number = 7"),
    "list of a member": program("Color.RED.seen.append(1)\nreturn len(Color.RED.seen), x + 1", (ONE,) * 4, COLORS),
    "written attribute of a member": program("Color.RED.number += 1\nreturn Color.RED.number, x", (ONE,) * 4, COLORS),
    "length of one's own": asked("[v for q, v in c.items() if q is k]", COUNTING, "c[Text('b')] = 2"),
    "registered function": asked("c(k)", DISPATCH, "c.register(Plain, special)"),
    "registry": asked("type(k) in c.registry", DISPATCH, "c.register(Plain, special)"),
    "registry that the program fills": program(
        "r = type(k) in c.registry\nc.register(type(k), special)\nreturn r, type(k) in c.registry, x",
        (ONE,) * 3,
        DISPATCH,
    ),
    "module that comes": program(
        "try:\n    import made_by_a_test as m\nexcept ImportError:\n    return 0, x\nreturn m.n, x + 1",
        (ONE, f"sys.modules['made_by_a_test'] = types.SimpleNamespace(n=1) -> {ONE}", ONE),
        "import sys\nsys.modules.pop('made_by_a_test', None)",
    ),
    "module that the program puts there": program(
        "sys.modules['made_by_a_test'] = types.SimpleNamespace(n=x.dim())\nimport made_by_a_test as m\nreturn m.n, x",
        (ONE, "(torch.ones(2, 2),)", ONE),
        "import sys\nsys.modules.pop('made_by_a_test', None)",
    ),
    "history that another view gets": program(
        "x.add_(w)\nreturn y.requires_grad, x",
        (
            "(torch.ones(2), torch.ones(4)[:2], torch.ones(2, requires_grad=True))",
            "(lambda t: (t[:2], t[2:], torch.ones(2, requires_grad=True)))(torch.ones(4))",
        ),
        "",
        "x, y, w",
    ),
    "tuples whose numbers change": program(
        "global a, b\nc.add(a)\na, b = b, a\nreturn len(c), x + 1", (ONE,) * 5, "a, b, c = (1, 'a'), (2, 'a'), set()"
    ),
    "cached function that writes to what was read": program(
        "before = len(SEEN)\nc(1)\nreturn before, len(SEEN), x + 1",
        (ONE,) * 3,
        "SEEN = []\n@functools.lru_cache\ndef c(n): SEEN.append(n)",
    ),
    "property that the class of a module gets": asked("getattr(c, 'a')", SPACE, "type(c).a = property(lambda self: 7)"),
    "property that the class of a module gets, of a name it lacks": asked(
        "getattr(c, 'b', 0)", SPACE, "type(c).b = property(lambda self: 7)"
    ),
    "names of a function that is written to as a dict": program(
        "before = 'a' in dir(c)\nc.__dict__['a'] = None\nreturn before, 'a' in dir(c), x + 1",
        (ONE,) * 4,
        "def c(): pass",
    ),
    "names of a function that it gets": asked("'a' in dir(c)", "def c(): pass", "c.a = 1"),
    "name that the program takes from a module, imported": program(
        "r = []\nfor _ in 'ab':\n    try:\n        from made_by_a_test import n\n        r.append(n)\n"
        "    except ImportError as error: r.append(str(error))\n    vars(c).pop('n', None)\nreturn r, x",
        (ONE,) * 3,
        "import sys\nc = sys.modules['made_by_a_test'] = types.ModuleType('made_by_a_test')\nc.n = 1",
    ),
    "code of a function of the program in a library": asked(
        "made.given()", LIBRARY + "def c(): return 1\nmade.given = c", "c.__code__ = (lambda: 7).__code__"
    ),
    "class that a class of tensors is registered with": asked(
        "isinstance(x, c)", "import abc\nclass c(abc.ABC): pass", "c.register(torch.Tensor)"
    ),
    "key of a class of the program, made by the program": asked(
        "Text('a') in c", "class Text(str): pass\nc = {}", "c['a'] = 1"
    ),
    "type of a tensor": counted("type(x)"),
    "type of an object": counted("type(k)", "class Plain: pass\nk = Plain()"),
    "type of an element": counted("x.dtype"),
    "layout of a tensor": counted("x.layout"),
    "pair of types": counted("(type(x), x.dtype)"),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    assert same(PROGRAMS[name])


def test_aliases_of_classes_do_not_break_the_graph() -> None:
    def asked_aliases(x: torch.Tensor) -> tuple[bool, ...]:
        return isinstance(x, typing.Iterable), isinstance([x], typing.Mapping), issubclass(type(x), typing.Sized)

    compiled = onegraph.compile(asked_aliases, fullgraph=True, backend="eager")
    assert compiled(torch.ones(2)) == asked_aliases(torch.ones(2)) == (True, False, True)
