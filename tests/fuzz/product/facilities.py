"""What Python and PyTorch keep in tables of their own, and programs ask: caches, registries, modules, the environment."""

from __future__ import annotations

from tests.fuzz.product.axes import COMMON, KEYS, NAMES, NOTHING, VALUES, Family, Piece, piece
from tests.fuzz.product.containers import guarded, questions

EMPTY = (piece("empty", "[]"),)
BY_NAME = {change.name: change for change in COMMON}
REPLACED = (NOTHING, BY_NAME["replace by other"], BY_NAME["ask for another key"], BY_NAME["ask for an equal key"])


def family(
    name: str,
    made: str,
    setup: str,
    asked: tuple[Piece, ...],
    changes: str,
    keys: tuple[object, ...] = KEYS,
    contents: tuple[Piece, ...] = EMPTY,
) -> Family:
    """One container; its changes are given as `name: statements`, one a line."""
    rows = [line.partition(": ") for line in changes.strip().splitlines()]
    own = tuple(piece(title, text, "rebind" if "c = " in text else "") for title, _, text in rows)
    return Family(name, keys, (piece(name, made, "", "", setup),), asked, (*REPLACED, *own), VALUES[:1], contents)  # type: ignore[arg-type]


CACHE = """
CALLED = []
TABLE = {"n": 0}
def computed(k):
    CALLED.append(TABLE["n"])
    return [len(CALLED), TABLE["n"]]
"""
CACHES = family(
    "cache",
    "c = alias = functools.lru_cache(maxsize=1)(computed)\nfor q in pairs: c(q)",
    CACHE,
    (
        *questions("c(k)\nc(k) is c(k)\nc(k)[0]\nlen(CALLED)\nc.cache_info()\nc.cache_info().hits\nc.__wrapped__ is computed"),
        piece("ask, and see what was called", "r.append(c(k))\nr.append(len(CALLED))"),
        piece("ask twice", "r.append([c(k), c(k), c(OTHER)])"),
        piece("ask and clear", "r.append(c(k))\nc.cache_clear()"),
    ),
    """
clear: c.cache_clear()
ask outside: c(k)
ask for another one outside: c(OTHER)
ask through the alias: alias(k)
change what is computed: TABLE["n"] += 1
change the result: c(k).append(7)
patch what is computed: computed.__code__ = (lambda k: ["new"]).__code__
""",
    contents=(*EMPTY, piece("present", "[K]"), piece("other", "[OTHER]")),
)  # fmt: skip

DISPATCHES = family(
    "single dispatch",
    "c = alias = functools.singledispatch(general)\nfor q in pairs: c.register(type(q), special)",
    "def general(k): return 'general'\ndef special(k): return 'special'\ndef other(k): return 'other'",
    (
        *questions("type(k) in c.registry\nlen(c.registry)"),
        guarded("c.registry[type(k)]", "KeyError"),
        # What these have found is remembered in a table, which the program sees.
        piece("c(k)", "r.append(c(k))"),
        piece("dispatch", "r.append(c.dispatch(type(k)))"),
        piece("dispatch, and look", "r.append(c.dispatch(type(k)) is general)"),
    ),
    """
register: c.register(type(k), other)
register for all: c.register(object, other)
register an abstract class: c.register(collections.abc.Hashable, other)
register through the alias: alias.register(type(k), special)
patch the function: general.__code__ = (lambda k: "new").__code__
""",
    contents=(*EMPTY, piece("present", "[K]")),
)  # fmt: skip

