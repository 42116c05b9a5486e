"""What the product is of: keys, containers, places, questions and changes, each a small piece of a program.

The pieces of text name `c` for the container, `k` for the key that it is asked for, `alias` for the object through
which it can be changed too, `r` for the list of answers, and `<v>`, `<same>` for a new value and for one that is equal
to the value at first. What needs what, so that a combination means something, is said by words in `needs` and `has`.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Piece:
    """A value of an axis: its name and its text; what it needs of the others, and what it has for them."""

    name: str
    text: str
    needs: frozenset[str] = frozenset()
    has: frozenset[str] = frozenset()
    setup: str = ""
    #: Statements that change a class of this piece while the program runs.
    patch: str = ""


@dataclass(frozen=True, slots=True)
class Key:
    """A kind of keys: expressions for one, for one that is equal to it, and for another one."""

    name: str
    text: str
    equal: str
    other: str
    has: frozenset[str] = frozenset()
    setup: str = ""
    patch: str = ""


@dataclass(frozen=True, slots=True)
class Value:
    """A kind of values: an expression with a number in it, and how one is changed in place."""

    name: str
    text: str
    mutate: str = ""
    setup: str = ""
    has: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Place:
    """Where the container lives: how the function reads it, and how it is put there from within and from outside."""

    name: str
    read: str
    assign: str
    parameters: str = ""
    arguments: str = ""
    setup: str = ""
    #: How the caller reads it, where that is otherwise.
    outside: str = ""
    #: How the function puts it there, where that is otherwise, and what it declares for that.
    inside: str = ""
    declare: str = ""
    #: The parameter of a function around it, of which it is a closure.
    around: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """Containers that are asked and changed in the same ways."""

    name: str
    keys: tuple[Key, ...]
    containers: tuple[Piece, ...]
    questions: tuple[Piece, ...]
    changes: tuple[Piece, ...]
    values: tuple[Value, ...]
    #: What is in the container at first, as an expression that uses K, OTHER and `<v>`.
    contents: tuple[Piece, ...] = field(default_factory=tuple)


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def piece(name: str, text: str, needs: str = "", has: str = "", setup: str = "", patch: str = "") -> Piece:
    return Piece(name, text, words(needs), words(has), setup, patch)


EQUAL_OBJECT = """
class Equal:
    def __init__(self, n): self.n = n
    def __eq__(self, other): return isinstance(other, Equal) and self.n == other.n
    def __hash__(self): return hash(self.n)
"""
FROZEN = "@dataclasses.dataclass(frozen=True)\nclass Point:\n    n: int\n    m: str = 'm'\n"

#: Of "valued" keys, equal ones are one to the program: which of them an object is nobody promises.
KEYS = (
    Key("int", "3", "int('3')", "4", words("fresh sorted")),
    Key("zero", "0", "False", "1", words("fresh sorted")),
    Key("float", "1.5", "float('1.5')", "2.5", words("valued fresh sorted")),
    Key("str", "'a'", "str(b'a', 'ascii')", "'b'", words("fresh sorted")),
    Key("bytes", "b'a'", "bytes([97])", "b'b'", words("fresh")),
    Key("none", "None", "None", "Ellipsis", words("fresh")),
    Key("tuple", "(1, 'a')", "(int('1'), 'a')", "(2, 'a')", words("valued fresh sorted")),
    Key("nested tuple", "(1, (Plain, 2))", "(int('1'), (Plain, 2))", "((), ())", words("valued fresh"), "class Plain: pass"),
    Key("frozenset", "frozenset({1, 2})", "frozenset([2, 1])", "frozenset()", words("valued weak")),
    Key("enum", "Color.RED", "Color(1)", "Color.BLUE", words("fresh weak"), "class Color(enum.Enum): RED = 1; BLUE = 2"),
    Key("int enum", "Level.LOW", "1", "Level.HIGH", words("fresh"), "class Level(enum.IntEnum): LOW = 1; HIGH = 2"),
    Key("type", "Left", "Left", "Right", words("fresh weak"), "class Left: pass\nclass Right: pass"),
    Key("function", "left", "left", "right", words("fresh weak"), "def left(): pass\ndef right(): pass"),
    Key("method", "plain.m", "plain.m", "Plain().m", words("fresh"), "class Plain:\n    def m(self): pass\nplain = Plain()"),
    Key("builtin", "len", "len", "max", words("fresh")),
    Key("module of Python", "operator", "operator", "os", words("fresh weak")),
    Key("weak reference", "weakref.ref(Plain)", "weakref.ref(Plain)", "weakref.ref(Other)", words("valued"), "class Plain: pass\nclass Other: pass"),
    Key("flag", "Bits.LOW", "Bits(1)", "Bits.HIGH", words("fresh"), "class Bits(enum.Flag): LOW = 1; HIGH = 2"),
    Key("dtype", "torch.float32", "torch.float", "torch.int64", words("fresh")),
    Key("module", "torch.nn.Linear(1, 1)", "K", "torch.nn.Tanh()", words("weak")),
    Key("parameter", "torch.nn.Parameter(torch.ones(1))", "K", "torch.nn.Parameter(torch.zeros(1))", words("weak")),
    Key("tensor", "torch.ones(1)", "K", "torch.zeros(1)", words("weak")),
    Key("object", "Plain()", "K", "Plain()", words("weak"), "class Plain: pass"),
    Key("slots object", "Slots()", "K", "Slots()", words(""), "class Slots: __slots__ = ('n',)"),
    Key(
        "object with eq", "Equal(1)", "Equal(1)", "Equal(2)", words("fresh weak"), EQUAL_OBJECT,
        "Equal.__eq__ = lambda self, other: self is other",
    ),
    Key(
        "dataclass", "Point(1)", "Point(1)", "Point(2)", words("fresh weak"), FROZEN,
        "Point.__eq__ = lambda self, other: self is other\nPoint.__hash__ = lambda self: hash((self.n, self.m))",
    ),
    Key(
        "int subclass", "Number(3)", "3", "Number(4)", words("fresh weak sorted"), "class Number(int): pass",
        "Number.__eq__ = lambda self, other: True\nNumber.__hash__ = int.__hash__",
    ),
    Key("str subclass", "Text('a')", "'a'", "Text('b')", words("fresh weak sorted"), "class Text(str): pass"),
    Key("namedtuple", "Row(1, 2)", "(1, 2)", "Row(2, 1)", words("valued fresh sorted"), "Row = collections.namedtuple('Row', 'a b')"),
)  # fmt: skip

NAMES = (Key("str", "'a'", "str(b'a', 'ascii')", "'b'", words("fresh")),)

VALUES = (
    Value("int", "<n>", "", "", words("int")),
    Value("list", "[<n>]", ".append(9)"),
    Value("none", "None"),
    Value("tensor", "torch.full((2,), float(<n>))", ".add_(1)", "", words("tensor")),
    Value("object", "OBJECTS[<n>]", ".n", "class Item: n = 0\nOBJECTS = [Item() for _ in range(60)]", words("weak")),
)

NOTHING = piece("nothing", "pass")
#: What is done to the place, to the key and to the classes, whatever the container is.
COMMON = (
    NOTHING,
    piece("replace by equal", "c = copy.copy(c)", "rebind copied"),
    piece("replace by other", "c, _ = make([])", "rebind"),
    piece("replace by fuller", "c, _ = make([(OTHER, <v>), (k, <v>)])", "rebind pairs"),
    piece("ask for another key", "K, OTHER = OTHER, K", "rekey"),
    piece("ask for an equal key", "K = EQUAL", "rekey"),
    piece("patch the container", "<patch>", "patch"),
    piece("patch the key", "<patch of key>", "patch-key"),
)

LIBRARY = "torch.nn.modules.product_library"
MODULE = "product_module"


def in_module(name: str) -> str:
    return f"""
