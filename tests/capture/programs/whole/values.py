"""Data classes, enums, copies, collections, namespaces, weak references."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import os
import time
import types
import weakref
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any, ClassVar, NamedTuple

import torch

from tests.capture.twins import Cases

case = Cases()


# ---- data classes ----------------------------------------------------------------------------------------------------


@dataclass
class Point:
    x: Any
    y: Any = 2
    tags: list = field(default_factory=list)
    hidden: int = field(default=0, repr=False, compare=False)
    count: ClassVar[int] = 3


@dataclass(frozen=True)
class Frozen:
    a: Any
    b: int = 1

    def more(self):
        return dataclasses.replace(self, b=self.b + 1)


@dataclass(slots=True)
class Slotted:
    a: Any
    b: int = 5


@dataclass(order=True)
class Ordered:
    rank: int
    name: str = field(compare=False, default="")


@dataclass(kw_only=True)
class Keywords:
    a: Any
    b: int = 1


@dataclass
class Mixed:
    a: Any
    _: KW_ONLY
    b: int = 1


@dataclass
class Prepared:
    x: Any
    scale: InitVar[float] = 2.0
    made: Any = field(init=False)

    def __post_init__(self, scale):
        self.made = self.x * scale


@dataclass
class Derived(Point):
    z: Any = None


@dataclass(frozen=True, slots=True, order=True)
class All:
    a: int
    b: tuple = ()


@dataclass(unsafe_hash=True)
class Hashed:
    a: int


GIVEN = Point(torch.ones(4), tags=["a"])


@case
def dataclass_fields(x):
    p = Point(x)
    p.tags.append(1)
    q = Point(x, 3, hidden=4)
    return p, q, p.tags is q.tags, Point.count, [f.name for f in dataclasses.fields(p)], p.hidden


@case
def dataclass_from_outside(x):
    GIVEN.y += 1
    GIVEN.tags.append("b")
    return GIVEN.x + x * GIVEN.y, len(GIVEN.tags), dataclasses.is_dataclass(GIVEN), dataclasses.is_dataclass(Point)


@case
def dataclass_text_and_equality(x):
    return (
        x,
        repr(Point(1, 2)),
        Point(1) == Point(1),
        Point(1) != Point(2),
        Point(1, hidden=3) == Point(1),
        Point(1) == 3,
    )


@case
def dataclass_frozen(x):
    f = Frozen(x)
    try:
        f.a = 1
    except dataclasses.FrozenInstanceError as error:
        text = str(error)
    try:
        del f.a
    except dataclasses.FrozenInstanceError as error:
        return f.more().more(), text, str(error), hash(Frozen(1)) == hash(Frozen(1)), {Frozen(1, 2): "a"}[Frozen(1, 2)]


@case
def dataclass_slots(x):
    s = Slotted(x)
    s.b += 1
    try:
        s.c = 1
    except AttributeError:
        return s, hasattr(s, "__dict__"), s == Slotted(x, 6) if False else s.b


@case
def dataclass_order(x):
    ranks = sorted([Ordered(2, "b"), Ordered(1, "z")])
    return x, [r.name for r in ranks], Ordered(1) < Ordered(2), max(ranks).rank, Ordered(1, "a") == Ordered(1, "b")


@case
def dataclass_keywords(x):
    try:
        Keywords(x)
    except TypeError as error:
        return Keywords(a=x), Mixed(x, b=2), str(error)


@case
def dataclass_post_init(x):
    return Prepared(x), Prepared(x, 3.0).made, Prepared.scale


@case
def dataclass_inheritance(x):
    d = Derived(x, z=x + 1)
    return d, isinstance(d, Point), [f.name for f in dataclasses.fields(Derived)], d == Derived(1) if False else 0


@case
def dataclass_replace(x):
    p = Point(1, 2)
    return (
        dataclasses.replace(p, x=x),
        dataclasses.replace(GIVEN, x=x, tags=[]),
        dataclasses.replace(Prepared(x), scale=2.0),
    )


@case
def dataclass_as_dict(x):
    nested = Point(Frozen(x), [Slotted(1)], ["t"])
    return dataclasses.asdict(nested), dataclasses.astuple(Point(1, (2, Frozen(3)))), dataclasses.asdict(GIVEN)["tags"]


@case
def dataclass_all_options(x):
    a = All(1, (2,))
    return (
        x,
        a < All(2),
        hash(a) == hash(All(1, (2,))),
        a == All(1, (2,)),
        {a: 5}[All(1, (2,))],
        dataclasses.replace(a, a=7),
    )


@case
def dataclass_hashed(x):
    return x, {Hashed(1), Hashed(1), Hashed(2)} == {Hashed(1), Hashed(2)}


@case
def dataclass_matched(x):
    match Point(x, 5):
        case Point(a, 5):
            return a * 2
    return x


@case
def dataclass_field_metadata(x):
    @dataclass
    class Local:
        a: int = field(default=1, metadata={"unit": "m"})
        b: list = field(default_factory=lambda: [1])

    return x, Local().a, Local().b, dataclasses.fields(Local)[0].metadata["unit"], Local(2) == Local(2)


# ---- enums -----------------------------------------------------------------------------------------------------------


class Color(enum.Enum):
    RED = 1
    GREEN = 2
    CRIMSON = 1

    @property
    def pretty(self):
        return self.name.lower()

    @classmethod
    def first(cls):
        return next(iter(cls))


class Size(enum.IntEnum):
    SMALL = enum.auto()
    LARGE = enum.auto()


class Perm(enum.Flag):
    R = enum.auto()
    W = enum.auto()
    X = enum.auto()
    RW = R | W


class Bits(enum.IntFlag):
    A = 1
    B = 2


class Mode(enum.StrEnum):
    FAST = enum.auto()
    SLOW = "s"


class Planet(enum.Enum):
    EARTH = (2.0, 3)
    MARS = (1.0, 2)

    def __init__(self, mass, number):
        self.mass = mass
        self.number = number

    @classmethod
    def _missing_(cls, value):
        return cls.MARS


CHOSEN = Color.GREEN


@case(lambda: (torch.rand(2), Color.RED), lambda: globals().__setitem__("CHOSEN", Color.RED))
def enum_members(x, given):
    return (
        x * Color.GREEN.value, given is Color.RED, Color.CRIMSON is Color.RED, given.name, given.pretty, Color.first(),
        CHOSEN == given, CHOSEN, given in Color, repr(given), str(given), f"{given}", hash(given) == hash(Color.RED),
    )  # fmt: skip


@case
def enum_lookups(x):
    try:
        Color(7)
    except ValueError as error:
        text = str(error)
    try:
        Color["BLUE"]
    except KeyError as error:
        return x, Color(2), Color["RED"], text, str(error), getattr(Color, "GREEN"), Planet(5), Planet((2.0, 3)).mass


@case
def enum_iteration(x):
    return (
        x,
        list(Color),
        [c.name for c in Color],
        len(Color),
        list(Color.__members__),
        list(reversed(Size)),
        {c: c.value for c in Color},
    )


@case
def int_enum(x):
    return (
        x * Size.LARGE,
        Size.SMALL + 1,
        Size.SMALL < Size.LARGE,
        [1, 2, 3][Size.SMALL],
        Size(2),
        f"{Size.LARGE}",
        max(Size),
    )


@case
def flags(x):
    both = Perm.R | Perm.X
    return (
        x, both, Perm.R in both, Perm.W in both, both & Perm.R, both ^ Perm.RW, ~Perm.R, bool(Perm.R & Perm.W), list(both),
        Perm(3), Perm.RW.name, len(both), Bits.A | Bits.B, Bits.A | 4, int(Bits.B), Bits(3), both.value,
    )  # fmt: skip


@case
def str_enum(x):
    return x, Mode.FAST.upper(), Mode("s"), Mode.SLOW == "s", f"{Mode.FAST}", {"fast": 1}[Mode.FAST], "-".join(Mode)


@case(lambda: (torch.rand(2), Color.GREEN))
def enum_matched(x, given):
    match given:
        case Color.RED:
            return x
        case Color.GREEN:
            return x * 2
    return x * 3


@case
def enum_made_here(x):
    Local = enum.Enum("Local", "A B")

    class Other(enum.IntEnum):
        C = 3

    return x * Other.C, Local.A.value, [m.name for m in Local], Local["B"].value


# ---- copies ----------------------------------------------------------------------------------------------------------


class Copied:
    def __init__(self, x):
        self.x = x
        self.items = [1, x]

    def __copy__(self):
        made = type(self)(self.x)
        made.items = "shallow"
        return made

    def __deepcopy__(self, memo):
        made = type(self)(copy.deepcopy(self.x, memo))
        memo[id(self)] = made
        made.items = "deep"
        return made


class Reduced:
    def __init__(self, a):
        self.a = a

    def __reduce__(self):
        return (Reduced, (self.a,), {"restored": True})


class Stated:
    def __init__(self, a):
        self.a, self.cache = a, {1: 2}

    def __getstate__(self):
        return {"a": self.a}

    def __setstate__(self, state):
        self.a, self.cache = state["a"], None


class WithSlots:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


class Ordinary:
    def __init__(self, a):
        self.a = a
        self.me = self


class Pair(NamedTuple):
    a: Any
    b: Any = 1


HELD = {"a": [1, {"b": (2, [3])}], "t": torch.ones(2)}
ORDINARY = Ordinary([1, torch.zeros(2)])


@case
def copy_containers(x):
    items = [x, [1], {"a": x}]
    shallow, deep = copy.copy(items), copy.deepcopy(items)
    return (
        shallow[1] is items[1],
        deep[1] is items[1],
        shallow,
        deep,
        copy.copy((1, x)),
        copy.deepcopy({1, 2}),
        copy.copy({1: x}),
    )


@case
def copy_from_outside(x):
    deep = copy.deepcopy(HELD)
    deep["a"].append(x)
    shallow = copy.copy(HELD)
    shallow["c"] = 1
    return deep, len(HELD), len(shallow), shallow["a"] is HELD["a"], deep["t"] + x[:2]


@case
def copy_with_aliases(x):
    inner = [1]
    deep = copy.deepcopy([inner, inner, (inner,)])
    loop = [x]
    loop.append(loop)
    again = copy.deepcopy(loop)
    return deep[0] is deep[1], deep[2][0] is deep[0], again[1] is again


@case
def copy_hooks(x):
    c = Copied(x)
    return copy.copy(c), copy.deepcopy(c), copy.deepcopy([c, c])[1].items


@case
def copy_reduced(x):
    made = copy.copy(Reduced(x))
    return made, copy.deepcopy(Reduced([x])), made.restored, copy.copy(Stated(x)), copy.deepcopy(Stated([1]))


@case
def copy_slots(x):
    made = copy.copy(WithSlots(x))
    made.b = 3
    return made, copy.deepcopy(WithSlots([x]))


@case
def copy_objects(x):
    deep = copy.deepcopy(ORDINARY)
    own = copy.copy(Ordinary(x))
    return deep.me is deep, deep.a[1] + x[:2], own.a is x, own.me is own, copy.copy(ORDINARY).a is ORDINARY.a


@case
def copy_tensors(x):
    y = copy.copy(x * 2)
    z = copy.deepcopy(x.detach())
    again = copy.deepcopy([z, z])
    return y + 1, z + 1, again, again[0] is again[1]


@case
def copy_dataclasses(x):
    return (
        copy.copy(Point(x)),
        copy.deepcopy(Point(1, tags=[[1]])),
        copy.deepcopy(Frozen(2)),
        copy.copy(Slotted(x)),
        copy.copy(All(1)),
    )


@case
def copy_others(x):
    return (
        x, copy.copy(Color.RED) is Color.RED, copy.deepcopy(Color), copy.deepcopy(len) is len, copy.copy(Pair(x)),
        copy.deepcopy(Pair([1])), copy.copy(collections.deque([1], 3)), copy.deepcopy(collections.OrderedDict(a=[1])),
        copy.deepcopy(collections.defaultdict(list, a=[1])), copy.copy(collections.Counter("aab")), copy.copy(slice(1, 2)),
        copy.copy(types.SimpleNamespace(a=x)), copy.deepcopy(types.SimpleNamespace(a=[1])),
    )  # fmt: skip


# ---- collections -----------------------------------------------------------------------------------------------------

QUEUE = collections.deque([1, 2, 3], maxlen=4)
ORDERED = collections.OrderedDict(a=1, b=2, c=3)
DEFAULT = collections.defaultdict(list, k=[1])
COUNTER = collections.Counter("aab")
CHAIN = collections.ChainMap({"a": 1}, {"a": 2, "b": 3})


class User(collections.UserDict):
    def __missing__(self, key):
        return key * 2


class Users(collections.UserList):
    pass


USER = User(a=1)


@case
def deque_made_here(x):
    q = collections.deque([1, 2, 3], maxlen=3)
    q.append(x)
    q.appendleft(0)
    q.rotate(1)
    q.extend([5])
    q.extendleft([6, 7])
    first = q.popleft()
    return (
        q,
        first,
        q.maxlen,
        len(q),
        list(reversed(q)),
        q.index(6),
        q.count(6),
        6 in q,
        q.copy(),
        q[0],
        q == q.copy(),
        collections.deque("ab") + collections.deque("c"),
    )


@case
def deque_from_outside(x):
    QUEUE.append(x)
    QUEUE.rotate(-1)
    return QUEUE[0], len(QUEUE), list(QUEUE)[:1], QUEUE.maxlen, QUEUE


@case(lambda: (torch.rand(2), collections.deque([1, 2, torch.rand(2)])))
def deque_argument(x, q):
    last = q.pop()
    q.appendleft(x)
    for item in q:
        last = last + item
    q[1] = 7
    q.insert(1, "a")
    q.remove(2)
    q.reverse()
    return last, q


@case(lambda: (torch.rand(2), collections.deque([1, 2, 3])))
def deque_that_is_only_read(x, q):
    try:
        q.index(9)
    except ValueError as error:
        text = str(error)
    try:
        for _ in q:
            q.append(1)
    except RuntimeError as error:
        q.pop()
        return x + q[-1] + sum(q), 3 in q, text, str(error), bool(q), max(q), [*q]


@case
def ordered_dicts(x):
    d = collections.OrderedDict(a=1, b=x)
    d.move_to_end("a")
    d["c"] = 3
    d.move_to_end("c", last=False)
    popped = d.popitem(last=False)
    ORDERED.move_to_end("a")
    return d, popped, list(ORDERED), list(reversed(d)), d == collections.OrderedDict(b=x, a=1) if False else list(d)


@case
def default_dicts(x):
    d = collections.defaultdict(list)
    d["a"].append(x)
    d["a"].append(1)
    DEFAULT["new"].append(2)
    n = collections.defaultdict(int, a=2)
    n["b"] += 1
    n["a"] += 1
    return d, n, "z" in d, d.get("z"), DEFAULT["k"], len(DEFAULT), collections.defaultdict(lambda: 7)["q"]


@case
def counters(x):
    c = collections.Counter("abca")
    c.update("bb")
    c.subtract({"a": 1})
    COUNTER["z"] += 2
    return (
        c, c.most_common(1), c["missing"], sorted(c.elements()), c.total(), c + collections.Counter(a=1), c - collections.Counter(b=9),
        c & collections.Counter(a=1), c | collections.Counter(z=1), COUNTER, x, +c, collections.Counter(a=1) <= c,
    )  # fmt: skip


@case
def chain_maps(x):
    m = collections.ChainMap({"a": x}, {"a": 1, "b": 2})
    m["c"] = 3
    child = m.new_child({"b": 5})
    CHAIN["q"] = CHAIN.get("q", 0) + 1
    return m["a"], dict(m), child["b"], len(m), m.maps[0], m.parents["a"], "zz" in m, list(m), CHAIN["b"], CHAIN.maps


@case
def named_tuples(x):
    Local = collections.namedtuple("Local", "a b", defaults=[2])
    p = Pair(x)
    return (
        p._replace(b=2),
        p._asdict(),
        Pair._fields,
        Pair._make([1, 2]),
        Local(1).b,
        p[0],
        p.b,
        len(p),
        Pair(1) == (1, 1),
        [*Pair(1)],
    )


@case
def user_containers(x):
    u = User(b=2)
    u["c"] = x
    USER["n"] = USER.get("n", 0) + 1
    l = Users([1, 2])
    l.append(x)
    return u["q"], "b" in u, len(u), u.data, USER, l, l[0], l + [3], collections.UserString("ab").upper()


# ---- attributes ------------------------------------------------------------------------------------------------------


class Bag:
    fixed = 1

    def __init__(self):
        self.a = 1


BAG = Bag()
NAMES = ["one", "two"]


class Dynamic:
    def __getattr__(self, name):
        if name.startswith("get_"):
            return lambda: name[4:]
        raise AttributeError(name)

    def __setattr__(self, name, value):
        object.__setattr__(self, "set_" + name, value)

    def __delattr__(self, name):
        object.__delattr__(self, "set_" + name)


@case
def computed_names(x):
    b = Bag()
    for i, name in enumerate(NAMES):
        setattr(b, f"n_{name}", x * i)
        setattr(BAG, "n_" + name, getattr(BAG, "n_" + name, 0) + i)
    total = sum(getattr(b, f"n_{name}") for name in NAMES)
    delattr(b, "n_one")
    return (
        total,
        hasattr(b, "n_one"),
        getattr(b, "n_one", "gone"),
        vars(b),
        BAG,
        sorted(vars(BAG)),
        getattr(b, "fix" + "ed"),
    )


@case
def attributes_by_text(x):
    return (
        getattr(torch, "si" + "n")(x) + getattr(x, "co" + "s")(),
        getattr(x, "nothing", 3),
        hasattr(x, "shape"),
        getattr(torch.nn.functional, "relu")(x),
    )


@case
def dynamic_attributes(x):
    d = Dynamic()
    d.a = x
    setattr(d, "b", 2)
    del d.b
    return d.get_word(), d.set_a, hasattr(d, "nope"), vars(d), getattr(d, "get_" + "q")()


@case
def vars_are_the_dict(x):
    b = Bag()
    vars(b)["z"] = x
    b.__dict__.update(y=2)
    vars(BAG)["counted"] = vars(BAG).get("counted", 0) + 1
    return b.z + b.y, BAG.counted, sorted(dir(b))[-1], "fixed" in vars(Bag)


@case
def namespaces(x):
    n = types.SimpleNamespace(a=x, b=2)
    n.c = n.a * n.b
    del n.b
    return (
        n,
        n.c,
        hasattr(n, "b"),
        vars(n),
        repr(types.SimpleNamespace(q=1)),
        types.SimpleNamespace(a=1) == types.SimpleNamespace(a=1),
    )


SPACE = types.SimpleNamespace(n=1, t=torch.ones(2))


@case
def namespace_from_outside(x):
    SPACE.n += 1
    SPACE.new = x
    return SPACE.t * SPACE.n, SPACE


# ---- weak references -------------------------------------------------------------------------------------------------

TARGET = Bag()
REFERENCE = weakref.ref(TARGET)
WEAK = weakref.WeakValueDictionary(a=TARGET)
KEYS = weakref.WeakKeyDictionary({TARGET: 1})
PROXY = weakref.proxy(TARGET)


@case
def weak_references(x):
    b = Bag()
    ref = weakref.ref(b)
    return ref() is b, REFERENCE() is TARGET, REFERENCE().a, x, ref().a, weakref.getweakrefcount(b)


@case
def weak_dicts(x):
    return x * WEAK["a"].a, "a" in WEAK, WEAK.get("z"), len(WEAK), KEYS[TARGET]


@case
def weak_proxies(x):
    b = Bag()
    p = weakref.proxy(b)
    p.a = 5
    return x * p.a, b.a


@case
def weak_sets(x):
    s = weakref.WeakSet()
    b = Bag()
    s.add(b)
    return x, len(s), b in s
