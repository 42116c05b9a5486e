"""Random state is state: over ten calls, results and all generators are as in eager mode, and tracing changes none."""

from __future__ import annotations

import collections
import contextlib
import functools
import operator
import random
from typing import Any

import numpy
import pytest
import torch
from torch.testing._internal.common_utils import freeze_rng_state

import onegraph
from onegraph.capture import hook
from tests.capture.bisimulation import Bisimulation

STATE = torch.Generator().manual_seed(77).get_state()


class World:
    """The generators that a program finds: as an attribute, and in what the program keeps."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(1)
        self.python = random.Random(2)
        self.numpy = numpy.random.default_rng(3)
        self.made: Any = None
        self.draws = collections.defaultdict(self.python.random)
        self.cached = functools.lru_cache(torch.rand)

    def states(self) -> list[Any]:
        made = self.made.get_state().tolist() if isinstance(self.made, torch.Generator) else None
        return [
            torch.get_rng_state().tolist(),
            torch.initial_seed(),
            self.generator.get_state().tolist(),
            self.generator.initial_seed(),
            random.getstate(),
            self.python.getstate(),
            repr(numpy.random.get_state()),
            repr(self.numpy.bit_generator.state),
            made,
        ]


def seeds(x, w, n):
    torch.manual_seed(n)
    return x + torch.rand(3)


def forks(x, w, n):
    with torch.random.fork_rng():
        torch.manual_seed(n)
        y = torch.nn.functional.dropout(x)
    return y, torch.rand(3)


def forks_and_raises(x, w, n):
    try:
        with torch.random.fork_rng(devices=[]):
            y = x * torch.rand(3)
            raise ValueError
    except ValueError:
        return y, torch.rand(3)


@torch.random.fork_rng()
def forked(x):
    return x + torch.rand(3)


def calls_forked(x, w, n):
    return forked(x), torch.rand(3)


def gets_and_sets(x, w, n):
    state = torch.get_rng_state()
    y = torch.rand(3)
    torch.set_rng_state(state)
    return x + y, torch.rand(3)


def seeds_generator(x, w, n):
    w.generator.manual_seed(5)
    return x + 1


def seeds_and_draws(x, w, n):
    y = torch.rand(3, generator=w.generator)
    w.generator.manual_seed(n % 3)
    return x + y, torch.randperm(4, generator=w.generator), torch.rand(2)


def seeds_unbound(x, w, n):
    torch.Generator.manual_seed(w.generator, 4)
    return x + torch.rand(3, generator=w.generator)


def seeds_by_map(x, w, n):
    return x + 1, [g is w.generator for g in map(w.generator.manual_seed, [n, n + 1])]


def seeds_by_tree(x, w, n):
    torch.utils._pytree.tree_map(torch.manual_seed, [n])
    return x + torch.rand(3)


def seeds_by_caller(x, w, n):
    operator.methodcaller("manual_seed", n)(w.generator)
    return x + torch.rand(3, generator=w.generator)


def seeds_default(x, w, n):
    torch.default_generator.manual_seed(5)
    return x + torch.rand(3)


def seeds_and_raises(x, w, n):
    w.generator.manual_seed(n)
    raise ValueError(n)


def states_of_generator(x, w, n):
    state = w.generator.get_state()
    y = torch.rand(3, generator=w.generator)
    w.generator.set_state(state)
    clone = w.generator.clone_state()
    w.generator.set_state(STATE)
    return x + y, torch.rand(3, generator=clone), w.generator.initial_seed()


def asks_for_seed(x, w, n):
    return x + w.generator.initial_seed() + torch.initial_seed() % 7


def draws_in_place(x, w, n):
    return torch.nn.init.normal_(x, generator=w.generator), x.clone().bernoulli_(0.5, generator=w.generator)


def makes_generator(x, w, n):
    made = torch.Generator(x.device).manual_seed(n)
    return x + torch.rand(3, generator=made), torch.rand(2)


def keeps_generator(x, w, n):
    if w.made is None:
        w.made = torch.Generator().manual_seed(3)
    return x + torch.rand(3, generator=w.made)


def step_by_step(x, w, n):
    def drawn():
        for seed in range(3):
            w.generator.manual_seed(seed)
            yield torch.rand(3, generator=w.generator)

    return list(drawn()), x + 1


def freezes(x, w, n):
    with freeze_rng_state():
        y = torch.rand(3)
    return x + y, torch.rand(3)


def python_draws(x, w, n):
    random.seed(n)
    items = [1, 2, 3, 4]
    w.python.shuffle(items)
    state = w.python.getstate()
    return x + w.python.random(), items, random.random(), state, random.Random(n).random()


def python_draws_out_of_sight(x, w, n):
    first = next(iter(w.python.random, 2))
    return x + first, next(iter(random.random, 2)), operator.call(w.python.random)


def python_draws_by_default(x, w, n):
    made = collections.defaultdict(random.random)
    return x + w.draws[n % 3], made["a"], w.draws.__missing__(5)


def numpy_draws(x, w, n):
    numpy.random.seed(n)
    return x + w.numpy.random(), numpy.random.rand(), numpy.random.RandomState(n).rand()


def cached_draw(x, w, n):
    y = torch.rand(3)
    return x + y, w.cached(3), torch.rand(2)


PROGRAMS = [
    seeds, forks, forks_and_raises, calls_forked, gets_and_sets, seeds_generator, seeds_and_draws, seeds_unbound,
    seeds_by_map, seeds_by_tree, seeds_by_caller, seeds_default, seeds_and_raises, states_of_generator, asks_for_seed,
    draws_in_place, makes_generator, keeps_generator, step_by_step, freezes, python_draws, python_draws_out_of_sight,
    python_draws_by_default, numpy_draws, cached_draw,
]  # fmt: skip


def run(function: Any, world: World, reseeds: bool) -> list[Any]:
    """What ten calls give, and what all generators hold behind each."""
    torch.manual_seed(11), random.seed(11), numpy.random.seed(11)
    seen = []
    for index in range(10):
        if reseeds:
            world.generator = torch.Generator().manual_seed(index)
            torch.manual_seed(100 + index)
        result = None
        with contextlib.suppress(ValueError):
            result = function(torch.linspace(-1, 1, 3) + index, world, index)
        seen.append((result, world.states()))
    return seen


@pytest.mark.parametrize("reseeds", [False, True], ids=["", "reseeded"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_ten_calls(program: Any, reseeds: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = run(program, World(), reseeds)
    world, translate, changed = World(), hook.translate, []

    def watched(*args: Any, **kwargs: Any) -> Any:
        before = world.states()
        try:
            return translate(*args, **kwargs)
        finally:
            changed.append(world.states() != before)

    monkeypatch.setattr(hook, "translate", watched)
    found = run(onegraph.compile(program, backend="eager"), world, reseeds)
    assert Bisimulation().difference(wanted, found) is None
    assert changed and not any(changed)


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("program", [forks, seeds_and_draws, keeps_generator], ids=lambda program: program.__name__)
def test_backends(program: Any, backend: str) -> None:
    found = run(onegraph.compile(program, backend=backend), World(), False)
    assert Bisimulation().difference(run(program, World(), False), found) is None


def test_another_generator_at_each_call_is_no_other_program() -> None:
    def program(x: torch.Tensor, generator: torch.Generator) -> Any:
        return x + 1, generator.device.type

    compiled = onegraph.compile(program, fullgraph=True, options={"recompile_limit": 1})
    for seed in range(4):
        assert compiled(torch.ones(2), torch.Generator().manual_seed(seed))[1] == "cpu"
