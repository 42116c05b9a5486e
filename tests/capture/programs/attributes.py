"""Attribute lookup: which of class, metaclass and instance answers, and what it says when nothing does."""

from __future__ import annotations

import types
import weakref

import torch

from tests.capture.twins import Cases

case = Cases()


def refused(*acts):
    """What the errors say."""
    said = []
    for act in acts:
        try:
            said.append(act())
        except AttributeError as error:
            said.append((str(error), error.name))
    return said


class Counting:
    """A data descriptor that writes to itself."""

    def __init__(self):
        self.last, self.count = None, 0

    def __get__(self, obj, cls=None):
        return self if obj is None else self.last

    def __set__(self, obj, value):
        self.last = value
        self.count += 1

    def __delete__(self, obj):
        self.last = None


class WriteOnly:
    def __set__(self, obj, value):
        raise AssertionError


class OwnProperty(property):
    def __get__(self, obj, cls=None):
        return "own", obj is None


class Named:
    def __get__(self, obj, cls):
        return "of the metaclass", obj.__name__


class NamedFirst(Named):
    def __set__(self, obj, value):
        raise AssertionError


class Meta(type):
    first, later = NamedFirst(), Named()
    static = staticmethod(lambda: "static")
    bound = classmethod(lambda cls: cls.__name__)
    value = [4]

    def __getattribute__(cls, name):
        return "asked" if name == "asked" else super().__getattribute__(name)


class OfMeta(metaclass=Meta):
    first, asked = 1, 1


class Base:
    __self__ = "not that of super"

    @property
    def readable(self):
        return 1

    writable = property(None, lambda self, value: None)
    function = torch.relu

    @staticmethod
    def __getattr__(name):
        if name.startswith("no"):
            raise AttributeError(name)
        return "static", name


class Child(Base):
    other_name = Base.readable
    counting = Counting()
    only = WriteOnly()
    own = OwnProperty(lambda self: 1)

    def of_super(self):
        return super().__self__, super().__class__ is super


class Strict:
    @property
    def readable(self):
        return 1

    writable = property(None, lambda self, value: None)


class Renamed(Strict):
    other_name = Strict.readable


class Slots:
    __slots__ = ("unset", "value")

    def __init__(self):
        self.value = 1


CHILD, STRICT, SLOTS = Child(), Renamed(), Slots()
vars(CHILD)["only"] = "of the instance"


@case
def descriptor_that_writes_to_itself(x):
    CHILD.counting = x + CHILD.counting if CHILD.counting is not None else x
    return CHILD.counting, Child.counting.count


@case
def descriptor_that_deletes(x):
    CHILD.counting = 1
    del CHILD.counting
    return x, CHILD.counting


@case
def descriptor_without_get(x):
    return x, CHILD.only, Child.only is vars(Child)["only"], refused(lambda: delattr(CHILD, "only"))


@case
def property_that_binds_itself(x):
    return x, CHILD.own, Child.own


@case
def property_errors(x):
    return x, refused(
        lambda: STRICT.writable,
        lambda: setattr(STRICT, "readable", 1),
        lambda: setattr(STRICT, "other_name", 1),
        lambda: delattr(STRICT, "other_name"),
    )


@case
def fallback_that_takes_no_self(x):
    return x, CHILD.anything, hasattr(CHILD, "nothing")


@case(lambda: (torch.rand(3) - 0.5,), lambda: setattr(Base, "function", torch.sigmoid))
def native_function_of_a_class(x):
    return CHILD.function(x)


@case
def names_that_super_has_too(x):
    return x, CHILD.of_super()


@case
def metaclass_order(x):
    return x, OfMeta.first, OfMeta.later, OfMeta.static(), OfMeta.bound(), OfMeta.value, OfMeta.asked


@case
def slots_deleted(x):
    said = refused(lambda: delattr(SLOTS, "unset"))
    del SLOTS.value
    said += refused(lambda: SLOTS.value)
    SLOTS.value = x
    return said


