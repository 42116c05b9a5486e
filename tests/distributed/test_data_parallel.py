"""DistributedDataParallel: training in two processes is eager's, in one graph, and gradients travel while others are
computed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import debugging_hooks, default_hooks
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parallel.distributed import _BufferCommHookLocation
from torch.utils.checkpoint import checkpoint

import onegraph
from onegraph.autograd import cuts, pieces
from onegraph.base.errors import GraphBreakError
from onegraph.capture import capture_frame
from onegraph.torchlib.data_parallel import Buckets
from tests.distributed.models import import_what_children_need
from tests.distributed.processes import two_processes

SMALL = 0.005  # MiB in a bucket: two layers of the networks here
WHOLE = {"fullgraph": True}
Compile = Callable[..., Any]


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """What DistributedDataParallel imports when one is made takes seconds: here once, not in each process."""
    importlib.import_module("torch._dynamo")
    import_what_children_need()


def layers(count: int = 4, width: int = 32) -> nn.Sequential:
    torch.manual_seed(0)
    hidden = [layer for _ in range(count) for layer in (nn.Linear(width, width), nn.Tanh())]
    return nn.Sequential(*hidden, nn.Linear(width, 4))


class Parts(nn.Module):
    """Two networks of which a call takes one, or both."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = layers(2), layers(2)

    def forward(self, x: torch.Tensor, which: str = "first") -> Any:
        return (self.first(x), self.second(x)) if which == "both" else getattr(self, which)(x)