ABSTRACT = """
class Plain: pass
class Slots: __slots__ = ("n",)
class Abstract(abc.ABC):
    @classmethod
    def __subclasshook__(cls, other): return True if "go" in vars(other) else NotImplemented
def fresh(): return type("Fresh", (Abstract,), {})
"""
REGISTRATIONS = family(
    "abstract class",
    "c = alias = abc.ABCMeta('Fresh', (Abstract,), {})\nfor q in pairs: c.register(type(q))",
    ABSTRACT + "class Thing: pass\nT = Thing()",
    (
        *questions(
            "isinstance(T, c)\nissubclass(Thing, c)\nisinstance(T, (int, c))\nisinstance(k, c)\nisinstance(T, Abstract)"
        ),
        piece("choose", "r.append('yes' if isinstance(T, c) else 'no')", "", "pure"),
    ),
    """
register: c.register(Thing)
register for the base: Abstract.register(Thing)
register the type of the key: c.register(type(k)) if type(k) not in (int, float, str, bytes) else None
method on the class: Thing.go = lambda self: 1
patch the hook: Abstract.__subclasshook__ = classmethod(lambda cls, other: True)
patch the check: abc.ABCMeta.__setattr__(Abstract, "__instancecheck__", 1)
other class of the object: T.__class__ = type("Thing", (c,), {})
""",
)  # fmt: skip

PROTOCOLS = family(
    "protocol",
    "c = alias = Thing()\nif pairs: c.go = 1",
    """
@typing.runtime_checkable
class Goes(typing.Protocol):
    go: int
class Thing: pass
class Going:
    def __len__(self): return 1
""",
    (
        *questions(
            "isinstance(c, Goes)\nisinstance(c, (int, Goes))\nisinstance(c, collections.abc.Sized)\nhasattr(c, 'go')\n"
            "isinstance(c, collections.abc.Callable)\nissubclass(type(c), collections.abc.Sized)\ncallable(c)\n"
            "isinstance(c, collections.abc.Iterable)\nisinstance(c, Thing)\nisinstance(c, Going)"
        ),
        piece("choose", "if isinstance(c, Goes): r.append(c.go)", "", "pure"),
    ),
    """
set: c.go = 1
delete: vars(c).pop("go", None)
set on the class: Thing.go = 2
set through the alias: alias.go = 3
a length for the class: Thing.__len__ = lambda self: 0
a call for the class: Thing.__call__ = lambda self: 0
iteration for the class: Thing.__iter__ = lambda self: iter(())
other class: c.__class__ = Going
other bases: Thing.__bases__ = (Going,)
patch the protocol: Goes.__instancecheck__ = lambda self: True
""",
    NAMES,
    (*EMPTY, piece("present", "[1]")),
)  # fmt: skip

ENUMS = family(
    "enum",
    "c = alias = enum.Enum('Fresh', {'a': 1, **({'b': 2} if pairs else {})}, type=Based)",
    "class Based:\n    @classmethod\n    def _missing_(cls, value): return DEFAULTS.get(value)\nDEFAULTS = {}",
    (
        *questions(
            "k in c.__members__\nlen(c)\nlist(c)\n[q.name for q in c]\nlist(c.__members__)\nhasattr(c, k)\n"
            "getattr(c, k, 0)\nc.a.value\nc.a is c(1)\nc.a == 1\nc.a in list(c)\n[q.value for q in c]\nc.a.name\nbool(c)"
        ),
        guarded("c[k]", "KeyError"),
        guarded("c['b']", "KeyError"),
        guarded("c(2)", "ValueError"),
        guarded("c(9)", "ValueError"),
        guarded("c.b", "AttributeError"),
    ),
    """
a default for what is missing: DEFAULTS[9] = c.a
patch what is missing: Based._missing_ = classmethod(lambda cls, value: cls.a)
another value: c.a._value_ = 7
an attribute: setattr(c, "z", 5)
another enum: c = enum.Enum("Fresh", {"a": 1, "b": 2})
""",
    NAMES,
    (*EMPTY, piece("present", "[1]")),
)  # fmt: skip

WEAK = family(
    "weak reference",
    "alias = [Thing()]\nLIVING.append(alias)\nc = weakref.ref(alias[0])",
    "LIVING = []\nclass Thing: n = 1",
    (
        *questions("c() is None\nc() is not None\nhasattr(c(), 'n')\ngetattr(c(), 'n', 0)\nc() is (alias[0] if alias else 0)"),
        piece("choose", "if (t := c()) is not None: r.append(t.n)", "", "pure"),
    ),
    """
set: Thing.n += 1
set on the object: [setattr(q, "n", 7) for q in alias]
another one: alias[:] = [Thing()]; c = weakref.ref(alias[0])
""",
    NAMES,
)  # fmt: skip

