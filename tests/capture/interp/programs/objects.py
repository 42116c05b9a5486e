"""Attributes, descriptors, special methods, calls."""

# Odd on purpose.
# ruff: noqa: B012, B018, B019, B023, B030, B904, E501, E731, F632, F821, F841, I001, UP008, UP031

import dataclasses
import enum
import functools
import operator
import types

from capture.interp.programs import program


@program
def properties():
    class Box:
        def __init__(self):
            self._v = 1

        @property
        def v(self):
            return self._v

        @v.setter
        def v(self, value):
            self._v = value * 2

        @v.deleter
        def v(self):
            self._v = None

        @property
        def readonly(self):
            return "r"

    b = Box()
    b.v = 5
    out = [b.v]
    del b.v
    out.append(b.v)
    for act in (lambda: setattr(b, "readonly", 1), lambda: delattr(b, "readonly"), lambda: b.missing):
        try:
            act()
        except AttributeError as e:
            out.append(str(e))
    return out


@program
def descriptors():
    class Data:
        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, obj, owner=None):
            return self if obj is None else obj.__dict__.get(self.name, "unset")

        def __set__(self, obj, value):
            obj.__dict__[self.name] = ("set", value)

        def __delete__(self, obj):
            obj.__dict__[self.name] = "deleted"

    class NonData:
        def __get__(self, obj, owner=None):
            return ("nondata", obj is None)

    class C:
        d = Data()
        n = NonData()

    c = C()
    out = [c.d, c.n, C.n, isinstance(C.d, Data)]
    c.d = 3
    out.append(c.d)
    del c.d
    out.append(c.d)
    c.n = "own"
    out.append(c.n)
    return out


@program
def attribute_hooks():
    log = []

    class Hooked:
        def __init__(self):
            object.__setattr__(self, "store", {"a": 1})

        def __getattr__(self, name):
            log.append(("getattr", name))
            try:
                return self.store[name]
            except KeyError:
                raise AttributeError(name) from None

        def __setattr__(self, name, value):
            log.append(("setattr", name))
            self.store[name] = value

        def __delattr__(self, name):
            log.append(("delattr", name))
            del self.store[name]

    class Total:
        x = 1

        def __getattribute__(self, name):
            log.append(("getattribute", name))
            if name == "y":
                return 2
            return super().__getattribute__(name)

    h = Hooked()
    h.b = 5
    del h.b
    t = Total()
    out = [h.a, getattr(h, "c", "default"), hasattr(h, "a"), hasattr(h, "q"), t.x, t.y, hasattr(t, "z")]
    return out, log


@program
def property_error_falls_back():
    class C:
        @property
        def p(self):
            raise AttributeError("inside")

        def __getattr__(self, name):
            return ("fallback", name)

    class D:
        @property
        def p(self):
            raise AttributeError("inside")

    try:
        D().p
    except AttributeError as e:
        return C().p, str(e)


@program
def slots():
    class S:
        __slots__ = ("a", "b")

        def __init__(self):
            self.a = 1

    s = S()
    out = [s.a]
    for act in (lambda: s.b, lambda: setattr(s, "c", 1)):
        try:
            act()
        except AttributeError as e:
            out.append(str(e))
    return out


@program
def class_and_static_methods():
    class A:
        kind = "a"

        @classmethod
        def make(cls, *args):
            return cls.kind, args

        @staticmethod
        def plain(x):
            return x * 2

    class B(A):
        kind = "b"

    return A.make(1), B.make(2), B().make(3), A.plain(4), B().plain(5)


@program
def super_everywhere():
    class Base:
        def who(self):
            return ["Base"]

        @property
        def prop(self):
            return "base prop"

        @classmethod
        def make(cls):
            return cls.__name__

    class Left(Base):
        def who(self):
            return ["Left", *super().who()]

    class Right(Base):
        def who(self):
            return ["Right", *super(Right, self).who()]

        @property
        def prop(self):
            return "right+" + super().prop

    class Both(Left, Right):
        def who(self):
            call = super().who
            return ["Both", *call()]

        @classmethod
        def make(cls):
            return "made " + super().make()

        def nested(self):
            return [super(Both, self).who() for _ in range(1)], (lambda: super(Both, self).prop)()

    b = Both()
    return b.who(), b.prop, Both.make(), b.nested()


