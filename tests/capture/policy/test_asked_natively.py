"""Methods and functions of the program that native code calls: for keys and indices, as callbacks, and for itself."""

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
    "hash",
    3,
    """
    class Key:
        def __init__(self, x):
            self.x = x
        def __hash__(self):
            self.y = self.x * 2
            BREAK
            return 7
    def f(x, log):
        key = Key(x + 1)
        log.append(len({key, key}) + len({key: 1}))
        return key.y * 2
    """,
)
program(
    "missing",
    2,
    """
    class D(dict):
        def __missing__(self, key):
            y = key * 2 if not isinstance(key, str) else self['t'] * 2
            BREAK
            return y + 1
    def f(x, log):
        d = D(t=x + 1)
        return d['q'] * 2
    """,
)
program(
    "index",
    2,
    """
    class A:
        def __init__(self, x): self.x = x
        def __index__(self):
            self.y = self.x * 2
            BREAK
            self.z = self.y + 1
            return 1
    def f(x, log):
        a = A(x + 1)
        log.append([1, 2, 3][a])
        return a.z * 2
    """,
)
program(
    "index_of_a_tensor",
    2,
    """
    class A:
        def __init__(self, x): self.x = x
        def __index__(self):
            self.y = self.x * 2
            BREAK
            self.z = self.y + 1
            return 1
    def f(x, log):
        a = A(x + 1)
        w = x[a]
        return a.z * w
    """,
)
program(
    "class_getitem",
    2,
    """
    class B:
        def __class_getitem__(cls, t):
            y = t * 2
            BREAK
            return y + 1
    def f(x, log):
        return B[x + 1] * 2
    """,
)
program(
    "new",
    2,
    """
    class A:
        def __new__(cls, x, log, k=1):
            self = super().__new__(cls)
            self.y = x * 2
            BREAK
            self.z = self.y + 1
            log.append('new')
            return self
        def __init__(self, x, log, k=1):
            log.append(('init', k))
            self.w = x * k
    def f(x, log):
        a = A(x + 1, log, k=3)
        return a.z * a.w + a.y
    """,
)
program(
    "new_of_another_class",
    2,
    """
    class A:
        def __new__(cls, x, log):
            y = x * 2
            BREAK
            return y + 1
        def __init__(self, x, log): log.append('init')
    def f(x, log):
        return A(x + 1, log) * 2
    """,
)
program(
    "meta_call",
    2,
    """
    class M(type):
        def __call__(cls, *args):
            y = args[0] * 2
            BREAK
            return super().__call__(y, *args[1:])
    class A(metaclass=M):
        def __init__(self, x, log): self.x = x + 1
    def f(x, log):
        return A(x + 1, log).x * 2
    """,
)
program(
    "factory",
    1,
    """
    import collections
    def f(x, log):
        def make():
            log.append('made')
            BREAK
            return []
        d = collections.defaultdict(make)
        d['a'].append(x + 1)
        return d['a'][0] * 2
    """,
)
program(
    "factory_inside",
    2,
    """
    import collections
    def f(x, log):
        def make():
            log.append('made')
            return []
        d = collections.defaultdict(make)
        d['a'].append(x + 1)
        BREAK
        d['a'].append(x + 2); d['b']
        return d['a'][0] * d['a'][1]
    """,
)
program(
    "pure_hash",
    2,
    """
    class K:
        def __init__(self, n): self.n = n
        def __hash__(self): return hash(self.n)
        def __eq__(self, o): return self.n == o.n
    k = K(1)
    def f(x, log):
        d = {K(1): x + 1, K(2): x}
        BREAK
        log.append((K(1) in d, K(3) in d, len({K(1), K(1)}), k in d))
        d[k] = x * 2
        d[(k, 1)] = 3
        del d[K(2)]
        return d[K(1)] * d[(K(1), 1)]
    """,
)
program(
    "frozen_keys",
    2,
    """
    import collections, enum
    K = collections.namedtuple("K", "n")
    class E(enum.Enum):
        A = 1
    def f(x, log):
        d = {K(1): x + 1, K('a'): x, E.A: 3}
        BREAK
        log.append((K(1) in d, K(3) in d, len({K(1), K(1)}), E.A in d))
        return d[K(1)] * d[E.A]
    """,
)
program(
    "overridden_native_method",
    1,
    """
    class L(list):
        def append(self, v):
            add = super().append
            BREAK
            add(v)
            add(v)
        def __contains__(self, v): return True
        def both(self): return super().__contains__, self.__contains__
    def f(x, log):
        l = L()
        a, b = l.both()
        l.append(x + 1)
        log.append((a(3), b(3)))
        return list(l)[0] * 2
    """,
)
program(
    "getattribute_attr",
    1,
    """
    class A:
        def __init__(self, x, log):
            self.x = x
            self.log = log
        def __getattribute__(self, name):
            v = object.__getattribute__(self, name)
            object.__getattribute__(self, 'log').append(name)
            return v
        def go(self, k): return self.x * k
    OUT = [A(torch.ones(4), [])]

    def f(x, log):
        a = A(x + 1, log)
        return a.x * 2
    """,
)
program(
    "getattribute_method",
    1,
    """
    class A:
        def __init__(self, x, log):
            self.x = x
            self.log = log
        def __getattribute__(self, name):
            v = object.__getattribute__(self, name)
            object.__getattribute__(self, 'log').append(name)
            return v
        def go(self, k): return self.x * k
    OUT = [A(torch.ones(4), [])]

    def f(x, log):
        a = A(x + 1, log)
        return a.go(3) * 2
    """,
)
program(
    "getattribute_isinstance",
    1,
    """
    class A:
        def __init__(self, x, log):
            self.x = x
            self.log = log
        def __getattribute__(self, name):
            v = object.__getattribute__(self, name)
            object.__getattribute__(self, 'log').append(name)
            return v
        def go(self, k): return self.x * k
    OUT = [A(torch.ones(4), [])]

    def f(x, log):
        a = A(x + 1, log)
        log.append((isinstance(a, A), isinstance(a, torch.Tensor), type(a) is A, a == a, a != 3, bool(a)))
        return a.x * 2
    """,
)
program(
    "getattribute_containers",
    1,
    """
    class A:
        def __init__(self, x, log):
            self.x = x
            self.log = log
        def __getattribute__(self, name):
            v = object.__getattribute__(self, name)
            object.__getattribute__(self, 'log').append(name)
            return v
        def go(self, k): return self.x * k
    OUT = [A(torch.ones(4), [])]

    def f(x, log):
        a = A(x + 1, log)
        l = [a, (a, 1), {'k': a}]
        d = {a: 1}
        s = {a}
        log.append((a in l, a in d, a in s, l.index(a), len(l), [*l][0] is a))
        t = tuple(l); l2 = l + [a]; l.extend([a]); l.append(a)
        return a.x * 2
    """,
)
program(
    "getattribute_format",
    1,
    """
    class A:
        def __init__(self, x, log):
            self.x = x
            self.log = log
        def __getattribute__(self, name):
            v = object.__getattribute__(self, name)
            object.__getattribute__(self, 'log').append(name)
            return v
        def go(self, k): return self.x * k
    OUT = [A(torch.ones(4), [])]

    def f(x, log):
        a = A(x + 1, log)
        log.append(f'{type(a).__name__}' + str(a)[:5] + repr(a)[:5] + '%s' % (type(a),))
        return a.x * 2
    """,
)
program(
    "getattribute_break",
    2,
    """
    class A:
        def __init__(self, x, log):
            self.x = x
            self.log = log
        def __getattribute__(self, name):
            v = object.__getattribute__(self, name)
            object.__getattribute__(self, 'log').append(name)
            return v
        def go(self, k): return self.x * k
    OUT = [A(torch.ones(4), [])]

    def f(x, log):
        a = A(x + 1, log)
        l = [a]
        BREAK
        log.append(len(l))
        b = l[0]
        return b.x * 2 + a.go(2)
    """,
)
program(
    "getattribute_args",
    1,
    """
    class A:
        def __init__(self, x, log):
            self.x = x
            self.log = log
        def __getattribute__(self, name):
            v = object.__getattribute__(self, name)
            object.__getattribute__(self, 'log').append(name)
            return v
        def go(self, k): return self.x * k
    OUT = [A(torch.ones(4), [])]

    def g(a, *rest, k=None): return a.x * 2
    def f(x, log):
        a = A(x + 1, log)
        y = g(a, a, k=a)
        z = (lambda *p, **q: p[0])(a, b=a)
        h = lambda: a
        return y + h().x
    """,
)
program(
    "getattribute_outside",
    2,
    """
    class A:
        def __init__(self, x, log):
            self.x = x
            self.log = log
        def __getattribute__(self, name):
            v = object.__getattribute__(self, name)
            object.__getattribute__(self, 'log').append(name)
            return v
        def go(self, k): return self.x * k
    OUT = [A(torch.ones(4), [])]

    def f(x, log):
        a = OUT[0]
        a.x = x - 1
        b = object.__getattribute__(a, '__dict__'); b['log'] = log
        y = a.x * x + a.go(2)
        a.x = x
        b['q'] = 2
        BREAK
        return y + a.x
    """,
)
program(
    "getattribute_setattr",
    1,
    """
    class A:
        def __init__(self, x, log):
            self.x = x
            self.log = log
        def __getattribute__(self, name):
            v = object.__getattribute__(self, name)
            object.__getattribute__(self, 'log').append(name)
            return v
        def go(self, k): return self.x * k
    OUT = [A(torch.ones(4), [])]

    def f(x, log):
        a = A(x + 1, log)
        a.y = x
        setattr(a, 'z', x * 2)
        log.append((getattr(a, 'y') is x, hasattr(a, 'nope'), getattr(a, 'nope', 3)))
        del a.y
        return a.z
    """,
)
program(
    "getattribute_native",
    1,
    """
    class A:
        def __init__(self, x, log):
            self.x = x
            self.log = log
        def __getattribute__(self, name):
            v = object.__getattribute__(self, name)
            object.__getattribute__(self, 'log').append(name)
            return v
        def go(self, k): return self.x * k
    OUT = [A(torch.ones(4), [])]

    def f(x, log):
        a = A(x + 1, log)
        log.append((id(a) == id(a), callable(a), sorted([a], key=lambda v: 1)[0] is a, max([a], key=lambda v: 1) is a))
        log.append((list(map(lambda v: 1, [a])), dict(k=a)['k'] is a, list(zip([a], [a]))[0][0] is a))
        import functools, itertools, copy
        functools.partial(lambda v: v, a)()
        list(itertools.chain([a], [a]))
        return a.x * 2
    """,
)
program(
    "getattribute_copy",
    1,
    """
    class A:
        def __init__(self, x, log):
            self.x = x
            self.log = log
        def __getattribute__(self, name):
            v = object.__getattribute__(self, name)
            object.__getattribute__(self, 'log').append(name)
            return v
        def go(self, k): return self.x * k
    OUT = [A(torch.ones(4), [])]

    import copy
    def f(x, log):
        a = A(x + 1, log)
        b = copy.copy(a)
        return b.x * 2
    """,
)
program(
    "getattribute_match",
    1,
    """
    class A:
        def __init__(self, x, log):
            self.x = x
            self.log = log
        def __getattribute__(self, name):
            v = object.__getattribute__(self, name)
            object.__getattribute__(self, 'log').append(name)
            return v
        def go(self, k): return self.x * k
    OUT = [A(torch.ones(4), [])]

    def f(x, log):
        a = A(x + 1, log)
        match a:
            case list(): pass
            case {'a': 1}: pass
            case [1, 2]: pass
            case int(): pass
            case A(x=t): return t * 2
    """,
)
program(
    "getattribute_with",
    1,
    """
    class A:
        def __init__(self, x, log):
            self.x = x
            self.log = log
        def __getattribute__(self, name):
            v = object.__getattribute__(self, name)
            object.__getattribute__(self, 'log').append(name)
            return v
        def go(self, k): return self.x * k
    OUT = [A(torch.ones(4), [])]

    class B(A):
        def __enter__(self): return self
        def __exit__(self, *e): return False
        def __iter__(self): return iter([1, 2])
        def __len__(self): return 2
        def __getitem__(self, k): return self.x
        def __bool__(self): return True
        def __add__(self, o): return self.x + 1
    def f(x, log):
        a = B(x + 1, log)
        with a as b:
            y = b.x
        log.append((len(a), [*a], bool(a), a[0] is a.x, list(a)))
        if a: y = y + 1
        return y + (a + 2)
    """,
)
program(
    "hash_call",
    3,
    """
    class A:
        def __init__(self, x): self.x = x; self.t = None
        def __hash__(self):
            self.t = self.x * 2
            BREAK
            self.t = self.t + 1
            return 7
    def f(x, log):
        a = A(x + 1)
        return a.t * hash(a) if hash(a) else None
    """,
)
program(
    "in_iter",
    2,
    """
    class A:
        def __init__(self, x): self.x = x
        def __iter__(self):
            self.y = self.x * 3
            BREAK
            return iter([1, 2, 3])
    def f(x, log):
        a = A(x + 1)
        log.append(3 in a)
        return a.y * 2
    """,
)
program(
    "reduce_copy",
    2,
    """
    import copy
    class A:
        def __init__(self, x): self.x = x
        def __reduce_ex__(self, p):
            y = self.x * 2
            BREAK
            return (A, (y + 1,))
    def f(x, log):
        a = A(x + 1)
        return copy.copy(a).x * 2
    """,
)
program(
    "reduce",
    2,
    """
    import functools
    def f(x, log):
        y = x + 1
        def add(a, b):
            c = a + b
            if log == []:
                BREAK
            log.append(1)
            return c * 2
        return functools.reduce(add, [y, x, y]) * 3
    """,
)
program(
    "in_contains",
    2,
    """
    class A:
        def __init__(self, x): self.x = x
        def __contains__(self, k):
            self.y = self.x * 3
            BREAK
            return k
    def f(x, log):
        a = A(x + 1)
        log.append(3 not in a)
        return a.y * 2
    """,
)
program(
    "hash_wrong",
    2,
    """
    class A:
        def __init__(self, x): self.x = x; self.t = None
        def __hash__(self):
            self.t = self.x * 2
            BREAK
            self.t = self.t + 1
            return 'a'
    def f(x, log):
        a = A(x + 1)
        try:
            hash(a)
        except TypeError as e: log.append(str(e))
        return a.t * 2
    """,
)
program(
    "hash_negative",
    2,
    """
    class A:
        def __init__(self, x): self.x = x; self.t = None
        def __hash__(self):
            self.t = self.x * 2
            BREAK
            self.t = self.t + 1
            return -1
    def f(x, log):
        a = A(x + 1)
        return a.t * hash(a)
    """,
)
program(
    "hash_large",
    2,
    """
    class A:
        def __init__(self, x): self.x = x; self.t = None
        def __hash__(self):
            self.t = self.x * 2
            BREAK
            self.t = self.t + 1
            return 1 << 70
    def f(x, log):
        a = A(x + 1)
        return a.t * (hash(a) % 7)
    """,
)
program(
    "in_iter_no",
    2,
    """
    class A:
        def __init__(self, x): self.x = x
        def __iter__(self):
            self.y = self.x * 3
            BREAK
            return iter([1, 2, 3])
    def f(x, log):
        a = A(x + 1)
        log.append(9 in a)
        return a.y * 2
    """,
)
program(
    "not_in_iter",
    2,
    """
    class A:
        def __init__(self, x): self.x = x
        def __iter__(self):
            self.y = self.x * 3
            BREAK
            return iter([1, 2, 3])
    def f(x, log):
        a = A(x + 1)
        log.append(2 not in a)
        return a.y * 2
    """,
)
program(
    "in_iter_eq",
    2,
    """
    class E:
        def __init__(self, log): self.log = log
        def __eq__(self, o): self.log.append(o); return o == 2
    class A:
        def __init__(self, x): self.x = x
        def __iter__(self):
            self.y = self.x * 3
            BREAK
            return iter([1, 2, 3])
    def f(x, log):
        a = A(x + 1)
        log.append(E(log) in a)
        return a.y * 2
    """,
)
program(
    "reduce_start",
    2,
    """
    import functools
    def f(x, log):
        y = x + 1
        def add(a, b):
            c = a + b
            if log == []:
                BREAK
            log.append(1)
            return c * 2
        return functools.reduce(add, (y, x, y), x) * 3
    """,
)
program(
    "reduce_every",
    4,
    """
    import functools
    def f(x, log):
        y = x + 1
        def add(a, b):
            c = a + b
            BREAK
            log.append(1)
            return c * 2
        return functools.reduce(add, [y, x, y, x]) * 3
    """,
)
program(
    "reduce_gen",
    4,
    """
    import functools
    def f(x, log):
        y = x + 1
        def add(a, b):
            c = a + b
            BREAK
            log.append(1)
            return c * 2
        return functools.reduce(add, (t for t in [y, x, y])) * 3
    """,
)
program(
    "reduce_mutates",
    4,
    """
    import functools
    def f(x, log):
        y = x + 1
        l = [y, x]
        def add(a, b):
            c = a + b
            BREAK
            if len(l) < 4: l.append(b * 2)
            return c
        return functools.reduce(add, l) * 3
    """,
)
program(
    "reduce_raises",
    2,
    """
    import functools
    def f(x, log):
        y = x + 1
        def add(a, b):
            c = a + b
            BREAK
            if log: raise ValueError('v')
            log.append(1)
            return c
        try:
            return functools.reduce(add, [y, x, y]) * 3
        except ValueError as e:
            log.append(str(e))
        return y
    """,
)
program(
    "key_sorted",
    2,
    """
    def f(x, log):
        y = x + 1
        l = [3, 1, 2]
        def key(n):
            log.append(n)
            t = y * n
            if n == 1: BREAK
            return -n if t.dim() else t
        s = sorted([3, 1, 2], key=key)
        log.append(s)
        return y * s[0]
    """,
)
program(
    "key_sorted_rev",
    2,
    """
    def f(x, log):
        y = x + 1
        l = [3, 1, 2]
        def key(n):
            log.append(n)
            t = y * n
            if n == 1: BREAK
            return -n if t.dim() else t
        s = sorted((3, 1, 2), key=key, reverse=True)
        log.append(s)
        return y * s[0]
    """,
)
program(
    "key_min",
    2,
    """
    def f(x, log):
        y = x + 1
        l = [3, 1, 2]
        def key(n):
            log.append(n)
            t = y * n
            if n == 1: BREAK
            return -n if t.dim() else t
        s = [min([3, 1, 2], key=key)]
        log.append(s)
        return y * s[0]
    """,
)
program(
    "key_max",
    2,
    """
    def f(x, log):
        y = x + 1
        l = [3, 1, 2]
        def key(n):
            log.append(n)
            t = y * n
            if n == 1: BREAK
            return -n if t.dim() else t
        s = [max(3, 1, 2, key=key)]
        log.append(s)
        return y * s[0]
    """,
)
program(
    "key_max_def",
    2,
    """
    def f(x, log):
        y = x + 1
        l = [3, 1, 2]
        def key(n):
            log.append(n)
            t = y * n
            if n == 1: BREAK
            return -n if t.dim() else t
        s = [max([3, 1, 2], key=key, default=4)]
        log.append(s)
        return y * s[0]
    """,
)
program(
    "key_sort",
    5,
    """
    def f(x, log):
        y = x + 1
        l = [3, 1, 2]
        def key(n):
            log.append(n)
            t = y * n
            if n == 1: BREAK
            return -n if t.dim() else t
        s = l.sort(key=key) or l
        log.append(s)
        return y * s[0]
    """,
)
program(
    "key_stable",
    3,
    """
    def f(x, log):
        y = x + 1
        l = [3, 1, 2]
        def key(n):
            log.append(n)
            t = y * n
            if n == 1: BREAK
            return -n if t.dim() else t
        s = sorted([3, 3, 1, 1], key=key)
        log.append(s)
        return y * s[0]
    """,
)
program(
    "key_gen",
    2,
    """
    def f(x, log):
        y = x + 1
        l = [3, 1, 2]
        def key(n):
            log.append(n)
            t = y * n
            if n == 1: BREAK
            return -n if t.dim() else t
        s = sorted((v for v in [3, 1, 2]), key=key)
        log.append(s)
        return y * s[0]
    """,
)
program(
    "key_all_break",
    4,
    """
    def f(x, log):
        y = x + 1
        l = [3, 1, 2]
        def key(n):
            log.append(n)
            t = y * n
            BREAK
            return -n if t.dim() else t
        s = sorted([3, 1, 2], key=key)
        log.append(s)
        return y * s[0]
    """,
)
program(
    "key_tensors",
    2,
    """
    def f(x, log):
        y = x + 1
        def key(t):
            u = t * 2
            if len(log) == 1: BREAK
            log.append(1)
            return len(log)
        s = sorted([y, x, y * 2], key=key, reverse=True)
        return s[0] * 2 + min([y, x], key=lambda t: 1)
    """,
)


@pytest.mark.parametrize("kind", ["graph_break", "print"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_asked_natively(name: str, kind: str) -> None:
    source, graphs = PROGRAMS[name]
    watch = compare(textwrap.dedent(source), kind)
    assert watch.first == graphs
    assert name == "getattribute_copy" or not [event.reason for event in watch.of(ev.FrameSkipped)]