MODULES = family(
    "modules",
    "c = alias = sys.modules\nfor q in ('a', 'b'): sys.modules.pop('product_of_' + q, None)\n"
    "for q in pairs: sys.modules['product_of_' + q] = new(1)",
    "def new(n):\n    m = types.ModuleType('product_of_a')\n    m.n = n\n    return m",
    (
        *questions(
            "'product_of_' + k in sys.modules\nsys.modules.get('product_of_' + k) is None\n"
            "getattr(sys.modules.get('product_of_' + k), 'n', 0)\n'product_of_' + k in c"
        ),
        piece("import", "try:\n    import product_of_a as m\nexcept ImportError: r.append('none')\nelse: r.append(m.n)", "", "pure"),
        piece("import from", "try:\n    from product_of_a import n\nexcept ImportError: r.append('none')\nelse: r.append(n)", "", "pure"),
        guarded("sys.modules['product_of_a'].n", "KeyError"),
    ),
    """
add: sys.modules["product_of_a"] = new(2)
remove: sys.modules.pop("product_of_a", None)
replace: sys.modules["product_of_a"] = new(3)
set an attribute: setattr(sys.modules.get("product_of_a", types), "n", 4)
get on the module: setattr(sys.modules.get("product_of_a", types), "__getattr__", lambda name: 8)
delete an attribute: vars(sys.modules.get("product_of_a", types)).pop("n", None)
""",
    NAMES,
    (*EMPTY, piece("present", "['a']")),
)  # fmt: skip

ENVIRONMENT = family(
    "environment",
    "c = alias = os.environ\nfor q in ('a', 'b'): os.environ.pop('PRODUCT_' + q, None)\n"
    "for q in pairs: os.environ['PRODUCT_' + q] = '1'",
    "",
    (
        *questions(
            "'PRODUCT_' + k in os.environ\nos.environ.get('PRODUCT_' + k, '0')\nos.getenv('PRODUCT_' + k)\n"
            "os.environ.get('PRODUCT_a') is None\nbool(os.environ.get('PRODUCT_a'))\nint(os.environ.get('PRODUCT_a', 0)) + 1"
        ),
        guarded("os.environ['PRODUCT_' + k]", "KeyError"),
    ),
    """
set: os.environ["PRODUCT_a"] = "2"
remove: os.environ.pop("PRODUCT_a", None)
set another: os.environ["PRODUCT_b"] = "3"
put: os.environ.update(PRODUCT_a="5")
""",
    NAMES,
    (*EMPTY, piece("present", "['a']")),
)  # fmt: skip

NAMESPACES = family(
    "names",
    "c = alias = globals()\nfor q in pairs: globals()['product_' + q] = 1\nvars(builtins).pop('product_a', None)",
    "",
    (
        piece("name", "try: r.append(product_a)\nexcept NameError: r.append('none')", "", "pure"),
        *questions(
            "'product_' + k in globals()\nglobals().get('product_' + k, 0)\nhasattr(builtins, 'product_' + k)\n"
            "getattr(builtins, 'product_' + k, 0)\n'product_a' in vars(builtins)"
        ),
        guarded("globals()['product_' + k]", "KeyError"),
        piece("call", "try: r.append(product_a())\nexcept (NameError, TypeError) as e: r.append(str(e))", "", "pure"),
    ),
    """
set: globals()["product_a"] = 2
remove: globals().pop("product_a", None)
set a function: globals()["product_a"] = lambda: 3
builtin: builtins.product_a = 4
no builtin: vars(builtins).pop("product_a", None)
""",
    NAMES,
    (*EMPTY, piece("present", "['a']")),
)  # fmt: skip

CONTEXTS = family(
    "context variable",
    "c = alias = contextvars.ContextVar('fresh')\nif pairs: c.set(1)",
    "TOKENS = []",
    (
        *questions("c.get(0)\nc.get(None) is None\nc in contextvars.copy_context()\nc.name"),
        guarded("c.get()", "LookupError"),
        piece("set and get", "c.set(c.get(0) + 1)\nr.append(c.get())"),
        piece("set and reset", "t = c.set(9)\nr.append(c.get())\nc.reset(t)\nr.append(c.get(0))"),
    ),
    """
set: TOKENS.append(c.set(5))
reset: c.reset(TOKENS.pop()) if TOKENS else None
set the same: c.set(1)
""",
    NAMES,
    (*EMPTY, piece("present", "[1]")),
)  # fmt: skip

