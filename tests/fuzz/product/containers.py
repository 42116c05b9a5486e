"""Mappings, sets, sequences and objects with attributes: what they are asked, and how they change."""

from __future__ import annotations

from tests.fuzz.product.axes import COMMON, KEYS, NAMES, VALUES, Family, Piece, piece


def questions(text: str) -> tuple[Piece, ...]:
    """Expressions, one a line, that leave the container as it is."""
    return tuple(piece(asked, f"r.append({asked})", asks(asked), "pure") for asked in text.strip().splitlines())


def asks(asked: str) -> str:
    return "identity" if " is k" in asked else ""


def guarded(text: str, error: str, needs: str = "") -> Piece:
    """A question whose exception is caught."""
    answer = f"try: r.append({text})\nexcept {error} as error: r.append((type(error).__name__, len(error.args)))"
    return piece(f"{text} or {error}", answer, needs or asks(text), "pure")


SUBCLASSES = """
class Missing(dict):
    def __missing__(self, key): return -1
class Getting(dict):
    def get(self, key, default=None): return super().get(key, default)
class Containing(dict):
    def __contains__(self, key): return dict.__contains__(self, key)
class Reading(dict):
    def __getitem__(self, key): return dict.__getitem__(self, key)
class Setting(dict):
    def __setitem__(self, key, value): dict.__setitem__(self, key, value)
class Counting(collections.OrderedDict):
    def __len__(self): return super().__len__() + 1
class Defaulting(collections.defaultdict):
    def __missing__(self, key): return super().__missing__(key)
class Tallying(collections.Counter):
    def __missing__(self, key): return 0
class Chained(collections.ChainMap):
    def __getitem__(self, key): return super().__getitem__(key)
class Guarding(collections.UserDict):
    def __contains__(self, key): return super().__contains__(key)
class WeakKeys(weakref.WeakKeyDictionary):
    def get(self, key, default=None): return super().get(key, default)
class WeakValues(weakref.WeakValueDictionary):
    def __contains__(self, key): return super().__contains__(key)
class Written(collections.abc.Mapping):
    def __init__(self, data): self.data = data
    def __getitem__(self, key): return self.data[key]
    def __iter__(self): return iter(self.data)
    def __len__(self): return len(self.data)
class Wrapped:
    def __init__(self, data): self.data = data
    def __getattr__(self, name): return getattr(self.data, name)
    def __contains__(self, key): return key in self.data
    def __getitem__(self, key): return self.data[key]
    def __setitem__(self, key, value): self.data[key] = value
    def __len__(self): return len(self.data)
    def __iter__(self): return iter(self.data)
"""

