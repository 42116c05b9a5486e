"""What changes between the calls: everything that a result depends on must be noticed."""

from __future__ import annotations

import dataclasses
import enum
import functools
import types

import torch
from torch import nn

from tests.capture.twins import Cases

case = Cases()


class Box:
    kind = "box"
    limit = 3

    def __init__(self, value=1):
        self.value = value
        self.items = []

    def scale(self, x):
        return x * self.value

    @property
    def double(self):
        return self.value * 2


class SubBox(Box):
    pass


@dataclasses.dataclass
class Config:
    width: int = 2
    names: tuple = ("a", "b")
    nested: object = None
    mode: str = "sum"


class Mode(enum.Enum):
    A = "a"
    B = "b"


class Slotted:
    __slots__ = ("v", "w")

    def __init__(self, v):
        self.v = v


class Callable:
    def __call__(self, x):
        return x + 1


class Descriptor:
    factor = 2

    def __get__(self, obj, cls):
        return self.factor * 10


class HasDescriptor:
    d = Descriptor()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.layers = nn.ModuleList([nn.ReLU(), nn.Linear(3, 3)])
        self.norm = nn.LayerNorm(3)
        self.register_buffer("shift", None)
        self.scale = 1.0
        self.options = {"deep": {"k": [1, 2]}}
        self.act = torch.relu
        self.training_steps = 0

    def forward(self, x):
        y = self.norm(self.act(self.a(x))) * self.scale
        for layer in self.layers:
            y = layer(y)
        if self.shift is not None:
            y = y + self.shift
        return y * self.options["deep"]["k"][0], [name for name, _ in self.named_children()]


def fill(module):
    with torch.no_grad():
        for index, p in enumerate(module.parameters()):
            p.copy_(torch.arange(p.numel()).reshape(p.shape) * 0.1 + index)
    return module


CALLS = [0]
BOX = Box()
OTHER = Box(5)
CONFIG = Config()
SLOTTED = Slotted(2)
CALL = Callable()
HAS = HasDescriptor()
NET = fill(Net())
PAIR = [BOX, OTHER]
TUPLE = (1, [2], {"k": 3})
FUNCTION = lambda x: x + 1  # noqa: E731
NAMES = ["a", "b"]
FLAG = False
TEXT = "sum"
SPACE = types.SimpleNamespace(mode="x", depth=types.SimpleNamespace(n=1))
MODE = Mode.A
PARTIAL = functools.partial(torch.add, alpha=2)
TENSOR = torch.ones(3)
NUMBER = 3
FLOAT = 0.5
RANGE = range(3)
SLICE = slice(0, 2)
DEVICE = torch.device("cpu")
DTYPE = torch.float32
BIG = 1 << 70
BYTES = b"ab"
NONE = None
MATRIX = [[1, 2], [3, 4]]
METHOD = BOX.scale


def put(**values):
    globals().update(values)


def defaults(x, k=2, *, m=3):
    return x * k + m


def outer():
    n = 1

    def read(x):
        return x * n

    def bump():
        nonlocal n
        n += 1

    return read, bump


READ, BUMP = outer()


def reset_defaults():
    defaults.__defaults__ = (7,)


def reset_keyword_defaults():
    defaults.__kwdefaults__ = {"m": 11}


@case(
    lambda: (torch.rand(3),),
    lambda: put(NUMBER=4), lambda: put(NUMBER=4.0), lambda: put(FLOAT=float("nan")), lambda: put(FLOAT=-0.0),
    lambda: put(FLOAT=0.0), lambda: put(TEXT="mean"), lambda: put(FLAG=True), lambda: put(FLAG=1), lambda: put(NONE=1),
    lambda: put(BIG=(1 << 70) + 1), lambda: put(BYTES=b"b"), lambda: put(NUMBER=torch.tensor(2.0)),
)  # fmt: skip
def atoms(x):
    y = x.sum() if TEXT == "sum" else x.mean()
    if FLAG is True:
        y = y + 100
    if NONE is None:
        y = y - 1
    return y * NUMBER, x * FLOAT, 1 / FLOAT if FLOAT else str(FLOAT), BIG % 10, BYTES[0], type(NUMBER)


