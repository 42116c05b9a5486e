"""A program of many parts in two files, and the changes of it that matter, or do not, each a text in a file's place.

A part is one term of the result. A change is tried between two processes: what the second one computes is what eager
computes, whatever the first one has left on disk; and what does not matter does not make it compile again.
"""

from __future__ import annotations

from dataclasses import dataclass

LIBRARY = """
import dataclasses, enum, functools
import torch

SCALE = 2.0
TABLE = {"a": 1.5, "b": 2.5}
ITEMS = [1.0, 2.0, 3.0]
PAIR = (0.5, 0.25)
MODE = "sine"
ops = torch.sin

def helper(x):
    return x * 3.0 + SCALE

def with_default(x, by=4.0, *, plus=0.125):
    return x * by + plus

def scaled(mult):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(x):
            return function(x) * mult
        return wrapper
    return decorate

@scaled(1.25)
def decorated(x):
    return x - 0.75

def branching(x):
    if MODE == "sine":
        return torch.sin(x)
    return torch.cos(x)

def nested(x):
    def inner(y):
        return y * 0.3
    return inner(x)

def generated(x):
    return sum(x * k for k in ITEMS)

def made():
    bias = 0.6
    return lambda x: x + bias

closure = made()
bound = functools.partial(with_default, by=2.25)

class Kind(enum.Enum):
    LOW = 0.2
    HIGH = 0.9

@dataclasses.dataclass
class Settings:
    rate: float = 0.35
    kind: Kind = Kind.LOW

class Base(torch.nn.Module):
    FACTOR = 1.75

    def part(self, x):
        return x * 0.45

    @staticmethod
    def fixed(x):
        return x + 0.15

    @classmethod
    def of_class(cls, x):
        return x * cls.FACTOR

    @property
    def offset(self):
        return self.shift + 0.05

class Layer(Base):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, 4))
        self.shift = 0.65
        self.settings = Settings()

    def forward(self, x):
        return self.part(x) * self.weight + self.fixed(x) + self.of_class(x) + self.offset

class Caller:
    def __call__(self, x):
        return x * 0.85

    def __getattr__(self, name):
        return 0.95

caller = Caller()
"""

PROGRAM = """
import colorsys, math, os, string
import torch
import changing_library as lib

LIMIT = 3

def text_length():
    return len(string.ascii_lowercase)

def steps(x):
    total = x
    for k in range(LIMIT):
        total = total + x * k
    return total

def caught(x):
    try:
        return x * lib.TABLE["missing"]
    except KeyError:
        return x * 0.55

def run(x, layer):
    y = lib.helper(x) + lib.with_default(x) + lib.decorated(x) + lib.branching(x) + lib.nested(x)
    y = y + lib.generated(x) + lib.closure(x) + lib.bound(x) + lib.ops(x) + layer(x)
    y = y + x * lib.TABLE["a"] + x * lib.PAIR[0] + x * lib.Kind.LOW.value + x * layer.settings.rate
    y = y + lib.caller(x) * lib.caller.anything + steps(x) + caught(x) + x * colorsys.ONE_THIRD + text_length()
    if layer.settings.kind is lib.Kind.LOW:
        y = y * 2.0
    if isinstance(layer, lib.Base):
        y = y + 0.01
    with torch.no_grad():
        z = x * 0.02
    return y + z + float(os.environ.get("CHANGING", "1")) + torch.nn.functional.relu(x)

def prepared():
    return lib.Layer()

x = torch.linspace(-2, 2, 12).reshape(3, 4)
"""


@dataclass(frozen=True)
class Change:
    """`old` becomes `new` in the library, or in the program; with `%` in `new`, a number of the caller's."""

    name: str
    where: str
    old: str
    new: str
    matters: bool = True