MAPPINGS = (
    piece("dict", "c = alias = dict(pairs)", "", "write copied"),
    piece("defaultdict", "c = alias = collections.defaultdict(int, pairs)", "", "write copied"),
    piece("defaultdict of lists", "c = alias = collections.defaultdict(list, pairs)", "", "write copied"),
    piece("OrderedDict", "c = alias = collections.OrderedDict(pairs)", "", "write copied"),
    piece("Counter", "c = alias = collections.Counter(dict(pairs))", "", "write copied"),
    piece("ChainMap", "alias = dict(pairs)\nc = collections.ChainMap({}, alias)", "", "write copied"),
    piece("WeakKeyDictionary", "c = alias = weakref.WeakKeyDictionary(dict(pairs))", "weak-key", "write copied"),
    piece("WeakValueDictionary", "c = alias = weakref.WeakValueDictionary(dict(pairs))", "weak-value", "write copied"),
    piece("proxy", "alias = dict(pairs)\nc = types.MappingProxyType(alias)"),
    piece("with missing", "c = alias = Missing(pairs)", "", "write copied", SUBCLASSES, "Missing.__missing__ = lambda self, key: -2"),
    piece("with get", "c = alias = Getting(pairs)", "", "write copied", SUBCLASSES, "Getting.get = lambda self, key, default=None: 'new'"),
    piece("with contains", "c = alias = Containing(pairs)", "", "write copied", SUBCLASSES, "Containing.__contains__ = lambda self, key: True"),
    piece("with getitem", "c = alias = Reading(pairs)", "", "write copied", SUBCLASSES, "Reading.__getitem__ = lambda self, key: 'new'"),
    piece("with setitem", "c = alias = Setting(pairs)", "", "write copied", SUBCLASSES, "del Setting.__setitem__"),
    piece("with len", "c = alias = Counting(pairs)", "", "write copied", SUBCLASSES, "Counting.__len__ = lambda self: 0"),
    piece("abstract", "alias = dict(pairs)\nc = Written(alias)", "", "copied", SUBCLASSES, "Written.__getitem__ = lambda self, key: 'new'"),
    piece("wrapped", "alias = dict(pairs)\nc = Wrapped(alias)", "", "write", SUBCLASSES, "Wrapped.__contains__ = lambda self, key: True"),
    piece("UserDict", "c = alias = collections.UserDict(pairs)", "", "write copied"),
    piece("defaultdict subclass", "c = alias = Defaulting(int, pairs)", "", "write copied", SUBCLASSES, "Defaulting.__missing__ = lambda self, key: -2"),
    piece("Counter subclass", "c = alias = Tallying(dict(pairs))", "", "write copied", SUBCLASSES, "Tallying.__missing__ = lambda self, key: -2"),
    piece("ChainMap subclass", "alias = dict(pairs)\nc = Chained({}, alias)", "", "write copied", SUBCLASSES, "Chained.__getitem__ = lambda self, key: 'new'"),
    piece("UserDict subclass", "c = alias = Guarding(pairs)", "", "write copied", SUBCLASSES, "Guarding.__contains__ = lambda self, key: True"),
    piece("WeakKeyDictionary subclass", "c = alias = WeakKeys(dict(pairs))", "weak-key", "write copied", SUBCLASSES, "WeakKeys.get = lambda self, key, default=None: 'new'"),
    piece("WeakValueDictionary subclass", "c = alias = WeakValues(dict(pairs))", "weak-value", "write copied", SUBCLASSES, "WeakValues.__contains__ = lambda self, key: True"),
    piece("dict of an object", "o = types.SimpleNamespace()\nc = alias = vars(o)\nc.update({str(q): v for q, v in pairs})", "", "write copied"),
)  # fmt: skip

MAPPING_QUESTIONS = (
    *questions("""
k in c
k not in c
c.get(k, 0)
c.get(k)
c.get(k) is None
len(c)
bool(c)
'full' if c else 'empty'
list(c)
list(c.items())
list(c.values())
list(c.keys())
k in c.keys()
(k, 1) in c.items()
1 in c.values()
dict(c)
{**c}
tuple(c)[:1]
next(iter(c), None)
next(iter(c.values()), None)
[q for q in c if q == k]
[v for q, v in c.items() if q is k]
any(q is k for q in c)
{q: 1 for q in c}
set(c) == {k}
c == {k: 1}
c != {}
c == alias
c is alias
k == next(iter(c), None)
hash(k) in {hash(q) for q in c}
sum(1 for _ in c)
list(enumerate(c))
list(zip(c, c.values()))
isinstance(c, dict)
isinstance(c, collections.abc.Mapping)
isinstance(k, collections.abc.Hashable)
type(c).__name__
hasattr(c, 'get')
getattr(c, 'default_factory', 'none')
len({**c, k: 5})
len(c.keys() | {k})
list(c.keys() & {k})
c.keys().isdisjoint({k})
list(map(type, c))
list(filter(lambda q: q == k, c))
dict.fromkeys(c, 0)
sorted(map(str, map(type, c)))
str(len(c)) + f'{len(c)}'
[*c]
len(list(c)) > 1
(lambda a, *b: b)(*c) if c else ()
"""),
    piece("max", "r.append(max(c.values(), default=0))", "ordered-values", "pure"),
    piece("sum of values", "r.append(sum(c.values()))", "ordered-values", "pure"),
    piece("sorted keys", "r.append(sorted(c))", "sorted", "pure"),
    piece("keyword call", "r.append((lambda **all: len(all))(**{str(q): 1 for q in c}))", "", "pure"),
    piece("match", "match c:\n    case {}:\n        r.append('map')\n    case _:\n        r.append('no')", "", "pure"),
    guarded("c[k]", "KeyError"),
    guarded("c[k]", "LookupError"),
    guarded("operator.getitem(c, k)", "KeyError"),
    piece("c[k]", "r.append(c[k])", "", "pure"),
    piece("operator.contains", "r.append(operator.contains(c, k))", "", "pure"),
    piece("guard clause", "if k not in c: return 'absent', x + 1", "", "pure"),
    piece("loop with break", "for q in c:\n    if q == k: break\nelse: r.append('none')", "", "pure"),
    piece("copy", "q = copy.copy(c)\nr.append(k in q)", "copied", "pure"),
    piece("setdefault", "r.append(c.setdefault(k, <v>))", "write"),
    piece("pop", "r.append(c.pop(k, 0))", "write"),
    piece("pop or KeyError", "try: r.append(c.pop(k))\nexcept KeyError: r.append('none')", "write"),
    piece("popitem", "try: r.append(len(c.popitem()))\nexcept KeyError: r.append('none')", "write"),
    piece("del", "try: del c[k]\nexcept KeyError: r.append('none')", "write"),
    piece("initialize", "if k not in c: c[k] = <v>\nr.append(c[k])", "write"),
    piece("count", "c[k] = c.get(k, 0) + 1", "write ordered-values"),
    piece("count or KeyError", "try: c[k] += 1\nexcept KeyError: c[k] = 0", "write ordered-values"),
    piece("collect", "c.setdefault(k, []).append(1)", "write list-values"),
    piece("state if empty", "st = c\nif len(st) == 0: st[k] = <v>\nr.append(len(st))", "write"),
    piece("memo", "if (hit := c.get(k)) is not None: r.append(hit)\nelse: c[k] = <v>", "write"),
)  # fmt: skip

