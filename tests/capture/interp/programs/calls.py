"""Calls, instances, decorators, library classes, pattern matching."""

# Odd on purpose.
# ruff: noqa: B012, B018, B019, B023, B030, B904, E501, E731, F632, F821, F841, I001, UP008, UP031

import dataclasses
import enum
import functools
import operator
import types

from capture.interp.programs import program


POSITIONAL = (1, 2)
KEYWORDS = {"d": 4}


def collected(*args, **kw):
    return args, kw


@program
def globals_as_arguments():
    return collected(*POSITIONAL), collected(**KEYWORDS), collected(*POSITIONAL, **KEYWORDS), collected(0, *POSITIONAL)


@program
def calling_conventions():
    def f(a, b=2, /, c=3, *args, d, e=5, **kw):
        return a, b, c, args, d, e, kw

    def g():
        return "g"

    width = 5
    out = [f(1, d=4), f(1, 2, 3, 4, 5, d=6, z=7), f(*[1, 2], d=1, **{"c": 9, "q": 0}), f(1, d=2, **{"a": 3, "b": 4})]
    bad = [
        lambda: f(),
        lambda: f(1),
        lambda: f(1, d=1, c=2, **{"c": 3}),
        lambda: g(1),
        lambda: g(x=1),
        lambda: f(1, 2, 3, c=4, d=5),
        lambda: g(*5),
        lambda: g(**5),
        lambda: g(**{1: 2}),
        lambda: width(),
        lambda: (lambda x, y: 0)(1, 2, 3),
        lambda: (lambda *, k: 0)(1),
        lambda: f(*[1], *[2], d=0, **{"d": 1}),
    ]
    for act in bad:
        try:
            act()
        except TypeError as e:
            out.append(str(e))
    return out


@program
def callables():
    class Callable:
        def __call__(self, *args, **kw):
            return ("called", args, kw)

    class Adder:
        def __init__(self, n):
            self.n = n

        def add(self, x, scale=1):
            return (self.n + x) * scale

    def f(a, b, c=0):
        return a, b, c

    p = functools.partial(f, 1, c=3)
    bound = Adder(5).add
    return (
        Callable()(1, k=2),
        p(2),
        functools.partial(p, 9)(),
        p(2, c=4),
        bound(1, scale=2),
        Adder.add(Adder(1), 2),
        types.MethodType(f, "self")(2),
        list(map(bound, [1, 2])),
        functools.reduce(lambda a, b: a * b, [1, 2, 3, 4]),
        sorted(["bb", "a"], key=lambda s: len(s)),
    )


@program
def instances():
    class Single:
        made = None

        def __new__(cls, *args):
            if cls.made is None:
                cls.made = super().__new__(cls)
            return cls.made

        def __init__(self, value):
            self.value = value

    class Other:
        def __new__(cls):
            return "not an instance"

        def __init__(self):
            raise AssertionError

    class BadInit:
        def __init__(self):
            return 5

    class Tuple(tuple):
        def __new__(cls, *items):
            return super().__new__(cls, items)

        def __init__(self, *items):
            self.note = len(items)

    class Plain:
        pass

    a, b = Single(1), Single(2)
    out = [a is b, a.value, Other(), Tuple(1, 2), Tuple(1, 2).note, type(Plain()) is Plain]
    for act in (BadInit, lambda: Plain(1), lambda: Single()):
        try:
            act()
        except TypeError as e:
            out.append(str(e))
    return out


@program
def decorators():
    log = []

    def trace(tag):
        def wrap(f):
            @functools.wraps(f)
            def inner(*args, **kw):
                log.append((tag, f.__name__, args))
                return f(*args, **kw)

            return inner

        return wrap

    @trace("outer")
    @trace("inner")
    def add(a, b):
        """Adds."""
        return a + b

    class C:
        @functools.cached_property
        def slow(self):
            log.append("computed")
            return 42

        @functools.lru_cache
        def cached(self, x):
            log.append(("cached", x))
            return x

    c = C()
    return add(1, 2), add.__doc__, c.slow, c.slow, c.cached(1), c.cached(1), log


@program
def library_classes():
    @dataclasses.dataclass(order=True)
    class Point:
        x: int
        y: int = 0
        tags: list = dataclasses.field(default_factory=list, compare=False)

        def __post_init__(self):
            self.norm = self.x**2 + self.y**2

    @dataclasses.dataclass(frozen=True, slots=True)
    class Frozen:
        a: int

    class Color(enum.Enum):
        RED = 1
        GREEN = 2

        def label(self):
            return self.name.lower()

    class Flags(enum.IntFlag):
        A = enum.auto()
        B = enum.auto()

    @functools.total_ordering
    class Ordered:
        def __init__(self, v):
            self.v = v

        def __eq__(self, o):
            return self.v == o.v

        def __lt__(self, o):
            return self.v < o.v

    p, q = Point(1, 2), Point(1)
    try:
        Frozen(1).a = 2
    except dataclasses.FrozenInstanceError as e:
        frozen = str(e)
    out = [p, p > q, p == Point(1, 2), dataclasses.replace(p, x=5), dataclasses.asdict(p), p.norm, frozen, Frozen(3)]
    out += [
        Color(1),
        Color["GREEN"].label(),
        list(Color),
        Flags.A | Flags.B,
        Color.RED in Color,
        Ordered(1) >= Ordered(0),
    ]
    return [repr(o) for o in out]


@program
def matching():
    class Point:
        __match_args__ = ("x", "y")

        def __init__(self, x, y):
            self.x, self.y = x, y

    def describe(v):
        match v:
            case 0 | -1:
                return "small"
            case int(n) if n > 100:
                return f"big {n}"
            case str() as s:
                return f"text {s}"
            case [] | ():
                return "empty"
            case [Point(x=1), *rest]:
                return f"point one then {len(rest)}"
            case [first, [second, *_], *others]:
                return first, second, others
            case {"kind": "box", "size": [w, h], **rest}:
                return w * h, rest
            case {"kind": kind}:
                return kind
            case Point(0, y):
                return f"on axis {y}"
            case Point():
                return "point"
            case None | True:
                return "singleton"
            case float() | complex():
                return "number"
            case _:
                return "other"

    values = [0, -1, 500, 5, "t", [], (), [Point(1, 2), 3, 4], [1, [2, 3], 4], {"kind": "box", "size": (2, 3), "z": 1}]
    values += [{"kind": "round"}, {}, Point(0, 7), Point(3, 4), None, True, 2.5, b"bytes", {1, 2}]
    return [describe(v) for v in values]


@program
def matching_errors():
    class Bad:
        __match_args__ = ["x"]

    class Few:
        __match_args__ = ("x",)
        x = 1

    out = []

    def positional(cls, v):
        match v:
            case cls(1, 2):
                return True
        return False

    class Unnamed:
        __match_args__ = (1, "x")

    for cls in (Bad, Few, Unnamed, object, int, 3, len):
        try:
            out.append(positional(cls, cls() if isinstance(cls, type) else 1))
        except TypeError as e:
            out.append(str(e))
    try:
        match 1:
            case Few(1, x=1):
                out.append("matched")
        match Few():
            case Few(1, x=1):
                out.append("matched")
    except TypeError as e:
        out.append(str(e))
    return out
