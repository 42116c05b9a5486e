"""Sets from outside: written in every way, under two names, with members of all kinds."""

from __future__ import annotations

import torch

from tests.capture.twins import Cases

case = Cases()


class Box:
    def __init__(self, value):
        self.value = value


class Keyed:
    """Equal and hashed by its value, and counts how often it is asked."""

    asked = [0, 0]

    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return hash(self.value)

    def __eq__(self, other):
        return isinstance(other, Keyed) and self.value == other.value


class MySet(set):
    def add(self, item):
        self.log = [*getattr(self, "log", []), item]
        super().add(item)


class MyFrozen(frozenset):
    pass


BOXES = [Box(1), Box(2), Box(3)]
KEYS = [Keyed(1), Keyed(2), Keyed(1)]
NUMBERS = {1, 2, 3}
NAMES = {"a", "b", "c"}
OBJECTS = {BOXES[0], BOXES[1]}
KEYED = {KEYS[0], KEYS[1]}
MIXED = {1.5, None, "x", (1, "t"), BOXES[2]}
TENSORS = [torch.ones(2), torch.zeros(2)]
TENSOR_SET = {TENSORS[0]}
MINE = MySet([1])
FROZEN = frozenset({1, 2})
FROZEN_OBJECTS = frozenset(BOXES[:2])
MY_FROZEN = MyFrozen([1, 2])
NESTED = {frozenset({1}), frozenset({2, 3})}
HOLDER = Box({1, 2})
COLLIDING = {8, 0}
EMPTY = set()
CALLS = [0]


def alternate(*choices):
    CALLS[0] += 1
    return choices[(CALLS[0] - 1) % len(choices)]()


def put(**values):
    globals().update(values)


@case(lambda: (torch.rand(2),), NUMBERS.clear, lambda: NUMBERS.update((3, 9)), lambda: put(NUMBERS=frozenset({4})))
def add_and_discard(x):
    if isinstance(NUMBERS, set):
        NUMBERS.add(len(NUMBERS) + 10)
        NUMBERS.discard(1)
        NUMBERS.discard("nothing")
    return x * sum(NUMBERS), 2 in NUMBERS


@case(lambda: (torch.rand(2),), lambda: NUMBERS.add(5), lambda: NUMBERS.discard(5))
def remove_raises(x):
    try:
        NUMBERS.remove(5)
    except KeyError as error:
        return x, error.args
    return x + 1, sorted(NUMBERS)


@case
def operators_in_place(x):
    global NUMBERS
    before = NUMBERS
    NUMBERS |= {7, 8}
    NUMBERS &= {1, 7, 8, 9}
    NUMBERS -= {8}
    NUMBERS ^= {9, 1}
    return x * len(NUMBERS), sorted(NUMBERS), before is NUMBERS


@case
def methods_in_place(x):
    NAMES.update(["d", "e"], ("f",))
    NAMES.difference_update({"a"}, ["b"])
    NAMES.intersection_update({"c", "d", "e"})
    NAMES.symmetric_difference_update({"e", "z"})
    return x * len(NAMES), sorted(NAMES)


@case
def emptied_and_filled(x):
    NAMES.clear()
    NAMES.add("only")
    NAMES.update("xyz")
    return x, sorted(NAMES)


@case
def pop_one(x):
    taken = NUMBERS.pop()
    NUMBERS.add(taken)
    return x * taken


@case
def pop_all(x):
    taken = []
    while NAMES:
        taken.append(NAMES.pop())
    NAMES.update("ab")
    return x, sorted(taken)


@case(lambda: (torch.rand(2),), lambda: OBJECTS.discard(BOXES[1]), lambda: setattr(BOXES[0], "value", 50))
def set_of_objects(x):
    made = Box(4)
    OBJECTS.add(made)
    OBJECTS.discard(BOXES[1])
    OBJECTS.add(BOXES[2])
    return x * sum(box.value for box in OBJECTS), made in OBJECTS, BOXES[1] in OBJECTS


@case(lambda: (torch.rand(2),), lambda: setattr(KEYS[2], "value", 2), lambda: KEYED.add(Keyed(9)))
def equal_objects(x):
    KEYED.add(KEYS[2])
    KEYED.add(Keyed(5))
    KEYED.discard(Keyed(2))
    return x * len(KEYED), sorted(key.value for key in KEYED), KEYS[0] in KEYED, Keyed(1) in KEYED


@case
def replaced_by_equals(x):
    KEYED.discard(KEYS[0])
    KEYED.add(KEYS[2])
    NUMBERS.discard(1)
    NUMBERS.add(True)
    NUMBERS.add(2.0)
    return x, [type(n) for n in sorted(NUMBERS)], [key is KEYS[2] for key in KEYED]