MAPPING_CHANGES = (
    *COMMON,
    piece("add", "c[k] = <v>", "write"),
    piece("add another", "c[OTHER] = <v>", "write"),
    piece("add unrelated", "c[UNRELATED] = <v>", "write"),
    piece("remove", "c.pop(k, None)", "write"),
    piece("remove another", "c.pop(OTHER, None)", "write"),
    piece("clear", "c.clear()", "write"),
    piece("replace the value by an equal one", "if k in c: c[k] = <same>", "write"),
    piece("replace the key by an equal one", "c.pop(k, None)\nc[EQUAL] = <same>", "write"),
    piece("replace the key by another", "c.pop(k, None)\nc[OTHER] = <same>", "write"),
    piece("reorder", "if c: q = next(iter(c)); c[q] = c.pop(q)", "write"),
    piece("mutate the value", "for q in list(c.values()): q<mutate>", "mutate"),
    piece("add through the alias", "alias[k] = <v>"),
    piece("remove through the alias", "alias.pop(k, None)"),
    piece("remove another through the alias", "alias.pop(OTHER, None)"),
    piece("update", "c.update({k: <v>})", "write"),
    piece("setdefault", "c.setdefault(k, <v>)", "write"),
)

CONTENTS = (
    piece("empty", "[]"),
    piece("other", "[(OTHER, <same>)]"),
    piece("present", "[(K, <same>)]"),
    piece("both", "[(OTHER, <same>), (K, <same>)]"),
)

