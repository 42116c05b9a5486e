"""Functions with a cache: what they do, they do once, in order, and what is in the cache is what the program gets."""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

LOG: list[Any] = []
STATE = [1]


@functools.lru_cache
def added(n, *, more=0):
    LOG.append((n, more))
    return n + STATE[0] + more


@functools.lru_cache(maxsize=1)
def last(n):
    LOG.append(n)
    return n


@functools.lru_cache(typed=True)
def typed(n):
    LOG.append(type(n).__name__)
    return float(n)


@functools.cache
def mask(shape, dtype):
    LOG.append("mask")
    return torch.ones(shape, dtype=dtype).cumsum(0)


@functools.cache
def settings():
    LOG.append("settings")
    return {"scale": 2}


class Model(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    @functools.cache  # noqa: B019
    def scaled(self, n):
        LOG.append(n)
        return self.scale * n

    def forward(self, x):
        return x * self.scaled(3)


MODEL = Model(3)


def behind_an_effect(x):
    LOG.append("before")
    return x * added(3)


def by_name(x):
    return x * added(3, more=2) + added(3)


def driven_out(x):
    return x * last(1) + last(2) + last(1)


def types_differ(x):
    return x * typed(1) + typed(1.0) + typed(True)


def of_sizes(x):
    return x * mask(tuple(x.shape), x.dtype) + mask((3,), torch.float32)


def the_same_tensor(x):
    return x + 1 if mask((3,), x.dtype) is mask((3,), x.dtype) else x


def written_to(x):
    settings()["scale"] += 1
    return x * settings()["scale"]


def of_a_model(x):
    return MODEL(x)


def of_a_new_object(x):
    model = Model(len(LOG))
    return x * model.scaled(2) + model.scaled(2)


def of_tensors(x):
    return double(x) + double(x)


@functools.lru_cache
def double(x):
    LOG.append("double")
    return x * 2


def made_here(x):
    @functools.lru_cache(maxsize=1)
    def inner(n):
        LOG.append(n)
        return x * n

    result = inner(1) + inner(2) + inner(1)
    LOG.append(tuple(inner.cache_info()))
    inner.cache_clear()
    LOG.append(tuple(inner.cache_info()))
    return result


def made_here_with_a_break(x):
    @functools.cache
    def inner(n):
        LOG.append(n)
        onegraph.graph_break()
        return x * n

    return inner(1) + inner(2) + inner(1)


def cleared(x):
    added.cache_clear()
    LOG.append(tuple(added.cache_info()))
    return x * added(2)


def unhashable(x):
    try:
        return x * added([1])
    except TypeError as error:
        LOG.append(str(error))
        return x


PROGRAMS = (
    behind_an_effect, by_name, driven_out, types_differ, of_sizes, the_same_tensor, written_to, of_a_model,
    of_a_new_object, of_tensors, made_here, made_here_with_a_break, cleared, unhashable,
)  # fmt: skip
CACHED = (added, last, typed, mask, settings, double, Model.scaled)


def seen(run: Callable[..., Any]) -> list[Any]:
    """What four calls give and note; between them the caches are emptied, and what they depend on changes."""
    found: list[Any] = []
    for number in range(4):
        if number % 2 == 0:
            STATE[0], MODEL.scale = 1 + number, 3 + number
            for function in CACHED:
                function.cache_clear()
        LOG.clear()
        found.append((run(torch.ones(3)).tolist(), list(LOG)))
    return found


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_cached_functions(program: Callable[..., Any]) -> None:
    assert seen(onegraph.compile(program, backend="eager")) == seen(program)


def test_what_is_cached_is_guarded() -> None:
    watch = Watch()
    compiled = onegraph.compile(lambda x: x * added(3), backend="eager", fullgraph=True)
    with watch:
        for _ in range(3):
            compiled(torch.ones(2))
        assert len(watch.of(ev.GraphCaptured)) == 1
        added.cache_clear()
        STATE[0] = 7
        assert compiled(torch.ones(2)).tolist() == [10, 10]
        assert len(watch.of(ev.GraphCaptured)) == 2


def test_hits_are_counted() -> None:
    added.cache_clear()
    added(3)
    compiled = onegraph.compile(lambda x: x * added(3) * added(3), backend="eager", fullgraph=True)
    for _ in range(3):
        compiled(torch.ones(2))
    assert added.cache_info()[:2] == (6, 1)


@functools.lru_cache(maxsize=2)
def of_a_number(n):
    LOG.append(n)
    return n * 2


def of_what_is_given(x, n):
    return x + of_a_number(n)


def of_two_with_a_break(x, n):
    y = x + of_a_number(n)
    onegraph.graph_break()
    return y + of_a_number(n + 1)


@pytest.mark.parametrize("program", [of_what_is_given, of_two_with_a_break])
def test_hits_and_misses_are_those_of_eager(program: Callable[..., Any]) -> None:
    """And so is what is driven out, which is what nobody has asked for since."""

    def run(function: Callable[..., Any]) -> list[Any]:
        of_a_number.cache_clear()
        LOG.clear()
        found: list[Any] = []
        for n in (1, 1, 2, 1, 3, 1, 3, 2, 1, 1):
            found.append((function(torch.ones(2), n).tolist(), of_a_number.cache_info(), list(LOG)))
        return found

    assert run(onegraph.compile(program)) == run(program)


class Recipe:
    def __init__(self, parts):
        self.parts = parts


@functools.lru_cache(256)
def recipe(pattern):
    return Recipe(pattern.split())


@functools.lru_cache(256)
def sizes(found, shape):
    return shape[0], shape[1] * len(found.parts) // 3


def test_what_a_cache_gives_is_asked_of_another_cache() -> None:
    """None of them has a result before the first call."""

    def reshaped(x):
        return x.reshape(sizes(recipe("b n d"), tuple(x.shape))) * recipe("a b").parts.index("b")

    compiled = onegraph.compile(reshaped, fullgraph=True)
    for shape in ((2, 4), (2, 6), (2, 4)):
        assert torch.equal(compiled(torch.ones(shape)), torch.ones(shape))
    assert recipe.cache_info() == (4, 2, 256, 2) and sizes.cache_info() == (1, 2, 256, 2)


NAMES = ("a", "b")
KINDS = {"a": 1}


@functools.lru_cache(16)
def named(name, kind):
    return NAMES.index(name) + kind


def test_a_cached_function_may_name_a_constant_that_the_program_has_read() -> None:
    def program(x):
        return x * len(NAMES) + named("b", 2)

    assert onegraph.compile(program, fullgraph=True)(torch.ones(1)).item() == 5


@pytest.mark.parametrize("limit", [None, 4], ids=["unlimited", "limited"])
@pytest.mark.parametrize("arguments", [("a",), (3, "b"), (2.5, ("a", 1))], ids=str)
def test_what_is_cached_is_found_as_often_as_the_cache_changes(limit: int | None, arguments: tuple[Any, ...]) -> None:
    def run(compile: Callable[..., Any]) -> list[Any]:
        made: list[Any] = []

        @functools.lru_cache(limit)
        def cached(*args):
            made.append(args)
            return {"n": len(made)}

        function = compile(lambda x: x * cached(*arguments)["n"])
        found: list[Any] = []
        for step in range(12):
            match step % 4:
                case 1:
                    cached.cache_clear()
                case 2:
                    for other in range(3):  # behind which it is the oldest
                        cached(other, other)
                case 3:
                    for other in range(3, 6):  # which drive it out
                        cached(other, other)
            found.append((function(torch.ones(1)).item(), cached.cache_info(), list(made)))
        return found

    assert run(lambda f: onegraph.compile(f, backend="eager", options={"recompile_limit": 50})) == run(lambda f: f)


def test_a_cached_function_that_is_compiled() -> None:
    def run(compile: Callable[..., Any]) -> list[Any]:
        cached = functools.lru_cache(maxsize=2)(lambda n: n * 2)
        function = compile(cached)
        return [(function(n), function.cache_info()) for n in (2, 2, 3, 2, 5, 2, 3)]

    assert run(onegraph.compile) == run(lambda function: function)


@functools.cache
def told(text, *, to=None):
    (to or LOGGER).warning(text)


@functools.cache
def warned(text):
    warnings.warn(text, UserWarning, stacklevel=2)


@functools.cache
def told_and_kept(text):
    LOGGER.warning(text)
    return text


@functools.cache
def told_and_written(text):
    LOG.append(text)
    LOGGER.warning(text)


LOGGER = logging.getLogger(__name__)


def speaks(x):
    y = torch.nn.functional.dropout(x, 0.5)
    LOGGER.warning("first")
    told("told %s")
    told("again", to=LOGGER)
    warned("warned")
    told("told %s")
    LOGGER.warning("last")
    return y, told_and_kept("kept")


def test_what_only_gives_a_message_is_asked_behind_the_graph(caplog: pytest.LogCaptureFixture) -> None:
    """Where a random number was drawn before, too; the message is given once, in its turn, from its line."""

    def said(function: Callable[..., Any]) -> list[Any]:
        for cached in (told, warned, told_and_kept):
            cached.cache_clear()
        caplog.clear()
        found: list[Any] = []
        for _ in range(3):
            with warnings.catch_warnings(record=True) as messages:
                warnings.simplefilter("always")
                found += [function(torch.ones(2))[1], *[(str(m.message), m.lineno, m.filename) for m in messages]]
            found += [cached.cache_info() for cached in (told, warned, told_and_kept)]
        return found + [(record.message, record.lineno, record.funcName) for record in caplog.records]

    assert said(onegraph.compile(speaks, fullgraph=True, backend="eager")) == said(speaks)


@functools.cache
def told_and_made(text):
    LOGGER.warning(text)
    return [text]


@pytest.mark.parametrize("called", [told_and_written, told_and_made], ids=lambda called: called.__name__)
def test_what_does_more_than_give_a_message_is_not_put_off(called: Callable[..., Any]) -> None:
    def function(x):
        y = torch.nn.functional.dropout(x, 0.5)
        called("x")
        return y * len(LOG)

    with pytest.raises(onegraph.GraphBreakError, match="cache of a function"):
        onegraph.compile(function, fullgraph=True)(torch.ones(2))
