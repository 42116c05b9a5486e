"""`DTensor` in compiled code, tensor and sequence parallel, and experts: one graph, with the collectives in it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn import functional as F

from tests.distributed.models import Compile, compared, import_what_children_need, whole
from tests.distributed.processes import two_processes


@pytest.fixture(autouse=True, scope="module")
def _imported() -> None:
    import_what_children_need()


def mesh() -> DeviceMesh:
    return init_device_mesh("cpu", (2,))


def facts(value: Any) -> Any:
    """What can be compared."""
    if isinstance(value, DTensor):
        return str(value.placements), value.to_local().detach().clone()
    if isinstance(value, list | tuple):
        return [facts(each) for each in value]
    return value.detach().clone() if isinstance(value, Tensor) else value


def called(function: Callable[..., Any], compile: Compile) -> Any:
    """What the function gives for two sharded tensors and a mesh, twice, and gradients of these."""
    torch.manual_seed(3)
    group = mesh()
    run = compile(function, fullgraph=True)
    found = []
    for _ in range(2):
        a = distribute_tensor(torch.randn(8, 4), group, [Shard(0)]).requires_grad_()
        b = distribute_tensor(torch.randn(4, 4), group, [Shard(1)]).requires_grad_()
        results = run(a, b, group)
        found.append(facts(results))
        total = sum(r.to_local().square().sum() if isinstance(r, DTensor) else r.square().sum() for r in results)
        total.backward()
        found.append(facts([a.grad, b.grad]))
    return found


def redistributed(a: DTensor, b: DTensor, group: DeviceMesh) -> Any:
    return (a * 2).redistribute(placements=[Shard(1)]), b.full_tensor().sin(), a.to_local() + 1


def made(a: DTensor, b: DTensor, group: DeviceMesh) -> Any:
    local = DTensor.from_local(a.to_local().cos(), group, (Partial(),))
    return local.redistribute(placements=[Replicate()]), DTensor.from_local(
        b.to_local(), b.device_mesh, b.placements
    ) * 3


def multiplied(a: DTensor, b: DTensor, group: DeviceMesh) -> Any:
    """Operators communicate by themselves where placements differ."""
    return (a @ b).relu(), (a.sum(0) * b).mean()


def looked_at_before(a: DTensor, b: DTensor, group: DeviceMesh) -> Any:
    """What is first seen where nothing is recorded has its history behind it."""
    with torch.no_grad():
        scale = (a * 3).to_local().sum()
    return (a * 2).to_local() * scale, b * 2


def stepped(compile: Compile) -> Any:
    """Gradients of sharded tensors are read and set."""

    def step(weight: DTensor) -> None:
        with torch.no_grad():
            weight.add_(weight.grad, alpha=-0.1)
        weight.grad = None

    run = compile(step, fullgraph=True)
    weight = distribute_tensor(torch.ones(4, 4), mesh(), [Shard(0)]).requires_grad_()
    (weight * 3).sum().backward()
    run(weight)
    return facts(weight), weight.grad is None


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def tensor_parallel() -> dict[str, Any]:
    return {"up": ColwiseParallel(), "down": RowwiseParallel()}


def sequence_parallel() -> dict[str, Any]:
    is_sequence, all_of_it = Shard(1), Replicate()
    return {
        "norm": SequenceParallel(),
        "up": PrepareModuleInput(input_layouts=is_sequence, desired_input_layouts=all_of_it),
        "down": RowwiseParallel(output_layouts=is_sequence, use_local_output=False),
    }


def parallel(compile: Compile, plan: Callable[[], dict[str, Any]], steps: int) -> Any:
    """Losses, the first gradients with their placements, and parameters."""
    torch.manual_seed(5)
    group, layers = mesh(), nn.Sequential(Layer(), Layer())
    for layer in layers:
        parallelize_module(layer, group, plan())
        if "norm" in plan():
            parallelize_module(layer, group, {"up": ColwiseParallel()})
    run = compile(layers, fullgraph=True)
    optimizer = torch.optim.SGD(layers.parameters(), 0.1, foreach=False)
    found: list[Any] = []
    for step in range(steps):
        x = torch.randn(2, 4, 16)
        y = run(distribute_tensor(x, group, [Shard(1)]) if "norm" in plan() else x)
        loss = (y.full_tensor() if isinstance(y, DTensor) else y).square().mean()
        loss.backward()
        found.append(loss.detach())
        if step == 0:
            found.append(facts([parameter.grad for parameter in layers.parameters()]))
        optimizer.step()
        optimizer.zero_grad()
    return [*found, *map(whole, layers.parameters())]


class Experts(nn.Module):
    """One expert in each process: tokens go there, and come back."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(16, 2)
        self.expert = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x: Tensor) -> Tensor:
        chosen = self.gate(x).softmax(-1)
        order = torch.argsort(chosen[:, 0] - chosen[:, 1], descending=True, stable=True)
        sent = functional.all_to_all_single_autograd(x[order], None, None, dist.group.WORLD)
        back = functional.all_to_all_single_autograd(self.expert(sent), None, None, dist.group.WORLD)
        half = len(x) // 2
        weight = torch.cat([chosen[order[:half], 0], chosen[order[half:], 1]])
        return x + torch.zeros_like(x).index_add(0, order, back * weight[:, None])


def experts(compile: Compile, steps: int) -> Any:
    torch.manual_seed(5 + dist.get_rank())
    layer = Experts()
    run = compile(layer, fullgraph=True)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    found = []
    for _ in range(steps):
        loss = (run(torch.randn(8, 16)) - 1).square().mean()
        loss.backward()
        for parameter in layer.gate.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.detach())
    return [*found, *[parameter.detach().clone() for parameter in layer.parameters()]]


PROGRAMS = {
    "redistributed": partial(called, redistributed),
    "made": partial(called, made),
    "multiplied": partial(called, multiplied),
    "looked at before": partial(called, looked_at_before),
    "stepped": stepped,
}
TRAINED = {
    "tensor parallel": partial(parallel, plan=tensor_parallel, steps=20),
    "sequence parallel": partial(parallel, plan=sequence_parallel, steps=20),
    "experts": partial(experts, steps=20),
}


def test_functions_of_sharded_tensors() -> None:
    for counts in two_processes(compared, PROGRAMS):
        assert all(count == (1, {}) for count in counts.values())


def test_twenty_steps_in_parallel() -> None:
    for counts in two_processes(compared, TRAINED):
        assert all(count == (1, {}) for count in counts.values())
