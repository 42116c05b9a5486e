"""A subclass of a builtin may show something else under the name of what the builtin holds: the builtin's counts."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph


class ShownFunction(functools.partial[Any]):
    @property
    def func(self) -> Any:
        return torch.sub

    @property
    def args(self) -> Any:
        return ()

    @property
    def keywords(self) -> Any:
        return {"alpha": 5}


class SlotOfFunction(functools.partial[Any]):
    __slots__ = "func"

    def __init__(self, func: Any, *args: Any, **keywords: Any) -> None:
        self.func = func


class Asking(functools.partial[Any]):
    def __getattribute__(self, name: str) -> Any:
        return torch.sub if name == "func" else super().__getattribute__(name)


class Calling(functools.partial[Any]):
    def __call__(self, x: Any) -> Any:
        return super().__call__(x) * 3


class ShownLength(collections.deque[Any]):
    @property
    def maxlen(self) -> Any:
        return 1


class ShownFactory(collections.defaultdict[Any, Any]):
    @property
    def default_factory(self) -> Any:
        return set


class ShownError(ValueError):
    args = property(lambda self: ("shown",))
    __cause__ = property(lambda self: "cause")
    __context__ = property(lambda self: "context")
    __traceback__ = property(lambda self: None)


class ShownValue(StopIteration):
    value = property(lambda self: "shown")


class MadeError(ValueError):
    def __new__(cls, *args: Any) -> MadeError:
        made = super().__new__(cls, *args)
        made.made = made.__dict__.get("made", 0) + 1
        return made


class ShownProperty(property):
    fget = property(lambda self: None)


class Owner:
    @ShownProperty
    def shown(self) -> int:
        return 3


class Slots:
    __slots__ = ("a",)


class MoreSlots(Slots):
    __slots__ = ("a",)


def partial_of(kind: Any) -> Callable[[], Any]:
    return lambda: kind(torch.add, torch.ones(2), alpha=2)


def calls(p: Any, x: Any) -> Any:
    return p(x)


def caught(error: BaseException) -> Any:
    cause, context = (vars(BaseException)[name].__get__(error) for name in ("__cause__", "__context__"))
    return vars(BaseException)["args"].__get__(error), type(cause), type(context)


def an_error(kind: Any) -> Callable[[], Any]:
    def make() -> Any:
        error = kind(1, 2)
        vars(BaseException)["__cause__"].__set__(error, KeyError())
        return error

    return make


def appended(d: Any, x: Any) -> Any:
    collections.deque.append(d, 4)
    return list(collections.deque.__iter__(d))


def a_slot() -> Any:
    made = MoreSlots()
    vars(Slots)["a"].__set__(made, 2)
    vars(MoreSlots)["a"].__set__(made, 5)
    return made


OBJECTS: dict[str, tuple[Callable[[], Any], Callable[[Any, Any], Any]]] = {
    "partial, properties": (partial_of(ShownFunction), calls),
    "partial, slot": (partial_of(SlotOfFunction), lambda p, x: (p(x), p.func is torch.add)),
    "partial, of a subclass": (lambda: ShownFunction(SlotOfFunction(torch.add, torch.ones(2))), calls),
    "partial, asking": (partial_of(Asking), calls),
    "partial, calling": (partial_of(Calling), calls),
    "deque": (lambda: ShownLength([1, 2, 3], 3), appended),
    "defaultdict": (lambda: ShownFactory(list), lambda d, x: (d[3], len(d))),
    "exception": (an_error(ShownError), lambda e, x: caught(e)),
    "field of an exception": (lambda: ShownValue(4), lambda e, x: (vars(StopIteration)["value"].__get__(e), e.value)),
    "exception with __new__": (lambda: MadeError(4), lambda e, x: (e.args, e.made)),
    "property": (Owner, lambda o, x: o.shown),
    "two slots of one name": (a_slot, lambda o, x: (vars(Slots)["a"].__get__(o), o.a)),
}


def plain(result: Any) -> Any:
    return result.tolist() if isinstance(result, torch.Tensor) else result


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("where", ["outside", "behind a break", "returned"])
def test_what_a_builtin_holds_is_asked_of_the_builtin(name: str, where: str) -> None:
    make, use = OBJECTS[name]

    def given(x: torch.Tensor, value: Any) -> Any:
        return x + 1, use(value, x)

    def broken(x: torch.Tensor) -> Any:
        value = make()
        onegraph.graph_break()
        return x + 1, use(value, x)

    def returned(x: torch.Tensor) -> Any:
        return x + 1, make()

    x = torch.ones(2)
    if where == "outside":
        expected, found = given(x, make()), onegraph.compile(given)(x, make())
    elif where == "behind a break":
        expected, found = broken(x), onegraph.compile(broken)(x)
    else:
        (a, value), (b, other) = returned(x), onegraph.compile(returned)(x)
        assert type(value) is type(other)
        expected, found = (a, use(value, x)), (b, use(other, x))
    torch.testing.assert_close(found[0], expected[0])
    torch.testing.assert_close(found[1], expected[1]) if isinstance(expected[1], torch.Tensor) else None
    assert str(found[1]) == str(expected[1])


def test_what_is_hidden_is_guarded() -> None:
    def function(x: torch.Tensor, p: Any) -> torch.Tensor:
        return p(x)

    compiled = onegraph.compile(function)
    x = torch.ones(2)
    for kind in (ShownFunction, Asking, SlotOfFunction):
        for made in (kind(torch.add, torch.ones(2)), kind(torch.mul, torch.full((2,), 4.0)), kind(torch.add, x * 3)):
            assert torch.equal(compiled(x, made), functools.partial.__call__(made, x))


@pytest.mark.parametrize("make", [an_error(ShownError), lambda: ShownValue(4)])
def test_an_exception_that_hides_its_state_is_raised_and_handled(make: Callable[[], Any]) -> None:
    def function(x: torch.Tensor) -> Any:
        try:
            try:
                raise KeyError(1)
            except KeyError:
                raise make() from None
        except (ValueError, StopIteration) as error:
            return x + 1, caught(error)

    x = torch.ones(2)
    assert str(onegraph.compile(function, fullgraph=True)(x)) == str(function(x))
