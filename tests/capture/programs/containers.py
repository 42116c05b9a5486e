"""Lists, dicts, sets and their relatives, from outside and inside, read and written."""

from __future__ import annotations

import collections
import types

import torch

from tests.capture.twins import Cases

case = Cases()
ITEMS = [1, 2, 3]
TABLE = {"a": 1, "b": 2}
NESTED = {"x": [1, {"y": [2]}], "t": (1, [2])}
DEQUE = collections.deque([1, 2, 3], maxlen=4)
ORDERED = collections.OrderedDict(a=1, b=2, c=3)
COUNTER = collections.Counter("aab")
CHAIN = collections.ChainMap({"a": 1}, {"a": 2, "b": 3})
DEFAULT = collections.defaultdict(list, k=[1])
PROXY = types.MappingProxyType(TABLE)
APPEND = ITEMS.append
TENSORS = [torch.ones(2), torch.zeros(2)]
KEYED = {TENSORS[0]: "one"}
SET = {1, 2}
FROZEN = frozenset({"a"})
PLACE = object()
PLACES = {PLACE: 5, (1, "t"): 6, None: 7, 1.5: 8}
VIEW = TABLE.items()
BYTES = bytearray(b"ab")


class User(collections.UserDict):
    pass


USER = User(a=1)


class MyList(list):
    def append(self, item):
        self.added = getattr(self, "added", 0) + 1
        super().append(item)

    def __getitem__(self, index):
        return super().__getitem__(index) if not isinstance(index, str) else index


class MyDict(dict):
    def __missing__(self, key):
        self[key] = key * 2
        return self[key]

    def __setitem__(self, key, value):
        self.log = [*getattr(self, "log", []), key]
        super().__setitem__(key, value)


MINE = MyList([1, 2])
MISSING = MyDict()


def opened():
    return torch.rand(2), [1, 2, 3]


@case(lambda: (torch.rand(2), [torch.rand(2), [3]]))
def list_methods(x, items):
    items.append(x + 1)
    items.insert(0, 5)
    items.extend((6, 7))
    items.remove(6)
    last = items.pop()
    items += [x]
    items.reverse()
    other = items.copy()
    items[1:3] = ["s"]
    del items[0]
    return items, other, last, items.index(5), items.count(5)


@case(opened)
def list_clear(x, items):
    alias = items
    items.clear()
    alias.append(x)
    return len(items)


@case(opened)
def list_sort(x, items):
    items.sort(key=lambda i: -i)
    return x + items[0]


@case(opened)
def list_multiply(x, items):
    items *= 2
    return x, items * 2, [0] + items


@case(opened)
def list_slices(x, items):
    items[::2] = [9, 9]
    first, *rest = items
    return x + items[-1], rest, items[5:], items[-2:]


@case(opened)
def list_self_reference(x, items):
    items.append(items)
    return x, len(items)


@case(opened)
def list_in_mutation(x, items):
    for item in items:
        if len(items) < 6:
            items.append(item + 1)
    return x + len(items)


@case(lambda: (torch.rand(2), {"a": 1, "b": torch.rand(2)}))
def dict_methods(x, d):
    d["c"] = x
    d.setdefault("a", 5)
    d.setdefault("z", []).append(1)
    v = d.pop("a")
    w = d.pop("nope", None)
    d.update({"q": 1}, r=2)
    k = list(d.keys())
    d |= {"s": 3}
    last = d.popitem()
    del d["q"]
    return v, w, k, last, d | {"t": 1}, "c" in d, list(d.items())


@case(lambda: (torch.rand(2), {"a": 1, "b": 2}))
def dict_reorder(x, d):
    d["a"] = d.pop("a")
    return x + 1


@case(lambda: (torch.rand(2), {"a": 1, "b": 2}))
def dict_delete_in_iteration(x, d):
    for key in d:
        del d[key]
    return x


