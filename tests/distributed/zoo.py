"""Models of all kinds, and the ways in which processes share the work: the rows and columns of a table of programs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInputOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from tests.distributed.models import Compile, whole

WIDTH, HEAD, LENGTH = 32, 8, 8


class Feed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Attention(nn.Module):
    """It looks back. Each process may have some of the heads."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.join = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norm(x)
        parts = [part(inner).unflatten(-1, (-1, HEAD)).transpose(1, 2) for part in (self.query, self.key, self.value)]
        seen = F.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2)
        return x + self.join(seen.flatten(2))


class Layer(nn.Module):
    """A layer of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.feed = Attention(), Feed()

    def forward(self, x: Tensor) -> Tensor:
        return self.feed(self.attention(x))


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norms[0](self.first(x)).relu()
        return (x + self.norms[1](self.second(inner))).relu()


class Experts(nn.Module):
    """One expert in each process: tokens go there, and come back."""

    def __init__(self) -> None:
        super().__init__()
        self.count = dist.get_world_size()
        self.gate = nn.Linear(WIDTH, self.count)
        self.expert = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
        with torch.no_grad():
            for parameter in self.expert.parameters():
                parameter += 0.01 * dist.get_rank()

    def forward(self, x: Tensor) -> Tensor:
        """Each expert takes as many tokens, those that choose it most."""
        tokens = x.flatten(0, -2)
        chosen = self.gate(tokens).softmax(-1)
        order = chosen.topk(len(tokens) // self.count, 0).indices.t().flatten()
        sent = functional.all_to_all_single_autograd(tokens[order], None, None, dist.group.WORLD)
        back = functional.all_to_all_single_autograd(self.expert(sent), None, None, dist.group.WORLD)
        weight = chosen.t().gather(1, order.view(self.count, -1)).reshape(-1, 1)
        return (tokens + torch.zeros_like(tokens).index_add(0, order, back * weight)).view_as(x)


def perceptron() -> nn.Sequential:
    return nn.Sequential(nn.Linear(16, WIDTH), Feed(), Feed(), nn.Linear(WIDTH, 8))


def language() -> nn.Sequential:
    return nn.Sequential(nn.Embedding(50, WIDTH), Layer(), Layer(), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 50))


def residual() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), Residual(8), Residual(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
    )


def experts() -> nn.Sequential:
    return nn.Sequential(nn.Linear(16, WIDTH), Feed(), Experts(), nn.Linear(WIDTH, 8))


#: Models, and what they are given.
MODELS: dict[str, tuple[Callable[[], nn.Sequential], Callable[[], Tensor]]] = {
    "perceptron": (perceptron, lambda: torch.randn(2, LENGTH, 16)),
    "language": (language, lambda: torch.randint(0, 50, (2, LENGTH))),
    "residual": (residual, lambda: torch.randn(4, 3, 10, 10)),
    "experts": (experts, lambda: torch.randn(2, LENGTH, 16)),
}
BLOCKS = Feed, Layer, Residual, Experts


def own_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Those of experts, which are others in each process."""
    return {name: parameter for name, parameter in model.named_parameters() if ".expert." in name}


# ---- ways ------------------------------------------------------------------------------------------------------------


def compile_blocks(model: nn.Sequential, compile: Compile) -> None:
    for number, block in enumerate(model):
        if isinstance(block, BLOCKS):
            model[number] = compile(block)


def data_parallel(model: nn.Sequential) -> nn.Module:
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, own_parameters(model))  # type: ignore[no-untyped-call]
    return DistributedDataParallel(model, bucket_cap_mb=0.01)


def fully_sharded(model: nn.Sequential, mesh: DeviceMesh | None = None) -> nn.Module:
    ignored = set(own_parameters(model).values())
    for block in model:
        if isinstance(getattr(block, "_orig_mod", block), BLOCKS):
            fully_shard(block, mesh=mesh, ignored_params=ignored)
    return fully_shard(model, mesh=mesh, ignored_params=ignored)


def tensor_parallel(model: nn.Sequential, mesh: DeviceMesh) -> nn.Module:
    """Each process has some of the columns, and of the heads."""
    plan: dict[str, Any] = {}
    for name, module in model.named_modules():
        if isinstance(module, Feed):
            plan |= {f"{name}.up": ColwiseParallel(), f"{name}.down": RowwiseParallel()}
        elif isinstance(module, Attention):
            plan |= {f"{name}.{part}": ColwiseParallel() for part in ("query", "key", "value")}
            plan[f"{name}.join"] = RowwiseParallel()
    return parallelize_module(model, mesh, plan)


