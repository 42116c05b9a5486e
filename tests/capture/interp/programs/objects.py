"""Attributes: properties, descriptors, hooks, super, metaclasses."""

# Odd on purpose.
# ruff: noqa: B012, B018, B019, B023, B030, B904, E501, E731, F632, F821, F841, I001, UP008, UP031

import dataclasses
import enum
import functools
import operator
import sys
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


def refused(*acts):
    """What the errors say."""
    said = []
    for act in acts:
        try:
            said.append(act())
        except AttributeError as e:
            said.append((str(e), e.name, e.__context__))
    return said


@program
def who_comes_first():
    class Get:
        def __get__(self, obj, owner=None):
            return ("get", obj is None, owner.__name__)

    class GetAndSet(Get):
        def __set__(self, obj, value):
            vars(obj)["written"] = value

    class SetOnly:
        def __set__(self, obj, value):
            vars(obj)["written"] = value

    class DeleteOnly(Get):
        def __delete__(self, obj):
            vars(obj)["deleted"] = True

    class C:
        get, both, set_only, delete_only = Get(), GetAndSet(), SetOnly(), DeleteOnly()
        plain = 1

    c = C()
    out = [c.get, c.both, type(c.set_only).__name__, c.delete_only, c.plain, C.get, C.both, C.plain]
    for name in ("get", "both", "set_only", "delete_only", "plain"):
        vars(c)[name] = "own"
    out += [c.get, c.both, c.set_only, c.delete_only, c.plain]
    c.both, c.set_only, c.plain = 1, 2, 3
    del c.delete_only, c.plain
    out += refused(lambda: delattr(c, "set_only"), lambda: setattr(c, "delete_only", 1), lambda: delattr(c, "plain"))
    return out, vars(c)


@program
def who_comes_first_in_a_class():
    class Get:
        def __get__(self, obj, owner):
            return ("get", obj and obj.__name__, owner.__name__)

    class GetAndSet(Get):
        def __set__(self, obj, value):
            raise AttributeError("refused")

    class Meta(type):
        get, both, value = Get(), GetAndSet(), 4
        static = staticmethod(lambda: "static")
        bound = classmethod(lambda cls: cls.__name__)

        @property
        def shown(cls):
            return "shown " + cls.__name__

        def __setattr__(cls, name, value):
            type.__setattr__(cls, name, (name, value))

    class C(metaclass=Meta):
        get = both = shown = "own"
        own = Get()

    class D(C):
        pass

    D.added = 1
    errors = refused(lambda: setattr(D, "both", 1), lambda: setattr(D, "shown", 1), lambda: D.nothing)
    return C.get, C.both, C.shown, C.value, C.static(), C.bound(), D.own, D.added, C.mro(), errors


@program
def properties_of_all_kinds():
    class Own(property):
        def __get__(self, obj, owner=None):
            return ("own", obj is None)

    class Logged(property):
        def __set__(self, obj, value):
            obj.log = ("set", value)

    class A:
        @property
        def readable(self):
            return 1

        writable = property(None, lambda self, value: vars(self).update(v=value))
        own = Own(lambda self: 1)
        logged = Logged(lambda self: self.log)
        native = property(len, None)
        __len__ = lambda self: 3

    class B(A):
        other_name = A.readable
        readable = property(lambda self: ("below", super(B, self).readable))

    b = B()
    b.logged, b.writable = 5, 6
    out = [b.own, B.own, b.logged, b.v, b.native, b.readable, b.other_name]
    return out + refused(
        lambda: b.writable,
        lambda: setattr(b, "other_name", 1),
        lambda: delattr(b, "other_name"),
        lambda: setattr(b, "native", 1),
    )


@program
def natives_in_a_class():
    class C:
        function = len
        partial = functools.partial(max, 3)
        cached = functools.lru_cache(lambda self: type(self).__name__)
        method = str.upper
        taking_class = dict.__dict__["fromkeys"]
        member = types.FunctionType.__dict__["__code__"]

    c = C()
    out = [c.function("ab"), c.partial(1), c.cached(), C.cached(c), C.method("a"), C.member]
    for act in (lambda: c.method(), lambda: c.taking_class, lambda: c.member):
        try:
            out.append(act())
        except TypeError as e:
            out.append(str(e))
    return out


@program
def subclasses_of_natives():
    class Items(list):
        kind = "items"

        @property
        def first(self):
            return self[0]

        def __getattr__(self, name):
            return ("fallback", name)

    class Failure(ValueError):
        @property
        def first(self):
            return self.args[0]

    items, failure = Items([1, 2]), Failure("why")
    items.own = failure.own = 3
    del failure.own
    out = [items.first, items.kind, items.own, items.other, items.append.__name__, failure.first]
    return out + refused(
        lambda: failure.own, lambda: setattr(items, "first", 1), lambda: object.__getattribute__(items, "x")
    )


@program
def fallback_without_self():
    class C:
        @staticmethod
        def __getattr__(name):
            return ("static", name)

    class D:
        @classmethod
        def __getattr__(cls, name):
            return (cls.__name__, name)

    return C().x, D().y


@program
def names_of_super():
    class A:
        __self__, __thisclass__ = 5, 6

    class B(A):
        def f(self):
            return super().__self__, super().__thisclass__, super().__class__ is super, super(B).__thisclass__ is B

    return B().f()


@program
def attributes_of_methods():
    class C:
        def m(self):
            """Documented."""

        m.tag = 3

    c = C()
    errors = refused(lambda: c.m.nothing, lambda: setattr(c.m, "tag", 1))
    return c.m.tag, c.m.__name__, c.m.__self__ is c, c.m.__func__ is C.m, c.m.__doc__, errors


@program
def modules_with_a_class():
    class Module(types.ModuleType):
        @property
        def shown(self):
            return "shown " + self.__name__

        @property
        def failing(self):
            raise AttributeError("inside")

        def __getattr__(self, name):
            asked.append(name)
            if name == "refused":
                raise AttributeError(name)
            return ("of the class", name)

    asked = []

    class Plain(types.ModuleType):
        failing = Module.failing

    module, plain = Module("made"), Plain("plain")
    module.own = 1
    out = [module.shown, module.own, module.failing, module.other, module.__name__, plain.__name__]
    return out + refused(lambda: module.refused, lambda: plain.failing, lambda: plain.other), asked


@program
def metaclass_that_reads():
    class Meta(type):
        def __getattribute__(cls, name):
            return 7 if name == "seven" else super().__getattribute__(name)

    class C(metaclass=Meta):
        seven, eight = 1, 8

    return C.seven, C.eight, C().seven


@program
def missing_keys():
    class Filling(dict):
        def __missing__(self, key):
            if key is None:
                raise LookupError("refused")
            self[key] = sys._getframe().f_code.co_name
            return self[key]

    class Static(dict):
        __missing__ = staticmethod(lambda key: ("static", key))

    class Key:
        def __eq__(self, other):
            raise ValueError("compared")

        def __hash__(self):
            return hash(1)

    filling, plain, made = Filling(a=1), dict(a=1), Static()
    out = [filling["a"], filling["b"], filling, made[2], filling.get("c")]
    for act in (
        lambda: filling[None],
        lambda: plain["b"],
        lambda: filling[[]],
        lambda: {1: 2}[Key()],
        lambda: plain[Key],
    ):
        try:
            out.append(act())
        except Exception as e:
            out.append((type(e).__name__, str(e)))
    return out