@case(
    lambda: (torch.rand(3),),
    lambda: put(RANGE=range(1, 3)), lambda: put(SLICE=slice(1, 3)), lambda: put(DTYPE=torch.float64), lambda: put(MODE=Mode.B),
    lambda: put(PARTIAL=functools.partial(torch.add, alpha=3)), lambda: put(DEVICE=torch.device("meta")),
)  # fmt: skip
def immutable_objects(x):
    y = x.to(DTYPE)
    return sum(y[i] for i in RANGE), y[SLICE], MODE.value, PARTIAL(x, x), torch.zeros(2, device=DEVICE).device


@case(
    lambda: (torch.rand(3),),
    lambda: setattr(BOX, "value", 4), lambda: setattr(BOX, "value", torch.ones(3)), lambda: BOX.items.append(1),
    lambda: setattr(Box, "limit", 9), lambda: setattr(BOX, "limit", 10), lambda: setattr(BOX, "__class__", SubBox),
    lambda: setattr(SubBox, "limit", 50), lambda: delattr(BOX, "limit"), lambda: setattr(SubBox, "scale", lambda self, x: x - 1),
    lambda: setattr(SubBox, "double", property(lambda self: 1000)), lambda: setattr(BOX, "extra", 3),
    lambda: setattr(SubBox, "extra", property(lambda self: 99)),
)  # fmt: skip
def objects(x):
    return (
        BOX.scale(x),
        BOX.double,
        len(BOX.items),
        BOX.limit,
        BOX.kind,
        getattr(BOX, "extra", None),
        type(BOX).__name__,
    )


@case(
    lambda: (torch.rand(3),),
    lambda: setattr(CONFIG, "width", 3), lambda: setattr(CONFIG, "names", ("a", "c")), lambda: setattr(CONFIG, "nested", Config(9)),
    lambda: setattr(CONFIG.nested, "width", 10), lambda: setattr(CONFIG, "mode", "mean"), lambda: put(CONFIG=Config(5)),
    lambda: put(CONFIG=types.SimpleNamespace(width=1, names=(), nested=None, mode="sum")),
)  # fmt: skip
def configuration(x):
    n = CONFIG.nested.width if CONFIG.nested else 0
    return getattr(x, CONFIG.mode)() * CONFIG.width + n, "c" in CONFIG.names, CONFIG.names


@case(
    lambda: (torch.rand(3),),
    lambda: PAIR.reverse(), lambda: PAIR.__setitem__(0, PAIR[1]), lambda: PAIR.append(Box(7)), lambda: PAIR.clear(),
)  # fmt: skip
def list_of_objects(x):
    total = x
    for box in PAIR:
        total = total * 2 + box.value
    return total, len(PAIR), PAIR[0] is PAIR[-1] if PAIR else None, BOX in PAIR


@case(
    lambda: (torch.rand(3),),
    lambda: TUPLE[1].append(5), lambda: TUPLE[2].update(k=9), lambda: put(TUPLE=(1, [2])), lambda: put(TUPLE=[1, [2]]),
)  # fmt: skip
def tuples(x):
    return x * sum(TUPLE[1]), TUPLE[2]["k"] if len(TUPLE) > 2 else None, type(TUPLE)


@case(
    lambda: (torch.rand(3),),
    lambda: setattr(SLOTTED, "v", 5), lambda: setattr(SLOTTED, "w", 6), lambda: delattr(SLOTTED, "w"), lambda: put(SLOTTED=Slotted(8)),
)  # fmt: skip
def slots(x):
    return x * SLOTTED.v, getattr(SLOTTED, "w", "none"), hasattr(SLOTTED, "w")


@case(
    lambda: (torch.rand(3),),
    lambda: put(FUNCTION=lambda x: x + 2), lambda: put(FUNCTION=torch.sin), lambda: put(FUNCTION=CALL), lambda: put(FUNCTION=Box(3).scale),
    lambda: setattr(Callable, "__call__", lambda self, x: x * 50), reset_defaults, reset_keyword_defaults, lambda: BUMP(),
    lambda: setattr(Descriptor, "factor", 3), lambda: put(METHOD=OTHER.scale), lambda: setattr(OTHER, "value", 6),
)  # fmt: skip
def functions(x):
    return FUNCTION(x), CALL(x), defaults(x), READ(x), HAS.d, METHOD(x)


@case(
    lambda: (torch.rand(3),),
    lambda: setattr(SPACE, "mode", "y"), lambda: setattr(SPACE.depth, "n", 5), lambda: setattr(SPACE, "depth", types.SimpleNamespace(n=8)),
)  # fmt: skip
def namespaces(x):
    return x * SPACE.depth.n, SPACE.mode