def sequence_parallel(model: nn.Sequential, mesh: DeviceMesh) -> nn.Module:
    """What is between the products is shared along the sequence."""
    plan: dict[str, Any] = {"0": parallel_first(model[0])}
    for name, module in model.named_modules():
        if isinstance(module, Feed):
            plan |= {f"{name}.norm": SequenceParallel(), f"{name}.up": ColwiseParallel(input_layouts=Shard(1))}
            plan[f"{name}.down"] = RowwiseParallel(output_layouts=Shard(1), use_local_output=False)
        elif isinstance(module, Attention):
            plan[f"{name}.norm"] = SequenceParallel()
            plan |= {f"{name}.{part}": ColwiseParallel(input_layouts=Shard(1)) for part in ("query", "key", "value")}
            plan[f"{name}.join"] = RowwiseParallel(output_layouts=Shard(1), use_local_output=False)
        elif isinstance(module, Experts):
            plan[name] = PrepareModuleInputOutput(
                input_layouts=Shard(1),
                desired_input_layouts=Shard(1),
                use_local_input=True,
                output_layouts=Shard(1),
                desired_output_layouts=Shard(1),
                use_local_output=False,
            )
    last = str(len(model) - 1)
    plan[last] = ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())
    if isinstance(model[-2], nn.LayerNorm):
        plan[str(len(model) - 2)] = SequenceParallel()
    return parallelize_module(model, mesh, plan)


def parallel_first(module: nn.Module) -> Any:
    options = {"input_layouts": Replicate(), "output_layouts": Shard(1), "use_local_output": False}
    return RowwiseParallel(**options) if isinstance(module, nn.Embedding) else ColwiseParallel(**options)


#: How a model is prepared before its blocks are compiled, and behind that.
Prepared = tuple[Callable[[nn.Sequential], object], Callable[[nn.Sequential], nn.Module]]


def ways() -> dict[str, Prepared]:
    """The ways that there are for as many processes."""
    size, kept = dist.get_world_size(), nn.Sequential.train
    found: dict[str, Prepared] = {
        "data": (kept, data_parallel),
        "sharded": (kept, fully_sharded),
        "tensor": (partial(tensor_parallel, mesh=init_device_mesh("cpu", (size,))), kept),
        "sequence": (partial(sequence_parallel, mesh=init_device_mesh("cpu", (size,))), kept),
    }
    if size > 2:
        mesh = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("outer", "inner"))
        found["hybrid"] = kept, partial(fully_sharded, mesh=mesh)
        found["sharded tensor"] = (
            partial(tensor_parallel, mesh=mesh["inner"]),
            partial(fully_sharded, mesh=mesh["outer"]),
        )
    return found


#: Processes that see the same data.
SAME_DATA = {"tensor": lambda rank: 0, "sequence": lambda rank: 0, "sharded tensor": lambda rank: rank // 2}
#: What torch has no way for.
MISSING = {
    ("residual", way): "parallelize_module has no style for convolutions and batch norm"
    for way in ("tensor", "sequence", "sharded tensor")
}


def trained(name: str, way: str, by_blocks: bool, steps: int, compile: Compile) -> list[Tensor]:
    """Losses of each step; parameters and buffers behind all."""
    torch.manual_seed(0)
    make, data = MODELS[name]
    model, rank = make(), dist.get_rank()
    before, behind = ways()[way]
    before(model)
    if by_blocks:
        compile_blocks(model, compile)
    prepared = behind(model)
    run = prepared if by_blocks else compile(prepared)
    optimizer = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9, foreach=False)
    # Each process has other tokens for what chooses the experts, and all of it.
    alone = [p for name, p in model.named_parameters() if ".gate." in name and way == "sequence"]
    torch.manual_seed(100 + SAME_DATA.get(way, int)(rank))
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = run(data()).square().mean()
        loss.backward()
        for parameter in alone:
            dist.all_reduce(parameter.grad)
        optimizer.step()
        losses.append(loss.detach())
    return [*losses, *map(whole, model.parameters()), *(buffer.clone() for buffer in model.buffers())]
