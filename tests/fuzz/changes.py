"""A world that changes between calls: `python -m tests.fuzz.changes --count 3000 --seed 0`.

A program asks questions of the objects around it. Between its calls, statements change these: attributes, classes,
functions, containers, modules. Compiled and as written it must answer alike each time, so each answer that a guard
does not cover is found. The exit status is 1 if there were differences.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import random
import re
import sys
import types
import warnings
from typing import Any

import torch
from rich.console import Console
from rich.progress import track

import onegraph

WORLD = """
class Base:
    k = 1
    def m(self): return "bm"
    @property
    def p(self): return "bp"
    @classmethod
    def c(cls): return cls.k
    @staticmethod
    def s(): return "s"
    def __len__(self): return 3
class Sub(Base):
    def __init__(self): self.v = 1; self.l = [1]; self.d = {"a": 1}
class Slots:
    __slots__ = ("a", "b")
    def __init__(self): self.a = 1
class Meta(type):
    def __len__(cls): return 7
class Described(metaclass=Meta): pass
class Hidden:
    def __get__(self, obj, cls): return "hidden"
class Data:
    def __get__(self, obj, cls): return "data"
    def __set__(self, obj, value): pass
def g(a=1, *, k=2): return (a, k)
def cells():
    v = 1
    def inner(): return v
    def setv(n):
        nonlocal v
        v = n
    return inner, setv
inner, setv = cells()
def decorated(f):
    @functools.wraps(f)
    def wrapper(*a): return ("w", f(*a))
    return wrapper
