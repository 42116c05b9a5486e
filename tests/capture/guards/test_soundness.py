"""Guard soundness: change anything that the result depends on, and the next call still equals eager's.

Each case makes a function and a list of changes; after every change the compiled function is compared with the plain
one, on state that both share.
"""

from __future__ import annotations

import dataclasses
import gc
import types
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from onegraph.capture.tracer.trace import Trace
from tests.capture.test_small_programs import tree_equal

GLOBAL = types.SimpleNamespace(number=2.0, flag=True, items=[1, 2], table={"k": 3}, tensor=torch.ones(3))
NUMBER = 1


@dataclasses.dataclass
class Holder:
    value: Any = 1
    inner: Any = None


class Base:
    factor = 2

    def scale(self, x):
        return x * self.factor


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a


def set_number(value):
    global NUMBER
    NUMBER = value


Case = tuple[Callable[..., Any], list[Callable[[], None]]]


def case_global_number() -> Case:
    set_number(1)
    return (lambda x: x + NUMBER), [lambda: set_number(2), lambda: set_number(2.0), lambda: set_number(True)]


def case_namespace_attribute() -> Case:
    n = types.SimpleNamespace(a=1)
    return (lambda x: x + n.a), [lambda: setattr(n, "a", 5), lambda: setattr(n, "a", torch.ones(3))]


def case_list_item() -> Case:
    items = [1, 2]
    return (lambda x: x * items[0]), [lambda: items.__setitem__(0, 7), lambda: items.insert(0, 9)]


def case_list_length() -> Case:
    items = [1, 2]
    return (lambda x: x * len(items) + sum(items)), [lambda: items.append(3), lambda: items.clear()]


def case_negative_index() -> Case:
    items = [1, 2]
    return (lambda x: x * items[-1]), [lambda: items.append(5)]


def case_dict_value() -> Case:
    table = {"a": 1, "b": 2}
    return (lambda x: x + table["a"]), [lambda: table.update(a=3), lambda: table.update(c=1)]


def case_dict_missing_key() -> Case:
    table: dict[str, int] = {}
    return (lambda x: x + table.get("a", 10)), [lambda: table.update(a=3), lambda: table.clear()]


def case_dict_iteration() -> Case:
    table = {"a": 1, "b": 2}

    def f(x):
        for i, (key, value) in enumerate(table.items()):
            x = x * (i + 1) + value + len(key)
        return x

    def reorder():
        table["a"] = table.pop("a")

    return f, [lambda: table.update(b=5), lambda: table.update(ccc=5), reorder]


def case_membership() -> Case:
    table = {"a": 1}
    return (lambda x: x + 1 if "b" in table else x - 1), [lambda: table.update(b=1), lambda: table.pop("b")]


def case_set() -> Case:
    names = {"a"}
    return (lambda x: x + 1 if "b" in names else x - 1), [lambda: names.add("b"), lambda: names.discard("b")]


def case_object_attribute() -> Case:
    h = Holder(1, Holder(2))
    return (lambda x: x + h.value * h.inner.value), [
        lambda: setattr(h.inner, "value", 5),
        lambda: setattr(h, "inner", Holder(7)),
    ]


def case_missing_attribute() -> Case:
    h = Holder()
    return (lambda x: x + getattr(h, "extra", 4)), [lambda: setattr(h, "extra", 1), lambda: delattr(h, "extra")]


def case_class_attribute() -> Case:
    b = Base()
    return (lambda x: b.scale(x)), [lambda: setattr(Base, "factor", 3), lambda: setattr(b, "factor", 4)]


def case_method_replaced() -> Case:
    class Local(Base):
        pass

    b = Local()
    return (lambda x: b.scale(x)), [
        lambda: setattr(Local, "scale", lambda self, x: x - 1),
        lambda: setattr(b, "scale", lambda x: x + 100),
    ]


def case_slots() -> Case:
    s = Slotted(3)
    return (lambda x: x * s.a), [lambda: setattr(s, "a", 4)]


def case_class_changed() -> Case:
    class Other(Base):
        def scale(self, x):
            return x + 1

    b = Base()
    return (lambda x: b.scale(x)), [lambda: setattr(b, "__class__", Other)]


def case_closure_cell() -> Case:
    n = 1

    def change():
        nonlocal n
        n += 1

    return (lambda x: x * n), [change, change]


def case_default_argument() -> Case:
    def g(x, k=2):
        return x * k

    def change():
        g.__defaults__ = (5,)

    return (lambda x: g(x)), [change]


def case_function_replaced() -> Case:
    h = Holder(lambda x: x + 1)
    return (lambda x: h.value(x)), [lambda: setattr(h, "value", lambda x: x * 5)]


def case_module_parameter() -> Case:
    m = torch.nn.Linear(3, 3)

    def replace():
        m.weight = torch.nn.Parameter(torch.ones(3, 3))

    def change():
        with torch.no_grad():
            m.weight.mul_(2)

    return (lambda x: m(x)), [replace, change, lambda: setattr(m, "bias", None)]