@case
def slot_deleted_for_good(x):
    if hasattr(SLOTS, "value"):
        del SLOTS.value
    else:
        SLOTS.value = 1
    return x, hasattr(SLOTS, "value")


@case
def deleted_through_a_weak_proxy(x):
    made = Base()
    made.value = 1
    proxy = weakref.proxy(made)
    del proxy.value
    return x, "value" in vars(made)


@case
def errors_without_attribute(x):
    made = types.SimpleNamespace(a=1)
    return x, refused(
        lambda: Strict.no,
        lambda: STRICT.no,
        lambda: SLOTS.no,
        lambda: types.no,
        lambda: refused.no,
        lambda: Strict.mro.no,
        lambda: made.no,
        lambda: STRICT.__init__.no,
        lambda: super(Renamed, STRICT).no,
        lambda: None.no,
        lambda: [].no,
        lambda: ValueError().no,
        lambda: weakref.ref(STRICT).no,
    )


class Counter:
    count = 0

    def step(self):
        self.count += 1
        return self.count


class Stepping(Counter):
    pass


STEPPING = Stepping()
SUPER = super(Stepping, STEPPING)


@case
def super_from_outside(x):
    return x, SUPER.step(), STEPPING.count


# ---- what tensors from outside have in Python ------------------------------------------------------------------------


def weight(**names):
    made = torch.nn.Parameter(torch.rand(4))
    vars(made).update(names)
    return made


WEIGHT = weight()


@case
def set_on_a_parameter_of_the_module(x):
    WEIGHT.sample = x * WEIGHT
    return WEIGHT.sample.sum(), sorted(vars(WEIGHT))


@case
def counted_on_a_parameter(x):
    WEIGHT.calls = getattr(WEIGHT, "calls", 0) + 1
    if not hasattr(WEIGHT, "seen"):
        WEIGHT.seen = []
    WEIGHT.seen.append(x * WEIGHT.calls)
    return len(WEIGHT.seen), sum(WEIGHT.seen)


@case(lambda: (torch.rand(4), torch.rand(4)), lambda: setattr(WEIGHT, "tag", 3), lambda: delattr(WEIGHT, "tag"))
def set_on_an_argument(x, y):
    x.tag = getattr(WEIGHT, "tag", 5)
    y.other = x
    return y.other.tag * y, y.other is x, hasattr(x + 1, "tag")


@case(lambda: (torch.rand(4), weight(tag=2)))
def deleted_from_a_tensor(x, w):
    del w.tag
    answers = [*refused(lambda: w.tag, lambda: x.tag), sorted(vars(w))]
    try:
        del w.tag
    except AttributeError as error:
        answers.append(str(error))
    w.tag = x
    return answers, w.tag + 1


@case(lambda: (torch.rand(4), weight(tag=2)))
def names_of_a_tensor(x, w):
    w.__dict__["size_of_one"] = 3
    scale = sum(w.__dict__.values())
    w.__dict__.clear()
    object.__setattr__(w, "last", 4)
    return x * scale, w.last, sorted(vars(w)), hasattr(w, "tag")


@case(lambda: (torch.rand(4), weight()))
def set_before_and_behind_a_break(x, w):
    w.first = x * 2
    print("between")
    w.second = w.first + w
    return w.first, w.second


@case(lambda: (torch.rand(4), weight()))
def set_and_copied(x, w):
    w.tag = x
    return w.detach(), hasattr(w.detach(), "tag"), hasattr(torch.nn.Parameter(w), "tag"), hasattr(w.view(4), "tag")


@case(lambda: (torch.rand(4), weight()))
def named_like_a_method(x, w):
    w.sum = 3
    w.size = x
    y = x * w.sum
    try:
        del w.data
    except RuntimeError as error:
        refusal = str(error)
    del w.size
    return y, refusal, sorted(vars(w)), w.size()


@case(lambda: (torch.rand(4), weight(shape=[3], other=4)))
def hidden_by_a_field(x, w):
    w.__dict__["dtype"] = 5
    return x * w.shape[0], w.dtype, w.other, w.__dict__["shape"]
