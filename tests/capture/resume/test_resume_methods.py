"""Breaks in methods that instructions call: caller and method are cut together, and the instruction is finished."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from tests.capture.resume.test_breaks import Watch
from tests.capture.test_small_programs import tree_equal


def breaks(value: Any) -> Any:
    """A step on both sides of a break."""
    value = value + 1
    onegraph.graph_break()
    return value * 2


class Thing:
    """Every method breaks once."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    @property
    def read(self):
        return breaks(self.x)

    @read.setter
    def read(self, value):
        self.x = breaks(value)

    @read.deleter
    def read(self):
        self.x = breaks(self.x)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda: breaks(self.x) if name != "lost" else fails(AttributeError("lost"))

    def __add__(self, other):
        return breaks(self.x + other)

    def __rmul__(self, other):
        return breaks(self.x * other)

    def __iadd__(self, other):
        self.x = breaks(self.x + other)
        return self

    def __sub__(self, other):
        self.x = breaks(self.x)
        return NotImplemented

    def __neg__(self):
        return breaks(self.x)

    def __invert__(self):
        return breaks(self.x)

    def __eq__(self, other):
        self.x = breaks(self.x)
        return NotImplemented if other is None else other == 3

    def __lt__(self, other):
        self.x = breaks(self.x)
        return NotImplemented

    def __ge__(self, other):
        return breaks(self.x)

    def __getitem__(self, key):
        return breaks(self.x + key)

    def __setitem__(self, key, value):
        self.x = breaks(value + key)

    def __delitem__(self, key):
        self.x = breaks(self.x + key)

    def __contains__(self, item):
        self.x = breaks(self.x + item)
        return [item] if item else []

    def __len__(self):
        self.x = breaks(self.x)
        return 3

    def __bool__(self):
        self.x = breaks(self.x)
        return True

    def __call__(self, x, *, twice=False):
        return breaks(x + self.x) * (1 + twice)

    def __enter__(self):
        self.x = breaks(self.x)
        return self.x

    def __exit__(self, kind, value, entry):
        self.x = self.x if kind is None else breaks(self.x) + 10
        return True

    def __str__(self):
        self.x = breaks(self.x)
        return "thing"

    def __format__(self, spec):
        self.x = breaks(self.x)
        return spec or "plain"

    def __iter__(self):
        self.x = breaks(self.x)
        return iter([self.x, self.x + 1])


class Made:
    def __init__(self, x, *, more=0):
        self.x = breaks(x) + more


class Sub(Thing):
    @property
    def read(self):
        return super().read * 3


class Steps:
    """An iterator that breaks in every step."""

    def __init__(self, x, count):
        self.x, self.count = x, count

    def __iter__(self):
        return self

    def __next__(self):
        self.x = breaks(self.x)
        self.count -= 1
        if self.count < 0:
            raise StopIteration
        return self.x


class Descriptor:
    def __get__(self, obj, cls):
        return breaks(obj.x)

    def __set__(self, obj, value):
        obj.x = breaks(value)


class Described:
    field = Descriptor()

    def __init__(self, x):
        self.x = x


class Other:
    def __rsub__(self, other):
        return breaks(other.x) * 7

    def __gt__(self, other):
        return breaks(other.x) * 5


class Gives:
    """Methods that break, and give what their instructions do not take."""

    def __init__(self, result):
        self.result = result

    def __bool__(self):
        onegraph.graph_break()
        return self.result

    def __len__(self):
        onegraph.graph_break()
        return self.result

    def __str__(self):
        onegraph.graph_break()
        return self.result

    def __iter__(self):
        onegraph.graph_break()
        return self.result


def fails(error: BaseException) -> Any:
    raise error


def in_a_property(x):
    return Thing(x + 1).read * 3


def in_a_property_of_a_parent(x):
    return Sub(x + 1).read * 3


def in_a_setter(x):
    thing = Thing(x + 1)
    thing.read = x * 2
    return thing.x * 3


def in_a_deleter(x):
    thing = Thing(x + 1)
    del thing.read
    return thing.x * 3


def in_descriptors(x):
    thing = Described(x + 1)
    thing.field = x * 2
    return thing.x * 3


def in_get_of_a_descriptor(x):
    return Described(x + 1).field * 2


def in_a_binary_operator(x):
    return (Thing(x + 1) + x) * 3


def in_a_reflected_operator(x):
    return (3 * Thing(x + 1)) * 3


def in_an_operator_in_place(x):
    thing = Thing(x + 1)
    thing += 2
    return thing.x - 1


def in_an_operator_without_an_answer(x):
    thing = Thing(x + 1)
    try:
        return thing - 3
    except TypeError as error:
        return thing.x * 2, str(error)