CHANGES = [
    Change("a constant of an inlined function", "library", "x * 3.0", "x * %"),
    Change("a global", "library", "SCALE = 2.0", "SCALE = %"),
    Change("an item of a dict", "library", '"a": 1.5', '"a": %'),
    Change("an item of a list", "library", "[1.0, 2.0, 3.0]", "[1.0, %, 3.0]"),
    Change("the length of a list", "library", "[1.0, 2.0, 3.0]", "[1.0, 2.0, 3.0, %]"),
    Change("an item of a tuple", "library", "PAIR = (0.5", "PAIR = (%"),
    Change("a default", "library", "by=4.0", "by=%"),
    Change("a default by name", "library", "plus=0.125", "plus=%"),
    Change("an argument of a decorator", "library", "@scaled(1.25)", "@scaled(%)"),
    Change("a function behind a decorator", "library", "x - 0.75", "x - %"),
    Change("what a wrapper does", "library", "function(x) * mult", "function(x) * mult + %"),
    Change("a text that chooses a branch", "library", 'MODE = "sine"', 'MODE = "other %"'),
    Change("a function within one", "library", "y * 0.3", "y * %"),
    Change("a generator", "library", "x * k for k", "x * k * % for k"),
    Change("what a closure holds", "library", "bias = 0.6", "bias = %"),
    Change("a lambda", "library", "lambda x: x + bias", "lambda x: x + bias * %"),
    Change("an argument of a partial function", "library", "by=2.25", "by=%"),
    Change("another function under a name", "library", "ops = torch.sin", "ops = torch.cos"),
    Change("a function of the program under a name", "library", "ops = torch.sin", "ops = lambda x: x * %"),
    Change("a member of an enumeration", "library", "LOW = 0.2", "LOW = %"),
    Change("a default of a dataclass", "library", "rate: float = 0.35", "rate: float = %"),
    Change("which member", "library", "kind: Kind = Kind.LOW", "kind: Kind = Kind.HIGH"),
    Change("data of a class", "library", "FACTOR = 1.75", "FACTOR = %"),
    Change("data of a class below", "library", "class Layer(Base):", "class Layer(Base):\n    FACTOR = %\n"),
    Change("a method of a base", "library", "x * 0.45", "x * %"),
    Change("a method that hides one", "library", "class Layer(Base):",
           "class Layer(Base):\n    def part(self, x):\n        return x * %\n"),
    Change("a static method", "library", "x + 0.15", "x + %"),
    Change("a class method", "library", "x * cls.FACTOR", "x * cls.FACTOR * %"),
    Change("a property", "library", "self.shift + 0.05", "self.shift + %"),
    Change("an attribute", "library", "self.shift = 0.65", "self.shift = %"),
    Change("a parameter", "library", "torch.linspace(-1, 1, 4)", "torch.linspace(-1, %, 4)", matters=False),
    Change("forward", "library", "self.part(x) * self.weight", "self.part(x) * self.weight * %"),
    Change("a hook", "library", "self.shift = 0.65",
           "self.shift = 0.65\n        self.register_forward_hook(lambda m, a, r: r * %)"),
    Change("an instance's own forward", "library", "self.shift = 0.65",
           "self.shift = 0.65\n        self.forward = lambda x: x * %"),
    Change("__call__", "library", "x * 0.85", "x * %"),
    Change("__getattr__", "library", "return 0.95", "return %"),
    Change("a missing name that is there", "library", "caller = Caller()", "caller = Caller()\ncaller.anything = %"),
    Change("a missing key that is there", "library", '"b": 2.5', '"b": 2.5, "missing": %'),
    Change("how often a loop runs", "program", "LIMIT = 3", "LIMIT = 4"),
    Change("a constant behind an exception", "program", "x * 0.55", "x * %"),
    Change("a constant of the frame", "program", "y * 2.0", "y * %"),
    Change("a constant in a block", "program", "x * 0.02", "x * %"),
    Change("the environment", "program", "LIMIT = 3", "LIMIT = 3\nos.environ['CHANGING'] = '%'"),
    Change("a constant of Python's library", "program", "LIMIT = 3", "LIMIT = 3\ncolorsys.ONE_THIRD = %"),
    Change("a text of Python's library", "program", "LIMIT = 3", "LIMIT = 3\nstring.ascii_lowercase = 'x' * 7"),
    Change("a function of torch", "program", "LIMIT = 3",
           "LIMIT = 3\ntorch.nn.functional.relu = lambda x: x * %"),
    Change("a function of the library that is replaced", "program", "LIMIT = 3",
           "LIMIT = 3\nlib.helper = lambda x: x * %"),
    Change("a method that is replaced", "program", "LIMIT = 3",
           "LIMIT = 3\nlib.Base.part = lambda self, x: x * %"),
    Change("another class", "program", "return lib.Layer()",
           "return type('Layer', (lib.Layer,), {'part': lambda self, x: x * %})()"),
    Change("the type of the input", "program", "reshape(3, 4)", "reshape(3, 4).double()"),
    Change("the sizes of the input", "program", "torch.linspace(-2, 2, 12).reshape(3, 4)",
           "torch.linspace(-2, 2, 20).reshape(5, 4)"),
    Change("the layout of the input", "program", "reshape(3, 4)", "reshape(4, 3).t()"),
    Change("the default type", "program", "LIMIT = 3", "LIMIT = 3\ntorch.set_default_dtype(torch.float64)"),
    Change("a global function of the program", "program", "len(string.ascii_lowercase)", "%"),
    Change("disabled", "library", "def nested(x):", "import onegraph\n@onegraph.disable\ndef nested(x):"),
    Change("allowed", "library", "def nested(x):", "import onegraph\n@onegraph.allow_in_graph\ndef nested(x):"),
    # What changes nothing.
    Change("a comment", "library", "def helper(x):", "def helper(x):  # %", matters=False),
    Change("lines above", "library", "SCALE = 2.0", "# %\n\n\nSCALE = 2.0", matters=False),
    Change("lines above the frame", "program", "LIMIT = 3", "# %\n\n\nLIMIT = 3", matters=False),
    Change("a function that nobody calls", "library", "SCALE = 2.0", "def unused(x):\n    return x * %\n\nSCALE = 2.0",
           matters=False),
    Change("a global that nobody reads", "library", "SCALE = 2.0", "SCALE = 2.0\nUNUSED = %", matters=False),
    Change("a class that nobody makes", "library", "class Caller:",
           "class Unused:\n    def f(self):\n        return %\n\nclass Caller:", matters=False),
    Change("reordered definitions", "program", "LIMIT = 3", "import sys\nLIMIT = 3\nOTHER = %", matters=False),
    Change("another module that is imported", "program", "import colorsys, math", "import fractions, colorsys, math",
           matters=False),
    Change("an item that nobody reads", "library", '"b": 2.5', '"b": %', matters=False),
    Change("a variable of the environment that nobody reads", "program", "LIMIT = 3",
           "LIMIT = 3\nos.environ['UNREAD'] = '%'", matters=False),
]  # fmt: skip


def texts(change: Change | None, number: float) -> tuple[str, str]:
    """The library and the program with a change."""
    library, program = LIBRARY, PROGRAM
    if change is not None:
        new = change.new.replace("%", repr(number))
        if change.where == "library":
            assert change.old in library, change
            library = library.replace(change.old, new, 1)
        else:
            assert change.old in program, change
            program = program.replace(change.old, new, 1)
    return library, program
