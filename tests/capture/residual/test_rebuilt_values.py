"""Values of many kinds that a program makes before a graph break are what they were behind it."""

from __future__ import annotations

import linecache
import re

import pytest
import torch

import onegraph

PRELUDE = """
import abc, array, collections, contextlib, contextvars, dataclasses, datetime, decimal, enum, fractions, functools
import heapq, inspect, io, itertools, operator, pathlib, queue, random, re, string, struct, types, typing, uuid
import torch

@dataclasses.dataclass
class Data:
    a: object
    b: list = dataclasses.field(default_factory=list)

@dataclasses.dataclass(frozen=True)
class Frozen:
    a: object

@dataclasses.dataclass(slots=True)
class Slotted:
    a: object

class Named(typing.NamedTuple):
    a: object
    b: int = 3

class Kind(enum.Enum):
    A = 1
    B = [2]

class Flag(enum.Flag):
    P = 1
    Q = 2

class List(list):
    extra = None

class Dict(dict):
    def __missing__(self, key):
        return key

class Str(str):
    pass

class Int(int):
    pass

class Abstract(abc.ABC):
    @abc.abstractmethod
    def m(self): ...

class Concrete(Abstract):
    def m(self):
        return 3

class Slots:
    __slots__ = ("p", "q")

class Doubling:
    def __init__(self):
        self._v = 1

    @property
    def v(self):
        return self._v

    @v.setter
    def v(self, n):
        self._v = n * 2

VARIABLE = contextvars.ContextVar("cv", default=5)
"""
#: How a value `r` is made, and what it is asked behind the break.
VALUES = {
    "dataclass": ("Data(x)", "(r.b, r==r, repr(type(r)))"),
    "dataclass_sharing_a_list": ("(lambda l:(Data(1,l),l))([1])", "(r[0].b is r[1], r[0])"),
    "frozen_dataclass": ("Frozen(3)", "(r, hash(r))"),
    "dataclass_with_slots": ("Slotted(3)", "(r, r.a)"),
    "named_tuple": ("Named(1)", "(r, r._fields, type(r) is Named)"),
    "enum": ("Kind.B", "(r is Kind.B, r.value is Kind.B.value)"),
    "flag": ("Flag.P|Flag.Q", "(r, Flag.P in r, r is (Flag.P|Flag.Q))"),
    "list_subclass": ("List([1,2])", "(r, type(r) is List, r.extra)"),
    "list_that_is_its_own_attribute": ('(lambda l:(setattr(l,"extra",l),l)[1])(List([1]))', "(r.extra is r)"),
    "dict_subclass": ("Dict(a=1)", '(r["zz"], r, type(r) is Dict)'),
    "str_subclass": ('Str("abc")', "(r, type(r) is Str)"),
    "int_subclass": ("Int(7)", "(r, type(r) is Int, r+1)"),
    "object": ("Concrete()", "(r.m(), isinstance(r, Abstract))"),
    "slots": ('(lambda s:(setattr(s,"p",[1]),s)[1])(Slots())', '(r.p, hasattr(r,"q"))'),
    "property_of_an_object": ('(lambda s:(setattr(s,"v",4),s)[1])(Doubling())', "(r.v, r.__dict__)"),
    "ordered_dict": ("collections.OrderedDict(a=1,b=2)", '(list(r), (r.move_to_end("a"), list(r))[1])'),
    "defaultdict": ("collections.defaultdict(list,{1:[2]})", "(r[1], r[5], r.default_factory)"),
    "counter": ('collections.Counter("abca")', '(r, r.most_common(1), r["zz"])'),
    "chain_map": ("collections.ChainMap({1:2},{3:4})", "(r[3], r.maps, list(r))"),
    "deque": ("collections.deque([1,2,3],maxlen=3)", "(r.append(4), r, r.maxlen)"),
    "user_dict": ("collections.UserDict(a=1)", '(r["a"], r.data)'),
    "user_list": ("collections.UserList([1])", "(r+[2], r.data)"),
    "user_string": ('collections.UserString("ab")', '(r+"c", r.data)'),
    "namespace": ("types.SimpleNamespace(a=[1],b=2)", "(r.a, r)"),
    "mapping_proxy": ("types.MappingProxyType({1:2})", "(r[1], len(r))"),
    "partial": ("functools.partial(max, 3)", "(r(4), r.func, r.args)"),
    "partial_method": ("functools.partialmethod(max, 3)", "(r.func, r.args)"),
    "chain": ("itertools.chain([1],[2])", "list(r)"),
    "count": ("itertools.count(3,2)", "(next(r),next(r))"),
    "cycle": ("(lambda c:(next(c),c)[1])(itertools.cycle([1,2,3]))", "[next(r) for _ in range(5)]"),
    "accumulate": ("(lambda c:(next(c),c)[1])(itertools.accumulate([1,2,3]))", "list(r)"),
    "tee": ("itertools.tee([1,2,3])", "(next(r[0]), list(r[0]), list(r[1]))"),
    "tee_begun": ("(lambda t:(next(t[0]),t)[1])(itertools.tee(iter([1,2,3])))", "(list(r[0]), list(r[1]))"),
    "groupby": ("itertools.groupby([1,1,2])", "[(k,list(g)) for k,g in r]"),
    "groupby_begun": ("(lambda g:(next(g),g)[1])(itertools.groupby([1,1,2]))", "[(k,list(g)) for k,g in r]"),
    "zip_longest": ("itertools.zip_longest([1],[2,3])", "list(r)"),
    "islice": ("itertools.islice(iter([1,2,3,4]),1,3)", "list(r)"),
    "pairwise": ("itertools.pairwise([1,2,3])", "list(r)"),
    "product": ("itertools.product([1,2],[3])", "list(r)"),
    "permutations": ("(lambda p:(next(p),p)[1])(itertools.permutations([1,2,3],2))", "list(r)"),
    "starmap": ("itertools.starmap(pow,[(2,3)])", "list(r)"),
    "reversed": ("(lambda p:(next(p),p)[1])(reversed([1,2,3]))", "list(r)"),
    "enumerate": ('(lambda p:(next(p),p)[1])(enumerate("abc"))', "list(r)"),
    "map": ("(lambda p:(next(p),p)[1])(map(str,[1,2,3]))", "list(r)"),
    "filter": ("filter(None,[0,1,2])", "list(r)"),
    "zip": ("(lambda p:(next(p),p)[1])(zip([1,2],[3,4]))", "list(r)"),
    "iterator_of_items": ("(lambda p:(next(p),p)[1])(iter({1:2,3:4}.items()))", "list(r)"),
    "keys": ("{1:2,3:4}.keys()", "(list(r), 1 in r)"),
    "iterator_of_a_str": ('(lambda p:(next(p),p)[1])(iter("abc"))', "list(r)"),
    "iterator_of_calls": ("iter((lambda l=[1,2,3]: l.pop()), 1)", "list(r)"),
    "pattern": ('re.compile("a(b)")', 'r.match("ab").group(1)'),
    "match": ('re.match("a(b)","abc")', "(r.group(1), r.span())"),
    "datetime": ("datetime.datetime(2020,1,2)", "(r+datetime.timedelta(1), r.year)"),
    "timedelta": ("datetime.timedelta(days=2)", "r.total_seconds()"),
    "decimal": ('decimal.Decimal("1.5")', "r*2"),
    "fraction": ("fractions.Fraction(1,3)", "(r+1, type(r).__name__)"),
    "path": ('pathlib.Path("/a")/"b"', "(str(r), r.parent, r.name)"),
    "string_io": ('(lambda s:(s.write("ab"),s)[1])(io.StringIO())', "(r.getvalue(), r.tell())"),
    "bytes_io": ('io.BytesIO(b"abc")', "(r.read(1), r.read())"),
    "bytearray": ('bytearray(b"abc")', "(r, r.append(3), r)"),
    "memoryview": ('memoryview(b"abc")', "(bytes(r), r[1])"),
    "array": ('array.array("i",[1,2])', "(r, r.typecode)"),
    "complex": ("complex(1,2)", "r*1j"),
    "frozenset": ("frozenset([1,2])", "(r, 1 in r)"),
    "slice": ("slice(1,None,2)", "(r.start,r.step)"),
    "range": ("range(2,9,3)", "(list(r), r.stop)"),
    "bound_builtin": ("[1].append", "(r(2), r.__self__)"),
    "method": ("Concrete().m", "(r(), r.__self__.m())"),
    "function": ("(lambda a,*b,c=3,**d:(a,b,c,d))", "(r(1,2,z=4), r.__kwdefaults__)"),
    "closure": ("(lambda n: (lambda: n))([1])", "(r(), r.__closure__[0].cell_contents)"),
    "generator": ("(i*2 for i in [1,2,3])", "list(r)"),
    "generator_begun": ("(lambda g:(next(g),g)[1])(i*2 for i in [1,2,3])", "list(r)"),
    "exception": ('ValueError("a",1)', "(r.args, str(r), r.__traceback__)"),
    "exception_with_a_note": ('(lambda e:(e.add_note("n"),e)[1])(KeyError("k"))', "(r.__notes__, r.args)"),
    "exception_group": ('ExceptionGroup("g",[ValueError(1)])', "(r.message, r.exceptions[0].args)"),
    "os_error": ('OSError(2,"no","f")', "(r.errno, r.filename, type(r))"),
    "class_": ('type("T",(),{"a":1})', "(r.a, r.__name__, r().a)"),
    "dtype": ("x.dtype", "r"),
    "size": ("x.size()", "(r, type(r) is torch.Size)"),
    "device": ("x.device", "(r, r.type)"),
    "torch_generator": ("torch.Generator().manual_seed(3)", "torch.rand(2,generator=r).tolist()"),
    "parameter": ("torch.nn.Parameter(x.clone())", "(r.requires_grad, type(r) is torch.nn.Parameter, r.tolist())"),
    "module": ("torch.nn.Linear(3,2)", "(r(x).shape, r.training, len(list(r.parameters())))"),
    "parameter_list": ("torch.nn.ParameterList([torch.nn.Parameter(x+1)])", "(len(r), r[0].tolist())"),
    "random": ("random.Random(3)", "(r.random(), r.randint(0,9))"),
    "uuid": ("uuid.UUID(int=5)", "(str(r), r.int)"),
    "template": ('string.Template("$a b")', "r.substitute(a=1)"),
    "heap": ("(lambda h:(heapq.heappush(h,2),heapq.heappush(h,1),h)[2])([])", "(heapq.heappop(r), r)"),
    "struct": ('struct.Struct("i")', "(r.size, r.pack(3))"),
    "queue": ("queue.SimpleQueue()", "(r.put(1), r.get())"),
    "context_variable": ("VARIABLE", "(r.get(), r.name)"),
    "exit_stack": ("contextlib.ExitStack()", "(r.enter_context(contextlib.nullcontext(3)), r.close())"),
    "nullcontext": ("contextlib.nullcontext([1])", "r.enter_result"),
    "suppress": ("contextlib.suppress(ValueError)", "r.__enter__()"),
    "attrgetter": ('operator.attrgetter("real")', "r(3)"),
    "itemgetter": ("operator.itemgetter(1)", "r([3,4])"),
    "methodcaller": ('operator.methodcaller("upper")', 'r("a")'),
    "signature": ("inspect.signature(lambda a,b=2: 0)", "(str(r), list(r.parameters))"),
    "generic_alias": ("list[int]", "(r, r.__args__)"),
    "union": ("int|str", "(r, isinstance(3,r))"),
    "cell": ("types.CellType(3)", "r.cell_contents"),
    "sorted_by_comparing": ("sorted([3,1,2],key=functools.cmp_to_key(lambda a,b:a-b))", "r"),
    "single_dispatch": ('functools.singledispatch(lambda a: "d")', "(r(3), r.dispatch(int)(2))"),
    "numpy_array": ("x.numpy()", "(r.tolist(), r.dtype.name)"),
    "one_list_three_times": ('(lambda l:[l,l,{"a":l}])([1])', '(r[0] is r[1], r[2]["a"] is r[0])'),
    "list_in_itself": ("(lambda l:(l.append(l),l)[1])([])", "r[0] is r"),
    "lists_in_each_other": ("(lambda a,b:(a.append(b),b.append(a),a)[2])([],[])", "r[0][0] is r"),
    "views": ("(lambda t:[t,t,t.view(-1)])(x+1)", "(r[0] is r[1], r[2].data_ptr()==r[0].data_ptr())"),
    "text": ('f"{x.shape[0]:>4}|{3.14159:.2f}"', "r"),
    "bytes_": ('b"ab"*2', "r"),
}