def case_module_flag() -> Case:
    m = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(3))
    m.eval()
    return (lambda x: m(x.expand(4, 3))), [
        lambda: m[1].train(),
        lambda: m.append(torch.nn.ReLU()),
        lambda: m.__setitem__(2, torch.nn.Tanh()),
    ]


def case_module_hook() -> Case:
    m = torch.nn.ReLU()
    handles: list[Any] = []
    return (lambda x: m(x)), [
        lambda: handles.append(m.register_forward_hook(lambda mod, args, out: out + 1)),
        lambda: handles.pop().remove(),
        lambda: handles.append(m.register_forward_pre_hook(lambda mod, args: (args[0] * 2,))),
    ]


def case_module_forward() -> Case:
    m = torch.nn.ReLU()
    return (lambda x: m(x)), [lambda: setattr(m, "forward", lambda x: x - 3)]


def case_tensor_global() -> Case:
    h = Holder(torch.ones(3))
    return (lambda x: x + h.value), [
        lambda: setattr(h, "value", torch.ones(3, dtype=torch.float64)),
        lambda: setattr(h, "value", torch.ones(1)),
        lambda: h.value.add_(1),
        lambda: setattr(h, "value", 3),
    ]


def case_identity() -> Case:
    a, b = Holder(), Holder()
    pair = [a, b]

    def join():
        pair[1] = pair[0]

    return (lambda x: x + 1 if pair[0] is pair[1] else x - 1), [join]


def case_grad_mode() -> Case:
    return (lambda x: x + int(torch.is_grad_enabled())), [
        lambda: torch.set_grad_enabled(False),
        lambda: torch.set_grad_enabled(True),
    ]


def case_default_dtype() -> Case:
    return (lambda x: x + torch.ones(3)), [
        lambda: torch.set_default_dtype(torch.float64),
        lambda: torch.set_default_dtype(torch.float32),
    ]


CASES = [value for name, value in list(globals().items()) if name.startswith("case_")]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.__name__[5:])
@pytest.mark.parametrize("backend", ["eager", "native"])
def test_change(case: Callable[[], Case], backend: str) -> None:
    onegraph.reset()
    function, changes = case()
    compiled = onegraph.compile(function, backend=backend, options={"check_unchanged": True})
    for change in [lambda: None, lambda: None, *changes]:
        change()
        x = torch.rand(3)
        torch.manual_seed(0)
        expected = function(x.clone())
        torch.manual_seed(0)
        assert tree_equal(expected, compiled(x.clone())), change


@pytest.mark.parametrize("change", ["dtype", "size", "rank", "stride", "requires_grad", "type", "none"])
def test_argument_change(change: str) -> None:
    def f(x, y):
        if y is None:
            return x
        return x * y + (y.dim() if isinstance(y, torch.Tensor) else 0)

    compiled = onegraph.compile(f)
    other = {
        "dtype": torch.rand(3, 3, dtype=torch.float64),
        "size": torch.rand(1, 3),
        "rank": torch.rand(3),
        "stride": torch.rand(3, 3).t(),
        "requires_grad": torch.rand(3, 3, requires_grad=True),
        "type": 4,
        "none": None,
    }[change]
    for y in (torch.rand(3, 3), other, torch.rand(3, 3), other):
        x = torch.rand(3, 3)
        assert tree_equal(f(x, y), compiled(x, y))


def closing_over(number: int) -> Callable[[], int]:
    return lambda: number


Pair = namedtuple("Pair", "a b")
PAIRS = [
    (Base, Holder),
    (len, sum),
    (set_number, closing_over),
    (closing_over(1), closing_over(2)),
    (torch.float32, torch.float64),
    (torch.sin, torch.cos),
    ((1, 2), (3, 4)),
    ((Base,), (Holder,)),
    ((1, (2, Base)), (1, (2, Holder))),
    (Pair(1, 2), Pair(3, 4)),
    (frozenset([1]), frozenset([2])),
    (range(2), range(3)),
    (slice(1), slice(2)),
    (torch.device("cpu"), torch.device("meta")),
    ([1], [2]),
]


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("program", ["pair", "compared", "in_a_list", "behind_a_break"])
def test_one_object_at_two_places(program: str, one: Any, other: Any) -> None:
    """What is found twice is guarded twice: the next call may bring another object to one of the places."""

    def pair(x, a, b):
        return x + 1, a, b

    def compared(x, a, b):
        return x + (1 if a is b else 2)

    def in_a_list(x, a, items):
        return x + len(items), [(a, item) for item in items]

    def behind_a_break(x, a, items):
        found = []
        for item in items:
            onegraph.graph_break()
            found.append((a, item, items[0]))
        return x + 1, found

    function = {f.__name__: f for f in (pair, compared, in_a_list, behind_a_break)}[program]
    listed = program in ("in_a_list", "behind_a_break")
    compiled = onegraph.compile(function, backend="eager")
    x = torch.ones(2)
    for a, b in ((one, one), (one, other), (other, one), (other, other)):
        args = (x, a, [b, one]) if listed else (x, a, b)
        assert tree_equal(function(*args), compiled(*args))


