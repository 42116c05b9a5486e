"""Python's own library over tensors and outside objects."""

from __future__ import annotations

import bisect
import collections
import copy
import dataclasses
import datetime
import decimal
import fractions
import functools
import heapq
import itertools
import json
import math
import operator
import pickle
import random
import re
import string
import typing
import weakref

import numpy as np
import torch

from tests.capture import registered
from tests.capture.twins import Cases

case = Cases()
T = typing.TypeVar("T")
NUMBERS = [3, 1, 2]
RECORDS = [{"k": 2, "n": "b"}, {"k": 1, "n": "a"}]
PATTERN = re.compile(r"(\w)(\d+)")
CALLS = []
ARRAY = np.arange(4.0)
DECIMAL = decimal.Decimal("1.5")
FRACTION = fractions.Fraction(1, 3)
GENERATOR = torch.Generator().manual_seed(3)
RANDOM = random.Random(4)


class Node:
    def __init__(self, value, parent=None):
        self.value = value
        self.parent = parent
        self.children = []

    def __deepcopy__(self, memo):
        made = Node(copy.deepcopy(self.value, memo))
        made.children = ["copied"]
        return made


class Plain:
    def __init__(self, v):
        self.v = v
        self.items = [v]

    def method(self, y):
        return y * self.v


@dataclasses.dataclass
class Data:
    a: object
    b: list


class Box(typing.Generic[T]):
    def __init__(self, item: T):
        self.item = item

    def get(self) -> T:
        return self.item


PLAIN = Plain(2)
NODE = Node(1)
WEAK = weakref.ref(PLAIN)
PARTIAL = functools.partial(operator.add, 5)
GETTER = operator.attrgetter("v")
ITEM = operator.itemgetter("k")
CALLER = operator.methodcaller("method", 10)
WEAK_KEYS = weakref.WeakKeyDictionary({PLAIN: 3})
WEAK_VALUES = weakref.WeakValueDictionary({"p": PLAIN})
PROXY = weakref.proxy(PLAIN)


@functools.lru_cache(maxsize=None)
def cached(n):
    CALLS.append(n)
    return n * 2


@functools.cache
def cached_tensor(n):
    CALLS.append(n)
    return torch.ones(n)


@case
def lru_cache(x):
    return x * cached(3), cached(3), cached.cache_info().hits >= 0


@case
def lru_cache_of_tensor(x):
    return x + cached_tensor(4), cached_tensor(4) is cached_tensor(4)


@case
def lru_cache_inside(x):
    @functools.lru_cache
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    return x + fib(20), fib.cache_info().hits


@case
def partials(x):
    add = functools.partial(torch.add, x, alpha=2)
    more = functools.partial(add, other=x)
    method = functools.partialmethod
    return add(x), more(), PARTIAL(2), method.__name__, functools.partial(Plain.method, PLAIN)(x)


@case(lambda: (torch.rand(2),), lambda: setattr(PLAIN, "v", 9))
def operator_getters(x):
    return x * GETTER(PLAIN), ITEM(RECORDS[0]), CALLER(PLAIN), operator.itemgetter(0, 2)(NUMBERS)


@case
def operator_functions(x):
    items = [1, 2]
    operator.setitem(items, 0, x)
    operator.iadd(items, [3])
    operator.delitem(items, 1)
    return (
        items,
        operator.concat([1], [2]),
        operator.index(3),
        operator.is_(x, x),
        operator.not_([]),
        operator.length_hint([1]),
    )


@case
def itertools_functions(x):
    return (
        list(itertools.accumulate([1, 2, 3], operator.mul)),
        list(itertools.chain([x], [1], "ab")),
        list(itertools.chain.from_iterable([[1], [2]])),
        list(itertools.combinations(NUMBERS, 2)),
        list(itertools.product("ab", [1, 2])),
        [(k, list(g)) for k, g in itertools.groupby([1, 1, 2], key=lambda v: v % 2)],
        list(itertools.islice(itertools.count(3), 2)),
        list(itertools.pairwise(NUMBERS)),
        list(itertools.repeat(x, 2)),
        list(itertools.starmap(operator.add, [(1, 2), (x, 1)])),
        list(itertools.takewhile(lambda v: v > 1, NUMBERS)),
        list(itertools.dropwhile(lambda v: v > 1, NUMBERS)),
        list(itertools.zip_longest([1], [2, 3], fillvalue=0)),
        list(itertools.permutations([1, 2])),
        list(itertools.compress(NUMBERS, [1, 0, 1])),
        list(itertools.filterfalse(lambda v: v > 1, NUMBERS)),
    )