@case
def mixed_members(x):
    MIXED.add((2, "u"))
    MIXED.discard(1.5)
    MIXED.add(-0.0)
    MIXED.add(frozenset({3}))
    return x * len(MIXED), None in MIXED, (1, "t") in MIXED, BOXES[2] in MIXED, 0 in MIXED


@case
def tensors_in_a_set(x):
    TENSOR_SET.add(x)
    TENSOR_SET.add(TENSORS[1])
    TENSOR_SET.discard(TENSORS[0])
    return x + 1, len(TENSOR_SET), TENSORS[1] in TENSOR_SET, x in TENSOR_SET


@case
def new_tensors_in_a_set(x):
    y = x + 1
    TENSOR_SET.add(y)
    return y, y in TENSOR_SET, len(TENSOR_SET)


@case
def subclass(x):
    MINE.add(len(MINE) + 1)
    MINE.discard(1)
    MINE.note = "n"
    return x * len(MINE), MINE.log


@case(lambda: (torch.rand(2),), lambda: put(FROZEN=frozenset({1, 2, 3})), lambda: put(FROZEN={1, 2}))
def frozen(x):
    joined = FROZEN | {5}
    return (
        x * sum(joined),
        type(joined),
        FROZEN & {1},
        FROZEN <= joined,
        hash(FROZEN) if isinstance(FROZEN, frozenset) else 0,
    )


@case(
    lambda: (torch.rand(2),), lambda: setattr(BOXES[0], "value", 20), lambda: put(FROZEN_OBJECTS=frozenset(BOXES[1:]))
)
def frozen_objects(x):
    for box in FROZEN_OBJECTS:
        box.value += 1
    return x * sum(box.value for box in FROZEN_OBJECTS), BOXES[0] in FROZEN_OBJECTS


@case
def frozen_subclass(x):
    MY_FROZEN.note = "n"
    return x * sum(MY_FROZEN), type(MY_FROZEN).__name__, type(MY_FROZEN | {3}).__name__


@case(lambda: (torch.rand(2),), lambda: NESTED.add(frozenset({9})))
def sets_in_sets(x):
    NESTED.add(frozenset({5, 6}))
    NESTED.discard(frozenset({1}))
    return x * len(NESTED), frozenset({3, 2}) in NESTED, {2, 3} in NESTED


@case
def set_in_an_object(x):
    HOLDER.value.add(len(HOLDER.value) + 5)
    HOLDER.value.discard(1)
    return x * len(HOLDER.value), sorted(HOLDER.value)


@case
def order_after_writes(x):
    COLLIDING.discard(8)
    COLLIDING.add(8)
    first = list(COLLIDING)
    COLLIDING.discard(0)
    COLLIDING.add(0)
    return x, first, list(COLLIDING)


@case(lambda: (torch.rand(2),), lambda: NUMBERS.add(99))
def changed_while_iterated(x):
    try:
        for number in NUMBERS:
            NUMBERS.add(number + 100)
    except RuntimeError as error:
        return x, str(error)
    return x


@case(
    lambda: alternate(lambda: (torch.rand(2), {1}, {1}), lambda: (lambda b: (torch.rand(2), b, b))({1})),
    lambda: None,
    lambda: None,
)
def sets_become_one(x, a, b):
    a.add(5)
    b.add(6)
    return len(a), len(b), x * sum(a)


@case(
    lambda: alternate(lambda: (lambda b: (torch.rand(2), b, b))({1}), lambda: (torch.rand(2), {1}, {1})),
    lambda: None,
    lambda: None,
)
def sets_become_two(x, a, b):
    a.add(5)
    b.discard(5)
    return len(a), len(b), x * sum(a)


@case(lambda: alternate(lambda: (torch.rand(2), {1}), lambda: (torch.rand(2), EMPTY)), EMPTY.clear)
def argument_is_a_global(x, a):
    EMPTY.add(7)
    a.discard(7)
    return len(a), len(EMPTY), x * sum(a)


@case(
    lambda: alternate(
        lambda: (torch.rand(2), {1}, [{1}]),
        lambda: (lambda b: (torch.rand(2), b, [b]))({1}),
        lambda: (torch.rand(2), {1}, [{1}, {2}]),
    ),
    lambda: None,
    lambda: None,
)
def set_within_a_list(x, a, items):
    a.add(3)
    for item in items:
        item.add(4)
    return [sorted(item) for item in items], x * len(a)


@case(
    lambda: alternate(
        lambda: (torch.rand(2), [1], [1]),
        lambda: (lambda b: (torch.rand(2), b, b))([1]),
        lambda: (torch.rand(2), [1], [1]),
    ),
    lambda: None,
    lambda: None,
)
def one_list_written_the_other_read(x, a, b):
    a.append(2)
    return x * sum(b), b == [1]


