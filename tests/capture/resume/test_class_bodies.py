"""Graph breaks in the body of a class: it resumes with its namespace, and the class is made behind it."""

from __future__ import annotations

import textwrap

import pytest

from onegraph.base import events as ev
from tests.conformance.test_matrix import compare

#: Programs, and in how many graphs a first call runs.
PROGRAMS: dict[str, tuple[str, int]] = {}


def program(name: str, graphs: int, source: str) -> None:
    PROGRAMS[name] = (source, graphs)


program(
    "methods",
    2,
    """
    def f(x, log):
        y = x + 1
        class C:
            a = y * 2
            def before(self): return self.a + y
            BREAK
            def after(self, k=a): return self.before() * k
        return C().after() + C.__qualname__.count('f')
    """,
)
program(
    "class_cell",
    3,
    """
    def f(x, log):
        y = x + 1
        class A:
            def go(self): return y * 2
        class C(A):
            a = y * 2
            def go(self): return super().go() + 1
            BREAK
            def klass(self): return __class__
        log.append(C().klass() is C)
        return C().go() * 2
    """,
)
program(
    "metaclass",
    2,
    """
    class Space(dict):
        def __setitem__(self, key, value):
            dict.__setitem__(self, 'n_' + key if key[0] != '_' else key, value)
            self.log.append(key)
        def __delitem__(self, key):
            self.log.append(('del', key))
            return dict.__delitem__(self, 'n_' + key)
        def __getitem__(self, key):
            self.log.append(('get', key))
            return dict.__getitem__(self, 'n_' + key if key[0] != '_' else key)
    class Meta(type):
        @classmethod
        def __prepare__(meta, name, bases, log=None, **kw):
            s = Space(); s.log = log; return s
        def __new__(meta, name, bases, ns, log=None, **kw):
            log.append(('new', sorted(ns), sorted(kw)))
            return super().__new__(meta, name, bases, dict(ns))
        def __init__(cls, name, bases, ns, log=None, **kw):
            log.append('init')
    def f(x, log):
        y = x + 1
        class C(metaclass=Meta, log=log, extra=1):
            a = y * 2
            BREAK
            b = a + 1
            del a
            log.append(len(str(sum([1]))))
        return C.n_b * 2
    """,
)
program(
    "decorator",
    2,
    """
    def deco(t):
        def g(cls):
            cls.t = t
            return cls
        return g
    def f(x, log):
        y = x + 1
        @deco(y)
        class C:
            a = y * 2
            BREAK
            b = a + 1
        return C.b * C.t
    """,
)
program(
    "annotations",
    2,
    """
    def f(x, log):
        y = x + 1
        class C:
            p: int = 3
            BREAK
            q: float
            r: 'str' = 'abc'
        log.append((C.__annotations__, C.p, C.r))
        return y * 2
    """,
)
program(
    "mangling",
    2,
    """
    def f(x, log):
        y = x + 1
        class C:
            __a = y * 2
            BREAK
            b = __a + 1
            def go(self): return self.__a
        log.append((C._C__a is C().go(), hasattr(C, '__a')))
        return C.b * C().go()
    """,
)
program(
    "nested",
    3,
    """
    def f(x, log):
        y = x + 1
        class C:
            a = y * 2
            class D:
                e = y - 1
                BREAK
                g = e * 2
                def go(self): return __class__
            b = a + D.g
        log.append((C.D.__qualname__, C.D().go() is C.D))
        return C.b * 2
    """,
)
program(
    "names",
    2,
    """
    G = 5
    def f(x, log):
        y = x + 1
        class C:
            y = y * 2 if False else 3
            G = G + 1
            BREAK
            h = G + len(str(y))
            try:
                missing
            except NameError as error:
                log.append((str(error), error.name, error.__context__))
            try:
                del missing
            except NameError as error:
                log.append((str(error), error.__context__))
            del G
            k = G
        log.append((C.h, C.k, hasattr(C, 'G')))
        return y * 2
    """,
)
program(
    "global_nonlocal",
    2,
    """
    def f(x, log):
        y = x + 1
        n = 0
        class C:
            nonlocal n
            global GG
            n = 1
            GG = 2
            BREAK
            n += 1
            GG += 1
            free = y
        log.append((n, GG, hasattr(C, 'n')))
        return C.free * 2
    """,
)
program(
    "set_name",
    2,
    """
    class D:
        def __init__(self, log): self.log = log
        def __set_name__(self, owner, name): self.log.append((name, owner.__name__)); self.name = name
        def __get__(self, obj, owner): return 7
    class Base:
        def __init_subclass__(cls, **kw): cls.seen = sorted(kw)
    def f(x, log):
        y = x + 1
        class C(Base, u=1):
            d = D(log)
            BREAK
            e = D(log)
        log.append((C.d, C.seen))
        return y * 2
    """,
)
program(
    "enum",
    2,
    """
    import enum
    def f(x, log):
        y = x + 1
        class C(enum.Enum):
            A = 1
            BREAK
            B = 2
        log.append((C.B.value, list(C.__members__)))
        return y * C.B.value
    """,
)
program(
    "raises",
    2,
    """
    def f(x, log):
        y = x + 1
        try:
            class C:
                a = y * 2
                BREAK
                b = a + 1
                raise KeyError('k')
        except KeyError as error:
            log.append(error.args)
        return y * 2
    """,
)
program(
    "raises_out",
    2,
    """
    def f(x, log):
        y = x + 1
        class C:
            a = y * 2
            BREAK
            b = a + 1
            raise KeyError('k')
    """,
)
program(
    "two_breaks",
    3,
    """
    def f(x, log):
        y = x + 1
        class C:
            a = y * 2
            BREAK
            b = a + 1
            BREAK
            c = b + 1
        return C.c * 2
    """,
)
program(
    "mro_entries",
    2,
    """
    class Alias:
        def __mro_entries__(self, bases): return (dict,)
    ALIAS = Alias()
    def f(x, log):
        y = x + 1
        class C(ALIAS):
            a = y * 2
            BREAK
            b = a + 1
        log.append((C.__mro__[1], C.__orig_bases__ == (ALIAS,)))
        return C.b * 2
    """,
)
program(
    "comprehension",
    2,
    """
    def f(x, log):
        y = x + 1
        class C:
            k = 3
            a = [y * i for i in range(k)]
            BREAK
            b = [y + i for i in range(k)]
            l = lambda self: self.b[1]
        return C().l() * 2 + C.b[2]
    """,
)
program(
    "control",
    3,
    """
    def f(x, log):
        y = x + 1
        class C:
            total = y
            for i in range(2):
                total = total * 2
                try:
                    if i:
                        BREAK
                        raise ValueError('v')
                except ValueError as error:
                    log.append(str(error))
                    total = total + 1
                finally:
                    log.append(i)
            with noting(log, 'w'):
                z = [total, total]
        return C.total * 2 + C.z[1]
    """,
)


