"""Inputs that share memory: where one of them is written to, they have a version of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from onegraph.compile import EVENTS

Inputs = Callable[[], tuple[torch.Tensor, ...]]
BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])


@contextlib.contextmanager
def seeing(note: Callable[[ev.Event], None]) -> Iterator[None]:
    stop = EVENTS.subscribe(note)
    yield
    stop()


def check(program: Callable[..., Any], calls: list[Inputs], versions: int, **settings: Any) -> list[str]:
    """Each call does to its inputs and their memory, and returns, what the program does; gives the guards on memory."""
    guards: list[str] = []
    built: list[ev.GuardsBuilt] = []

    def note(event: ev.Event) -> None:
        if isinstance(event, ev.GuardsBuilt):
            built.append(event)
            lines = ev.text_of(event.text).splitlines()
            guards.extend(line.partition("# ")[2] for line in lines if line.startswith("MEMORY"))

    compiled = onegraph.compile(program, fullgraph=True, **settings)
    with seeing(note):
        for make in calls:
            ours, theirs = make(), make()
            expected, actual = program(*theirs), compiled(*ours)
            torch.testing.assert_close((actual, ours), (expected, theirs))
    assert len(built) == versions
    return guards


def separate() -> tuple[torch.Tensor, ...]:
    return torch.arange(8.0), torch.arange(8.0) + 1


def shifted() -> tuple[torch.Tensor, ...]:
    buffer = torch.arange(10.0)
    return buffer[:8], buffer[1:9]


def twice() -> tuple[torch.Tensor, ...]:
    x = torch.arange(8.0)
    return x, x


def viewed() -> tuple[torch.Tensor, ...]:
    x = torch.arange(8.0)
    return x, x.view(-1)


def detached() -> tuple[torch.Tensor, ...]:
    x = torch.arange(8.0)
    return x.detach(), x


def of_one_array() -> tuple[torch.Tensor, ...]:
    array = torch.arange(10.0).numpy()
    return torch.from_numpy(array[:8]), torch.from_numpy(array[2:])


def write_first(x: torch.Tensor, y: torch.Tensor) -> Any:
    x.mul_(2)
    return y + 1, x.sum()


def write_both(x: torch.Tensor, y: torch.Tensor) -> Any:
    x.add_(1)
    y.copy_(x.flip(0))
    x[::2] *= 3
    return x * y


def read(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x + y


@BACKENDS
@pytest.mark.parametrize("program", [write_first, write_both])
def test_each_way_to_share_memory_has_its_version(program: Callable[..., Any], backend: str) -> None:
    ways = [separate, shifted, twice, viewed, of_one_array, detached, separate, shifted, of_one_array]
    guards = check(program, ways, versions=5, backend=backend)  # `detached` is as `viewed`
    assert len(guards) == 4, "there is one input where it is given twice"
    assert "apart from other inputs" in guards[0] and guards[1].endswith("x with y, as before")


@BACKENDS
def test_nothing_is_asked_where_nothing_is_written(backend: str) -> None:
    assert check(read, [separate, shifted, viewed], versions=1, backend=backend) == []


@BACKENDS
def test_a_history_reaches_other_views(backend: str) -> None:
    def program(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> Any:
        x.mul_(w)
        return y.requires_grad, y * 2, x

    def apart() -> tuple[torch.Tensor, ...]:
        return torch.arange(4.0), torch.arange(4.0), torch.ones(4, requires_grad=True)

    def views() -> tuple[torch.Tensor, ...]:
        buffer = torch.arange(8.0)
        return buffer[:4], buffer[4:], torch.ones(4, requires_grad=True)

    compiled = onegraph.compile(program, backend=backend)
    for make in (apart, views, apart, views):
        (expected, y, x), (actual, z, u) = program(*make()), compiled(*make())
        assert expected == actual == (make is views)
        assert (y.requires_grad, x.requires_grad) == (z.requires_grad, u.requires_grad)
        torch.testing.assert_close((z, u), (y, x))


@BACKENDS
def test_slices_of_one_buffer_that_have_nothing_in_common(backend: str) -> None:
    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q.mul_(0.5)
        k.add_(1)
        return (q @ k.T) @ v

    def slices() -> tuple[torch.Tensor, ...]:
        return torch.arange(24.0).view(2, 12).split(4, dim=1)

    def tensors() -> tuple[torch.Tensor, ...]:
        return tuple(torch.empty_strided((2, 4), (12, 1)).copy_(part) for part in slices())

    assert len(check(attention, [slices, tensors, slices], versions=1, backend=backend)) == 1


@BACKENDS
def test_sizes_that_change(backend: str) -> None:
    def of(n: int, way: str) -> Inputs:
        def make() -> tuple[torch.Tensor, ...]:
            buffer = torch.arange(n + 1.0)
            return {"shifted": (buffer[:n], buffer[1:]), "one": (buffer[1:], buffer[1:].view(-1))}.get(
                way, (buffer[1:], buffer[:n] * 2)
            )

        return make

    order = ["apart", "apart", "shifted", "one", "apart", "one", "shifted", "shifted"]
    calls = [of(n, way) for n, way in enumerate(order, start=4)]
    check(write_both, calls, versions=4, backend=backend)
    check(write_both, calls, versions=3, backend=backend, dynamic=True)


@BACKENDS
def test_a_buffer_that_is_also_given(backend: str) -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen += 1
            return x * self.seen

    ours, theirs = Counting(), Counting()
    compiled = onegraph.compile(ours, backend=backend, fullgraph=True)
    for make in (lambda m: torch.ones(4), lambda m: m.seen.view(4), lambda m: m.seen, lambda m: torch.ones(4)):
        torch.testing.assert_close(compiled(make(ours)), theirs(make(theirs)))
        torch.testing.assert_close(ours.seen, theirs.seen)


@BACKENDS
def test_caches_that_are_slices_of_one_buffer_keep_their_version(backend: str) -> None:
    class Cache:
        def __init__(self) -> None:
            self.layers = list(torch.zeros(3, 2, 16, 4).unbind(0))

    compiles = []

    def step(cache: Cache, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        for layer in cache.layers:
            layer[0].index_copy_(0, position, x)
            layer[1].index_copy_(0, position, x * 2)
            x = torch.softmax(x @ layer[0].T, -1) @ layer[1]
        return x

    ours, theirs = Cache(), Cache()
    compiled = onegraph.compile(step, backend=backend, fullgraph=True)
    with seeing(lambda e: compiles.append(e) if isinstance(e, ev.GuardsBuilt) else None):
        for index in range(6):
            x, position = torch.randn(1, 4), torch.tensor([index])
            torch.testing.assert_close(compiled(ours, x, position), step(theirs, x, position))
            torch.testing.assert_close(ours.layers, theirs.layers)
    assert len(compiles) == 1


@torch.library.custom_op("sharing::double_", mutates_args=("x",))
def double_(x: torch.Tensor) -> None:
    x.mul_(2)


@double_.register_fake
def _(x: torch.Tensor) -> None:
    pass


@BACKENDS
def test_writes_of_custom_operators_count(backend: str) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        double_(x)
        return y + 1

    check(program, [separate, shifted, separate], versions=2, backend=backend)


@BACKENDS
def test_writes_of_which_no_schema_tells_count(backend: str) -> None:
    def program(x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor, y: torch.Tensor) -> Any:
        normal = torch.nn.functional.batch_norm(x, mean, variance, training=True)
        return normal, y * 2

    def apart() -> tuple[torch.Tensor, ...]:
        return torch.arange(12.0).view(4, 3) ** 2, torch.zeros(3), torch.ones(3), torch.ones(3)

    def shared() -> tuple[torch.Tensor, ...]:
        x, mean, variance, _ = apart()
        return x, mean, variance, mean.view(3)

    check(program, [apart, shared, apart], versions=2, backend=backend)


@BACKENDS
def test_inputs_without_elements_or_memory(backend: str) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x.add_(1), y.add_(1)

    buffer = torch.zeros(4)
    check(program, [lambda: (buffer[:0], buffer[:0]), lambda: (torch.zeros(0), torch.zeros(0))], 1, backend=backend)


def test_inputs_on_the_meta_device() -> None:
    buffer = torch.zeros(4, device="meta")
    compiled = onegraph.compile(write_first, backend="eager", fullgraph=True)
    for x, y in ((buffer[:2], buffer[1:3]), (buffer[:2], buffer[2:])):
        assert [out.shape for out in compiled(x, y)] == [(2,), ()]


def test_a_recompilation_says_that_memory_is_shared() -> None:
    reasons = []
    compiled = onegraph.compile(write_first, backend="eager")
    with seeing(lambda e: reasons.append(e.reason) if isinstance(e, ev.Recompiled) else None):
        compiled(*separate())
        compiled(*shifted())
    assert reasons == ["`x in memory: apart from other inputs` holds no longer"]