@dataclasses.dataclass
class Record: a: int = 1
class Pair(typing.NamedTuple): a: int; b: int
o, sl, dc, nt, ns = Sub(), Slots(), Record(), Pair(1, 2), types.SimpleNamespace(a=1)
lst, dct, st, tup, dq, it = [1, 2], {"a": 1}, {1}, (1, 2), collections.deque([1]), [1, 2, 3]
num, flt, name, keys = 1, 1.5, "n", dct.keys()
fn, part, h = g, functools.partial(g, 5), decorated(g)
mod, T = torch.nn.Linear(2, 2), torch.ones(2)
seq = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
"""

QUESTIONS = """
o.v; o.k; o.m(); o.p; o.c(); o.s(); len(o); Base.k; Sub.k; o.l; o.d; o.l[0]; len(o.l); o.d.get('a'); 'z' in o.d
hasattr(o, 'z'); getattr(o, 'z', 0); sl.a; hasattr(sl, 'b'); len(Described); g(); g(3); g(k=4); fn(); inner(); part()
lst; lst[-1]; len(lst); sum(lst); dct; dct['a'] if 'a' in dct else None; list(dct); list(dct.items()); st; 1 in st
num; num + 1; x + num; flt; x * flt; name; f'{name}'; tup; tup[0]; nt.a; mod(x).tolist(); mod.weight.sum().item()
mod.training; mod.in_features; seq(x).tolist(); len(seq); [type(m).__name__ for m in seq]; T.sum().item(); x + T
ns.a; hasattr(ns, 'b'); vars(ns); dc.a; dc == Record(1); dq; len(dq); list(keys); h(); h.__name__; h.__wrapped__ is g
type(o).__name__; isinstance(o, Base); isinstance(o, Sub); issubclass(Sub, Base); type(o).__mro__[1].__name__; vars(o)
bool(o); o == o; str(mod)[:6]; list(mod.state_dict()); mod.bias is None; [n for n, _ in seq.named_parameters()]
callable(fn); fn.__name__; fn.__defaults__; g.__kwdefaults__; inner.__closure__[0].cell_contents; Base.__dict__.get('k')
o.m.__func__ is Base.m; [i for i in it]; any(i > 2 for i in it); max(it); it == lst; o.__dict__; sorted(o.d); str(dq)
next(iter(o.d)); o.d | {'q': 1}; o.l is lst; sl.__class__; mod.weight.requires_grad; mod.weight.shape; str(o.v)
mod._parameters.keys(); len(mod._forward_hooks); torch.is_grad_enabled(); seq[0] is mod
o.extra if 'extra' in vars(o) else 0; o + 1; 1 + o; 1 in o; list(o); o['a']; o(); bool(sl); dc < Record(2); -o; o == 3
super(Sub, o).m(); isinstance(3, Described)
repr(dc); Described(); Sub().v; isinstance(3, Base); [*map(len, [o])]; sorted([dc, dc]); o != o; min(o)
"""

CHANGES = """
o.v = 2
o.v = 's'
o.v = 2.5
o.v = [1]
o.v = None
del o.v
o.z = 5
Base.k = 2
Sub.k = 3
del Sub.k
o.k = 9
Base.m = lambda self: 'new'
Sub.m = lambda self: 'subm'
o.m = lambda: 'inst'
Base.p = property(lambda s: 'np')
Sub.p = property(lambda s: 'sp')
Base.p = 5
Sub.s = staticmethod(lambda: 'ss')
o.l.append(2)
o.l = [5]
o.l.clear()
o.l = lst
o.d['z'] = 1
o.d.clear()
o.d = {'b': 1, 'a': 2}
sl.a = 2
sl.b = 3
del sl.a
g.__defaults__ = (7,)
g.__kwdefaults__ = {'k': 8}
g.__code__ = (lambda a=1, *, k=2: ('code', a, k)).__code__
g.__name__ = 'gg'
fn = len
fn = lambda *a, **k: 'l'
setv(5)
setv([1])
part = functools.partial(g, 6)
part.keywords['k'] = 11
lst.append(3)
lst[0] = True
lst = (1, 2)
lst.reverse()
dct['b'] = 1
dct.pop('a')
dct['a'] = 1.0
dct = dict(b=1)
st.add(2)
st.discard(1)
num = 2
num = True
num = 1.0
num = torch.tensor(3)
num = 10 ** 20
flt = 2.5
flt = 2
flt = float('nan')
flt = -0.0
name = 'm'
name = b'm'
name = ''
tup = (2, 1)
tup = [1, 2]
nt = nt._replace(a=5)
nt = (1, 2)
mod.weight.data.fill_(1)
mod = torch.nn.Linear(2, 2, bias=False)
mod.eval()
mod.train()
mod.bias = None
mod.weight = torch.nn.Parameter(torch.ones(2, 2))
mod.weight.requires_grad_(False)
mod.in_features = 99
mod.forward = lambda x: x
mod.register_forward_hook(lambda m, i, o: o + 1)
seq.append(torch.nn.Tanh())
seq[0] = mod
seq = torch.nn.Sequential()
del seq[0]
T = torch.zeros(2)
T.add_(1)
T = torch.ones(2, dtype=torch.float64)
T = torch.ones(3)[:2]
T = 5
ns.a = 2
ns.b = 1
dc.a = 2
Record.a = 5
dq.append(2)
dq.popleft()
dq = [1]
h = g
h.__wrapped__ = len
h.__name__ = 'hn'
o.__class__ = Base
o.__dict__ = {'v': 3}
o = Base()
it.append(4)
it = iter([1, 2, 3, 4])
it = range(3)
it = {1: 2}
it = 'abc'
it = torch.arange(3)
o.extra = torch.ones(1)
torch.set_grad_enabled(False)
torch.set_grad_enabled(True)
Base.__len__ = lambda s: 8
Sub.__len__ = lambda s: 0
Sub.__bool__ = lambda s: False
Sub.__eq__ = lambda s, o: False
Sub.__getattr__ = lambda s, n: 'ga' + n
Sub.__getattribute__ = lambda s, n: object.__getattribute__(s, n) if n != 'v' else 'gat'
Sub.v = Hidden()
Sub.v = Data()
Base.z = 'cls'
Meta.__len__ = lambda c: 8
Record.__eq__ = lambda s, o: 'eq'
Sub.__bases__ = (type('Q', (Base,), {}),)
del Base.__len__
Sub.__add__ = lambda s, o: ('add', o)
Base.__radd__ = lambda s, o: ('radd', o)
Base.__iter__ = lambda s: iter([4, 5])
Sub.__iter__ = None
Base.__contains__ = lambda s, o: True
Base.__getitem__ = lambda s, k: [7, 8][k]
Sub.__call__ = lambda s: 'called'
Sub.__call__ = functools.partial(str, 'part')
Slots.__len__ = lambda s: 0
Record.__lt__ = lambda s, o: True
Record.__repr__ = lambda s: 'rec'
Base.__neg__ = lambda s: 'neg'
Meta.__call__ = lambda c: 'made'
Meta.__instancecheck__ = lambda c, o: True
Sub.__init__ = lambda s: setattr(s, 'v', 'init')
Sub.__new__ = lambda c: object.__new__(c)
Sub.__ne__ = lambda s, o: 'ne'
Sub.__setattr__ = lambda s, n, v: object.__setattr__(s, n, [v])
Base.s = property(lambda s: lambda: 'bound')
"""

#: Special methods that change, and classes that get what they did not have.


def draw(seed: int, changes: list[str]) -> tuple[str, list[str]]:
    """A program, and what happens between its calls."""
    draws = random.Random(seed)
    questions = [question.strip() for line in QUESTIONS.strip().splitlines() for question in line.split(";")]
    asked = draws.sample(questions, draws.randint(1, 3))
    lines = [
        f"    try: r.append(({q}))\n    except Exception as e: r.append((type(e).__name__, str(e)))\n" for q in asked
    ]
    program = "def f(x):\n    r = []\n" + "".join(lines) + "    return r, x + 1\n"
    return program, ["pass", *(draws.choice(changes) for _ in range(8))]


def answers(program: str, changes: list[str], compiled: bool) -> list[tuple[str, Any]]:
    """What the program answers behind each of the changes that can be made, in a world of its own."""
    torch.manual_seed(0)
    world: dict[str, Any] = {"torch": torch, "functools": functools, "types": types, "dataclasses": dataclasses}
    world["__name__"] = __name__  # where its classes and functions are from
    exec(f"import collections, typing\n{WORLD}\n{program}", world)
    ask = world["f"]
    if compiled:
        ask = onegraph.compile(ask, backend="eager", options={"recompile_limit": 50, "raise_compiler_errors": True})
    found: list[tuple[str, Any]] = []
    try:
        for change in changes:
            try:
                exec(change, world)
            except (AttributeError, TypeError, KeyError, IndexError, RuntimeError) as error:
                found.append((change, f"cannot be made: {error}"))
            else:
                found.append((change, [shown(answer) for answer in ask(torch.ones(2))[0]]))
    finally:
        torch.set_grad_enabled(True)
    return found


def shown(value: Any) -> str:
    text = f"{value.dtype} {value.tolist()}" if isinstance(value, torch.Tensor) else repr(value)
    return f"{type(value).__name__} {re.sub('0x[0-9a-f]+', '', text)}"


def difference(seed: int, changes: list[str]) -> str | None:
    """How the program of this number differs when it is compiled, and behind which changes."""
    program, drawn = draw(seed, changes)
    expected, found = (answers(program, drawn, compiled) for compiled in (False, True))
    onegraph.reset()
    for place, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        if ours != theirs:
            return f"{program}{'; '.join(drawn[1 : place + 1])}\n  as written: {theirs[1]}\n  compiled:   {ours[1]}"
    return None


def statements(text: str) -> list[str]:
    return text.strip().splitlines()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=3000, help="how many programs")
    parser.add_argument("--seed", type=int, default=0, help="the number of the first one")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    changes = statements(CHANGES)
    console, differing = Console(stderr=True), 0
    numbers = range(given.seed, given.seed + given.count)
    for seed in track(numbers, "worlds", console=console, disable=not console.is_terminal):
        text = difference(seed, changes)
        if text is not None:
            differing += 1
            print(f"# {seed}\n{text}\n", flush=True)
    print(f"{given.count} programs, {differing} differ")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
