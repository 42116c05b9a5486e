"""functools, itertools and operator, whole: a test compares the names with the modules' own."""

from __future__ import annotations

import functools
import itertools
import operator

import torch

from tests.capture.twins import Cases

case = Cases()
LOG = []


@functools.lru_cache
def of_sizes(shape):
    return shape[0] + 1


@case
def functools_lru_cache_of_shapes(x):
    return x * of_sizes(tuple(x.shape)), of_sizes(tuple(x.shape))


@case
def functools_cache_made_here(x):
    calls = []

    @functools.cache
    def inner(n):
        calls.append(n)
        return n + 1

    return x * inner(1) * inner(1), calls


class Lazy:
    def __init__(self, x):
        self.x = x
        self.computed = 0

    @functools.cached_property
    def doubled(self):
        self.computed += 1
        return self.x * 2


LAZY = Lazy(torch.ones(4))


@case
def functools_cached_property(x):
    own = Lazy(x)
    return own.doubled + own.doubled + LAZY.doubled, own.computed, LAZY.computed, "doubled" in vars(own)


def by_last_digit(a, b):
    return a % 10 - b % 10


@case
def functools_cmp_to_key(x):
    key = functools.cmp_to_key(by_last_digit)
    words = sorted([13, 2, 31, 20], key=key)
    return x, words, key(3) < key(12), max([13, 2, 31], key=functools.cmp_to_key(lambda a, b: b - a))


def scaled(x, by=1, *, plus=0):
    return x * by + plus


DOUBLE = functools.partial(scaled, by=2)


@case
def functools_partial(x):
    nested = functools.partial(DOUBLE, plus=3)
    other = functools.partial(functools.partial(operator.add, 1), 2)
    return DOUBLE(x), nested(x), nested.func is scaled, nested.keywords, nested.args, other(), DOUBLE(x, by=5), nested


class Scaler:
    def scale(self, x, by):
        return x * by

    double = functools.partialmethod(scale, by=2)
    triple = functools.partialmethod(scale, by=3)


@case
def functools_partialmethod(x):
    return Scaler().double(x) + Scaler().triple(x)


@case
def functools_reduce(x):
    total = functools.reduce(lambda a, b: a * b, [x, x + 1, x + 2])
    names = functools.reduce(operator.concat, ["a", "b"], "z")
    try:
        functools.reduce(operator.add, [])
    except TypeError as error:
        return total, names, str(error), functools.reduce(operator.add, [x, 1, 2])


@functools.singledispatch
def described(value):
    return "object"


@described.register
def _(value: int):
    return f"int {value}"


@described.register(list)
def _(value):
    return [described(item) for item in value]


@described.register
def _(value: torch.Tensor):
    return value * 2


@case
def functools_singledispatch(x):
    return (
        described(3),
        described([1, "a", x]),
        described(x),
        described(2.5),
        described.dispatch(int)(4),
        described(True),
    )


class Dispatching:
    @functools.singledispatchmethod
    def take(self, value):
        return value

    @take.register
    def _(self, value: str):
        return value.upper()

    @take.register
    def _(self, value: torch.Tensor):
        return value + 1


@case
def functools_singledispatchmethod(x):
    return Dispatching().take("a"), Dispatching().take(x), Dispatching().take(5)


@functools.total_ordering
class Version:
    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return self.number == other.number

    def __lt__(self, other):
        return self.number < other.number

    def __hash__(self):
        return hash(self.number)


@case
def functools_total_ordering(x):
    a, b = Version(1), Version(2)
    return x, a <= b, a >= b, a > b, a != b, max(a, b).number, sorted([b, a])[0].number, a == Version(1)


@case
def functools_total_ordering_here(x):
    @functools.total_ordering
    class Local:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            return self.n == other.n

        def __gt__(self, other):
            return self.n > other.n

    return x, Local(1) <= Local(2), Local(1) < Local(1), Local(3) >= Local(2)