@case(lambda: (torch.rand(2), {"a": 1, "b": 2}))
def dict_copy_and_clear(x, d):
    other = dict(d)
    third = d.copy()
    d.clear()
    return x, other, third, dict.fromkeys(other, x)


@case(lambda: (torch.rand(2),), lambda: TABLE.update(a=5), lambda: TABLE.update(c=1))
def proxy_of_dict(x):
    return x * PROXY["a"] + len(PROXY), "c" in PROXY


@case
def proxy_behind_writes(x):
    TABLE["a"] = 10
    return x * PROXY["a"]


@case
def proxy_made_inside(x):
    proxy = types.MappingProxyType(TABLE)
    TABLE["new"] = x
    return proxy["new"], list(proxy)


@case
def stored_bound_append(x):
    APPEND(x)
    return len(ITEMS)


@case
def stored_bound_append_argument(x):
    add = ITEMS.append
    add(4)
    return x + ITEMS[-1], add


@case
def deque_outside(x):
    DEQUE.append(x)
    return DEQUE.popleft(), len(DEQUE), DEQUE[0]


@case
def deque_inside(x):
    d = collections.deque([x, x + 1], maxlen=3)
    d.appendleft(1)
    d.rotate(1)
    d.extend([4, 5])
    return d, d.pop(), list(d)


@case
def ordered_dict(x):
    ORDERED.move_to_end("a")
    ORDERED["d"] = x
    ORDERED.popitem(last=False)
    return list(ORDERED), x + ORDERED["a"]


@case
def counter(x):
    COUNTER.update("abc")
    COUNTER["z"] += 2
    return x * COUNTER["a"], COUNTER.most_common(1), COUNTER["missing"], COUNTER + collections.Counter("a")


@case
def chain_map(x):
    CHAIN["c"] = x
    CHAIN["a"] += 1
    return CHAIN["a"], CHAIN["b"], list(CHAIN.maps), CHAIN.new_child({"q": 1})["q"], len(CHAIN)


@case
def default_dict(x):
    DEFAULT["k"].append(x)
    DEFAULT["new"].append(1)
    return len(DEFAULT), DEFAULT.get("other"), DEFAULT["k"][0]


@case
def default_dict_inside(x):
    d = collections.defaultdict(lambda: x + 1)
    d["q"]
    return d["p"], list(d), len(d)


@case
def user_dict(x):
    USER["b"] = x
    USER["a"] += 1
    return USER["a"], list(USER), USER.data


@case
def list_subclass(x):
    MINE.append(x)
    return MINE["key"], MINE[0], MINE.added, len(MINE)


@case
def dict_subclass(x):
    first = MISSING["q"]
    MISSING["r"] = x
    return first, MISSING["q"], MISSING.log, MISSING.get("nope")


@case
def sets(x):
    SET.add(5)
    SET.discard(1)
    SET.update({7, 8})
    a = SET | {9}
    b = SET - {7}
    c = SET & {5}
    return x + len(SET), sorted(a), sorted(b), sorted(c), 5 in SET, "a" in FROZEN, {*SET} == SET


@case
def set_of_objects(x):
    marks = {PLACE, "a", None}
    return PLACE in marks, len(marks), x


@case
def tensors_as_keys(x):
    d = {x: 1, TENSORS[1]: 2}
    KEYED[TENSORS[1]] = "two"
    return d[x], d[TENSORS[1]], KEYED[TENSORS[0]], x in d


@case
def tensors_in_sets(x):
    s = {x, TENSORS[0]}
    s.add(x)
    return len(s), x in s, TENSORS[1] in s


@case
def odd_keys(x):
    PLACES[PLACE] += 1
    PLACES[None] = x
    return PLACES[(1, "t")], PLACES[1.5], PLACES[None]


@case(lambda: (torch.rand(2),), lambda: TABLE.update(a=100))
def dict_view_outside(x):
    total = 0
    for key, value in VIEW:
        total = total + (value if isinstance(value, int) else 0)
    return x + total