MODULE = types.ModuleType({name!r})
sys.modules[{name!r}] = MODULE
exec("c = None\\ndef get(): return c", vars(MODULE))
MODULE.c = C
"""


PLACES = (
    Place("argument", "c", "C = {}", "c", "C", outside="C", declare="global C"),
    Place("global", "C", "C = {}", declare="global C"),
    Place(
        "attribute", "o.c", "O.c = {}", "o", "O", "class Holder: pass\nO = Holder()\nO.c = C", outside="O.c",
    ),
    Place("attribute of a global", "O.c", "O.c = {}", "", "", "class Holder: pass\nO = Holder()\nO.c = C"),
    Place("class attribute", "O.c", "Holder.c = {}", "", "", "class Holder: c = C\nO = Holder()"),
    Place(
        "class attribute that is covered", "O.c", "O.c = {}", "", "",
        "class Base: c = C\nclass Holder(Base): pass\nO = Holder()",
    ),
    Place("module attribute", "o.c", "O.c = {}", "o", "O", "O = torch.nn.Identity()\nO.c = C", outside="O.c"),
    Place("library", "MODULE.c", "MODULE.c = {}", setup=in_module(LIBRARY)),
    Place("library function", "MODULE.get()", "MODULE.c = {}", setup=in_module(LIBRARY)),
    Place("module", "MODULE.c", "MODULE.c = {}", setup=in_module(MODULE)),
    Place("module function", "MODULE.get()", "MODULE.c = {}", setup=in_module(MODULE)),
    Place("imported", f"__import__('sys').modules['{MODULE}'].c", "MODULE.c = {}", setup=in_module(MODULE)),
    Place("registry", "REGISTRY['c']", "REGISTRY['c'] = {}", setup="REGISTRY = {'c': C}"),
    Place("list", "HELD[0]['c']", "HELD[0]['c'] = {}", setup="HELD = [{'c': C}]"),
    Place("item of an argument", "h[0].c", "H[0].c = {}", "h", "H", "H = [types.SimpleNamespace(c=C)]", outside="H[0].c"),
    Place("default", "held()", "held.__defaults__ = ({},)", setup="def held(c=C): return c"),
    Place("keyword default", "held()", "held.__kwdefaults__['c'] = {}", setup="def held(*, c=C): return c"),
    Place("function attribute", "held.c", "held.c = {}", setup="def held(): pass\nheld.c = C"),
    Place("bound argument", "held()", "held = functools.partial(same, {})", setup="def same(c): return c\nheld = functools.partial(same, C)", declare="global held"),
    Place("property", "O.c", "O._c = {}", setup="class Holder:\n    _c = C\n    @property\n    def c(self): return self._c\nO = Holder()"),
    Place("closure", "read()", "write({})", setup="def cells(c):\n    def read(): return c\n    def write(new):\n        nonlocal c\n        c = new\n    return read, write\nread, write = cells(C)"),
    Place("own closure", "held_c", "write({})", outside="read()", inside="held_c = {}", declare="nonlocal held_c", around="held_c"),
)  # fmt: skip