def outcome(function: object) -> str:
    torch.manual_seed(0)
    return re.sub("0x[0-9a-f]+", "", repr(function(torch.ones(3))))


@pytest.mark.parametrize("name", VALUES)
def test_it_is_what_it_was(name: str) -> None:
    make, ask = VALUES[name]
    text = f"{PRELUDE}\ndef f(x):\n    r = {make}\n    x.sum().item()\n    return {ask}\n"
    filename = f"<made {name}>"
    linecache.cache[filename] = len(text), None, text.splitlines(True), filename
    names: dict[str, object] = {}
    exec(compile(text, filename, "exec"), names)
    expected = outcome(names["f"])
    compiled = onegraph.compile(names["f"], backend="eager", options={"raise_compiler_errors": True})
    assert [outcome(compiled), outcome(compiled)] == [expected, expected]


def shortened_and_filled(x, items):
    for first in items:
        if len(items) > 5:
            break
        items[-1:] = []
        torch._dynamo.graph_break()
        items[0:0] = [first, 9, 8, 7]
    return items


def emptied(x, items):
    iterator = iter(items)
    seen = next(iterator), next(iterator, None)
    items.clear()
    torch._dynamo.graph_break()
    items.extend([1, 2, 3, 4])
    torch._dynamo.graph_break()
    return seen, list(iterator), items


def from_behind(x, items):
    iterator = reversed(items)
    last = next(iterator)
    del items[1:]
    torch._dynamo.graph_break()
    items.append(5)
    return last, list(iterator), items


@pytest.mark.parametrize("items", [[1], [1, 2], [1, 2, 3, 4]])
@pytest.mark.parametrize("program", [shortened_and_filled, emptied, from_behind])
def test_an_iterator_keeps_its_place_in_a_list_that_has_become_shorter(program, items):
    compiled = onegraph.compile(program, backend="eager")
    for _ in range(2):
        assert compiled(torch.ones(2), list(items)) == program(torch.ones(2), list(items))