@case
def dict_views_inside(x):
    d = {"a": x}
    keys, values, items = d.keys(), d.values(), d.items()
    d["b"] = 2
    return list(keys), list(values), len(items), keys & {"a"}, "b" in keys


@case
def byte_array(x):
    BYTES.append(99)
    BYTES[0] = 65
    return x + BYTES[0], bytes(BYTES)


@case
def nested_writes(x):
    NESTED["x"][1]["y"].append(x)
    NESTED["t"][1][0] += 1
    return NESTED["x"][1]["y"][-1], NESTED["t"]


@case(lambda: (torch.rand(2), [1], {}))
def aliases(x, items, d):
    d["items"] = items
    d["self"] = d
    items.append(d)
    return d["items"] is items, d, x


@case(lambda: ((lambda box: (torch.rand(2), box, box))([1]),)[0])
def same_argument_twice(x, a, b):
    a.append(5)
    b.append(6)
    return a is b, len(a), x


@case(lambda: (torch.rand(3), [[1, 2], [3]]))
def comprehensions(x, rows):
    flat = [i * 2 for row in rows for i in row if i != 2]
    d = {i: x + i for i in flat}
    s = {i % 2 for i in flat}
    g = list(i for i in flat)
    nested = [[j + 1 for j in row] for row in rows]
    walrus = [y := i for i in flat]
    return flat, d, s, g, nested, walrus, y


@case(lambda: (torch.rand(3), [1, 2]))
def comprehensions_with_cells(x, rows):
    def shown(value):
        print("within")
        return value

    print("before")
    first = [sum(x * k + row for k in rows) for row in rows]
    second = [shown(sum(x + row for _ in rows)) for row in rows]
    row = 7
    third = [(lambda: row)() for row in rows]
    print("behind")
    return first, second, third, row, (lambda: row)()


@case(lambda: (torch.rand(3),), lambda: TENSORS.append(torch.ones(2)), lambda: TENSORS.reverse())
def outside_tensor_list(x):
    return sum(TENSORS), TENSORS[0] is TENSORS[-1], torch.stack(TENSORS)


@case
def equality_of_containers(x):
    return [1, 2] == ITEMS[:2], TABLE == {"a": 1, "b": 2}, (1, [2]) == NESTED["t"], x


@case
def tensor_in_list(x):
    box = [x, 1]
    return x in box, box.index(x), box.count(x)


@case
def tensor_equality_in_list(x):
    return TENSORS[1] in [x[:2], TENSORS[1]]


@case
def zips(x):
    a = list(zip(ITEMS, TABLE.items(), strict=False))
    b = dict(zip("ab", (x, x + 1), strict=True))
    c = [*enumerate(ITEMS, 1)]
    return a, b, c, list(reversed(ITEMS))


@case(lambda: ((1, 2), [3]))
def tuple_addition(t, items):
    t += (5,)
    return t + tuple(items), t * 2, t[::-1], torch.tensor(t)


class Key:
    def __init__(self, name, weight):
        self.name = name
        self.weight = weight

    def __eq__(self, other):
        return self.name == other.name

    def __hash__(self):
        return hash(self.name)


KEY = Key("k", 2)
BY_KEY = {KEY: 3, ("t", KEY): 4}
KEY_SET = {KEY}
WIDE = set(range(40))
for _number in range(3, 40):
    if _number != 32:
        WIDE.discard(_number)


def swap_key():
    BY_KEY.clear()
    BY_KEY[Key("k", 5)] = 3
    BY_KEY["t", KEY] = 4


@case(lambda: (torch.rand(2),), lambda: setattr(KEY, "weight", 7), swap_key)
def outside_keys_with_eq(x):
    total = 0
    for key, value in BY_KEY.items():
        if isinstance(key, Key):
            total = total + key.weight * value
    return x * total, BY_KEY[KEY], BY_KEY[Key("k", 1)], Key("z", 1) in BY_KEY, KEY in KEY_SET, Key("k", 0) in KEY_SET


