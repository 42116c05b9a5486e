"""Classes of every kind: special methods, descriptors, slots, dataclasses, enumerations, metaclasses, inheritance."""

from __future__ import annotations

import abc
import dataclasses
import enum
import functools
import os
import sys
import types
import typing

import torch

from tests.capture.twins import Cases

case = Cases()


class Logged:
    def __init__(self, value):
        self.value = value
        self.log = []

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        self.log.append(name)
        return len(name)

    def __setattr__(self, name, value):
        if name not in ("log", "value"):
            self.log.append(("set", name))
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        self.log.append(("del", name))
        super().__delattr__(name)


class Watched:
    def __init__(self, value):
        self.value = value

    def __getattribute__(self, name):
        if name == "double":
            return object.__getattribute__(self, "value") * 2
        return super().__getattribute__(name)


class Operand:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Operand) and self.value == other.value

    def __hash__(self):
        return hash(self.value)

    def __lt__(self, other):
        return self.value < other.value

    def __contains__(self, item):
        return item == self.value

    def __iter__(self):
        yield self.value
        yield self.value + 1

    def __call__(self, x, *, k=1):
        return x * self.value * k

    def __enter__(self):
        self.value += 1
        return self

    def __exit__(self, kind, value, trace):
        self.value -= 10
        return kind is KeyError

    def __neg__(self):
        return Operand(-self.value)

    def __radd__(self, other):
        return other + self.value

    def __iadd__(self, other):
        self.value += other
        return self

    def __matmul__(self, other):
        return self.value * 100

    def __index__(self):
        return self.value

    def __bool__(self):
        return self.value > 3

    def __len__(self):
        return self.value

    def __str__(self):
        return f"<{self.value}>"

    def __repr__(self):
        return f"Operand({self.value})"

    def __format__(self, spec):
        return f"{spec}:{self.value}"

    def __reversed__(self):
        return iter([2, 1])

    def __getitem__(self, key):
        return (key, self.value)

    def __setitem__(self, key, value):
        self.value += value

    def __delitem__(self, key):
        self.value = 0

    def __int__(self):
        return self.value + 1000


class Typed:
    """A descriptor written in Python."""

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, cls=None):
        return self if obj is None else getattr(obj, self.name, 0) + 1

    def __set__(self, obj, value):
        setattr(obj, self.name, value * 2)


class NonData:
    def __get__(self, obj, cls=None):
        return 42


class Model:
    field = Typed()
    plain = NonData()
    shared = []
    count = 0

    def __init__(self):
        self._x = 1

    @property
    def x(self):
        return self._x

    @x.setter
    def x(self, value):
        self._x = value + 1

    @x.deleter
    def x(self):
        self._x = None

    @functools.cached_property
    def cached(self):
        self._x += 1
        return self._x * 10

    @classmethod
    def make(cls, value):
        made = cls()
        made._x = value
        return made

    @staticmethod
    def double(value):
        return value * 2


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


class MoreSlots(Slots):
    __slots__ = ("c",)


@dataclasses.dataclass
class Plain:
    a: object
    b: list = dataclasses.field(default_factory=list)
    c: int = 0

    def __post_init__(self):
        self.c += 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int
    b: object = None


@dataclasses.dataclass(slots=True, order=True)
class Ordered:
    a: int
    b: int = 2


class Pair(typing.NamedTuple):
    a: object
    b: int = 3

    def total(self):
        return self.a + self.b


class Color(enum.Enum):
    RED = 1
    BLUE = 2

    @property
    def shade(self):
        return self.value * 10


class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...


class Square(Shape):
    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side**2


@typing.runtime_checkable
class HasArea(typing.Protocol):
    def area(self): ...