@case(
    lambda: (torch.rand(3),),
    lambda: TENSOR.add_(1), lambda: put(TENSOR=torch.ones(3, dtype=torch.float64)), lambda: put(TENSOR=torch.ones(1)),
    lambda: put(TENSOR=torch.ones(3, requires_grad=True)), lambda: TENSOR.requires_grad_(False), lambda: put(TENSOR=nn.Parameter(torch.ones(3))),
    lambda: put(TENSOR=torch.ones(6)[::2]), lambda: put(TENSOR=torch.ones(3, dtype=torch.complex64).conj()), lambda: put(TENSOR=2.5),
    lambda: put(TENSOR=None), lambda: put(TENSOR=torch.ones(2, 3)), lambda: setattr(put(TENSOR=torch.zeros(3)) or TENSOR, "data", torch.ones(3) * 4),
)  # fmt: skip
def tensors(x):
    if TENSOR is None:
        return x
    return (
        x + TENSOR,
        TENSOR.requires_grad if isinstance(TENSOR, torch.Tensor) else 0,
        isinstance(TENSOR, nn.Parameter),
        getattr(TENSOR, "is_leaf", 1),
    )


@case(
    lambda: (torch.rand(2, 3),),
    lambda: setattr(NET, "scale", 2.0), lambda: setattr(NET.norm, "eps", 0.5), lambda: NET.layers.append(nn.Tanh()),
    lambda: NET.layers.__setitem__(0, nn.Sigmoid()), lambda: setattr(NET, "shift", torch.ones(3)), lambda: setattr(NET, "shift", None),
    lambda: NET.options["deep"]["k"].insert(0, 7), lambda: setattr(NET, "act", torch.tanh), lambda: setattr(NET.a, "bias", None),
    lambda: setattr(NET, "a", fill(nn.Linear(3, 3))), lambda: NET.a.weight.requires_grad_(False), lambda: NET.eval(), lambda: NET.train(),
    lambda: setattr(NET, "extra", nn.ReLU()), lambda: NET.double().float(), lambda: setattr(NET.norm, "forward", lambda x: x),
    lambda: setattr(NET.a.weight, "data", torch.zeros(3, 3)), lambda: NET.a.weight.grad is None,
)  # fmt: skip
def module(x):
    return NET(x), NET.training, NET.a.weight.requires_grad


def alternate(*choices):
    CALLS[0] += 1
    return choices[(CALLS[0] - 1) % len(choices)]()


SHARED = [1]


@case(
    lambda: alternate(lambda: (torch.rand(2), [1], [1]), lambda: (lambda b: (torch.rand(2), b, b))([1])),
    lambda: None,
    lambda: None,
)
def lists_become_one(x, a, b):
    a.append(5)
    b.append(6)
    return len(a), len(b), x * a[-1]


@case(lambda: alternate(lambda: (torch.rand(2), [1]), lambda: (torch.rand(2), SHARED)), lambda: SHARED.clear())
def argument_is_a_global(x, a):
    SHARED.append(7)
    return len(a), x * sum(a)


@case(
    lambda: alternate(lambda: (torch.rand(2), Box(1), Box(2)), lambda: (lambda b: (torch.rand(2), b, b))(Box(3))),
    lambda: None,
)
def objects_become_one(x, a, b):
    a.value += 10
    return x * b.value, a.value


@case(
    lambda: alternate(lambda: (torch.rand(2), {"k": 1}, {"k": 1}), lambda: (lambda b: (torch.rand(2), b, b))({"k": 1})),
    lambda: None,
)
def dicts_become_one(x, a, b):
    a["k"] += 1
    b["k"] *= 5
    return x * a["k"], b["k"]


@case(
    lambda: alternate(
        lambda: ((torch.rand(2)), Slotted(1), Slotted(2)), lambda: (lambda b: (torch.rand(2), b, b))(Slotted(4))
    ),
    lambda: None,
)
def slotted_become_one(x, a, b):
    a.v += 1
    return x * b.v


@case(
    lambda: alternate(
        lambda: (torch.rand(2), torch.rand(2)),
        lambda: (lambda t: (t, t))(torch.rand(2)),
        lambda: (lambda t: (t, t.view(2)))(torch.rand(2)),
    ),
    lambda: None,
    lambda: None,
)
def tensors_become_one(a, b):
    a.add_(1)
    c = b * 2
    b.mul_(3)
    return c, a + b, a is b