def in_two_operators_of_one_expression(x):
    thing = Thing(x + 1)
    return (thing - Other()) * thing.x


def in_unary_operators(x):
    return -Thing(x + 1) * 2


def in_inversion(x):
    return ~Thing(x + 1) * 2


def in_equality(x):
    thing = Thing(x + 1)
    return thing.x * 2 if thing == 3 else thing.x * 3


def in_inequality(x):
    thing = Thing(x + 1)
    return thing.x * 2 if thing != 3 else thing.x * 3


def in_equality_without_an_answer(x):
    thing = Thing(x + 1)
    return thing.x * 2, thing == None  # noqa: E711


def in_an_order_without_an_answer(x):
    thing = Thing(x + 1)
    try:
        return thing < 3
    except TypeError as error:
        return thing.x * 2, str(error)


def in_two_orders_of_one_expression(x):
    thing = Thing(x + 1)
    return (thing < Other()) * thing.x


def in_an_order(x):
    return (Thing(x + 1) >= 3) * 2


def in_an_item(x):
    return Thing(x + 1)[3] * 2


def in_a_written_item(x):
    thing = Thing(x + 1)
    thing[2] = x * 2
    return thing.x * 2


def in_a_deleted_item(x):
    thing = Thing(x + 1)
    del thing[2]
    return thing.x * 2


def in_membership(x):
    thing = Thing(x + 1)
    return thing.x * 2 if 3 in thing else thing.x * 3


def in_no_membership(x):
    thing = Thing(x + 1)
    return thing.x * 2 if 0 not in thing else thing.x * 3


def in_a_length(x):
    thing = Thing(x + 1)
    return len(thing) * thing.x


def in_a_truth(x):
    thing = Thing(x + 1)
    return thing.x * 5 if thing else thing.x


def in_a_truth_of_bool(x):
    thing = Thing(x + 1)
    return bool(thing), thing.x * 2


def in_a_call(x):
    return Thing(x)(x + 1, twice=True) * 2


def in_entering(x):
    thing = Thing(x + 1)
    with thing as y:
        z = y + x
    return z * 2


def in_leaving_with_an_exception(x):
    thing = Described(x)

    class Context:
        def __enter__(self):
            return self

        def __exit__(self, kind, value, entry):
            thing.x = breaks(thing.x) + len(traceback.extract_tb(value.__traceback__))
            return kind is ValueError

    with Context():
        thing.x = thing.x + 1
        raise ValueError("left")
    return thing.x * 2


def in_an_initializer(x):
    return Made(x + 1, more=2).x * 2


def in_a_text(x):
    thing = Thing(x + 1)
    return len(str(thing)) * thing.x


def in_a_formatted_string(x):
    thing = Thing(x + 1)
    text = f"<{thing}>"
    return len(text) * thing.x


def in_a_format(x):
    thing = Thing(x + 1)
    text = f"<{thing:abc}>"
    return len(text) * thing.x, text


def in_an_iterator(x):
    total = x + 1
    for item in Thing(x):
        total = total + item
    return total * 2


def in_steps_of_a_loop(x):
    total = x + 1
    for item in Steps(x, 2):
        total = total + item
    else:
        total = total * 7
    return total * 2


def in_next(x):
    return next(Steps(x + 1, 1)) * 3


def in_unpacking(x):
    a, b = Thing(x + 1)
    return a * b


def in_steps_of_unpacking(x):
    a, b = Steps(x + 1, 2)
    return a * b


def too_many_to_unpack(x):
    (a,) = Steps(x + 1, 5)
    return a


def too_few_to_unpack(x):
    a, b, c = Steps(x + 1, 2)
    return a * b * c


def deep(x):
    class Deep:
        @property
        def item(self):
            return Thing(x + 1)[2] * 2

        def __add__(self, other):
            return self.item + other

    return (Deep() + 1) * 3


def with_a_fallback(x):
    class Falls:
        @property
        def lost(self):
            breaks(x)
            raise AttributeError("lost")

        def __getattr__(self, name):
            return x * len(name)

    return Falls().lost * 2


def without_its_fallback(x):
    class Falls:
        @property
        def lost(self):
            breaks(x)
            raise KeyError("lost")

        def __getattr__(self, name):
            return x * len(name)

    return Falls().lost * 2


def caught_around_a_method(x):
    class Fails:
        @property
        def item(self):
            breaks(x)
            raise ValueError("item")

    try:
        return Fails().item
    except ValueError as error:
        return x * 3, str(error), [step.name for step in traceback.extract_tb(error.__traceback__)]


def raised_by_the_breaking_call(x):
    class Natively:
        def __next__(self):
            return next(iter(print("break") or ()))

        def __iter__(self):
            return self

    total = x + 1
    for item in Natively():
        total = total + item
    return total * 2


