from __future__ import annotations

import functools

import pytest

from onegraph.base.arguments import (
    check_backend,
    check_dynamic,
    check_options,
    check_suspending,
    check_switch,
    check_target,
    suspending,
)
from onegraph.base.errors import InvalidArgument


def plain() -> None: ...


def generator():
    yield 1


async def coroutine() -> None: ...


async def async_generator():
    yield 1


class Callable_:
    def __call__(self) -> None: ...

    def method(self) -> None: ...


@functools.wraps(generator)
def wrapped_generator():
    return generator()


@pytest.mark.parametrize(
    "target",
    [plain, Callable_(), Callable_().method, functools.partial(plain), len, lambda: None],
    ids=["function", "callable", "method", "partial", "builtin", "lambda"],
)
def test_accepted_targets(target: object) -> None:
    check_target(target)


@pytest.mark.parametrize(
    ("target", "named"),
    [
        (Callable_, "the class 'Callable_'"),
        (classmethod(plain), "@classmethod above @onegraph.compile"),
        (staticmethod(plain), "@staticmethod above @onegraph.compile"),
        (3, "an object of type 'int'"),
        ("name", "an object of type 'str'"),
    ],
)
def test_refused_targets_are_named(target: object, named: str) -> None:
    with pytest.raises(InvalidArgument, match=named) as caught:
        check_target(target)
    assert "accepted: a function" in str(caught.value)


@pytest.mark.parametrize(
    ("target", "named"),
    [
        (generator, "the generator function 'generator'"),
        (functools.partial(generator), "the generator function 'partial'"),
        (coroutine, "the async function 'coroutine'"),
        (async_generator, "the async generator function 'async_generator'"),
    ],
)
def test_functions_that_wait_are_named(target: object, named: str) -> None:
    check_target(target)
    assert named in suspending(target)
    with pytest.raises(InvalidArgument, match=named):
        check_suspending(target)


def test_functions_around_such_functions_are_accepted() -> None:
    check_suspending(wrapped_generator)
    assert suspending(plain) == suspending(wrapped_generator) == ""


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: check_switch("fullgraph", 1), "'fullgraph' expects True or False, got 1"),
        (lambda: check_dynamic("yes"), "'dynamic' expects None .* got 'yes'"),
        (lambda: check_backend("nativ", ["native", "eager"]), "unknown backend 'nativ' .did you mean 'native'.*eager"),
        (lambda: check_backend(3, ["native", "eager"]), "'backend' expects a name .eager, native. .* got 3"),
        (lambda: check_options("fast", None), "unknown mode 'fast'; accepted: default"),
        (lambda: check_options(3, None), "'mode' expects a name"),
        (lambda: check_options(None, {"nope": 1}), "unknown option 'nope'; accepted: .*verify"),
        (lambda: check_options(None, ["verify"]), "'options' expects a dict"),
    ],
)
def test_wrong_arguments_are_named(check, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        check()


def test_right_arguments_pass() -> None:
    check_switch("fullgraph", True)
    check_dynamic(None)
    check_backend(plain, ["native"])
    check_backend("native", ["native"])
    assert check_options("default", {"verify": True, "cache_size_limit": 3}) == {"verify": True, "recompile_limit": 3}