@case(lambda: (torch.rand(2),), lambda: (WIDE.clear(), WIDE.update((32, 2, 1, 0))))
def order_of_sets(x):
    total = x
    for n in WIDE:
        total = total * 2 + n
    return total


@case(lambda: (torch.rand(2),), lambda: (SET.clear(), SET.update((True, 2.0))))
def types_in_sets(x):
    return [type(v) for v in SET], x


@case(lambda: (torch.rand(2),), lambda: (TABLE.clear(), TABLE.update({"b": 1, "a": 2})))
def order_of_dicts(x):
    for key in TABLE:
        x = x * 2 + TABLE[key]
    return x


@case(lambda: (torch.rand(2), {1: 5}), lambda: None)
def equal_keys_of_other_types(x, d):
    d[True] = 6
    d[1.0] = 7
    return d, x * d[1]


ROW = [[0, 0, 0], [5, 6, 7]]


@case(lambda: (torch.rand(2),), lambda: ROW[1].append(8))
def slices_filled_from_outside(x):
    ROW[0][:] = ROW[1]
    made = [1, 2]
    made[1:] = ROW[1]
    return x * sum(ROW[0]), made, ROW[0] is ROW[1]


@case(lambda: (torch.rand(2), [3, 1, 2]))
def list_written_while_it_is_sorted(x, items):
    seen = []

    def key(item):
        seen.append(len(items))
        items.append(item)
        items.pop()
        return -item

    try:
        items.sort(key=key)
    except ValueError as error:
        return x + 1, str(error), items, seen


@case(lambda: (torch.rand(2), [3, "a", 2]))
def list_that_cannot_be_sorted(x, items):
    try:
        items.sort(reverse=True)
    except TypeError as error:
        return x + 1, str(error), items


@case(lambda: (torch.rand(2), [(2, "b"), (1, "a"), (2, "a")]))
def list_sorted_by_a_key(x, items):
    items.sort(key=lambda item: item[0], reverse=True)
    return x + 1, items, sorted(items), sorted(items, key=lambda item: item[1])


class Asked:
    def __init__(self):
        self.asked = []

    def __index__(self):
        self.asked.append("index")
        return 1

    def __bool__(self):
        self.asked.append("bool")
        return True


@case(lambda: (torch.rand(2), [3, 1, 2], Asked()))
def list_sorted_in_reverse_if_an_object_says_so(x, items, asked):
    items.sort(reverse=asked)
    return x + 1, items, asked.asked


@case(lambda: (torch.rand(2), [3, 1, 2], Asked()))
def an_order_is_asked_for_before_the_keys(x, items, asked):
    def key(item):
        asked.asked.append(item)
        return item

    return x + 1, sorted(items, key=key, reverse=asked), asked.asked


@case(lambda: (torch.rand(2), [3, 1, 2]))
def orders_that_are_no_numbers(x, items):
    found = []
    for reverse in ([], None, "", 2**40, 1.5):
        try:
            found.append(sorted(items, reverse=reverse))
        except (TypeError, OverflowError) as error:
            found.append(str(error))
    return x + 1, found


@case(lambda: (torch.rand(2), 10**5000))
def numbers_too_long_to_print(x, number):
    held = [number + 1]
    print("between")
    return x + 1, held, number % 7, {number: 1}[number]


class Labelled(list):
    __slots__ = ("label",)

    def __init__(self, label):
        super().__init__()
        self.label = label


@case(lambda: (torch.rand(2), Labelled(1), Labelled(2)))
def containers_with_slots(x, mine, other):
    mine.label += 1
    mine.append(mine.label)
    return x + other.label + len(other), mine, mine.label


@case(lambda: (torch.rand(2), collections.defaultdict(list, a=[1])))
def factory_and_items_of_a_dict(x, table):
    return table["a"], table["b"], table.default_factory, x + 1