@pytest.mark.parametrize("kind", ["graph_break", "print"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_class_body(name: str, kind: str) -> None:
    source, graphs = PROGRAMS[name]
    watch = compare(textwrap.dedent(source), kind)
    assert watch.first == graphs
    skipped = [event.reason for event in watch.of(ev.FrameSkipped)]
    assert all(reason.startswith("it raises ") for reason in skipped) and bool(skipped) == (name == "raises_out")


def test_a_namespace_with_methods_of_its_own() -> None:
    """What a program writes to a dictionary from outside is written past the methods of its class."""
    compare(
        textwrap.dedent(
            """
            class Noting(dict):
                def __delitem__(self, key):
                    self.log.append(key)
                    dict.__delitem__(self, key)

                def __contains__(self, key):
                    return True

                def clear(self):
                    self.log.append("clear")

            shared = Noting()

            def f(x, log):
                shared.log = log
                dict.clear(shared)
                shared.update(a=x, b=2, c=3)
                y = x + 1
                BREAK
                del shared["a"]
                shared["a"] = y * 2
                log.append(list(shared.items()))
                shared["b"] = shared.pop("b")
                return y * 2
            """
        ),
        "graph_break",
    )


def test_contents_of_a_cell_from_outside() -> None:
    compare(
        textwrap.dedent(
            """
            def holding(value):
                def show():
                    return value

                def empty():
                    return later

                if value is None:
                    later = 1
                return show, empty

            show, empty = holding(torch.ones(4))

            def f(x, log):
                try:
                    empty.__closure__[0].cell_contents
                except ValueError as error:
                    log.append(str(error))
                y = show.__closure__[0].cell_contents + x
                BREAK
                return y * show.__closure__[0].cell_contents
            """
        ),
        "graph_break",
    )
