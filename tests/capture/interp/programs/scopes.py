"""Names, closures, class bodies, comprehensions, imports."""

# Odd on purpose.
# ruff: noqa: B012, B018, B019, B023, B030, B904, E501, E731, F632, F821, F841, I001, UP008, UP031

from capture.interp.programs import program

COUNTER = 10


@program
def closures():
    def adder(n):
        def add(x, /, *, scale=2):
            return (x + n) * scale

        return add

    adders = [adder(i) for i in range(4)]
    return [f(10) for f in adders], adders[2](1, scale=3)


@program
def nonlocal_state():
    def counter():
        n = 0

        def up(step=1):
            nonlocal n
            n += step
            return n

        def read():
            return n

        return up, read

    up, read = counter()
    up()
    up(5)
    return read(), up(), read()


@program
def late_binding():
    return [f() for f in [lambda: i for i in range(3)]], [f() for f in [lambda i=i: i for i in range(3)]]


@program
def globals_written():
    global COUNTER, FRESH
    before = COUNTER
    COUNTER += 5
    FRESH = COUNTER * 2
    result = (before, COUNTER, FRESH)
    del FRESH
    COUNTER = before
    try:
        FRESH
    except NameError as e:
        return result, str(e), e.name


@program
def unbound_local():
    try:
        if COUNTER < 0:
            x = 1
        return x
    except UnboundLocalError as e:
        return type(e), str(e)


@program
def deleted_local():
    x = [1]
    del x
    try:
        return x
    except NameError as e:
        return type(e), str(e)


@program
def deleted_twice():
    x = 1
    del x
    del x


@program
def empty_free_variable():
    def outer():
        def inner():
            return later

        result = inner()
        later = 1
        return result, later

    outer()


@program
def deleted_cell():
    x = 1

    def read():
        return x

    first = read()
    del x
    try:
        read()
    except NameError as e:
        return first, type(e), str(e)


@program
def comprehension_scopes():
    x = "outer"
    got = [x for x in range(3)]
    pairs = {x: y for x in "ab" for y in [x * 2]}
    nested = [[x * y for x in range(y)] for y in range(4)]
    return x, got, pairs, nested, {x % 2 for x in range(5)}, tuple(x for x in "cd")


@program
def comprehension_over_cell():
    x = 5
    keep = lambda: x
    inner = [lambda: x for x in range(3)]
    plain = [x for x in range(2)]
    return keep(), [f() for f in inner], plain, x


@program
def comprehension_raises():
    x = 7
    try:
        return [1 // x for x in (2, 0)]
    except ZeroDivisionError:
        return x


@program
def comprehension_unbound():
    return [x for y in [1] for x in [x]]


@program
def walrus():
    data = [1, 2, 3, 4]
    if (n := len(data)) > 3:
        total = sum(last := v for v in data)
    return n, total, last, [y := 1, y**2, (z := y + 1)], z


@program
def class_body():
    base = 3

    class Point:
        scale = base * 2
        names = [n for n in ("x", "y")]
        doubled = scale * 2
        annotated: int = 4
        temporary = 1
        del temporary

    return Point.scale, Point.names, Point.doubled, hasattr(Point, "temporary"), Point.__annotations__


@program
def class_with_everything():
    class Meta(type):
        def __prepare__(name, bases, **kw):
            print("prepare", name, kw)
            return {"prepared": 1}

        def __new__(mcls, name, bases, ns, **kw):
            print("new", name, sorted(k for k in ns if not k.startswith("__")))
            return super().__new__(mcls, name, bases, ns)

        def __init__(cls, name, bases, ns, tag=None):
            cls.tag = tag
            super().__init__(name, bases, ns)

        def __call__(cls, *args):
            print("making", cls.__name__, args)
            return super().__call__(*args)

    class A(metaclass=Meta, tag="a"):
        def __new__(cls, *args):
            self = super().__new__(cls)
            self.args = args
            return self

        def __init__(self, *args):
            self.count = len(args)

    class B(A, tag="b"):
        def __init__(self, *args):
            super().__init__(*args)
            self.more = True

    b = B(1, 2)
    return B.tag, A.tag, B.prepared, b.args, b.count, b.more, [c.__name__ for c in B.__mro__]


@program
def class_closures():
    def make(value):
        class Holder:
            stored = value

            def read(self):
                return __class__.__name__, value, self.stored

            def __init_subclass__(cls, **kw):
                print("subclass", cls.__name__, kw)

        return Holder

    H = make(4)

    class Sub(H, color="red"):
        stored = 9

    return H().read(), Sub().read()


@program
def class_scope_lookup():
    value = "function"

    class C:
        before = value
        value = "class"
        after = value

        def method(self):
            return value

    return C.before, C.after, C().method()


@program
def class_name_missing():
    class C:
        undefined_name_here


@program
def bases_resolved():
    class Resolves:
        def __mro_entries__(self, bases):
            print("entries", len(bases))
            return (dict,)

    r = Resolves()

    class C(r):
        pass

    return C.__bases__, C.__orig_bases__ == (r,)


@program
def metaclass_conflict():
    class M1(type):
        pass

    class M2(type):
        pass

    class A(metaclass=M1):
        pass

    class B(A, metaclass=M2):
        pass


@program
def imports():
    import collections.abc as abc
    import os.path
    from math import floor, sqrt as root
    from os import path

    return os.path is path, floor(root(17)), abc.Sequence.__name__


@program
def import_errors():
    out = []
    for attempt in (lambda: __import__("no_such_module_here"), _import_missing):
        try:
            attempt()
        except ImportError as e:
            out.append((type(e).__name__, str(e).split("(")[0], e.name))
    return out


def _import_missing():
    from math import no_such_name

    return no_such_name


@program
def annotations():
    def f(a: int, b: "str" = "x", *c: float, d: list[int] = None, **e: dict) -> bool:
        return True

    class C:
        x: int
        y: str = "s"

    return f.__annotations__, f.__defaults__, f.__kwdefaults__, C.__annotations__


@program
def names_of_the_frame():
    a = 1
    b = [2]

    def inner():
        return a

    return sorted(locals()), sorted(vars()), globals()["COUNTER"], inner(), dir() == sorted(locals())


@program
def evaluated():
    x = 4
    namespace = {}
    exec("y = 5\ndef g(): return y * 2", namespace)
    return eval("x + 1"), namespace["g"](), eval("COUNTER", {"COUNTER": 1}), eval("[x for x in range(3)]")


@program
def star_import_namespace():
    namespace = {}
    exec("from math import *", namespace)
    return "sqrt" in namespace, "_private" in namespace