@case(
    lambda: alternate(lambda: (torch.rand(2), [1]), lambda: (lambda b: (torch.rand(2), b))(LISTS[0])),
    lambda: None,
    lambda: LISTS[0].clear(),
)
def argument_within_a_global(x, a):
    a.append(len(a))
    return x * sum(LISTS[0]), len(LISTS[1])


LISTS = [[1], [2]]


@case(
    lambda: alternate(
        lambda: (torch.rand(2), Box([1]), Box([1])),
        lambda: (lambda b: (torch.rand(2), Box(b), Box(b)))([1]),
        lambda: (lambda b: (torch.rand(2), b, b))(Box([1])),
    ),
    lambda: None,
    lambda: None,
    lambda: None,
)
def lists_of_objects_become_one(x, a, b):
    a.value.append(2)
    b.value.append(3)
    return x * sum(a.value), len(b.value)


@case(
    lambda: alternate(
        lambda: (torch.rand(2), Box(1), {"b": Box(1)}),
        lambda: (lambda b: (torch.rand(2), b, {"b": b}))(Box(1)),
        lambda: (torch.rand(2), Box(1), {"b": Box(1)}),
    ),
    lambda: None,
    lambda: None,
)
def attributes_become_one(x, a, table):
    a.value += 1
    table["b"].value *= 10
    return x * a.value


@case(
    lambda: alternate(
        lambda: (torch.rand(2), {"k": 1}, Box(1)),
        lambda: (lambda b: (torch.rand(2), vars(b), b))(Box(2)),
    ),
    lambda: None,
    lambda: None,
)
def dict_is_of_an_object(x, table, box):
    box.value += 1
    table["value"] = 7
    return x * box.value


@case(
    lambda: alternate(
        lambda: (torch.rand(2), (1, 2), (1, 3)),
        lambda: (torch.rand(2), tuple([1, 2]), tuple([1, 2])),
        lambda: (lambda t: (torch.rand(2), t, t))(tuple([1, 2])),
        lambda: (torch.rand(2), tuple([1, 2]), tuple([1, 2])),
    ),
    lambda: None,
    lambda: None,
    lambda: None,
)
def tuples_become_one(x, a, b):
    return x, a is b, a == b, a is not b


@case(
    lambda: alternate(
        lambda: (lambda t: (torch.rand(2), t, t))(frozenset([1, 2])),
        lambda: (torch.rand(2), frozenset([1, 2]), frozenset([1, 2])),
    ),
    lambda: None,
    lambda: None,
)
def frozensets_become_two(x, a, b):
    return x, a is b


GIVEN = []


@case(lambda: (torch.rand(2), GIVEN.append((1, len(GIVEN) * 0)) or GIVEN[-1]), lambda: None)
def tuple_given_back(x, t):
    return x, [g is t for g in GIVEN], t


def given_back():
    GIVEN.append(frozenset([1, 2]))
    return torch.rand(2), GIVEN[-1], range(3), slice(1, 2)


@case(given_back, lambda: None)
def frozenset_given_back(x, s, r, c):
    KEPT.append((s, r, c))
    return x


KEPT = []


@case(given_back, lambda: None)
def kept_is_given(x, s, r, c):
    first = any(s is entry[0] for entry in KEPT)
    KEPT.append((s, r, c))
    return x, first


def one_or_two(make):
    return alternate(lambda: (torch.rand(2), make(), [make()]), lambda: (lambda b: (torch.rand(2), b, [b]))(make()))


@case(lambda: one_or_two(lambda: Box(1)), lambda: None, lambda: None)
def equal_by_identity(x, a, items):
    return x, a == items[0], a != items[0]


@case(lambda: one_or_two(lambda: Box(1)), lambda: None, lambda: None)
def member_by_identity(x, a, items):
    return x, a in items, items.count(a), (a,) == tuple(items), a in tuple(items)


@case(lambda: one_or_two(lambda: Box(1)), lambda: None, lambda: None)
def key_by_identity(x, a, items):
    return x, a in {item: 1 for item in items}, a in set(items), len({a, *items})


@case(lambda: one_or_two(lambda: [Box(1)]), lambda: None, lambda: None)
def equal_within_by_identity(x, a, items):
    return x, a == items[0], [a] == items


@case(lambda: one_or_two(lambda: Closed()), lambda: None, lambda: None)
def opaque_by_identity(x, a, items):
    return x, a is items[0], a == items[0], a in items, {a: 1}.get(items[0])


class Closed:
    def __del__(self):
        pass
