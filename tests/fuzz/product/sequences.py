"""Sequences of characters and numbers, flags, cells and what refers weakly: builtins, types, weakref and enum."""

from __future__ import annotations

from tests.fuzz.product.axes import COMMON, NAMES, VALUES, Family, Key, Piece, piece, words
from tests.fuzz.product.containers import guarded, questions

#: What is asked of any sequence whose items are values.
ASKED = """
k in c
k not in c
len(c)
bool(c)
list(c)
tuple(c)[:1]
c == alias
c[:1] == c
sum(1 for _ in c)
next(iter(c), None)
list(reversed(c))
list(enumerate(c))
type(c).__name__
isinstance(c, collections.abc.Sequence)
[q for q in c if q == k]
max(len(c), 1)
hasattr(c, 'append')
"""
EMPTY = piece("empty", "[]")
ITEMS = (EMPTY, piece("other", "[OTHER]"), piece("present", "[K]"), piece("both", "[OTHER, K]"))
REPLACED = tuple(change for change in COMMON if change.name != "replace by fuller")

TEXTS_SETUP = """
class Text(str):
    def __contains__(self, key): return str.__contains__(self, key)
class User(collections.UserString):
    def __contains__(self, key): return super().__contains__(key)
"""
TEXTS = Family(
    "text",
    NAMES,
    (
        piece("str", "c = ''.join(pairs)\nalias = c"),
        piece("str subclass", "c = alias = Text(''.join(pairs))", "", "", TEXTS_SETUP, "Text.__contains__ = lambda self, key: True"),
        piece("UserString", "c = alias = collections.UserString(''.join(pairs))", "", "write"),
        piece("UserString subclass", "c = alias = User(''.join(pairs))", "", "write", TEXTS_SETUP, "User.__contains__ = lambda self, key: True"),
    ),
    (
        *questions(ASKED),
        *questions("c.find(k)\nc.count(k)\nc.startswith(k)\nstr(c) + k\nc.upper() == c\nhash(c) == hash(k)\nf'{c}'\nc.split(k)"),
        guarded("c[0]", "IndexError"),
        guarded("c.index(k)", "ValueError"),
    ),
    (*REPLACED, piece("other data", "c.data = 'ab'", "write"), piece("own method", "alias.find = len", "write")),
    VALUES[:1],
    ITEMS,
)  # fmt: skip

NUMBERS_SETUP = """
import array
class Bytes(bytes):
    def __contains__(self, key): return bytes.__contains__(self, key)
class Buffer(bytearray):
    def __contains__(self, key): return bytearray.__contains__(self, key)
"""
NUMBERS = Family(
    "numbers",
    (Key("byte", "97", "int('97')", "98", words("fresh")),),
    (
        piece("bytes", "c = bytes(pairs)\nalias = c"),
        piece("bytes subclass", "c = alias = Bytes(pairs)", "", "", NUMBERS_SETUP, "Bytes.__contains__ = lambda self, key: True"),
        piece("bytearray", "c = alias = bytearray(pairs)", "", "write"),
        piece("bytearray subclass", "c = alias = Buffer(pairs)", "", "write", NUMBERS_SETUP, "Buffer.__contains__ = lambda self, key: True"),
        piece("memoryview", "alias = bytearray(pairs)\nc = memoryview(alias)", "", "", NUMBERS_SETUP),
        piece("range", "c = range(97, 97 + len(pairs))\nalias = c"),
        piece("array", "c = alias = array.array('l', pairs)", "", "write", NUMBERS_SETUP),
    ),
    (*questions(ASKED), guarded("c[0]", "IndexError"), guarded("c.index(k)", "(ValueError, AttributeError)")),
    (
        *REPLACED,
        piece("add", "c.append(k)", "write"),
        piece("remove", "if len(c): c.pop()", "write"),
        piece("reorder", "c.reverse()", "write"),
        piece("replace by another", "if len(c): c[0] = OTHER", "write"),
        piece("replace through the alias", "if len(alias): alias[0] = OTHER", "outside"),
    ),
    VALUES[:1],
    ITEMS,
)  # fmt: skip


def flags(name: str, base: str) -> Piece:
    made = "c = alias = Bits(0)\nfor q in pairs: c = alias = c | Bits[q.upper()]"
    return piece(name, made, "", "", f"class Bits(enum.{base}): A = 1; B = 2; AB = 3")


FLAGS = Family(
    "flag",
    NAMES,
    (flags("Flag", "Flag"), flags("IntFlag", "IntFlag")),
    (
        *questions(
            "Bits[k.upper()] in c\nlen(c)\nbool(c)\nlist(c)\nc.value\nc.name\nc == Bits.A\nc & Bits.A\nc | Bits.B == c\n"
            "Bits.AB in c\nc is alias\nc is Bits.A\n(~c).value\n[q.name for q in Bits]\nhash(c) == hash(Bits.A)\nlen(Bits)"
        ),
        guarded("Bits(c.value + 8)", "ValueError"),
    ),
    (*REPLACED[:5], piece("value of a member", "Bits.A._value_ = 2", "outside"), piece("own attribute", "Bits.A.n = 1", "outside")),
    VALUES[:1],
    (EMPTY, piece("other", "['b']"), piece("present", "['a']"), piece("both", "['b', 'a']")),
)  # fmt: skip

CELLS = Family(
    "cell",
    NAMES,
    (piece("cell", "c = alias = types.CellType(*pairs[:1])"),),
    (guarded("c.cell_contents", "ValueError"), guarded("c.cell_contents == k", "ValueError"), *questions("c is alias\nbool(c)")),
    (*REPLACED[:5], piece("set", "c.cell_contents = k"), piece("set through the alias", "alias.cell_contents = 'b'")),
    VALUES[:1],
    ITEMS,
)  # fmt: skip

WEAK_SETUP = """
class Thing:
    n = 1
    def m(self): return self.n
class Reference(weakref.ref): pass
LIVING = []
"""
KEPT = "alias = [Thing()]\nLIVING.append(alias)\n"  # when what nothing holds dies is not promised
REFERENCES = Family(
    "reference",
    NAMES,
    (
        piece("subclass", f"{KEPT}c = Reference(alias[0])", "", "called", WEAK_SETUP),
        piece("method", f"{KEPT}c = weakref.WeakMethod(alias[0].m)", "", "called", WEAK_SETUP),
        piece("proxy", f"{KEPT}c = weakref.proxy(alias[0])", "", "proxy", WEAK_SETUP),
    ),
    (
        piece("dead", "r.append(c() is None)", "called", "pure"),
        piece("alive", "r.append('yes' if c() else 'no')", "called", "pure"),
        piece("attribute", "r.append(getattr(c(), 'n', 0))", "called", "pure"),
        piece("type", "r.append(type(c).__name__)", "", "pure"),
        piece("behind a proxy", "try: r.append(c.n)\nexcept ReferenceError: r.append('dead')", "proxy", "pure"),
        piece("call behind a proxy", "try: r.append(c.m())\nexcept ReferenceError: r.append('dead')", "proxy", "pure"),
    ),
    (
        *REPLACED[:5],
        piece("set on the class", "Thing.n += 1", "outside"),
        piece("set on the object", "[setattr(q, 'n', 7) for q in alias]"),
    ),
    VALUES[:1],
    (EMPTY,),
)

MORE = (TEXTS, NUMBERS, FLAGS, CELLS, REFERENCES)
