"""Python's and NumPy's random numbers: each call draws as eager does, and leaves the generators as eager would."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import onegraph
from onegraph.base.events import GraphBroken, GraphCaptured, GraphFailed
from onegraph.compile import EVENTS
from onegraph.tools.record import recording

Program = Callable[[torch.Tensor], Any]


class Holder:
    def __init__(self) -> None:
        self.rng = random.Random(5)
        self.drawn: Any = None


HOLDER = Holder()
OTHER = random.Random(7)
GENERATOR = np.random.default_rng(3)
LEGACY = np.random.RandomState(4)
SEED = GENERATOR.bit_generator.state


def reset() -> None:
    random.seed(1)
    np.random.seed(2)
    torch.manual_seed(3)
    HOLDER.rng.seed(5)
    HOLDER.drawn = None
    OTHER.seed(7)
    GENERATOR.bit_generator.state = SEED
    LEGACY.seed(4)


def streams() -> Any:
    """The states of all generators, as what they give next."""
    python = [generator.getstate() for generator in (HOLDER.rng, OTHER)]
    return (
        python,
        random.getstate(),
        np.random.rand(),
        np.random.randn(),
        GENERATOR.random(),
        LEGACY.randn(),
        torch.rand(1),
    )


# ---- Python's --------------------------------------------------------------------------------------------------------


def numbers(x: torch.Tensor) -> Any:
    return x * random.random() + random.randint(0, 4), random.gauss(0, 1), random.uniform(-1, 3) * 2 + 1


def unused(x: torch.Tensor) -> Any:
    random.random()
    random.randint(0, 10)
    return x + 1


def without_tensors(x: torch.Tensor) -> Any:
    return random.random(), random.choice([1, 2, 3])


def objects(x: torch.Tensor) -> Any:
    return x * HOLDER.rng.random() + OTHER.uniform(0, 1)


def kept(x: torch.Tensor) -> Any:
    HOLDER.drawn = [random.randint(0, 100), random.random()]
    return x * HOLDER.drawn[0]


def looped(x: torch.Tensor) -> Any:
    for _ in range(4):
        x = x * random.uniform(0.5, 1.5)
    return x


def computed(x: torch.Tensor) -> Any:
    r = random.random()
    return x * r**2 - 3 * r + 1 / (1 + r), x * math.sqrt(r), x * int(r * 5), x * round(r), x * max(r, 0.0)


def indices(x: torch.Tensor) -> Any:
    first = random.randint(0, 2)
    zeros, rows = torch.zeros(random.randint(2, 5)), x.repeat(6, 2)
    top, left = random.randint(0, 4), random.randrange(5)
    return x[first], rows[top : top + 2, left : left + 2], torch.roll(x, random.randint(0, 2)), zeros.sum()


def negative(x: torch.Tensor) -> Any:
    return x * random.randint(-5, 5) + random.randrange(-8, -2), torch.roll(x, random.randint(-2, 2))


def several(x: torch.Tensor) -> Any:
    order = [0, 1, 2, 3]
    random.shuffle(order)
    return x * random.sample(range(10), 4)[0] + random.choices([0.5, 1.5], k=3)[1], order


def seeded(x: torch.Tensor) -> Any:
    random.seed(3)
    first = random.random()
    OTHER.seed(4)
    return x * first, OTHER.random()


def made(x: torch.Tensor) -> Any:
    own, other = random.Random(3), np.random.default_rng(5)
    return x * own.random() + other.random(), other.normal(size=2), own


def tensors(x: torch.Tensor) -> Any:
    whole = torch.tensor([1, random.randint(0, 3)])
    return torch.full((2,), random.random()), torch.tensor(random.random()), whole, x.clamp(min=random.random())


def transformed(x: torch.Tensor) -> Any:
    value = torch.func.grad(lambda t: (t * random.random()).sin().sum())(x)
    return value, torch.func.vmap(lambda row: row * random.random())(x)


# ---- NumPy's ---------------------------------------------------------------------------------------------------------


def of_numpy(x: torch.Tensor) -> Any:
    array = np.random.randn(2, 3)
    array[0] *= 2
    return (
        x * np.random.rand() + np.random.uniform(-1, 1),
        array,
        np.random.randint(0, 10, size=4),
        np.random.randint(7),
    )


def of_generator(x: torch.Tensor) -> Any:
    whole = GENERATOR.integers(1, 5)
    return x * GENERATOR.random() + int(whole), whole, GENERATOR.standard_normal(4, dtype=np.float32)


def of_legacy(x: torch.Tensor) -> Any:
    return x * LEGACY.rand(), LEGACY.choice(5), LEGACY.permutation(5), LEGACY.poisson(3.0, size=(2, 2))


def rows(x: torch.Tensor) -> Any:
    array, other = np.arange(12).reshape(4, 3), np.arange(5.0)
    np.random.shuffle(array)
    GENERATOR.shuffle(other)
    LEGACY.shuffle(other)
    return (
        array,
        other,
        np.random.choice(other, size=3),
        GENERATOR.permutation(array),
        np.random.permutation(other),
        x + 1,
    )


def permuted(x: torch.Tensor) -> Any:
    order = np.random.permutation(x.shape[0])
    return x[torch.from_numpy(order)], x[order]


def mixed_up(x: torch.Tensor) -> Any:
    part = np.random.beta(0.4, 0.4)
    return part * x + (1 - part) * x[torch.randperm(x.shape[0])]


def seeded_numpy(x: torch.Tensor) -> Any:
    np.random.seed(0)
    return x + np.random.rand()


def simulated(x: torch.Tensor) -> Any:
    points = np.random.rand(100, 2)
    return ((points**2).sum(axis=1) < 1).mean() * 4, x + 1


WHOLE: list[Program] = [
    numbers, unused, without_tensors, objects, kept, looped, computed, indices, negative, several, seeded, made,
    tensors, transformed, of_numpy, of_generator, of_legacy, rows, permuted, mixed_up, seeded_numpy, simulated,
]  # fmt: skip


# ---- in pieces -------------------------------------------------------------------------------------------------------


def decided(x: torch.Tensor) -> Any:
    r = random.random()
    if r < 0.5:
        x = x * 2
    if np.random.rand() < 0.5:
        x = x * 3
    return x + r, random.random()


def broken(x: torch.Tensor) -> Any:
    first, array = random.random(), np.random.rand(2)
    y = x * first
    onegraph.graph_break()
    return y * random.random(), array, np.random.rand(2)


def raising(x: torch.Tensor) -> Any:
    y = x * random.random()
    if x.shape[0] == 4:
        raise ValueError(random.random())
    return y


def refused(x: torch.Tensor) -> Any:
    y = x * random.random()
    try:
        random.randint(5, 1)
    except ValueError:
        y = y + 1
    return y, random.random()


def written(x: torch.Tensor) -> Any:
    return f"{random.random():.3f}", x + 1


def chosen(x: torch.Tensor) -> Any:
    return x.sin() if random.choice(["a", "b"]) == "a" else x.cos()


def given_to_native_code(x: torch.Tensor) -> Any:
    return x + 1, list(map(random.uniform, [0, 1], [1, 2])), sorted([3, 1, 2], key=lambda _: random.random())


def put_back(x: torch.Tensor) -> Any:
    state = np.random.get_state()
    y = x * np.random.rand()
    np.random.set_state(state)
    return y, np.random.rand(), random.getstate()


def checked(x: torch.Tensor) -> Any:
    y = x * random.random() + float(np.random.rand())
    if not (y < 0.9).all():
        raise ValueError(random.random())
    return y + random.random()


IN_PIECES: list[Program] = [
    decided, broken, raising, refused, written, chosen, given_to_native_code, put_back, checked
]  # fmt: skip


def outcomes(program: Program, calls: int, recorded: bool) -> list[Any]:
    reset()
    found = []
    for number in range(calls):
        x = torch.rand(3 + (number > 1 and number % 2), requires_grad=recorded)
        try:
            result = program(x)
        except ValueError as error:
            result = type(error), error.args
        results = result if isinstance(result, tuple) else (result,)
        total = sum(each.sum() for each in results if isinstance(each, torch.Tensor) and each.requires_grad)
        if isinstance(total, torch.Tensor):
            total.backward()
        results = tuple(each.getstate() if isinstance(each, random.Random) else each for each in results)
        found.append((results, x.grad, HOLDER.drawn, streams()))
    return found


def assert_same(found: Any, wanted: Any) -> None:
    assert type(found) is type(wanted)
    if isinstance(wanted, tuple | list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_same(one, other)
    elif isinstance(wanted, torch.Tensor | np.ndarray | np.generic | float):
        assert getattr(found, "dtype", None) == getattr(wanted, "dtype", None)
        torch.testing.assert_close(found, wanted, equal_nan=True, check_dtype=False)
    else:
        assert found == wanted


@pytest.mark.parametrize("recorded", [False, True], ids=["", "gradients"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("program", WHOLE + IN_PIECES, ids=lambda program: program.__name__)
def test_draws_are_eagers(program: Program, backend: str, recorded: bool) -> None:
    wanted = outcomes(program, 5, recorded)
    compiled = onegraph.compile(program, backend=backend, fullgraph=program in WHOLE, options={"check_unchanged": True})
    assert_same(outcomes(compiled, 5, recorded), wanted)


@pytest.mark.parametrize("program", WHOLE, ids=lambda program: program.__name__)
def test_draws_compile_nothing_anew(program: Program) -> None:
    reset()
    compiled = onegraph.compile(program, backend="eager", fullgraph=True)
    x = torch.rand(3)
    compiled(x)
    with recording(EVENTS, (GraphCaptured, GraphBroken, GraphFailed)) as events:
        for _ in range(8):
            compiled(x)
    assert not events


def test_a_graph_that_is_not_made_for_what_was_drawn_runs_as_it_is_written() -> None:
    """The random number is too large for the operator, which the graph has not seen."""

    def program(x: torch.Tensor, generator: random.Random) -> Any:
        drawn = 10.0 ** generator.uniform(0, 40)
        return x * drawn, generator.random()

    compiled = onegraph.compile(program, backend="eager", fullgraph=True)
    for seed in range(12):
        first, second = random.Random(seed), random.Random(seed)
        try:
            wanted = program(torch.ones(2), first)
        except RuntimeError as refused:
            with pytest.raises(RuntimeError, match=str(refused)[:20]):
                compiled(torch.ones(2), second)
        else:
            assert_same(compiled(torch.ones(2), second), wanted)
        assert first.getstate() == second.getstate()


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_sizes_may_be_arguments(backend: str) -> None:
    """The draw fails where there is nothing to choose from: the program sees its error, behind what it did before."""

    def program(x: torch.Tensor, seen: list[int]) -> Any:
        first = random.random()
        seen.append(1)
        at = random.randint(0, x.shape[0] - 1)
        return x[at] * first + random.uniform(0, x.shape[0]), random.randrange(x.shape[0] + 1)

    compiled = onegraph.compile(program, backend=backend, fullgraph=True)
    compiled(torch.rand(3), [])
    compiled(torch.rand(4), [])
    with recording(EVENTS, (GraphCaptured, GraphBroken)) as events:
        for size in (5, 8, 2, 30, 12):
            x, found = torch.rand(size), []
            for function in (program, compiled):
                random.seed(size)
                found.append((function(x, []), random.random()))
            assert_same(found[1], found[0])
    assert len(events) <= 1
    compiled = onegraph.compile(program, backend=backend)
    for size in (3, 4, 0, 5, 0, 6):
        found = []
        for function in (program, compiled):
            random.seed(size)
            seen: list[int] = []
            try:
                result = function(torch.ones(size), seen)
            except ValueError as error:
                result = str(error)
            found.append((result, len(seen), random.random()))
        assert_same(found[1], found[0])


@pytest.mark.parametrize("with_graph", [True, False])
def test_what_python_computes_of_a_draw_may_raise(with_graph: bool) -> None:
    def program(x: torch.Tensor, seen: list[int]) -> Any:
        seen.append(1)
        root = math.sqrt(random.random() - 0.5)
        return (x * root if with_graph else root), int(root * 8), random.random()

    compiled = onegraph.compile(program, backend="eager", fullgraph=True)
    raised = 0
    for seed in range(2, 14):
        found: list[Any] = []
        for function in (program, compiled):
            random.seed(seed)
            seen: list[int] = []
            try:
                result = function(torch.ones(2), seen)
            except ValueError as error:
                result = error.args
            found.append((result, len(seen), random.random()))
        raised += len(found[0][0]) == 1
        assert_same(found[1], found[0])
    assert 2 < raised < 10


def test_a_generator_is_known_by_its_type() -> None:
    def program(x: torch.Tensor, first: Any, second: Any) -> Any:
        return x * first.random() + second.random(), first.random()

    for make in (random.Random, np.random.default_rng, np.random.RandomState):
        compiled = onegraph.compile(program, backend="eager", fullgraph=True)
        for seeds in ((1, 2), (3, 3), (1, 2)):
            wanted, found = [make(seed) for seed in seeds], [make(seed) for seed in seeds]
            assert_same(compiled(torch.ones(2), *found), program(torch.ones(2), *wanted))
            assert_same([each.random() for each in found], [each.random() for each in wanted])
        one, other = make(4), make(4)
        assert_same(compiled(torch.ones(2), one, one), program(torch.ones(2), other, other))
        assert one.random() == other.random()


def test_a_generator_of_a_class_of_the_program_runs_its_code() -> None:
    class Fixed(random.Random):
        def random(self) -> float:
            return 0.25

    generator = Fixed(3)
    compiled = onegraph.compile(lambda x: x * generator.random() + generator.uniform(0, 2), backend="eager")
    assert compiled(torch.ones(1)).item() == 0.75


def test_draws_that_would_run_again_are_made_by_the_program() -> None:
    """A checkpoint runs its function again in the backward pass, which draws again; so does eager."""

    def program(x: torch.Tensor) -> Any:
        return torch.utils.checkpoint.checkpoint(lambda t: (t * random.random()).sin(), x, use_reentrant=False)

    found = []
    for function in (program, onegraph.compile(program, backend="eager")):
        random.seed(0)
        x = torch.ones(3, requires_grad=True)
        function(x).sum().backward()
        found.append((x.grad, random.random()))
    assert_same(found[1], found[0])


def test_arrays_are_not_drawn_where_numpy_is_not_traced() -> None:
    def program(x: torch.Tensor) -> Any:
        return x + 1, np.random.rand(2), np.random.rand()

    found = []
    for function in (program, onegraph.compile(program, backend="eager", options={"trace_numpy": False})):
        np.random.seed(0)
        found.append((function(torch.ones(2)), np.random.rand()))
    assert_same(found[1], found[0])