@program
def super_errors():
    def bare():
        return super()

    class C:
        def missing(self):
            return super().nothing

        def deleted(self):
            del self
            return super()

    out = []
    for act in (bare, C().missing, C().deleted):
        try:
            act()
        except (RuntimeError, AttributeError) as e:
            out.append((type(e).__name__, str(e)))
    return out


@program
def arithmetic_methods():
    class V:
        def __init__(self, v):
            self.v = v

        def __add__(self, other):
            return ("add", self.v, getattr(other, "v", other))

        def __radd__(self, other):
            return ("radd", self.v, other)

        def __iadd__(self, other):
            self.v += getattr(other, "v", other)
            return self

        def __sub__(self, other):
            return NotImplemented

        def __neg__(self):
            return V(-self.v)

        def __pos__(self):
            return "pos"

        def __invert__(self):
            return "inv"

        def __matmul__(self, other):
            return "matmul"

        def __pow__(self, other):
            return "pow"

        def __rmul__(self, other):
            return ("rmul", other)

        def __index__(self):
            return self.v

    class W(V):
        def __radd__(self, other):
            return ("W.radd", getattr(other, "v", other))

        def __rsub__(self, other):
            return "W.rsub"

    a = V(1)
    a += 5
    out = [a.v, V(2) + 3, 4 + V(5), V(1) + W(2), W(1) + V(2), [1] + V(3), 2 * V(1), "ab" * V(2), V(1) @ 2, V(1) ** 2]
    out += [(-V(3)).v, +V(1), ~V(1), V(1) - W(2)]
    for act in (lambda: V(1) - 1, lambda: V(1) - V(2), lambda: V(1) << 2, lambda: [] - V(1), lambda: V(1) % 2):
        try:
            act()
        except TypeError as e:
            out.append(str(e))
    return out


@program
def operators_that_are_none():
    class N:
        __add__ = None
        __iadd__ = None
        __contains__ = None
        __iter__ = None

    out = []
    n = N()
    for act in (lambda: n + 1, lambda: 1 in n, lambda: list(n), lambda: operator.iadd(n, 1), lambda: [*n]):
        try:
            act()
        except TypeError as e:
            out.append(str(e))
    return out


@program
def comparisons():
    log = []

    class C:
        def __init__(self, v):
            self.v = v

        def __eq__(self, other):
            log.append(("eq", self.v))
            return NotImplemented if not isinstance(other, C) else self.v == other.v

        def __lt__(self, other):
            log.append(("lt", self.v))
            return self.v < other.v if isinstance(other, C) else NotImplemented

        __hash__ = None

    class D(C):
        def __gt__(self, other):
            log.append(("D.gt", self.v))
            return "reflected"

    out = [C(1) == C(1), C(1) != C(2), C(1) == 1, 1 == C(1), C(1) < C(2), C(1) > C(2), C(1) < D(2), 1 != C(1)]
    for act in (lambda: C(1) < 1, lambda: C(1) <= C(2), lambda: object() < object()):
        try:
            act()
        except TypeError as e:
            out.append(str(e))
    return out, log


@program
def chained_comparisons():
    log = []

    def v(x):
        log.append(x)
        return x

    return v(1) < v(2) < v(3), v(1) < v(0) < v(9), v(1) == v(1.0) is not None, v(1) in [1] in [[1]], log


@program
def truth_and_length():
    class B:
        def __bool__(self):
            return False

    class L:
        def __len__(self):
            return 3

    class E(L):
        def __len__(self):
            return 0

    class Bad:
        def __bool__(self):
            return 1

    class BadLen:
        def __len__(self):
            return -1

    out = [bool(B()), not B(), bool(L()), not E(), len(L()), B() or "right", L() and "right", "y" if E() else "n"]
    for act in (lambda: not Bad(), lambda: len(BadLen()), lambda: bool(BadLen()), lambda: len(5)):
        try:
            act()
        except (TypeError, ValueError) as e:
            out.append(str(e))
    return out