SETS_SETUP = """
class Containing(set):
    def __contains__(self, key): return set.__contains__(self, key)
class Frozen(frozenset):
    def __contains__(self, key): return frozenset.__contains__(self, key)
class Weak(weakref.WeakSet):
    def __contains__(self, key): return super().__contains__(key)
class Written(collections.abc.Set):
    def __init__(self, data): self.data = data
    def __contains__(self, key): return key in self.data
    def __iter__(self): return iter(self.data)
    def __len__(self): return len(self.data)
"""
SETS = (
    piece("set", "c = alias = set(pairs)", "", "write copied"),
    piece("frozenset", "c = frozenset(pairs)\nalias = set()", "", "copied"),
    piece("set subclass", "c = alias = Containing(pairs)", "", "write copied", SETS_SETUP, "Containing.__contains__ = lambda self, key: True"),
    piece("abstract set", "alias = set(pairs)\nc = Written(alias)", "", "copied", SETS_SETUP, "Written.__len__ = lambda self: 9"),
    piece("WeakSet", "c = alias = weakref.WeakSet(pairs)", "weak-key", "write copied"),
    piece("frozenset subclass", "c = Frozen(pairs)\nalias = set()", "", "copied", SETS_SETUP, "Frozen.__contains__ = lambda self, key: True"),
    piece("WeakSet subclass", "c = alias = Weak(pairs)", "weak-key", "write copied", SETS_SETUP, "Weak.__contains__ = lambda self, key: True"),
    piece("keys of an OrderedDict", "alias = Keys(dict.fromkeys(pairs))\nc = alias.keys()", "", "", "class Keys(collections.OrderedDict):\n    def add(self, k): self[k] = 1\n    def discard(self, k): self.pop(k, None)"),
    piece("keys of a dict", "alias = Keys(dict.fromkeys(pairs))\nc = alias.keys()", "", "", "class Keys(dict):\n    def add(self, k): self[k] = 1\n    def discard(self, k): self.pop(k, None)"),
)  # fmt: skip
SET_QUESTIONS = (
    *questions("""
k in c
k not in c
len(c)
bool(c)
'full' if c else 'empty'
c == {k}
c != {k}
{k} <= set(c)
c | {k} == c
len(c & {k})
k in c & {k}
c.isdisjoint({k})
any(q == k for q in c)
sum(1 for _ in c)
[q for q in c if q is k]
len(list(c))
c is alias
isinstance(c, (set, frozenset))
len({*c, k})
k in set(c)
type(c).__name__
hash(k) in {hash(q) for q in c}
sorted(map(str, map(type, c)))
[k in c, OTHER in c]
"""),
    piece("sorted", "r.append(sorted(c))", "sorted", "pure"),
    piece("copy", "q = copy.copy(c)\nr.append(k in q)", "copied", "pure"),
    piece("only once", "if k in c: return 'seen', x\nc.add(k)", "write"),
    piece("remove or KeyError", "try: c.remove(k)\nexcept KeyError: r.append('none')", "write"),
    piece("remove", "c.remove(k)", "write"),
    piece("pop", "try: r.append(c.pop() is k)\nexcept KeyError: r.append('none')", "write identity sorted"),
    piece("add twice", "c.add(k)\nc.add(EQUAL)\nr.append(len(c))", "write"),
)  # fmt: skip
SET_CHANGES = (
    *COMMON,
    piece("add", "c.add(k)", "write"),
    piece("add another", "c.add(OTHER)", "write"),
    piece("remove", "c.discard(k)", "write"),
    piece("remove another", "c.discard(OTHER)", "write"),
    piece("clear", "c.clear()", "write"),
    piece("replace by an equal one", "c.discard(k)\nc.add(EQUAL)", "write"),
    piece("replace by another", "c.discard(k)\nc.add(OTHER)", "write"),
    piece("add through the alias", "alias.add(k)"),
    piece("remove through the alias", "alias.discard(k)"),
    piece("update", "c |= {OTHER}", "rebind write"),
)
KEYS_ONLY = (piece("empty", "[]"), piece("other", "[OTHER]"), piece("present", "[K]"), piece("both", "[OTHER, K]"))