@case
def itertools_with_side_effects(x):
    def note(v):
        CALLS.append(v)
        return v

    lazy = map(note, NUMBERS)
    first = next(lazy)
    a, b = itertools.tee(lazy)
    return first, next(a), len(CALLS), list(b), x


@case
def sorting(x):
    by = sorted(RECORDS, key=lambda r: r["k"])
    stable = sorted([(1, "b"), (0, "a"), (1, "a")], key=lambda t: t[0], reverse=True)
    return by[0] is RECORDS[1], stable, sorted("hello"), sorted({3: 1, 1: 2}), max(RECORDS, key=ITEM)["n"], x


@case
def sort_with_comparison(x):
    return sorted(NUMBERS, key=functools.cmp_to_key(lambda a, b: b - a)), x


@case
def sort_tensors(x):
    return sorted([x.sum(), x.sum() + 1, x.sum() - 1], key=lambda t: t.dim()), min([x.sum(), 3], key=str)


@case
def reductions(x):
    return (
        sum([x, x]), sum([[1], [2]], []), sum(NUMBERS, 10), min(NUMBERS), max(3, 5), min([], default=x),
        any(v > 2 for v in NUMBERS), all([]), functools.reduce(lambda a, b: a * b, [x, 2, 3]), math.prod(NUMBERS),
        math.fsum([0.1] * 10), divmod(7, 3), pow(2, 5, 7), round(2.567, 2), abs(-3), abs(x),
    )  # fmt: skip


@case
def filters(x):
    return list(filter(None, [0, 1, "", x.shape])), list(filter(lambda v: v > 1, NUMBERS)), [*map(len, ["a", "bb"])]


@case
def heaps_and_bisect(x):
    heap = [5, 3, 4]
    heapq.heapify(heap)
    heapq.heappush(heap, 1)
    place = bisect.bisect([1, 3, 5], 3)
    heapq.heappush(NUMBERS, 0)
    return heapq.heappop(heap), heap, place, heapq.nsmallest(2, NUMBERS), x


@case
def deep_copies(x):
    a = copy.deepcopy(PLAIN)
    b = copy.copy(PLAIN)
    c = copy.deepcopy([x, x])
    d = copy.deepcopy(NODE)
    e = copy.copy({"x": x})
    return a, b, b.items is PLAIN.items, c[0] is c[1], c[0] is x, c, d, e["x"] is x


@case
def deepcopy_of_outside_tensors(x):
    d = {"t": ARRAY.shape, "x": x}
    return copy.deepcopy(d), copy.deepcopy(x.requires_grad_())


@case
def pickling(x):
    text = pickle.dumps({"a": [1, 2]})
    return pickle.loads(text), x, pickle.loads(pickle.dumps(PLAIN)).v


@case
def pickling_of_tensors(x):
    return pickle.loads(pickle.dumps(x))


@case
def json_text(x):
    return json.dumps({"shape": list(x.shape), "n": NUMBERS}), json.loads("[1, 2.5, null]"), x


@case
def regular_expressions(x):
    m = PATTERN.match("a12")
    return m.group(1), int(m.group(2)) * x, re.sub(r"\d", lambda g: g.group() * 2, "a1b2"), PATTERN.findall("b3c4")


@case
def strings(x):
    name = "Name"
    return (
        f"{name!r:>10}|{3.14159:.2f}|{x.shape}|{x.dtype}|{tuple(x.size())!s}|{name=}",
        "%s-%03d" % (name, 5),
        "{0}{k}".format(1, k=2),  # noqa: UP030, UP032
        name.join(["a", "b"]),
        string.Template("$a").substitute(a=1),
        name.encode(),
        name[::-1].casefold().title(),
        "a,b".split(","),
        str(x.device),
        repr(x.shape),
        str(NUMBERS),
        f"{x.dim()}tail",
        "ab" * 2,
        "é".upper(),
        name.translate(str.maketrans("N", "M")),
    )


@case
def text_of_a_tensor(x):
    return str(x), f"{x.sum():.2f}", repr(x), "%s" % x


