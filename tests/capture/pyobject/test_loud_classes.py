"""Classes whose methods all note that they are called: onegraph calls none for itself, and none in another order."""

from __future__ import annotations

import pytest

from tests.conformance.test_matrix import compare

#: What the methods do, behind noting that they are called.
METHODS = {
    "__eq__": "return True",
    "__ne__": "return False",
    "__lt__": "return True",
    "__len__": "return 3",
    "__bool__": "return True",
    "__iter__": "return iter([1,2])",
    "__contains__": "return True",
    "__getitem__": "return 5",
    "__repr__": "return 'R'",
    "__str__": "return 'S'",
    "__format__": "return 'F'",
    "__hash__": "return 11",
    "__index__": "return 1",
    "__call__": "return 4",
    "__enter__": "return self",
    "__exit__": "return None",
    "__add__": "return 7",
    "__radd__": "return 8",
    "__neg__": "return 9",
    "__reversed__": "return iter([3])",
    "__length_hint__": "return 4",
    "__int__": "return 2",
    "__float__": "return 2.0",
    "__getattr__": "raise AttributeError(a[0])",
    "__setattr__": "object.__setattr__(self, *a)",
    "__delattr__": "object.__delattr__(self, *a)",
    "__dir__": "return []",
    "__sizeof__": "return 9",
    "__abs__": "return 3",
    "__round__": "return 4",
    "__bytes__": "return b'x'",
    "__copy__": "return self",
    "__deepcopy__": "return self",
}
#: What a program does with an instance `a` and a tensor `x`; it gives `b`.
USES = {
    "plain": """
    a.x = x + 1
    b = a.x
    """,
    "args": """
    def g(p, *q, k=None): return p.x
    a.x = x
    b = g(a, a, k=a)
    """,
    "containers": """
    l = [a, a]; d = {'k': a}; t = (a, l); b = x
    l.append(a); d['j'] = a; u = l[0] is a and t[0] is d['k']
    log.append((u, len(l), len(d)))
    """,
    "membership": """
    l = [1, a]
    log.append((a in l, l.index(a), l.count(a), 1 in l))
    b = x
    """,
    "keys": """
    d = {a: 1}; s = {a}
    log.append((a in d, d[a], a in s, len(d)))
    b = x
    """,
    "dict_keys_change": """
    d = {}
    d[a] = x; d[a] = x * 2; d.pop(a); d.setdefault(a, 3); d.get(a)
    b = x
    """,
    "truth": """
    if a: log.append(1)
    log.append((not a, a and 1, bool(a)))
    b = x
    """,
    "compare": """
    log.append((a == 1, a != 1, a < 1, 1 == a, a == a, a is a, [a] == [a], (a, 1) == (a, 1)))
    b = x
    """,
    "iterate": """
    log.append((list(a), [*a], [v for v in a], tuple(a), len(a), a[0], a[1:2]))
    p, q = a
    b = x
    """,
    "text": """
    log.append((str(a), repr(a), f'{a}', '%s' % (a,), '{}'.format(a), format(a, 'z')))
    b = x
    """,
    "isinstance": """
    log.append((isinstance(a, int), isinstance(a, A), isinstance(a, (list, A)), type(a) is A, callable(a)))
    b = x
    """,
    "attrs": """
    a.y = 1; setattr(a, 'z', 2)
    log.append((hasattr(a, 'nope'), getattr(a, 'y'), getattr(a, 'nope', 3), vars(a) == 1))
    del a.y
    b = x
    """,
    "operators": """
    log.append((a + 1, 1 + a, -a, a(1), sum([a, 1]), abs(a), round(a)))
    with a: pass
    b = x
    """,
    "sorted": """
    log.append((sorted([a, a])[0] is a, max(a, a) is a, min([a, a]) is a))
    b = x
    """,
    "closure": """
    def g(): return a
    a.x = x
    b = g().x
    """,
    "break_live": """
    a.x = x + 1; l = [a]; d = {'k': a}
    BREAK
    b = d['k'].x * 2; log.append(l[0] is a)
    """,
    "returned": """
    a.x = x * 2
    log.append(a); b = x; log[-1] = 3
    """,
    "native": """
    import functools, itertools, copy
    p = functools.partial(lambda v: v, a)
    log.append((p() is a, next(itertools.chain([a])) is a, list(zip([a], [1]))[0][0] is a, dict(k=a)['k'] is a))
    b = x
    """,
    "copy": """
    import copy
    c = copy.copy(a); e = copy.deepcopy([a])
    b = x
    """,
    "exceptions": """
    try:
        raise ValueError(a)
    except ValueError as err:
        log.append(err.args[0] is a)
    b = x
    """,
    "match": """
    match a:
        case 3: log.append('3')
        case str(): log.append('s')
        case [1, 2]: log.append('l')
        case {'k': 1}: log.append('d')
        case _: log.append('e')
    b = x
    """,
    "defaults": """
    def g(p=a): return p
    log.append(g() is a)
    b = x
    """,
    "star": """
    def g(*p, **k): return len(p) + len(k)
    log.append(g(*[a, a], **{'k': a}))
    b = x
    """,
    "gen": """
    def g():
        v = yield a
        yield a
    log.append([v is a for v in g()])
    b = x
    """,
    "cmp_none": """
    log.append((a is None, a is not None, None == a, a in (None, 1)))
    b = x
    """,
}


def program(use: str, base: str, made_inside: bool) -> str:
    """A program with a class that notes calls; its instance is made inside of the compiled function, or before."""
    names = [name for name in METHODS if base == "object" or name != "__getattr__"]
    methods = "".join(
        f"    def {name}(self, *a):\n        LOG.append(({name!r}, len(a)))\n        {METHODS[name]}\n"
        for name in names
    )
    return (
        f"LOG = []\nclass A({base}):\n{methods}\nOUT = A()\nobject.__setattr__(OUT, 'x', None)\n"
        f"def f(x, log):\n    LOG.clear()\n    a = {'A()' if made_inside else 'OUT'}\n    LOG.clear()\n{USES[use]}\n"
        "    log.append(list(LOG))\n    return b * 2\n"
    )


@pytest.mark.parametrize("made_inside", [True, False], ids=["inside", "outside"])
@pytest.mark.parametrize("base", ["object", "list", "dict"])
@pytest.mark.parametrize("use", USES)
def test_calls(use: str, base: str, made_inside: bool) -> None:
    compare(program(use, base, made_inside), "graph_break")
