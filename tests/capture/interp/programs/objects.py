"""Attributes: properties, descriptors, hooks, super, metaclasses."""

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