SEQUENCES_SETUP = """
class Containing(list):
    def __contains__(self, key): return list.__contains__(self, key)
class Reading(list):
    def __getitem__(self, at): return list.__getitem__(self, at)
class Items(tuple):
    def __contains__(self, key): return tuple.__contains__(self, key)
class Queue(collections.deque):
    def __contains__(self, key): return super().__contains__(key)
class User(collections.UserList):
    def __contains__(self, key): return super().__contains__(key)
class Pair(typing.NamedTuple):
    a: object = None
    b: object = None
class Old:
    def __init__(self, data): self.data = data
    def __getitem__(self, at): return self.data[at]
    def __len__(self): return len(self.data)
"""
SEQUENCES = (
    piece("list", "c = alias = list(pairs)", "", "write copied"),
    piece("tuple", "c = tuple(pairs)\nalias = []", "", "copied"),
    piece("deque", "c = alias = collections.deque(pairs)", "", "write copied"),
    piece("bounded deque", "c = alias = collections.deque(pairs, maxlen=2)", "", "write copied"),
    piece("namedtuple", "c = Two(*([*pairs, None, None][:2]))\nalias = []", "", "copied", "Two = collections.namedtuple('Two', 'a b')"),
    piece("UserList", "c = alias = collections.UserList(pairs)", "", "write copied"),
    piece("with contains", "c = alias = Containing(pairs)", "", "write copied", SEQUENCES_SETUP, "Containing.__contains__ = lambda self, key: True"),
    piece("with getitem", "c = alias = Reading(pairs)", "", "write copied", SEQUENCES_SETUP, "Reading.__getitem__ = lambda self, at: at"),
    piece("tuple subclass", "c = Items(pairs)\nalias = []", "", "copied", SEQUENCES_SETUP, "Items.__contains__ = lambda self, key: True"),
    piece("deque subclass", "c = alias = Queue(pairs)", "", "write copied", SEQUENCES_SETUP, "Queue.__contains__ = lambda self, key: True"),
    piece("UserList subclass", "c = alias = User(pairs)", "", "write copied", SEQUENCES_SETUP, "User.__contains__ = lambda self, key: True"),
    piece("NamedTuple", "c = Pair(*pairs[:2])\nalias = []", "", "copied", SEQUENCES_SETUP, "Pair.__len__ = lambda self: 9"),
    piece("by index", "alias = list(pairs)\nc = Old(alias)", "", "copied", SEQUENCES_SETUP, "Old.__len__ = lambda self: 9"),
    piece("values of a dict", "alias = Values(enumerate(pairs))\nc = alias.values()", "", "", "class Values(dict):\n    def append(self, k): self[len(self)] = k\n    def remove(self, k): self.pop(0)"),
)  # fmt: skip
SEQUENCE_QUESTIONS = (
    *questions("""
k in c
k not in c
len(c)
bool(c)
'full' if c else 'empty'
list(c)
tuple(c)
list(c) == [k]
c == [k]
c != [k]
any(q is k for q in c)
[q for q in c if q is k]
sum(1 for _ in c)
next(iter(c), None)
list(reversed(list(c)))
list(enumerate(c))
list(zip(c, c))
c is alias
isinstance(c, (list, tuple))
isinstance(c, collections.abc.Sequence)
[*c, k]
len(range(len(c)))
type(c).__name__
[type(q).__name__ for q in c]
max(len(c), 1)
(lambda a, *b: b)(*c) if len(c) else ()
hasattr(c, 'append')
"""),
    guarded("c[0]", "IndexError"),
    guarded("c[1]", "IndexError"),
    guarded("c[-1] is k", "IndexError"),
    guarded("c.index(k)", "(ValueError, AttributeError)"),
    guarded("c.count(k)", "AttributeError"),
    guarded("c[len(c) - 1]", "(IndexError, TypeError)"),
    guarded("c[:1]", "TypeError"),
    piece("c[0]", "r.append(c[0])", "", "pure"),
    piece("unpack", "try: (q,) = c\nexcept ValueError as error: r.append(str(error))\nelse: r.append(q)", "", "pure"),
    piece("match", "match c:\n    case []: r.append(0)\n    case [q]: r.append(1)\n    case [*q]: r.append(len(q))", "", "pure"),
    piece("sorted", "r.append(sorted(c))", "sorted", "pure"),
    piece("copy", "q = copy.copy(c)\nr.append(k in q)", "copied", "pure"),
    piece("pop", "try: r.append(c.pop())\nexcept IndexError: r.append('none')", "write"),
    piece("first in, first out", "c.append(k)\nif len(c) > 2: del c[0]\nr.append(len(c))", "write"),
    piece("only once", "if k not in c: c.append(k)", "write"),
    piece("remove or ValueError", "try: c.remove(k)\nexcept ValueError: r.append('none')", "write"),
    piece("insert", "c.insert(0, k) if len(c) < 2 else None", "write"),
)  # fmt: skip
SEQUENCE_CHANGES = (
    *COMMON,
    piece("add", "if len(c) < 2: c.append(k)", "write"),
    piece("add another", "if len(c) < 2: c.append(OTHER)", "write"),
    piece("remove", "if len(c): c.pop()", "write"),
    piece("clear", "c.clear()", "write"),
    piece("reorder", "c.reverse()", "write"),
    piece("replace by an equal one", "if len(c): c[0] = EQUAL", "write"),
    piece("replace by another", "if len(c): c[0] = OTHER", "write"),
    piece("add through the alias", "alias.append(k)"),
    piece("remove through the alias", "if len(alias): alias.pop(0) if isinstance(alias, (list, dict)) else alias.pop()"),
    piece("extend", "c.extend([OTHER])", "write"),
)  # fmt: skip