NETWORKS = family(
    "network",
    "c = alias = Net()\nif pairs: c.register_buffer('a', torch.ones(1))",
    "class Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.lin = torch.nn.Linear(1, 1)\n        self.lin.requires_grad_(False)\n    def forward(self, x): return x + 1",
    (
        *questions(
            "k in c._buffers\nhasattr(c, k)\ngetattr(c, k, 0)\nlen(list(c.parameters()))\n[n for n, _ in c.named_modules()]\n"
            "[n for n, _ in c.named_buffers()]\nlen(c._forward_hooks)\nc.training\nlen(list(c.children()))\nlist(c.state_dict())\n"
            "c(x)\nc.lin.bias is None\nisinstance(c.lin, torch.nn.Linear)\nk in c._modules\nk in dict(c.named_parameters())\n"
            "any(p.requires_grad for p in c.parameters())\nsum(p.numel() for p in c.parameters())\nlen(c._modules)"
        ),
        guarded("c.a", "AttributeError"),
        guarded("c.get_buffer('a')", "AttributeError"),
        guarded("c.get_submodule('a')", "AttributeError"),
        piece("lazily", "if not hasattr(c, 'a'): c.register_buffer('a', x.clone())\nr.append(c.a)"),
        piece("lazy module", "if 'a' not in c._modules: c.a = torch.nn.Identity()\nr.append(len(c._modules))"),
    ),
    """
buffer: c.register_buffer("b", torch.ones(2))
attribute: c.__dict__["a"] = 5
remove: c._buffers.pop("a", None)
module: c.add_module("sub", torch.nn.Identity())
hook: c.register_forward_hook(lambda m, i, o: o + 1)
pre hook: c.register_forward_pre_hook(lambda m, i: (i[0] + 1,))
no hook: c._forward_hooks.clear()
eval: c.train(not c.training)
no bias: c.lin.bias = None
gradient: c.lin.requires_grad_(True)
patch forward: Net.forward = lambda self, x: x + 2
own forward: c.forward = lambda x: x + 3
patch get: Net.__getattr__ = lambda self, name: torch.nn.Module.__getattr__(self, name)
parameter: c.register_parameter("p", torch.nn.Parameter(torch.ones(2)))
""",
    NAMES,
    (*EMPTY, piece("present", "[1]")),
)  # fmt: skip

METHODS = family(
    "function",
    "c = alias = new()\nif pairs: c.__defaults__ = (2,)",
    "def new():\n    def given(a=1, *, b=1): return (a, b)\n    return given",
    (
        *questions("c()\nc(5)\nc(b=3)\nc.__name__\nc.__defaults__\nc.__kwdefaults__\nhasattr(c, 'seen')\nc.__doc__\ncallable(c)\nlen(inspect.signature(c).parameters)\ninspect.signature(c).parameters['a'].default\nc.__code__.co_argcount\ngetattr(c, '__wrapped__', 0)\nc == alias\nc is alias"),
        piece("count its calls", "c.calls = getattr(c, 'calls', 0) + 1\nr.append(c.calls)"),
    ),
    """
defaults: c.__defaults__ = (7,)
no defaults: c.__defaults__ = ()
keyword defaults: c.__kwdefaults__ = {"b": 8}
mutate keyword defaults: (c.__kwdefaults__ or {})["b"] = 9
code: c.__code__ = (lambda a=1, *, b=1: "code").__code__
name: c.__name__ = "named"
attribute: c.seen = 1
wrapped: c.__wrapped__ = len
other: c = len
""",
    NAMES,
    (*EMPTY, piece("present", "[1]")),
)  # fmt: skip

FACILITIES = (
    CACHES, DISPATCHES, REGISTRATIONS, PROTOCOLS, ENUMS, WEAK, MODULES, ENVIRONMENT, NAMESPACES, CONTEXTS, NETWORKS, METHODS,
)  # fmt: skip
