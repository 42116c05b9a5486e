"""Small models for shards, and the comparison of their compiled steps with those of eager."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

import onegraph

#: Compiles a function or a module, or gives it back: then the program is eager's.
Compile = Callable[..., Any]
Program = Callable[[Compile], Any]
WIDTH = 16


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, blocks: int = 2) -> None:
        super().__init__()
        self.into = nn.Linear(8, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(blocks)])
        self.out = nn.Linear(WIDTH, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.into(x)
        for block in self.blocks:
            x = block(x)
        return self.out(x)


def model(blocks: int = 2) -> Model:
    """The same in each process."""
    torch.manual_seed(5)
    return Model(blocks)


def whole(parameter: Tensor) -> Tensor:
    gathered = parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter
    return gathered.detach().clone()


def train(run: Compile, trained: nn.Module, steps: int, optimizer: torch.optim.Optimizer | None = None) -> list[Tensor]:
    """The losses of some steps, each process with data of its own, and the parameters behind them."""
    torch.manual_seed(100 + dist.get_rank())
    optimizer = optimizer or torch.optim.SGD(trained.parameters(), 0.05)
    losses = []
    for _ in range(steps):
        loss = run(torch.randn(4, 8)).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [*losses, *map(whole, trained.parameters())]


def import_what_children_need() -> None:
    """Children of this process would each import it, and each find out how graphs are compiled."""
    for name in """torch._dynamo torch.distributed.tensor torch.distributed.tensor.parallel torch.distributed.fsdp
            torch.distributed.checkpoint.state_dict onegraph.capture.policy.distributed onegraph.backends""".split():
        import_module(name)
    layer = onegraph.compile(lambda layer, x: (layer(x).sum(), print(end="")))
    layer(nn.Linear(2, 2), torch.ones(2, 2))[0].backward()
    gc.freeze()


def eagerly(function: Any, **options: Any) -> Any:
    return function


def same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, Tensor):
        torch.testing.assert_close(found, wanted)
    elif isinstance(wanted, list | tuple):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
    else:
        assert found == wanted


def compile_shared(function: Any, **options: Any) -> Any:
    """Equal functions share their versions, as they do by default where no test counts them."""
    return onegraph.compile(function, **{"options": {"share_versions": True}, **options})


def compared(programs: Mapping[str, Program]) -> dict[str, tuple[int, dict[str, int]]]:
    """Run each program, eager and compiled, and compare. The graphs and breaks of the compiled one."""
    counts = {}
    for name, program in programs.items():
        wanted = program(eagerly)
        onegraph.reset()
        onegraph.counters.clear()
        found = program(compile_shared)
        try:
            same(found, wanted)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None
        breaks: dict[str, int] = {}
        for text, count in onegraph.counters["graph_break"].items():
            kind = text.rpartition("[")[2].partition("]")[0] if "[" in text else text
            breaks[kind] = breaks.get(kind, 0) + count
        counts[name] = onegraph.counters["stats"]["unique_graphs"], breaks
    return counts