def in_a_handler(x):
    try:
        try:
            raise KeyError("k")
        except KeyError:
            y = Thing(x + 1)[2]
            raise
    except KeyError as error:
        return y * 2, repr(error), error.__context__


def no_truth(x):
    return x if Gives(3) else x + 1


def no_length(x):
    return len(Gives("three")) * x


def negative_length(x):
    return len(Gives(-1)) * x


def no_text(x):
    return str(Gives(3)), x + 1


def no_iterator(x):
    return [item for item in Gives(3)], x + 1


def nothing_to_unpack(x):
    (a,) = Gives([3])
    return a, x + 1


#: How many graphs the first call makes, where they are not two.
GRAPHS = {
    "in_two_operators_of_one_expression": 3,
    "in_two_orders_of_one_expression": 3,
    "in_steps_of_a_loop": 4,
    "in_steps_of_unpacking": 4,
    "too_many_to_unpack": 3,
    "too_few_to_unpack": 4,
    **dict.fromkeys("no_truth no_length negative_length no_text no_iterator nothing_to_unpack".split(), 0),
    "in_leaving_with_an_exception": 3,
}
PROGRAMS = [value for name, value in list(globals().items()) if name.startswith(("in_", "no", "too_", "negative"))]
PROGRAMS += [deep, with_a_fallback, without_its_fallback, caught_around_a_method, raised_by_the_breaking_call]


def outcome(program: Callable[..., Any], x: torch.Tensor) -> Any:
    try:
        return program(x)
    except Exception as error:
        steps = [step for step in traceback.extract_tb(error.__traceback__) if step.filename == __file__]
        return type(error), str(error), [(step.name, step.lineno) for step in steps[1:]]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_break_in_a_method_is_one_of_its_caller(program: Callable[..., Any]) -> None:
    onegraph.reset()
    x = torch.arange(3.0)
    expected = outcome(program, x)
    compiled = onegraph.compile(program, backend="eager")
    with Watch() as watch:
        assert tree_equal(outcome(compiled, x), expected)
    assert len(watch.graphs) == GRAPHS.get(program.__name__, 2)
    assert tree_equal(outcome(compiled, x), expected)


class Skipping:
    """Behind its break, a method runs on its own: the resume function of its caller calls it in Python."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    def skip(self, value: Any) -> Any:
        onegraph.graph_break()
        value = value + 1
        onegraph.skip_frame()
        return value

    @property
    def add(self):
        onegraph.graph_break()
        self.x = self.x + 1
        onegraph.skip_frame()
        return self.added

    def added(self, value):
        return self.x + value

    @add.setter
    def add(self, value):
        onegraph.graph_break()
        self.x = self.x + value
        onegraph.skip_frame()

    @add.deleter
    def add(self):
        onegraph.graph_break()
        self.x = self.x * 2
        onegraph.skip_frame()

    def __setitem__(self, key, value):
        onegraph.graph_break()
        self.x = self.x * value
        onegraph.skip_frame()

    def __bool__(self):
        onegraph.graph_break()
        self.x = self.x - 1
        onegraph.skip_frame()
        return True


def calling_what_is_read(x):
    return Skipping(x).add(x) * 2


def writing_and_deleting(x):
    thing = Skipping(x)
    thing.add = x
    thing[0] = x
    del thing.add
    return [thing.x + x for _ in range(1)]


def in_a_loop(x):
    thing = Skipping(x)
    for i in range(12):
        thing.add = x * i
        if thing:
            x = x + thing.add(i)
    return x


@pytest.mark.parametrize("program", [calling_what_is_read, writing_and_deleting, in_a_loop], ids=lambda p: p.__name__)
def test_an_instruction_is_finished_behind_a_call_in_python(program: Callable[..., Any]) -> None:
    onegraph.reset()
    x = torch.arange(3.0)
    compiled = onegraph.compile(program, backend="eager")
    with Watch() as watch:
        for _ in range(2):
            assert tree_equal(outcome(compiled, x), outcome(program, x))
    assert len(watch.graphs) < 30


class Base:
    factor = 3

    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


class Derived(Base):
    def scaled(self, x):
        def own():
            return self.factor

        x = super().scaled(x + 1)
        onegraph.graph_break()
        x = super().scaled(x)
        onegraph.graph_break()
        return super().scaled(x) + own()


def test_super_is_found_where_a_closure_has_the_first_variable() -> None:
    def f(x: torch.Tensor) -> Any:
        return Derived().scaled(x) + 1

    x = torch.rand(2)
    with Watch() as watch:
        assert torch.equal(onegraph.compile(f, backend="eager")(x), f(x))
    assert len(watch.graphs) == 3