class Repeating(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = layers(2), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner: torch.Tensor = checkpoint(self.body, x, use_reentrant=False)
        result: torch.Tensor = self.head(inner)
        return result


class Printing(nn.Module):
    """There is a graph break in the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = layers(1), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.body(x)
        print(end="")
        result: torch.Tensor = self.head(inner)
        return result


def convolution() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4))


def rows() -> torch.Tensor:
    return torch.randn(8, 32)


def image() -> torch.Tensor:
    return torch.randn(4, 3, 8, 8)


def uneven() -> torch.Tensor:
    return torch.randn(4 + 3 * dist.get_rank(), 32)


def wrapped(make: Callable[[], nn.Module], **options: Any) -> Callable[[Compile], tuple[Any, Any]]:
    """A compiled DistributedDataParallel."""

    def build(compiled: Compile) -> tuple[Any, Any]:
        ddp = DistributedDataParallel(make(), **options)
        return compiled(ddp), ddp

    return build


def within(make: Callable[[], nn.Module], **options: Any) -> Callable[[Compile], tuple[Any, Any]]:
    """A DistributedDataParallel of a compiled module."""

    def build(compiled: Compile) -> tuple[Any, Any]:
        ddp = DistributedDataParallel(compiled(make()), **options)
        return ddp, ddp

    return build


def hooked(compiled: Compile, hook: Callable[..., Any] = default_hooks.fp16_compress_hook) -> tuple[Any, Any]:
    ddp = DistributedDataParallel(layers())
    ddp.register_comm_hook(None, hook)
    return compiled(ddp), ddp


def ignoring(compiled: Compile) -> tuple[Any, Any]:
    made = layers()
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(made, ["0.weight"])  # type: ignore[no-untyped-call]
    ddp = DistributedDataParallel(made)
    return compiled(ddp), ddp


def sharing() -> nn.Module:
    made = layers(2)
    made[2].weight = made[0].weight
    return made


def frozen() -> nn.Module:
    made = layers()
    made[0].weight.requires_grad_(False)
    return made


def trained(
    build: Callable[[Compile], tuple[Any, Any]],
    compiled: Compile,
    data: Callable[[], torch.Tensor] = rows,
    loss: Callable[[Any], torch.Tensor] = lambda output: output.square().mean(),
    accumulate: int = 1,
    which: tuple[str, ...] = (),
) -> list[Any]:
    """What four steps give: losses, parameters and buffers."""
    torch.manual_seed(dist.get_rank())
    model, ddp = build(compiled)
    optimizer, found = torch.optim.SGD(ddp.parameters(), 0.05), []
    for step in range(4):
        optimizer.zero_grad()
        for part in range(accumulate):
            with nullcontext() if part == accumulate - 1 else ddp.no_sync():
                value = loss(model(data(), *which[step % 2 :][:1]))
                value.backward()
        optimizer.step()
        found.append(value.detach())
    return [*found, *(parameter.detach().clone() for parameter in ddp.parameters()), *ddp.buffers()]


def through_loss(compiled: Compile) -> tuple[Any, Any]:
    """The graph goes on behind the module."""
    ddp = DistributedDataParallel(layers(), bucket_cap_mb=SMALL)
    return compiled(lambda x: ddp(x).softmax(-1)), ddp


def two_of_them(compiled: Compile) -> tuple[Any, Any]:
    """What one gives goes into another, of which only the second is trained."""
    first, second = DistributedDataParallel(layers()), DistributedDataParallel(layers(2, 4))
    return compiled(lambda x: second(first(x))), nn.ModuleList([first, second])


#: How each is built, what it is trained with, and how many graphs that takes.
PROGRAMS: dict[str, tuple[Callable[[Compile], tuple[Any, Any]], dict[str, Any], int]] = {
    "wrapped": (wrapped(layers), {}, 1),
    "within": (within(layers), {}, 1),
    "small buckets": (wrapped(layers, bucket_cap_mb=SMALL), {}, 1),
    "small buckets within": (within(layers, bucket_cap_mb=SMALL), {}, 1),
    "views of buckets": (wrapped(layers, bucket_cap_mb=SMALL, gradient_as_bucket_view=True), {}, 1),
    "static graph": (wrapped(layers, bucket_cap_mb=SMALL, static_graph=True), {}, 1),
    "static graph within": (within(layers, static_graph=True), {}, 1),
    "accumulating": (wrapped(layers, bucket_cap_mb=SMALL), {"accumulate": 3}, 1),
    "unused": (wrapped(Parts, find_unused_parameters=True), {}, 1),
    "unused within": (within(Parts, find_unused_parameters=True), {}, 1),
    "branches": (wrapped(Parts, find_unused_parameters=True), {"which": ("first", "second")}, 2),
    "output without loss": (
        wrapped(Parts, find_unused_parameters=True),
        {"which": ("both", "both"), "loss": lambda output: output[0].square().mean()},
        1,
    ),
    "batch norm": (wrapped(convolution), {"data": image}, 1),
    "batch norm within": (within(convolution), {"data": image}, 1),
    "other rows": (wrapped(layers), {"data": uneven}, 1),
    "hook": (hooked, {}, 1),
    "hooks around hooks": (
        partial(hooked, hook=default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook)),
        {},
        1,
    ),
    "hook that does nothing": (partial(hooked, hook=debugging_hooks.noop_hook), {}, 1),
    "ignored": (ignoring, {}, 1),
    "shared": (wrapped(sharing, bucket_cap_mb=SMALL), {}, 1),
    "frozen": (wrapped(frozen, bucket_cap_mb=SMALL), {}, 1),
    "checkpoint": (wrapped(Repeating, static_graph=True), {}, 1),
    "dropout": (wrapped(lambda: nn.Sequential(layers(), nn.Dropout()), bucket_cap_mb=SMALL), {}, 1),
    "behind it": (through_loss, {}, 1),
}


def compare(name: str) -> tuple[int, int]:
    """Train twice; how many graphs that took, and how many breaks."""
    build, options, _ = PROGRAMS[name]
    wanted = trained(build, lambda function: function, **options)
    onegraph.counters.clear()
    found = trained(build, lambda function: onegraph.compile(function, **WHOLE), **options)
    torch.testing.assert_close(found, wanted)
    return onegraph.counters["stats"]["unique_graphs"], sum(onegraph.counters["graph_break"].values())


def compare_all() -> dict[str, tuple[int, int]]:
    found = {}
    for name in PROGRAMS:
        onegraph.reset()
        found[name] = compare(name)
    return found


def test_training_is_eagers_in_one_graph() -> None:
    wanted = {name: (graphs, 0) for name, (_, _, graphs) in PROGRAMS.items()}
    assert two_processes(compare_all) == [wanted, wanted]


# ---- whole steps -----------------------------------------------------------------------------------------------------


def stepped(compiled: Compile, build: Callable[[], DistributedDataParallel]) -> list[Any]:
    torch.manual_seed(dist.get_rank())
    ddp = build()
    optimizer = torch.optim.SGD(ddp.parameters(), 1e-2)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        with ddp.no_sync():
            ddp(x).square().mean().backward()
        loss: torch.Tensor = ddp(x + 1).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = compiled(step)
    return [*(run(rows()) for _ in range(3)), *(parameter.detach().clone() for parameter in ddp.parameters())]


def compare_steps() -> None:
    def build() -> DistributedDataParallel:
        return DistributedDataParallel(nn.Sequential(nn.BatchNorm1d(32), Printing()), bucket_cap_mb=SMALL)

    wanted = stepped(lambda function: function, build)
    torch.testing.assert_close(stepped(onegraph.compile, build), wanted)
    ddp = DistributedDataParallel(layers())
    with pytest.raises(GraphBreakError, match="while which a DistributedDataParallel reduces the gradients"):
        onegraph.compile(lambda x: ddp(x).sum().backward(), fullgraph=True)(rows())
    normed = DistributedDataParallel(nn.BatchNorm1d(32))
    with pytest.raises(GraphBreakError, match="DistributedDataParallel"):
        onegraph.compile(lambda x: normed(x).sum() + normed(x).sum(), fullgraph=True)(rows())


def test_whole_steps_break_at_the_backward_pass() -> None:
    two_processes(compare_steps)


# ---- what runs as it is written --------------------------------------------------------------------------------------


def normed() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))


def with_buffer_hook(location: Any) -> Callable[[Compile], tuple[Any, Any]]:
    """The hook averages the buffers, in front of the forward pass or behind it."""

    def average(state: Any, buffers: dict[str, torch.Tensor]) -> None:
        for buffer in buffers.values():
            if buffer.is_floating_point():
                dist.all_reduce(buffer.div_(2))

    def build(compiled: Compile) -> tuple[Any, Any]:
        ddp = DistributedDataParallel(normed())
        run = compiled(ddp)
        ddp._register_buffer_comm_hook(None, average, location)  # type: ignore[no-untyped-call]
        return run, ddp

    return build


def delaying(compiled: Compile) -> tuple[Any, Any]:
    """All gradients but the first layer's are reduced when that one's weight has its own."""
    made = layers()
    others = [(name, parameter) for name, parameter in made.named_parameters() if name != "0.weight"]
    ddp = DistributedDataParallel(
        made, delay_all_reduce_named_params=others, param_to_hook_all_reduce=made.get_parameter("0.weight")
    )
    return compiled(ddp), ddp


def called_twice(compiled: Compile) -> tuple[Any, Any]:
    ddp = DistributedDataParallel(layers())
    return compiled(lambda x: ddp(x) + ddp(x * 2)), ddp


def recorded_the_second_time(compiled: Compile) -> tuple[Any, Any]:
    ddp = DistributedDataParallel(layers(), broadcast_buffers=False)

    def run(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            target = ddp(x)
        result: torch.Tensor = ddp(x + 1) - target
        return result

    return compiled(run), ddp


OTHERS: dict[str, tuple[Callable[[Compile], tuple[Any, Any]], dict[str, Any]]] = {
    "hook of buffers": (with_buffer_hook(_BufferCommHookLocation.PRE_FORWARD), {}),
    "hook of buffers behind": (with_buffer_hook(_BufferCommHookLocation.POST_FORWARD), {}),
    "no such hook": (wrapped(normed), {}),
    "called twice": (called_twice, {}),
    "recorded the second time": (recorded_the_second_time, {}),
}


def compare_others() -> dict[str, int]:
    found = {}
    for name, (build, options) in OTHERS.items():
        wanted = trained(build, lambda function: function, **options)
        onegraph.counters.clear()
        torch.testing.assert_close(trained(build, onegraph.compile, **options), wanted, msg=lambda s, of=name: of + s)
        found[name] = sum(onegraph.counters["graph_break"].values())
        onegraph.reset()
    onegraph.counters.clear()
    trained(delaying, onegraph.compile)  # as it is written: two runs of eager differ, where gradients race
    found["delaying"] = sum(onegraph.counters["graph_break"].values())
    onegraph.reset()
    return found


def test_others_run_as_they_are_written() -> None:
    for breaks in two_processes(compare_others):
        assert breaks.pop("no such hook") == 0
        assert all(breaks.values()), breaks


def join() -> list[Any]:
    def run(compiled: Compile) -> list[Any]:
        torch.manual_seed(dist.get_rank())
        ddp = DistributedDataParallel(layers())
        model, optimizer = compiled(ddp), torch.optim.SGD(ddp.parameters(), 0.1)
        with Join([ddp]):
            for _ in range(2 + dist.get_rank()):
                optimizer.zero_grad()
                model(rows()).square().mean().backward()
                optimizer.step()
        return [parameter.detach().clone() for parameter in ddp.parameters()]

    wanted = run(lambda function: function)
    torch.testing.assert_close(run(lambda function: onegraph.compile(function, **WHOLE)), wanted)
    return wanted


def test_uneven_inputs_join() -> None:
    first, second = two_processes(join)
    torch.testing.assert_close(first, second)


# ---- gradients on their way ------------------------------------------------------------------------------------------


def noted() -> list[tuple[str, int]]:
    """In which order pieces of the backward pass and buckets begin, in the second step."""
    ddp = DistributedDataParallel(layers(), bucket_cap_mb=SMALL)
    log: list[tuple[str, int]] = []
    advance = pieces.Results.advance

    def noting(self: Any) -> None:
        log.append(("piece", self._done))
        advance(self)

    def hook(_, bucket):  # type: ignore[no-untyped-def]
        log.append(("bucket", bucket.index()))
        return default_hooks.allreduce_hook(dist.group.WORLD, bucket)

    pieces.Results.advance = noting  # type: ignore[method-assign]
    ddp.register_comm_hook(None, hook)
    model = onegraph.compile(ddp)
    for _ in range(2):
        log.clear()
        model(rows()).square().mean().backward()
    return log


def test_a_bucket_travels_while_the_next_is_computed() -> None:
    for log in two_processes(noted):
        assert log[:3] == [("piece", 0), ("bucket", 0), ("piece", 1)]
        assert ("bucket", 1) in log[3:]


def with_option(**options: Any) -> list[tuple[str, int]]:
    onegraph.reset()
    with onegraph.config.patch(**options):
        return noted()


def test_the_backward_pass_is_left_whole() -> None:
    assert all(("piece", 0) not in log for log in two_processes(lambda: with_option(optimize_ddp=False)))


# ---- pieces, in one process ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "limits", "wanted"),
    [
        ((1, 1, 1), (10,), [[0, 1, 2]]),
        ((4, 4, 4, 4), (4, 8), [[0], [1, 2], [3]]),
        ((4, 4, 4, 4), (1,), [[0], [1], [2], [3]]),
        ((100, 1, 1), (2,), [[0], [1, 2]]),
        ((), (2,), []),
    ],
)
def test_buckets_are_full_at_their_limit(sizes: tuple[int, ...], limits: tuple[int, ...], wanted: list[Any]) -> None:
    assert list(cuts.filled(range(len(sizes)), dict(enumerate(sizes)), limits)) == wanted


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Backward graphs are cut as if each gradient were a bucket."""
    monkeypatch.setattr(capture_frame, "active_buckets", lambda: Buckets((1,)))
    yield


def differentiated(model: nn.Module, compiled: Compile) -> list[Any]:
    """Gradients of all kinds: of some parameters only, twice by one history, of an input, of gradients."""
    run, parameters = compiled(model), list(model.parameters())
    torch.manual_seed(1)
    x = rows().requires_grad_()
    found = [*torch.autograd.grad(run(x).square().mean(), parameters[2:4])]
    loss = run(x).square().mean()
    loss.backward(retain_graph=True)
    loss.backward()
    found += [x.grad, *(parameter.grad for parameter in parameters)]
    first = torch.autograd.grad(run(x).square().mean(), parameters, create_graph=True)
    found += torch.autograd.grad(sum(each.square().sum() for each in first), parameters)
    return found


@pytest.mark.usefixtures("in_pieces")
@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_a_pass_in_pieces_is_eagers(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    advance, steps = pieces.Results.advance, []
    monkeypatch.setattr(pieces.Results, "advance", lambda self: (steps.append(self._done), advance(self)))
    wanted = differentiated(layers(), lambda model: model)
    found = differentiated(layers(), lambda model: onegraph.compile(model, backend=backend, **WHOLE))
    torch.testing.assert_close(found, wanted)
    assert len({*steps}) > 3