@case
def text_of_objects(x):
    return str([1, PLAIN.v]), repr(Data(1, [2])), str(Data), repr(None), ascii("é"), x


@case
def mathematics(x):
    return (
        x * math.pi,
        math.floor(2.5),
        math.gcd(4, 6),
        math.isnan(math.nan),
        math.inf,
        -0.0,
        1e308 * 10,
        5 // -2,
        -5 % 3,
    )


@case
def numbers(x):
    return 1 << 70, (1 + 2j) * 1j, 0.1 + 0.2, int("ff", 16), float("nan"), complex(1, 2), True + 1, ~5, 7 // 2.0, x


@case(lambda: (torch.rand(2), float("nan"), -0.0, 1 << 80, 2j))
def odd_numbers(x, n, zero, big, c):
    return n, math.copysign(1, zero), big % 7, c * c, x * zero, n is n


@case
def decimals_and_fractions(x):
    return str(DECIMAL * 2), FRACTION + 1, float(FRACTION) * x, DECIMAL


@case(lambda: (torch.rand(2),), lambda: setattr(PLAIN, "v", 3))
def weak_references(x):
    made = weakref.ref(PLAIN)
    return WEAK().v * x, made() is PLAIN, WEAK() is PLAIN


@case(lambda: (torch.rand(2),), lambda: setattr(PLAIN, "v", 3))
def weak_containers(x):
    return WEAK_KEYS[PLAIN], WEAK_VALUES["p"] is PLAIN, x, len(WEAK_KEYS)


@case
def weak_container_written(x):
    WEAK_KEYS[PLAIN] = x
    WEAK_VALUES["q"] = NODE
    return len(WEAK_VALUES)


@case(lambda: (torch.rand(2),), lambda: setattr(PLAIN, "v", 3))
def weak_proxy(x):
    return PROXY.v * x


@case
def weak_proxy_written(x):
    PROXY.v = 5
    return PLAIN.v * x


@case
def typing_constructs(x):
    box = Box[int](3)
    return (
        typing.cast(int, x),
        box.get(),
        typing.Optional[int] is not None,
        Box(x).item,
        typing.get_type_hints(Data)["b"],
    )


@case
def random_numbers(x):
    return x * random.random(), random.choice([1, 2, 3]), RANDOM.random()


@case
def torch_random_numbers(x):
    return torch.rand(3), torch.randn(2) + x[:2], torch.randint(0, 10, (3,)), torch.randperm(4), torch.bernoulli(x)


@case
def torch_generator(x):
    return torch.rand(3, generator=GENERATOR), x


@case
def torch_seed(x):
    torch.manual_seed(5)
    return torch.rand(2), x


@case
def dropout(x):
    return torch.nn.functional.dropout(x, 0.5), torch.nn.functional.dropout(x, 0.5, training=False)


@case(lambda: (torch.rand(4),), lambda: ARRAY.__setitem__(0, 9.0))
def numpy_from_outside(x):
    return x + torch.from_numpy(ARRAY), x * float(ARRAY[0]), ARRAY.shape, ARRAY.sum()


@case
def numpy_written(x):
    ARRAY[0] += 1
    return x + ARRAY[0]


@case
def numpy_inside(x):
    a = np.ones(4) * 2
    a[1] = 5
    return torch.as_tensor(a) + x, a, np.float32(2.5) * 2, int(np.int64(3))


@case
def tensor_to_numpy(x):
    a = x.numpy()
    a[0] = 7
    return x + 1, a, np.asarray(x), np.sum(a)


@case(lambda: (torch.rand(4), np.float32(2.5), np.int64(3)))
def numpy_scalars(x, f, i):
    return x * f, x + i, f * 2, range(i)


@case
def item_and_lists(x):
    return x.sum().item() > -1, x.tolist(), int(x.shape[0]), float(x[0]), bool((x >= 0).all())


@case
def counter_of_strings(x):
    words = collections.Counter(w[0] for w in ["ab", "ac", "b"])
    return words, words["a"] * x, sorted(words.elements())


@case
def data_classes(x):
    d = Data(x, [1])
    e = dataclasses.replace(d, b=d.b)
    return d, e.b is d.b, dataclasses.asdict(Data(1, [Data(2, [])]))


@case
def cycles(x):
    a, b = Plain(1), Plain(2)
    a.other, b.other = b, a
    NODE.children.append(NODE)
    return a.other.other is a, x + len(NODE.children)