OBJECTS_SETUP = """
class Plain: pass
class Slots: __slots__ = ("a", "b", "__weakref__")
class Base: pass
class Sub(Base): pass
class Asking:
    def __getattr__(self, name):
        if name.startswith("_"): raise AttributeError(name)
        return "asked " + name
class Table:
    def __init__(self): self.table = {}
    def __getattr__(self, name):
        try: return self.__dict__["table"][name]
        except KeyError: raise AttributeError(name) from None
class Space(types.SimpleNamespace): pass
class Library(types.ModuleType): pass
class Finding:
    def __getattribute__(self, name): return object.__getattribute__(self, name)
class Meta(type):
    def __getattr__(cls, name):
        if name.startswith("_"): raise AttributeError(name)
        return "asked of the class"
@dataclasses.dataclass
class Record:
    z: int = 0
@typing.runtime_checkable
class HasA(typing.Protocol):
    a: int
def filled(c, pairs):
    for name, value in pairs: setattr(c, name, value)
    return c
def fresh(base=object, meta=type): return meta("Fresh", (base,), {})
# What is set on a class of a library would be there in all worlds.
def own(c): return type(c) if type(c).__module__ == __name__ else Plain
"""


def owner(name: str, made: str, has: str = "write", patch: str = "") -> Piece:
    return piece(name, made, "", has, OBJECTS_SETUP, patch)


