"""What a trace can ask of the world, and the guards that hold the answer: each with a program, and a change to be seen.

A new way to ask is a new row, and every kind of guard is in some row: a test runs them all. The page
docs/programming_model/guards.md is made from this table.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Question:
    """One kind of question, as text: statements that make the world, the asking expression, a change of the answer.

    `kinds` are the guards that hold the answer; "sizes" stands for conditions on numbers, "process" for the state of
    the process.
    """

    theme: str
    asked: str
    given: str
    program: str
    change: str
    kinds: tuple[str, ...]


_VALUES = "Values"
_IDENTITY = "Identity and types"
_CONTAINERS = "Containers"
_ABSENCE = "Absence"
_ATTRIBUTES = "Attributes"
_NAMES = "Names"
_CLASSES = "Classes"
_TENSORS = "Tensors"
_PROCESS = "The process"
_BOX = "class Box:\n    size = 2\n\nbox = Box()\nbox.n = 1"

QUESTIONS: tuple[Question, ...] = (
    Question(_VALUES, "a text", "name = 'a'", "x * len(name)", "name = 'ab'", ("equal",)),
    Question(_VALUES, "a flag, or `None`", "flag = True", "x + 1 if flag else x", "flag = False", ("is",)),
    Question(_VALUES, "the type of a number", "n = 2", "x * n", "n = 2.5", ("equal",)),
    Question(_VALUES, "a value with an equality", "part = slice(1)", "x[part]", "part = slice(2)", ("equal",)),
    Question(_VALUES, "a number that changes", "n = 3", "x[:n]", "n = 1", ("equal", "sizes")),
    Question(
        _VALUES,
        "how numbers that change compare",
        "a = 0.1\nb = 0.2",
        "x + 1 if a * b < 1 else x",
        "a, b = 5.0, 3.0",
        ("together",),
    ),
    Question(_IDENTITY, "`is`", "a = []\nb = []", "x + 1 if a is b else x", "b = a", ("different",)),
    Question(_IDENTITY, "`is`, of one object", "a = []\nb = a", "x + 1 if a is b else x", "b = []", ("same",)),
    Question(_IDENTITY, "`type`", "a = []", "x + 1 if type(a) is list else x", "a = ()", ("type",)),
    Question(
        _IDENTITY,
        "`hash`, or `id`",
        f"{_BOX}\nplace = id(box)",
        "x + 1 if id(box) == place else x",
        "kept, box = box, Box()",
        ("is",),
    ),
    Question(_CONTAINERS, "an item", "items = [1, 2]", "x * items[0]", "items[0] = 5", ("equal",)),
    Question(_CONTAINERS, "the length", "items = [1, 2]", "x * len(items)", "items.append(3)", ("length",)),
    Question(_CONTAINERS, "the truth", "items = [1, 2]", "x + 1 if items else x", "items.clear()", ("length",)),
    Question(
        _CONTAINERS,
        "the order of keys",
        "table = {'a': 1, 'b': 2}",
        "x + len(next(iter(table)))",
        "table = {'bb': 2, 'a': 1}",
        ("keys",),
    ),
    Question(_CONTAINERS, "the elements of a set", "numbers = {1}", "x * len(numbers)", "numbers.add(2)", ("check",)),
    Question(_CONTAINERS, "presence", "table = {'a': 1}", "x + 1 if 'a' in table else x", "del table['a']", ("has",)),
    Question(
        _CONTAINERS,
        "presence of an object",
        f"{_BOX}\ntable = {{box: 1}}",
        "x + table[box]",
        "table[box] = 3",
        ("is", "equal"),
    ),
    Question(
        _ABSENCE, "`in`, `get` with a default", "table = {}", "x + table.get('a', 1)", "table['a'] = 7", ("lacks",)
    ),
    Question(_ABSENCE, "of an object", f"{_BOX}\ntable = {{}}", "x + table.get(box, 1)", "table[box] = 7", ("lacks",)),
    Question(_ABSENCE, "an attribute", _BOX, "x + getattr(box, 'm', 1)", "box.m = 7", ("lacks",)),
    Question(
        _ABSENCE, "an attribute of a tensor", "y = torch.ones(2)", "x + getattr(y, 'm', 1)", "y.m = 7", ("lacks_attr",)
    ),
    Question(
        _ABSENCE,
        "a value in a slot",
        "class Slotted:\n    __slots__ = ('m',)\n\nbox = Slotted()",
        "x + getattr(box, 'm', 1)",
        "box.m = 7",
        ("check",),
    ),
    Question(_ABSENCE, "a name", "abs = abs\ndel abs", "x + abs(-1)", "abs = lambda n: 7", ("lacks",)),
    Question(
        _ABSENCE,
        "what `__getattr__` makes up for",
        "class Box:\n    def __getattr__(self, name):\n        return 1\n\nbox = Box()",
        "x + box.m",
        "box.m = 7",
        ("lacks",),
    ),
    Question(_ATTRIBUTES, "of an object", _BOX, "x * box.n", "box.n = 5", ("equal",)),
    Question(_ATTRIBUTES, "of its class", _BOX, "x * box.size", "Box.size = 5", ("equal",)),
    Question(_ATTRIBUTES, "of its class, which an object may hide", _BOX, "x * box.size", "box.size = 5", ("lacks",)),
    Question(
        _ATTRIBUTES,
        "a property, or another descriptor",
        "class Box:\n    @property\n    def size(self):\n        return 2\n\nbox = Box()",
        "x * box.size",
        "Box.size = property(lambda self: 5)",
        ("class",),
    ),
    Question(
        _ATTRIBUTES,
        "a method",
        "class Box:\n    def size(self):\n        return 2\n\nbox = Box()",
        "x * box.size()",
        "Box.size = lambda self: 5",
        ("class",),
    ),
    Question(_NAMES, "a global", "n = 1.0", "x * n", "n = 'a' and 5.0", ("equal",)),
    Question(
        _NAMES,
        "a variable of a function around",
        "def make():\n    n = 'a'\n    def g(x):\n        return x * len(n)\n"
        "    def change():\n        nonlocal n\n        n = 'ab'\n    return g, change\n\ng, change = make()",
        "g(x)",
        "change()",
        ("equal",),
    ),
    Question(
        _NAMES, "a default", "def g(x, n='a'):\n    return x * len(n)", "g(x)", "g.__defaults__ = ('ab',)", ("equal",)
    ),
    Question(
        _NAMES,
        "the code of a function",
        "def g(x):\n    return x\n\ndef h(x):\n    return x * 5",
        "g(x)",
        "g.__code__ = h.__code__",
        ("is",),
    ),
    Question(_NAMES, "a function or class of a library", "", "torch.sin(x)", "torch.sin = torch.cos", ("names",)),
    Question(_NAMES, "a builtin", "", "x * abs(-1)", "import builtins; builtins.abs = lambda n: 5", ("names",)),
    Question(
        _NAMES,
        "an imported module",
        "import sys, types\nmade = types.ModuleType('made')\nmade.n = 1\nsys.modules['made'] = made",
        "x + __import__('made').n",
        "made = types.ModuleType('made')\nmade.n = 5\nsys.modules['made'] = made",
        ("is",),
    ),
    Question(_CLASSES, "`isinstance`", _BOX, "x + 1 if isinstance(box, Box) else x", "box = 1", ("type",)),
    Question(
        _CLASSES,
        "`isinstance` of an abstract class",
        "import abc\n\nclass Abstract(abc.ABC):\n    pass\n\nclass Box:\n    pass\n\nbox = Box()",
        "x + 1 if isinstance(box, Abstract) else x",
        "Abstract.register(Box)",
        ("check",),
    ),
    Question(_CLASSES, "special methods", _BOX, "x + 1 if box else x", "Box.__bool__ = lambda self: False", ("class",)),
    Question(
        _TENSORS,
        "type, device, sizes, strides, gradients",
        "y = torch.ones(2)",
        "x + y.dim()",
        "y = torch.ones(2, 2)",
        ("tensor",),
    ),
    Question(
        _TENSORS,
        "memory that two have in common",
        "y = torch.zeros(4)\nz = torch.zeros(4)",
        "y.add_(1) + z",
        "z = y",
        ("memory",),
    ),
    Question(
        _PROCESS,
        "modes and settings that decide about operators",
        "",
        "x.requires_grad_().sum().requires_grad + x",
        "torch.set_grad_enabled(False)",
        ("process",),
    ),
    Question(
        _PROCESS,
        "other settings that a program asks for",
        "",
        "x + torch.get_float32_matmul_precision().count('highest')",
        "torch.set_float32_matmul_precision('high')",
        ("check",),
    ),
    Question(
        _PROCESS,
        "hooks of all modules",
        "layer = torch.nn.Identity()",
        "layer(x)",
        "handle = torch.nn.modules.module.register_module_forward_hook(lambda module, args, result: result * 5)",
        ("check",),
    ),
)