def logged(function):
    """Logs calls."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        LOG.append(function.__name__)
        return function(*args, **kwargs)

    return wrapper


@logged
def tripled(x):
    """Three times."""
    return x * 3


@case
def functools_wraps(x):
    @logged
    def inner(x):
        """Inner."""
        return x + 1

    return (
        tripled(x) + inner(x),
        tripled.__doc__,
        tripled.__name__,
        inner.__doc__,
        inner.__wrapped__(x),
        tripled.__wrapped__(x),
    )


@case
def functools_update_wrapper(x):
    def wrapper(x):
        return tripled(x)

    functools.update_wrapper(wrapper, tripled, assigned=("__name__",), updated=())
    assert functools.WRAPPER_ASSIGNMENTS[0] == "__module__" and functools.WRAPPER_UPDATES == ("__dict__",)
    return wrapper(x), wrapper.__name__, wrapper.__wrapped__ is tripled


# ---- itertools -------------------------------------------------------------------------------------------------------


@case
def itertools_accumulate(x):
    return (
        list(itertools.accumulate([x, x, x])),
        list(itertools.accumulate([1, 2, 3], operator.mul)),
        list(itertools.accumulate([1, 2], lambda a, b: a * 10 + b, initial=5)),
        list(itertools.accumulate([x, 2, 3], func=torch.mul)),
        list(itertools.accumulate([])),
    )


@case
def itertools_chain(x):
    return (
        list(itertools.chain([1], (x,), "ab", {3: 4}, range(2))),
        list(itertools.chain.from_iterable([[1, x], (2,), {5}])),
        list(itertools.chain()),
        sum(itertools.chain([x], [x + 1])),
    )


@case
def itertools_combinations(x):
    return x, list(itertools.combinations([1, 2, 3], 2)), list(itertools.combinations((x, x + 1, x + 2), 2))


@case
def itertools_combinations_with_replacement(x):
    return x, list(itertools.combinations_with_replacement("ab", 2))


@case
def itertools_compress(x):
    return x, list(itertools.compress([1, x, 3], [1, 0, 1])), list(itertools.compress("abc", [None, "a", []]))


@case
def itertools_count(x):
    tensors = itertools.count(x, 2)
    return (
        [next(tensors), next(tensors), next(tensors)],
        list(itertools.islice(itertools.count(1.5, 0.5), 3)),
        list(zip(itertools.count(), "ab", strict=False)),
        itertools.count(3),
    )


@case
def itertools_cycle(x):
    around = itertools.cycle([x, 2])
    return [next(around) for _ in range(5)], list(itertools.islice(itertools.cycle("abc"), 7)), around


@case
def itertools_dropwhile(x):
    return x, list(itertools.dropwhile(lambda n: n < 2, [1, 2, 1])), list(itertools.dropwhile(bool, [1, 0, 1]))


@case
def itertools_filterfalse(x):
    return x, list(itertools.filterfalse(lambda n: n % 2, range(5))), list(itertools.filterfalse(None, [0, 1, ""]))


@case
def itertools_groupby(x):
    groups = [(key, list(group)) for key, group in itertools.groupby([1, 1, 2, 3, 3])]
    by_size = {key: list(group) for key, group in itertools.groupby(["a", "b", "cc"], key=len)}
    return x, groups, by_size, [key for key, _ in itertools.groupby("aab", str.upper)]


@case
def itertools_islice(x):
    it = iter(range(10))
    return (
        x,
        list(itertools.islice(it, 2)),
        list(itertools.islice(it, 1, 6, 2)),
        next(it),
        list(itertools.islice("abc", None)),
    )


@case
def itertools_pairwise(x):
    return x, list(itertools.pairwise([1, x, 3])), list(itertools.pairwise("a"))


@case
def itertools_permutations(x):
    return x, list(itertools.permutations([1, x, 3], 2)), len(list(itertools.permutations(range(3))))


@case
def itertools_product(x):
    return (
        x,
        list(itertools.product([1, x], "ab")),
        list(itertools.product(range(2), repeat=2)),
        list(itertools.product()),
    )


@case
def itertools_repeat(x):
    return list(itertools.repeat(x, 2)), list(map(pow, [1, 2, 3], itertools.repeat(2))), itertools.repeat(x)


@case
def itertools_starmap(x):
    return list(itertools.starmap(torch.add, [(x, x), (x, 1)])), list(itertools.starmap(pow, [(2, 3), (3, 2)]))


@case
def itertools_takewhile(x):
    it = iter([1, 2, 5, 1])
    return x, list(itertools.takewhile(lambda n: n < 3, it)), list(it)


@case
def itertools_tee(x):
    a, b, c = itertools.tee([1, x, 3], 3)
    return next(a), list(b), list(a), next(c)


@case
def itertools_zip_longest(x):
    return x, list(itertools.zip_longest([1, x], "abc", fillvalue=0)), list(itertools.zip_longest([1], []))


@case
def itertools_with_effects(x):
    seen = []

    def note(n):
        seen.append(n)
        return n

    lazy = itertools.takewhile(note, itertools.starmap(note, [(1,), (2,), (0,), (3,)]))
    return x, next(lazy), len(seen), list(lazy), seen


# ---- operator --------------------------------------------------------------------------------------------------------


class Box:
    def __init__(self, x):
        self.x = x
        self.inner = [1, x]

    def by(self, n, plus=0):
        return self.x * n + plus

    def __index__(self):
        return 2


@case
def operator_arithmetic(x):
    o = operator
    values = [f(x + 1, 2) for f in (o.add, o.sub, o.mul, o.truediv, o.floordiv, o.mod, o.pow)]
    numbers = [f(6, 4) for f in (o.and_, o.or_, o.xor, o.lshift, o.rshift, o.floordiv, o.mod, o.concat and o.mul)]
    return values, numbers, o.neg(x), o.pos(x), o.abs(x), o.inv(5), o.invert(5), o.matmul(x, x), o.not_(3), o.truth([])


@case
def operator_comparison(x):
    o = operator
    tensors = [f(x, 0.5) for f in (o.lt, o.le, o.gt, o.ge, o.eq, o.ne)]
    compared = [f(1, 2) for f in (o.lt, o.le, o.gt, o.ge, o.eq, o.ne)]
    if hasattr(o, "is_none"):  # Python 3.14
        compared += [o.is_none(x), o.is_none(None), o.is_not_none(x), o.is_not_none(None)]
    return tensors, compared, o.is_(x, x), o.is_not(x, None)


@case
def operator_containers(x):
    o = operator
    items = [1, 2, 3]
    o.setitem(items, 0, x)
    o.delitem(items, 1)
    return (
        o.getitem(items, 0), items, o.contains(items, 3), o.countOf([1, 1, 2], 1), o.indexOf([1, 5], 5), o.concat([1], [x]),
        o.length_hint([1, 2]), o.index(Box(x)), o.iconcat(items, [7]),
    )  # fmt: skip


@case
def operator_in_place(x):
    o = operator
    y = x.clone()
    y = o.iadd(y, 1)
    y = o.imul(y, 2)
    y = o.isub(y, 1)
    y = o.itruediv(y, 2)
    return (
        y,
        o.ipow(2, 3),
        o.iand(6, 3),
        o.ior(6, 3),
        o.ixor(6, 3),
        o.ilshift(1, 2),
        o.irshift(8, 1),
        o.imod(7, 4),
        o.ifloordiv(7, 2),
    )


@case
def operator_getters(x):
    o = operator
    box = Box(x)
    return (
        o.attrgetter("x")(box),
        o.attrgetter("x", "inner")(box),
        o.itemgetter(1)([0, x]),
        o.itemgetter(0, 2)("abc"),
        o.itemgetter(slice(0, 2))([1, 2, 3]),
        o.methodcaller("by", 3, plus=1)(box),
        o.methodcaller("sum")(x),
        sorted([(2, "b"), (1, "c")], key=o.itemgetter(0)),
    )


@case
def operator_call(x):
    return operator.call(scaled, x, 2, plus=1)