OBJECTS = (
    owner("instance", "c = alias = filled(Plain(), pairs)", "write copied", "Plain.__getattr__ = lambda self, name: 'got'"),
    owner("SimpleNamespace", "c = alias = filled(types.SimpleNamespace(), pairs)", "write copied"),
    owner("SimpleNamespace subclass", "c = alias = filled(Space(), pairs)", "write", "Space.__getattr__ = lambda self, name: 'got'"),
    owner("module subclass", "c = alias = filled(Library('product_namespace'), pairs)", "", "Library.__getattr__ = lambda self, name: 'got'"),
    owner("slots", "c = alias = filled(Slots(), pairs)", "write copied", "Slots.__getattr__ = lambda self, name: 'got'"),
    owner("class", "c = alias = filled(fresh(), pairs)"),
    owner("subclass", "alias = filled(fresh(), pairs)\nc = fresh(alias)"),
    owner("instance of a class", "alias = filled(fresh(), pairs)\nc = alias()"),
    owner("instance of a subclass", "alias = filled(fresh(), pairs)\nc = fresh(alias)()"),
    owner("instance that asks", "c = alias = filled(Asking(), pairs)", "write copied", "Asking.__getattr__ = lambda self, name: 'got'"),
    owner("instance with a table", "c = Table()\nalias = c\nc.table.update(pairs)", "write", "del Table.__getattr__"),
    owner("instance that finds", "c = alias = filled(Finding(), pairs)", "write copied", "del Finding.__getattribute__"),
    owner("class that asks", "c = alias = filled(fresh(meta=Meta), pairs)", "write", "Meta.__getattr__ = lambda cls, name: 'got'"),
    owner("module", "c = alias = filled(types.ModuleType('product_namespace'), pairs)"),
    owner("nn.Module", "c = alias = filled(torch.nn.Identity(), pairs)"),
    owner("function", "def c(): pass\nalias = filled(c, pairs)"),
    owner("record", "c = alias = filled(Record(), pairs)", "write copied", "Record.a = 5"),
    owner("exception", "c = alias = filled(ValueError('v'), pairs)"),
    owner("argparse.Namespace", "c = alias = argparse.Namespace(**dict(pairs))", "write copied"),
    owner("instance whose base has them", "alias = filled(Base, pairs)\nc = Sub()", "write", "Base.__getattr__ = lambda self, name: 'got'"),
)  # fmt: skip
OBJECT_QUESTIONS = (
    *questions("""
hasattr(c, 'a')
hasattr(c, k)
getattr(c, 'a', 0)
getattr(c, k, 0)
getattr(c, 'a', None) is None
'a' in getattr(c, '__dict__', ())
getattr(c, '__dict__', {}).get('a', 0)
len([q for q in getattr(c, '__dict__', ()) if q[0] != '_'])
hasattr(type(c), 'a')
getattr(type(c), 'a', 'none')
callable(getattr(c, 'a', None))
isinstance(c, HasA)
isinstance(c, Plain)
'a' in dir(c)
type(c).__name__
c is alias
hasattr(c, 'a') and hasattr(c, 'b')
[n for n in ('a', 'b') if hasattr(c, n)]
c == alias
bool(c)
hasattr(c, '__call__')
isinstance(getattr(c, 'a', None), int)
"""),
    guarded("c.a", "AttributeError"),
    guarded("getattr(c, k)", "AttributeError"),
    guarded("operator.attrgetter('a')(c)", "AttributeError"),
    guarded("type(c).a", "AttributeError"),
    guarded("object.__getattribute__(c, 'a')", "AttributeError"),
    guarded("vars(c)['a']", "(KeyError, TypeError)"),
    piece("c.a", "r.append(c.a)", "", "pure"),
    piece("suppress", "with contextlib.suppress(AttributeError): r.append(c.a)", "", "pure"),
    piece("match", "match c:\n    case object(a=q): r.append(q)\n    case _: r.append('none')", "", "pure"),
    piece("lazily", "if not hasattr(c, 'a'): c.a = <v>\nr.append(c.a)", "write"),
    piece("count", "c.a = getattr(c, 'a', 0) + 1", "write ordered-values"),
    piece("delete or AttributeError", "try: del c.a\nexcept AttributeError: r.append('none')", "write"),
    piece("delete", "del c.a", "write"),
)  # fmt: skip
OBJECT_CHANGES = (
    *COMMON,
    piece("set", "c.a = <v>", "write"),
    piece("set another", "c.b = <v>", "write"),
    piece("set by an equal one", "if hasattr(c, 'a'): c.a = <same>", "write"),
    piece("delete", "with contextlib.suppress(AttributeError): del c.a", "write"),
    piece("set through the dictionary", "with contextlib.suppress(TypeError, AttributeError): c.__dict__['a'] = <v>", "write"),
    piece("set through the alias", "alias.a = <v>"),
    piece("delete through the alias", "with contextlib.suppress(AttributeError): del alias.a"),
    piece("set on the class", "with contextlib.suppress(TypeError, AttributeError): own(c).a = <v>", "outside"),
    piece("property on the class", "with contextlib.suppress(TypeError, AttributeError): own(c).a = property(lambda self: 'p')", "outside"),
    piece("other class", "with contextlib.suppress(TypeError): c.__class__ = Base", "outside"),
    piece("other dictionary", "with contextlib.suppress(TypeError, AttributeError): c.__dict__ = {'b': <v>}", "outside"),
    piece("mutate the value", "q = getattr(c, 'a', None)\nif q is not None: q<mutate>", "mutate"),
)  # fmt: skip
ATTRIBUTES = (
    piece("empty", "[]"),
    piece("other", "[('b', <same>)]"),
    piece("present", "[('a', <same>)]"),
    piece("both", "[('b', <same>), ('a', <same>)]"),
)

FAMILIES = (
    Family("mapping", KEYS, MAPPINGS, MAPPING_QUESTIONS, MAPPING_CHANGES, VALUES, CONTENTS),
    Family("set", KEYS, SETS, SET_QUESTIONS, SET_CHANGES, VALUES[:1], KEYS_ONLY),
    Family("sequence", KEYS, SEQUENCES, SEQUENCE_QUESTIONS, SEQUENCE_CHANGES, VALUES[:1], KEYS_ONLY),
    Family("attributes", NAMES, OBJECTS, OBJECT_QUESTIONS, OBJECT_CHANGES, VALUES, ATTRIBUTES),
)