class Meta(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.extra = cls.__name__
        return made

    def __getattr__(cls, name):
        return name.upper()

    def __contains__(cls, item):
        return item == "yes"

    def __len__(cls):
        return 7

    @property
    def meta_property(cls):
        return 5


class WithMeta(metaclass=Meta):
    def __init__(self, v=1):
        self.v = v


class Left:
    def go(self, x):
        return [*super().go(x), "left"] if hasattr(super(), "go") else ["left"]


class Right:
    def go(self, x):
        return ["right", x]


class Both(Left, Right):
    def go(self, x):
        return [*super().go(x), "both"]


class Finalized:
    def __init__(self, v):
        self.v = v

    def __del__(self):
        pass


class MyInt(int):
    def __add__(self, other):
        return MyInt(int(self) + int(other) + 100)


class MyFloat(float):
    pass


class MyStr(str):
    def shout(self):
        return self.upper() + "!"


@functools.total_ordering
class Ranked:
    def __init__(self, r):
        self.r = r

    def __eq__(self, other):
        return self.r == other.r

    def __lt__(self, other):
        return self.r < other.r

    __hash__ = None


@functools.singledispatch
def describe(value):
    return "other"


@describe.register
def _(value: int):
    return "int"


@describe.register
def _(value: torch.Tensor):
    return "tensor"


@describe.register
def _(value: list):
    return "list"


LOGGED = Logged(3)
WATCHED = Watched(4)
OPERAND = Operand(5)
MODEL = Model()
SLOTS = MoreSlots(1)
PLAIN = Plain(1)
FROZEN = Frozen(1, [2])
ORDERED = Ordered(1)
PAIR = Pair(2)
SQUARE = Square(3)
BOTH = Both()
FINAL = Finalized(3)
INT = MyInt(3)
FLOAT = MyFloat(2.5)
STR = MyStr("abc")
SPACE = types.SimpleNamespace(a=1, b=[2])
RANKS = [Ranked(2), Ranked(1)]


@case
def logged_attributes(x):
    y = x + LOGGED.missing + LOGGED.value
    LOGGED.fresh = 1
    del LOGGED.fresh
    return y, LOGGED.log


@case
def custom_getattribute(x):
    return x * WATCHED.double + WATCHED.value


@case(lambda: (torch.rand(2),), lambda: setattr(OPERAND, "value", 2))
def special_methods(x):
    a = OPERAND == Operand(5)
    b = OPERAND < Operand(6)
    c = 5 in OPERAND
    d = [*OPERAND]
    e = OPERAND(x, k=2)
    f = -OPERAND
    g = 3 + OPERAND
    h = OPERAND @ 3
    i = [10, 11, 12, 13, 14, 15][OPERAND]
    j = bool(OPERAND), len(OPERAND), str(OPERAND), repr(OPERAND), f"{OPERAND:q}", list(reversed(OPERAND))
    return a, b, c, d, e, f, g, h, i, j, OPERAND["k"], int(OPERAND), OPERAND != Operand(1)


@case
def mutating_special_methods(x):
    o = Operand(1)
    o += 5
    o["k"] = 3
    with o as p:
        v = p.value
    with o:
        raise KeyError("swallowed")
    del o["q"]
    global OPERAND
    OPERAND += 2
    OPERAND["z"] = 1
    return v, o, x + OPERAND.value, hash(o) == hash(0)


@case
def objects_as_keys(x):
    d = {Operand(1): x, Operand(2): 2}
    s = {Operand(1), Operand(1)}
    return d[Operand(1)], len(s), Operand(3) in d, sorted([Operand(3), Operand(1)])[0], max(Operand(3), Operand(9))


@case
def operand_unpacking(x):
    a, b = OPERAND
    return x * a + b, dict([OPERAND]), tuple(OPERAND)


@case(lambda: (torch.rand(2),), lambda: setattr(MODEL, "field", 9), lambda: MODEL.__dict__.update(plain=1))
def descriptors(x):
    MODEL.field = 3
    return x * MODEL.field, MODEL.plain, Model.plain, Model.field.name


@case(lambda: (torch.rand(2),), lambda: setattr(MODEL, "_x", 9))
def properties(x):
    MODEL.x = 5
    y = x * MODEL.x
    MODEL.x += 2
    z = MODEL.x
    del MODEL.x
    MODEL.x = 1
    return y, z


@case(lambda: (torch.rand(2),), lambda: MODEL.__dict__.pop("cached", None))
def cached_properties(x):
    made = Model()
    return x * MODEL.cached, made.cached, made.cached, "cached" in made.__dict__


@case
def class_and_static_methods(x):
    return Model.make(3).x, MODEL.make(4).x, Model.double(x), MODEL.double(2)


@case
def class_attribute_write(x):
    Model.count += 1
    return x + Model.count


@case
def class_attribute_mutation(x):
    Model.shared.append(x)
    MODEL.shared.append(1)
    return len(MODEL.shared)


@case
def shadowing_class_attribute(x):
    MODEL.count += 5
    return x + MODEL.count, Model.count


@case
def slots(x):
    SLOTS.b = x
    SLOTS.a += 1
    made = MoreSlots(2)
    made.c = 1
    del SLOTS.b
    return SLOTS.a, made, hasattr(SLOTS, "b"), hasattr(SLOTS, "c"), x


@case(lambda: (torch.rand(2), MoreSlots(1)))
def slots_argument(x, s):
    s.b = [x]
    s.b.append(s.a)
    return s.b, getattr(s, "c", "none")


@case
def dataclass_features(x):
    p = Plain(x, c=3)
    q = dataclasses.replace(PLAIN, a=x)
    PLAIN.b.append(1)
    PLAIN.c += 1
    return p, q, dataclasses.asdict(Plain(1, [2])), dataclasses.astuple(Plain(1)), Plain(1) == Plain(1), str(Plain(1))


@case
def dataclass_fields(x):
    return [f.name for f in dataclasses.fields(PLAIN)], dataclasses.is_dataclass(Plain), x


@case
def frozen_dataclass(x):
    f = Frozen(2, x)
    g = dataclasses.replace(FROZEN, b=5)
    try:
        FROZEN.a = 3
    except dataclasses.FrozenInstanceError as error:
        message = str(error)
    return f, g, message, hash(Frozen(1)) == hash(Frozen(1)), {Frozen(1): 2}[Frozen(1)]


@case
def slotted_dataclass(x):
    ORDERED.b += 1
    return Ordered(1) < Ordered(2), Ordered(3, 4), x + ORDERED.b, sorted([Ordered(2), Ordered(1)])[0].a


@case
def named_tuples(x):
    p = Pair(x)
    a, b = p
    return p, p.total(), p._replace(b=1), PAIR.total(), p._asdict(), Pair._fields, PAIR[1], PAIR + (1,), a * b


@case(lambda: (torch.rand(2), Color.RED, Flags.A | Flags.B, Level.HIGH))
def enumerations(x, color, flags, level):
    return (
        x * color.value,
        color is Color.RED,
        Color["BLUE"],
        Color(2).shade,
        Flags.A in flags,
        flags & Flags.B,
        flags ^ Flags.A,
        level > Level.LOW,
        x + level,
        [c.name for c in Color],
        level + 1,
        f"{level}",
        {Color.RED: 1}[color],
        len(Color),
    )


@case
def abstract_classes(x):
    return isinstance(SQUARE, Shape), isinstance(SQUARE, HasArea), SQUARE.area() * x, issubclass(Square, Shape)


@case
def abstract_instantiation(x):
    try:
        Shape()
    except TypeError:
        return x + 1


@case
def metaclass(x):
    made = WithMeta(3)
    return made, WithMeta.anything, "yes" in WithMeta, len(WithMeta), WithMeta.meta_property, x


@case
def multiple_inheritance(x):
    return BOTH.go(x), Left().go(1), [c.__name__ for c in Both.__mro__]


@case
def super_variants(x):
    class Base:
        tag = "base"

        def __init__(self, v):
            self.v = v

        @classmethod
        def build(cls, v):
            return cls(v)

        @property
        def p(self):
            return self.v + 1

    class Child(Base):
        tag = "child"

        def __init__(self, v):
            super(Child, self).__init__(v * 2)

        @classmethod
        def build(cls, v):
            return super().build(v + 1)

        @property
        def p(self):
            return super().p * 10

        def tags(self):
            return [super().tag for _ in range(1)] if False else super().tag

    c = Child.build(1)
    return c.v, c.p, c.tags(), x + c.v


@case
def class_body_inside(x):
    n = 2

    class Local:
        k = n * 3
        values = [i for i in range(k) if i % 2]

        def scale(self, y, m=k):
            return y * m * n

        __call__ = scale

    made = Local()
    return made.scale(x), made(x), Local.k, Local.values, Local.__name__, isinstance(made, Local)


@case
def local_class_instance_escapes(x):
    class Local:
        def __init__(self):
            self.x = x

    return Local()


@case
def local_class_escapes(x):
    class Local:
        k = 1

    Local.k += 1
    return Local


@case
def type_call(x):
    made = type("Made", (), {"k": 3, "f": lambda self, y: y * self.k})
    return made().f(x), made.__name__


@case(lambda: (torch.rand(2),), lambda: setattr(FINAL, "v", 8), lambda: setattr(FINAL, "w", 8))
def object_with_finalizer(x):
    return x * FINAL.v + getattr(FINAL, "w", 100)


@case
def finalized_object_written(x):
    FINAL.v += 1
    return x * FINAL.v


@case
def finalizer_runs(x):
    f = Finalized(1)
    f.v = 3
    return x + f.v


@case
def number_subclasses(x):
    return INT + 1, x * INT, FLOAT * 2, x + FLOAT, isinstance(INT, int), int(INT), STR.shout(), STR + "d", len(STR)


@case
def number_subclass_made(x):
    return MyInt(5), MyFloat(1.5), MyStr("q"), [MyInt(1)]


@case(lambda: (torch.rand(2),), lambda: setattr(SPACE, "a", 7), lambda: setattr(SPACE, "c", 7))
def simple_namespace(x):
    SPACE.b.append(x)
    return x * SPACE.a, hasattr(SPACE, "c"), len(SPACE.b)


@case
def simple_namespace_written(x):
    SPACE.a += 1
    SPACE.fresh = x
    made = types.SimpleNamespace(q=x, r=1)
    made.r += 1
    return made, SPACE.fresh, vars(made)


@case
def ordering(x):
    ranked = sorted(RANKS)
    return [r.r for r in ranked], RANKS[0] >= RANKS[1], min(RANKS).r, max(RANKS, key=lambda r: -r.r).r, x


@case(lambda: (torch.rand(2), 1))
def single_dispatch(x, n):
    return describe(x), describe(n), describe([1]), describe("s")


@case
def dynamic_attributes(x):
    for name in ("p", "q"):
        setattr(MODEL, name, x + len(name))
    MODEL.__dict__["direct"] = 1
    return getattr(MODEL, "p"), vars(MODEL)["direct"], "q" in MODEL.__dict__, sorted(MODEL.__dict__)


@case
def delete_attributes(x):
    MODEL.gone = 1
    del MODEL.gone
    delattr(MODEL, "_x")
    MODEL._x = x
    return hasattr(MODEL, "gone")


@case
def class_assignment(x):
    made = Left()
    made.__class__ = Right
    return made.go(x)


@case
def class_assignment_outside(x):
    MODEL.__class__ = Finalized
    v = type(MODEL).__name__
    MODEL.__class__ = Model
    return v, x


@case
def bound_methods(x):
    go = BOTH.go
    area = Square(2).area
    return go(x), area(), go == BOTH.go, go.__self__ is BOTH, go.__func__ is Both.go, area


@case
def type_queries(x):
    return type(MODEL) is Model, type(x), MODEL.__class__, isinstance(x, (int, torch.Tensor)), type(INT).__mro__[1]


@case
def callable_checks(x):
    return callable(OPERAND), callable(x), callable(Model), callable(3), callable(MODEL)


MADE = []


@case
def local_classes_differ(x):
    class Local:
        pass

    MADE.append(Local)
    return len(set(MADE)), isinstance(Local(), MADE[0])


@case
def local_exception(x):
    class Wrong(Exception):
        pass

    try:
        raise Wrong(1)
    except Wrong as error:
        return error.args, x


@case
def local_exception_escapes(x):
    class Wrong(Exception):
        pass

    raise Wrong(x.dim())


@case
def local_dataclass_and_enum(x):
    @dataclasses.dataclass
    class Local:
        a: int
        b: list = dataclasses.field(default_factory=list)

    class Kind(enum.Enum):
        ONE = 1

    class Couple(typing.NamedTuple):
        left: int
        right: int = 2

    return Local(1).b, Kind.ONE.value, Couple(1).right, x


class Closing:
    log = []

    def __init__(self, name):
        self.name = name

    def __del__(self):
        Closing.log.append(self.name)


@case
def object_with_a_finalizer(x):
    made = Closing("a")
    y = x + len(made.name)
    Closing.log.append("before")
    del made
    Closing.log.append("after")
    return y, len(Closing.log)


@case
def deleted_from_an_empty_cell(x):
    def read():
        return late

    os.getpid()
    try:
        read()
    except NameError as error:
        message = str(error)
    os.getpid()
    late = 3
    return x * read(), message


class Meta(type):
    def __new__(mcls, name, bases, namespace):
        return super().__new__(mcls, name, bases, {**namespace, "tag": name})


@case
def class_of_a_metaclass(x):
    class Made(metaclass=Meta):
        pass

    return x, Made.tag, isinstance(Made(), Made)


class Unprintable(Exception):
    printed = []

    def __str__(self):
        Unprintable.printed.append(1)
        return None


@case
def raises_what_cannot_be_printed(x):
    raise Unprintable(x.dim())


PLACE = object()
BARE = Unprintable()
HELD = [PLACE, {"k": Finalized(1)}]


@case
def addresses_in_texts(x):
    shown = f"{HELD!r}", str(HELD[1]["k"]), "%r" % (PLACE,), "{}".format(HELD[1]["k"]), repr([HELD])
    return x, [text == other for text, other in zip(shown, expected_texts())]


def expected_texts():
    hidden = vars(__builtins__)["eval"] if not isinstance(__builtins__, dict) else __builtins__["eval"]
    return hidden("f'{HELD!r}', str(HELD[1]['k']), repr(PLACE), str(HELD[1]['k']), repr([HELD])", globals())


class Appending(list):
    def append(self, item):
        super().append((print("appended"), item)[1])


class Adding(int):
    def __add__(self, other):
        return type(self)(super().__add__((print("added"), other)[1]))


@case(lambda: (torch.rand(2), Appending()))
def native_methods_of_bases_cross_breaks(x, items):
    items.append(x + 1)
    own = Appending()
    own.append(x)
    return items, own, int(Adding(3) + 4)


@case(lambda: (torch.rand(2), Appending()))
def bound_method_of_a_base_crosses_a_break(x, items):
    method = super(Appending, items).append
    print("between")
    method(x + 1)
    return items


@case(lambda: (lambda items: (torch.rand(2), super(Appending, items).append, items))(Appending()))
def bound_method_of_a_base_from_outside(x, method, items):
    method(x + 1)
    return items


@case
def descriptor_as_missing(x):
    log = []

    class Missing:
        def __get__(self, owner, cls):
            log.append(owner is None)
            return lambda key: key

    class Table(dict):
        __missing__ = Missing()

    return x + 1, Table()["key"], log


@case
def class_of_a_class_with_hooks(x):
    log = []

    class Meta(type):
        def __getattr__(cls, name):
            log.append(name)
            raise AttributeError(name)

    class Made(metaclass=Meta):
        pass

    made = Made()
    return x + 1, bool(made), [made][0] is made, getattr(Made, "missing", 3), log


class Registered:
    def __init_subclass__(cls):
        cls.registered_in = cls.__module__


class MetaOfMany(type):
    def __new__(cls, name, bases, members):
        return super().__new__(cls, name, bases, members)


@case
def modules_of_classes_made_by_calls(x):
    made = type("Made", (), {}), MetaOfMany("Other", (), {}), types.new_class("Third"), abc.ABCMeta("Fourth", (), {})
    return x + 1, [cls.__module__ for cls in made], type("Fifth", (Registered,), {}).registered_in


@case
def frames_around_the_program(x):
    def inner():
        return sys._getframe(1).f_code.co_name

    return x + 1, inner(), sys._getframe(1).f_code.co_name