@case
def cycle_escapes(x):
    a = Plain(1)
    a.me = a
    a.items.append(a)
    return a


@case
def sentinel_identity(x):
    missing = object()
    d = {"a": None}
    return d.get("a", missing) is missing, d.get("b", missing) is missing, x


@case
def hash_and_id(x):
    return hash("a") == hash("a"), hash((1, 2)), id(x) == id(x), id(PLAIN) == id(PLAIN), hash(x) == id(x)


SEEN_IDS = {}


@case
def identities_escape(x):
    made = Plain(1)
    SEEN_IDS[0] = id(made) != id(PLAIN)
    key = id(made)
    table = {key: 5}
    return table[id(made)], hash(made) == hash(made), x


@case
def hash_of_objects(x):
    return hash(PLAIN) == hash(PLAIN), hash(NODE) != hash(PLAIN), {PLAIN: 1}[PLAIN], x


@case
def clocks(x):
    now = datetime.datetime.now()
    return now.year > 2000, datetime.date.today().year > 2000, datetime.timedelta(days=1).days * x


@case
def process_of_torch(x):
    before = torch.get_num_threads()
    return x * before, torch.is_inference_mode_enabled(), torch.get_default_device().type


@case
def fork_of_random_state(x):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        y = torch.rand(2)
    return y, torch.rand(2)


@case
def numpy_random(x):
    return x * float(np.random.rand()), np.random.randint(10)


@case(lambda: (torch.rand(2), np.float64("nan"), np.float64(-0.0), np.bool_(True), np.int8(3)))
def numpy_special_numbers(x, n, z, b, i):
    return n != n, np.copysign(1, z), x * i, 1 if b else 0


@case(lambda: (torch.rand(4), np.ones(4), np.array([1, 2])))
def numpy_arrays_as_arguments(x, a, i):
    return x + torch.from_numpy(a), a[0] * 2, x[i], a.mean(), [v for v in i], len(a), a.tolist()


@torch.jit.script
def scripted(x, n: int):
    return x * n + 1


@case
def scripted_function(x):
    return scripted(x, 3), scripted(x, 2) + 1


TRACED = torch.jit.trace(lambda x: x * 2 + 1, torch.rand(4))


@case
def traced_function(x):
    return TRACED(x) + 1


@case
def compiled_inside(x):
    import onegraph

    inner = onegraph.compile(lambda v: v * 3, backend="eager")
    return inner(x) + inner(x + 1)


@case
def custom_operators(x):
    y = registered.scaled(x, 2.0)
    registered.fill(x, 5.0)
    return y, x + 1, torch.ops.twins.scaled(x, 3.0)


@case
def aten_operators(x):
    return torch.ops.aten.add.Tensor(x, 1), torch.ops.aten.mul(x, 2), torch.ops.aten.sum.dim_IntList(x, [0])


@case
def futures_and_pools(x):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(lambda n: x + n, [1, 2])), pool.submit(torch.relu, x).result() if False else 0


@case
def sorting_with_side_effects(x):
    log = []
    order = sorted([3, 1, 2], key=lambda v: log.append(v) or v)
    return order, log, min([2, 1], key=lambda v: log.append(v) or v), x


@case
def string_methods_with_callbacks(x):
    return (
        "-".join(str(v) for v in (1, 2)),
        "{:>5}".format(x.dim()),
        "%(a)s" % {"a": 1},
        f"{x.shape[0]:{3}d}",
        "a".ljust(x.dim() + 3, "*"),
    )


@case
def bytes_and_memory(x):
    b = bytearray(b"abc")
    b += b"d"
    m = memoryview(bytes(b))
    return bytes(b), m[1], int.from_bytes(b"\x01\x02", "big"), b.find(b"c"), x


DONE = []


@functools.cache
def doubled_once(n):
    DONE.append(n)
    return n * 2


@functools.lru_cache(maxsize=2)
def scaled_once(n, scale=1):
    DONE.append((n, scale))
    return n * scale


@case
def functools_cache(x):
    return x * doubled_once(3) + doubled_once(3) + scaled_once(2) + scaled_once(2, scale=3)


@case
def own_random_generator(x):
    r = random.Random(5)
    return x * r.random(), r.randint(1, 9), r.choice("abc"), r.sample(range(9), 2), r.getstate()[0]