@program
def containers_in_python():
    class Seq:
        def __init__(self, *items):
            self.items = list(items)

        def __getitem__(self, key):
            return ("slice", key.start, key.stop, key.step) if isinstance(key, slice) else self.items[key]

        def __setitem__(self, key, value):
            self.items[key] = ("set", value)

        def __delitem__(self, key):
            del self.items[key]

    class Iter(Seq):
        def __iter__(self):
            return iter(self.items)

    class Contains:
        def __contains__(self, item):
            return item == "yes"

    s = Seq(1, 2, 3)
    out = [s[0], s[1:2], s[::2], s[:], list(s), 2 in s, 9 in s]
    s[0] = 5
    s[1:2] = [7, 8]
    del s[2]
    out.append(s.items)
    i = Iter(4, 5)
    a, b = i
    first, *rest = Iter(1, 2, 3)
    out += [[*i], a, b, first, rest, 4 in i, 6 in i, "yes" in Contains(), "no" not in Contains(), {*i}, max(*i)]
    return out


@program
def iterators_in_python():
    class Count:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            if self.n == 0:
                raise StopIteration
            self.n -= 1
            return self.n

    class NotIterator:
        def __iter__(self):
            return 5

    out = [list(Count(3)), [x for x in Count(2)], sum(Count(4)), next(Count(0), "default"), tuple(map(str, Count(2)))]
    for act in (lambda: iter(NotIterator()), lambda: [*5], lambda: next([]), lambda: [x for x in 3]):
        try:
            act()
        except TypeError as e:
            out.append(str(e))
    return out


@program
def text_of_objects():
    class R:
        def __repr__(self):
            return "R<é>"

        def __format__(self, spec):
            return f"formatted[{spec}]"

    class S(R):
        def __str__(self):
            return "str"

    class Bad:
        def __str__(self):
            return 5

    r, s, width = R(), S(), 12
    out = [
        f"{r}",
        f"{r!r}",
        f"{r!s:>10}",
        f"{r!a}",
        f"{s!s}",
        f"{r:{width}}",
        str(s),
        repr(s),
        format(r, "x"),
        f"{3.14159:.2f}",
    ]
    out += [f"{'a':>{width}}|{1:03d}|{[1, 2]}", f"{object.__name__=}", "%s %r" % (s, s)]
    for act in (lambda: f"{Bad()!s}", lambda: str(Bad()), lambda: f"{[]:x}"):
        try:
            act()
        except (TypeError, ValueError) as e:
            out.append(str(e))
    return out


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

    for cls in (Bad, Few, object, int):
        try:
            out.append(positional(cls, cls()))
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


@program
def module_getattr():
    module = types.ModuleType("made")
    exec("def __getattr__(name):\n    if name == 'lazy': return 7\n    raise AttributeError(name)", module.__dict__)
    module.plain = 1
    return module.lazy, module.plain, hasattr(module, "other"), getattr(module, "other", None)


@program
def metaclass_attributes():
    class Meta(type):
        @property
        def tag(cls):
            return f"tag of {cls.__name__}"

        def __getattr__(cls, name):
            return f"meta {name}"

        def __getitem__(cls, item):
            return ("item", item)

        def __len__(cls):
            return 7

        def __iter__(cls):
            yield cls.__name__

        def __contains__(cls, item):
            return item == 1

        def __instancecheck__(cls, obj):
            return obj == "instance"

        def method(cls):
            return "method of " + cls.__name__

    class C(metaclass=Meta):
        def __class_getitem__(cls, item):
            raise AssertionError

        own = 1

    class G:
        def __class_getitem__(cls, item):
            return (cls.__name__, item)

    return (
        C.tag,
        C.other,
        C[3],
        len(C),
        list(C),
        1 in C,
        isinstance("instance", C),
        C.method(),
        C.own,
        G[int],
        list[int],
    )