@case(
    lambda: alternate(
        lambda: (torch.rand(4),),
        lambda: (torch.rand(4, dtype=torch.float64),),
        lambda: (torch.rand(2, 2).t(),),
        lambda: (3,),
        lambda: (True,),
        lambda: (1.5,),
    ),
    lambda: None,
    lambda: None,
    lambda: None,
)
def argument_types(x):
    return x + 1, isinstance(x, bool), type(x).__name__


@case(
    lambda: alternate(
        lambda: (torch.rand(2, 3),),
        lambda: (torch.rand(4, 3),),
        lambda: (torch.rand(0, 3),),
        lambda: (torch.rand(1, 3),),
        lambda: (torch.rand(7, 3),),
    ),
    lambda: None,
    lambda: None,
    lambda: None,
    lambda: None,
)
def argument_sizes(x):
    return (
        x.sum(0),
        x.shape[0] * 2,
        len(x),
        [i for i in range(x.shape[0])],
        x.new_zeros(x.shape[0] + 1),
        x[: x.shape[0] // 2],
        x.mean(),
    )


@case(
    lambda: alternate(lambda: (torch.rand(2), 1, 2), lambda: (torch.rand(2), 1), lambda: (torch.rand(2), 1, 2, 3)),
    lambda: None,
)
def argument_counts(x, *rest):
    return x * sum(rest), len(rest)


@case(
    lambda: alternate(
        lambda: (torch.rand(2), {"a": 1, "b": 2}),
        lambda: (torch.rand(2), {"b": 2, "a": 1}),
        lambda: (torch.rand(2), {"a": 1}),
    ),
    lambda: None,
    lambda: None,
)
def argument_dicts(x, d):
    for key, value in d.items():
        x = x * 2 + value + len(key)
    return x, list(d), d.get("b", 9)


@case(
    lambda: alternate(
        lambda: (torch.rand(2), lambda v: v + 1),
        lambda: (torch.rand(2), lambda v: v * 5),
        lambda: (torch.rand(2), torch.sin),
        lambda: (torch.rand(2), Box(4).scale),
    ),
    lambda: None,
    lambda: None,
)
def argument_functions(x, f):
    return f(x)


def make_adder(n):
    return lambda v: v + n


@case(
    lambda: alternate(
        lambda: (torch.rand(2), make_adder(1)),
        lambda: (torch.rand(2), make_adder(2)),
        lambda: (torch.rand(2), make_adder(torch.ones(2))),
    ),
    lambda: None,
    lambda: None,
)
def argument_closures(x, f):
    return f(x)


@case(
    lambda: alternate(lambda: (torch.rand(2), Box), lambda: (torch.rand(2), SubBox), lambda: (torch.rand(2), Slotted)),
    lambda: None,
)
def argument_classes(x, cls):
    made = cls(3)
    return made.value * x if hasattr(made, "value") else made.v * x


@case(
    lambda: alternate(
        lambda: (torch.rand(2), [1, [2]]),
        lambda: (torch.rand(2), [1, (2,)]),
        lambda: (torch.rand(2), (1, [2])),
        lambda: (torch.rand(2), [1, [2.0]]),
    ),
    lambda: None,
    lambda: None,
)
def argument_nesting(x, tree):
    return x * tree[1][0], type(tree[1]).__name__, type(tree).__name__


@case(
    lambda: (torch.rand(2),),
    lambda: MATRIX.append([5, 6]),
    lambda: MATRIX[0].append(9),
    lambda: MATRIX.__setitem__(1, MATRIX[0]),
)
def nested_lists(x):
    for row in MATRIX:
        x = x * 2 + sum(row)
    MATRIX[0][0] += 1
    return x, MATRIX[0] == MATRIX[1]


def first_choice(x):
    return x + 1


def second_choice(x):
    return x + 2


FIRST, SECOND = first_choice, first_choice
TYPES = {"a": torch.float32, "b": torch.float32}
RANGES = [range(3), None]
RANGES[1] = RANGES[0]


def choose_others():
    global SECOND
    SECOND = second_choice
    TYPES["b"] = torch.float64
    RANGES[1] = range(4)


@case(lambda: (torch.rand(2),), choose_others)
def one_object_under_two_names(x):
    """A function, a type and a range are known by identity or by value, under each name by which they are found."""
    return FIRST(x), SECOND(x), x.to(TYPES["a"]), x.to(TYPES["b"]), RANGES[0], RANGES[1]