ELEMENTS = [0, 8, 16, 24, 5, "a", "b", (1, 2), (5, 1), "hello", 3.5, None, -1, 33, 40]


@pytest.mark.parametrize("count", range(2, 9))
def test_sets_have_the_order_of_their_elements(count: int) -> None:
    """It depends on the order in which they came, where two want one place in the table."""
    for start in range(0, 15, 2):
        items = [ELEMENTS[(start + 4 * n) % 15] for n in range(count)]
        space: dict[str, Any] = {}
        exec(
            f"def shown(x):\n    return x + 1, {{ {', '.join(map(repr, items))} }}\n"
            f"def added(x):\n    s = set()\n    for item in {items}:\n        s.add(item)\n    return x + 1, s\n",
            space,
        )
        for function in (space["shown"], space["added"]):
            assert list(onegraph.compile(function, backend="eager")(torch.ones(1))[1]) == list(function(1)[1])


def test_sizes_are_keys() -> None:
    masks: dict[Any, torch.Tensor] = {}

    def f(x):
        key = x.size(0), x.dtype
        if key not in masks:
            masks[key] = torch.ones(x.size(0))
        seen = {x.shape: 1, (x.size(0), 2): 3}
        return x + masks[key], seen, {n for n in x.shape}, Pair(x.size(0), 1) in {Pair(4, 1)}, hash((x.size(0), 1))

    compiled = onegraph.compile(f, fullgraph=True)
    for size in (2, 3, 4, 3, 5):
        x = torch.rand(size)
        masks.clear()
        assert tree_equal(f(x), compiled(x))


def test_the_garbage_collector_rests_while_a_frame_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    run = Trace.run

    def observed(trace: Trace, *args: Any) -> Any:
        seen.append(gc.isenabled())
        return run(trace, *args)

    monkeypatch.setattr(Trace, "run", observed)
    onegraph.compile(lambda x: x + 1, backend="eager")(torch.ones(1))
    assert seen == [False] and gc.isenabled()


def test_one_object_as_two_arguments_and_then_two() -> None:
    class One:
        scale = 1

    class Two:
        scale = 2

    def scaled(x: torch.Tensor, a: Any, b: Any) -> torch.Tensor:
        return x * a.scale + b.scale

    def sliced(x: torch.Tensor, a: slice, b: slice) -> torch.Tensor:
        return x[a] + x[b]

    def called(x: torch.Tensor, a: Any, b: Any) -> torch.Tensor:
        return a(x) + b(x)

    def closure(n: int) -> Any:
        return lambda x: x * n

    first, second = closure(2), closure(3)
    start, end = slice(0, 1), slice(1, 2)
    for function, one, other in (
        (scaled, One, Two),
        (sliced, start, end),
        (called, torch.sin, torch.cos),
        (called, first, second),
    ):
        compiled = onegraph.compile(function, backend="eager")
        x = torch.rand(2)
        for pair in ((one, one), (one, other), (other, one), (other, other)):
            assert torch.equal(compiled(x, *pair), function(x, *pair))


class Replaced:
    @staticmethod
    def static(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    @classmethod
    def of_class(cls, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @property
    def computed(self) -> int:
        return 3


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("static", [staticmethod(torch.sin), staticmethod(lambda x: x + 7)]),
        ("of_class", [classmethod(lambda cls, x: x + 7), classmethod(lambda cls, x: x + 8)]),
        ("computed", [property(lambda self: 9), property(lambda self: 11)]),
    ],
)
@pytest.mark.parametrize("local", [False, True])
def test_a_wrapper_in_a_class_is_replaced(name: str, others: list[Any], local: bool) -> None:
    cls = type("Local" if local else "Replaced", (Replaced,), dict(vars(Replaced)))

    def f(thing: Any, x: torch.Tensor) -> Any:
        return thing.static(x), thing.of_class(x), thing.computed

    compiled, x = onegraph.compile(f, backend="eager"), torch.ones(1)
    assert repr(compiled(cls(), x)) == repr(f(cls(), x))
    for other in others:
        setattr(cls, name, other)
        assert repr(compiled(cls(), x)) == repr(f(cls(), x))


class SlottedList(list):
    __slots__ = ("a",)


def test_a_container_with_slots_is_told_apart_from_others_alone() -> None:
    def write(x, one, other):
        one.a = 2
        one.append(len(other))
        return x + one.a + other.a

    compiled = onegraph.compile(write, backend="eager", options={"raise_compiler_errors": True})

    def outcomes(function):
        first, second = SlottedList([1]), SlottedList([2])
        first.a = second.a = 5
        pairs = ((first, second), (first, second), (first, first), (second, first))
        return [(function(torch.ones(2), *pair).tolist(), list(first), first.a, list(second)) for pair in pairs]

    assert outcomes(compiled) == outcomes(write)
