"""Small programs that communicate, for two processes. Each is given what compiles a function, and gives its results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
from torch.distributed.device_mesh import init_device_mesh
from torch.utils.checkpoint import checkpoint

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]
Program = Callable[[Compile], Any]
#: Programs that are one graph, and those that break.
PROGRAMS: dict[str, Program] = {}
BREAKING: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


def breaking(function: Program) -> Program:
    BREAKING[function.__name__] = function
    return function


def on_rows(function: Callable[..., Any], *rows: int) -> Program:
    """The program that calls a function with tensors of so many rows of four, one after another."""

    def run(compiled: Compile) -> Any:
        called = compiled(function)
        return [called(torch.randn(n, 4)) for n in rows or (8,)]

    return run


def trained(function: Callable[..., Any], inputs: int = 1, steps: int = 1) -> Program:
    """The program that differentiates a function; results and gradients."""

    def run(compiled: Compile) -> Any:
        called, given = compiled(function), [torch.randn(8, 4, requires_grad=True) for _ in range(inputs)]
        results = []
        for _ in range(steps):
            found = called(*given)
            results.append(found)
            sum(each.sum() for each in ([found] if isinstance(found, torch.Tensor) else found)).backward()
        return results, [each.grad for each in given]

    return run


def world() -> dist.ProcessGroup:
    found = dist.group.WORLD
    assert found is not None
    return found


def gather(x: torch.Tensor, dim: int = 0) -> torch.Tensor:
    return getattr(fc, "all_gather_single", fc.all_gather_tensor)(x, dim, dist.group.WORLD)


def scatter(x: torch.Tensor, dim: int = 0) -> torch.Tensor:
    return getattr(fc, "reduce_scatter_single", fc.reduce_scatter_tensor)(x, "sum", dim, dist.group.WORLD)


def reduced(x: torch.Tensor, op: str = "sum") -> torch.Tensor:
    return fc.all_reduce(x, op, dist.group.WORLD)


def exchanged(x: torch.Tensor, taken: Any = None, given: Any = None) -> torch.Tensor:
    return fc.all_to_all_single(x, taken, given, dist.group.WORLD)


PROGRAMS |= {
    "all_reduce": on_rows(lambda x: reduced(x.sin()) * 2, 8, 6, 4),
    "all_reduce_max_transposed": on_rows(lambda x: reduced(x.t(), "max") + 1),
    "all_reduce_result_leaves": on_rows(lambda x: (reduced(x), reduced(x).view(-1)[3:])),
    "all_reduce_number": on_rows(lambda x: reduced(x.sum()) / dist.get_world_size()),
    "two_equal_ones": on_rows(lambda x: reduced(x) + reduced(x)),
    "all_gather": on_rows(lambda x: gather(x * 2).sum(0), 8, 6, 4),
    "all_gather_columns": on_rows(lambda x: gather(x * 2, 1) + 1),
    "reduce_scatter": on_rows(lambda x: scatter(x * 2) + 1, 8, 6, 4),
    "reduce_scatter_columns": on_rows(lambda x: scatter(x * 2, 1) + 1),
    "all_to_all": on_rows(lambda x: exchanged(x * 2) + 1, 8, 6, 4),
    "broadcast": on_rows(lambda x: fc.broadcast(x * 2, 1, dist.group.WORLD) + 1),
    "permute": on_rows(lambda x: fc.permute_tensor(x.view(-1), [1, 0], dist.group.WORLD) + 1),
    "coalesced": on_rows(lambda x: fc.all_reduce_coalesced([x, x.sum(0)], "sum", dist.group.WORLD)),
    "waited_for_twice": on_rows(lambda x: fc.wait_tensor(reduced(x)) + 1),
    "gradient_of_all_reduce": trained(lambda x: reduced(x.exp()).square(), steps=3),
    "gradient_of_all_gather": trained(lambda x: gather(x.sin()).square()),
    "gradient_of_reduce_scatter": trained(lambda x: scatter(x.sin(), 1).square()),
    "gradient_of_all_to_all": trained(lambda x: exchanged(x.sin()).square()),
    "gradients_of_several": trained(lambda x, y: (reduced(scatter(gather(x) * 2) * y).sin(), gather(y)), 2),
    "gradient_of_checkpoint": trained(
        lambda x: checkpoint(lambda y: reduced(y.sin()).cos(), x * 2, use_reentrant=False)
    ),
    "experts": trained(lambda x, w: exchanged(torch.relu(exchanged(x) @ w[:4])), 2, steps=2),
}


@program
def rows_for_each(compiled: Compile) -> Any:
    given, taken = ([3, 5], [3, 2]) if dist.get_rank() == 0 else ([2, 6], [5, 6])

    def f(x: torch.Tensor) -> Any:
        out = x.new_empty(sum(taken), 4)
        dist.all_to_all_single(out, x * 3, taken, given)
        return exchanged(x * 2, taken, given) + 1, out

    return compiled(f)(torch.randn(8, 4))


@program
def in_place(compiled: Compile) -> Any:
    def f(x: torch.Tensor) -> Any:
        found = []
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT):
            y = x * 2
            dist.all_reduce(y, op)
            found.append(y)
        dist.all_reduce(found[0][2:5])
        return found

    return compiled(f)(torch.randn(8, 4))


@program
def of_constants(compiled: Compile) -> Any:
    """What each process knows while it traces is not what the others know."""

    def f(x: torch.Tensor) -> Any:
        rows, length = [torch.zeros(1, dtype=torch.long) for _ in range(2)], torch.tensor([3 + dist.get_rank()])
        dist.all_gather(rows, length)
        dist.all_reduce(length)
        return rows, length + x, fc.all_reduce(torch.ones(2), "sum", dist.group.WORLD)

    called, x = compiled(f), torch.randn(8, 1)
    return [called(x) for _ in range(2)]


@program
def into_inputs(compiled: Compile) -> Any:
    def f(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(x[2:5])
        dist.all_gather_into_tensor(out, x)
        return x + 1

    x, out = torch.randn(8, 4), torch.zeros(16, 4)
    versions = x._version, out._version
    return compiled(f)(x, out), x, out, x._version - versions[0], out._version > versions[1]


@program
def into_outputs(compiled: Compile) -> Any:
    def f(x: torch.Tensor) -> Any:
        all, part, other = x.new_empty(16, 4), x.new_empty(4, 4), torch.empty_like(x)
        dist.all_gather_into_tensor(all, x * 2)
        dist.reduce_scatter_tensor(part, x * 2, op=dist.ReduceOp.MAX)
        dist.all_to_all_single(other, x * 2)
        several = [torch.empty_like(x) for _ in range(2)]
        dist.all_gather(several, x.cos())
        dist.all_gather(list(all.chunk(2)), x.sin())
        return all + 1, part, other, several

    return compiled(f)(torch.randn(8, 4))


@program
def broadcasts(compiled: Compile) -> Any:
    net = torch.nn.Linear(4, 4)
    versions = [parameter._version for parameter in net.parameters()]

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        dist.broadcast(y, 1)
        with torch.no_grad():
            for parameter in net.parameters():
                dist.broadcast(parameter, 0)
        dist.barrier()
        return y

    result = compiled(f)(torch.randn(8, 4))
    return result, [(p, p._version - v) for p, v in zip(net.parameters(), versions, strict=True)]


@program
def waits_itself(compiled: Compile) -> Any:
    def f(x: torch.Tensor) -> Any:
        parts = [x * i for i in range(1, 4)]
        works = [dist.all_reduce(part, async_op=True) for part in parts]
        z = x.sin() @ x.t()
        for work in works:
            if not work.is_completed():
                work.wait()
            work.wait()
        dist.barrier(async_op=True).wait()
        dist.all_reduce(z.clone(), async_op=True)
        return sum(parts), z

    return compiled(f)(torch.randn(8, 4))


@program
def training_step(compiled: Compile) -> Any:
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    torch.manual_seed(dist.get_rank())

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        works = [dist.all_reduce(parameter.grad, async_op=True) for parameter in net.parameters()]
        for work in works:
            work.wait()
        for parameter in net.parameters():
            parameter.grad /= dist.get_world_size()
        optimizer.step()
        return loss.detach()

    called = compiled(step)
    return [called(torch.randn(8, 4)) for _ in range(3)], list(net.parameters())


class Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        dist.all_reduce(y)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


class Columns(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


PROGRAMS["tensor_parallel"] = trained(lambda x, w: Rows.apply(torch.relu(Columns.apply(x) @ w[:4])).square(), 2)


@program
def groups(compiled: Compile) -> Any:
    alone = [dist.new_group([rank]) for rank in range(2)][dist.get_rank()]
    name = world().group_name

    def f(x: torch.Tensor, group: Any) -> torch.Tensor:
        y = x * 2
        dist.all_reduce(y, group=alone)
        y += fc.all_reduce(x, "sum", group) + fc.all_reduce(x, "sum", name)
        return y + dist.get_rank(alone) + dist.get_world_size(alone) + group.size() * group.rank()

    return compiled(f)(torch.randn(8, 4), world())


@program
def meshes(compiled: Compile) -> Any:
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("data", "model"))

    def f(x: torch.Tensor) -> torch.Tensor:
        part = mesh["data"]
        y = fc.all_reduce(x, "sum", (mesh, 0)) + fc.all_reduce(x, "max", part.get_group())
        return y + part.size() + mesh.get_local_rank("data") + mesh.ndim * len(mesh.shape) + mesh.size(0)

    return compiled(f)(torch.randn(8, 4))


@program
def questions(compiled: Compile) -> Any:
    def f(x: torch.Tensor) -> torch.Tensor:
        group = dist.group.WORLD
        assert group is not None and dist.is_initialized()
        y = x * 2 if dist.get_rank() == 0 else x.sin()
        count = len(dist.get_process_group_ranks(group)) * dist.get_world_size() + (dist.get_backend() == "gloo")
        return y + count + group.rank() + dist.get_global_rank(group, 1) + dist.get_group_rank(group, 1)

    return compiled(f)(torch.randn(8, 4))


@program
def operators(compiled: Compile) -> Any:
    name, ops = world().group_name, torch.ops._c10d_functional

    def f(x: torch.Tensor) -> Any:
        y, z = x * 2, ops.all_reduce(x, "sum", name)
        seen = z.view(-1)
        ops.all_reduce_(y, "sum", name)
        ops.wait_tensor(y)
        ops.wait_tensor(z).add_(1)
        return y + 1, z, seen * 2

    return compiled(f)(torch.randn(8, 4))


@program
def random_numbers(compiled: Compile) -> Any:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = torch.rand_like(x)
        dist.all_reduce(y)
        return y + torch.rand_like(x)

    return compiled(f)(torch.randn(8, 4))


@program
def result_of_eager_mode(compiled: Compile) -> Any:
    return compiled(lambda y: y.sin() + 1)(reduced(torch.randn(8, 4)))


@breaking
def work_leaves(compiled: Compile) -> Any:
    def f(x: torch.Tensor) -> Any:
        y = x * 2
        return y, dist.all_reduce(y, async_op=True)

    y, work = compiled(f)(torch.randn(8, 4))
    work.wait()
    return y


@breaking
def future(compiled: Compile) -> Any:
    def f(x: torch.Tensor) -> Any:
        y = x * 2
        dist.all_reduce(y, async_op=True).get_future().wait()
        return y

    return compiled(f)(torch.randn(8, 4))


@breaking
def not_contiguous(compiled: Compile) -> Any:
    def f(x: torch.Tensor) -> Any:
        y = x * 2
        try:
            dist.all_reduce(y.t())
        except ValueError:
            return y - 1
        return y

    return compiled(f)(torch.randn(8, 4))


@breaking
def recorded(compiled: Compile) -> Any:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        dist.all_reduce(y)
        return y * 3

    return trained(f)(compiled)


@breaking
def objects(compiled: Compile) -> Any:
    def f(x: torch.Tensor) -> torch.Tensor:
        found: list[Any] = [None, None]
        dist.all_gather_object(found, dist.get_rank())
        return x + found[1]

    return compiled(f)(torch.randn(8, 4))


@breaking
def point_to_point(compiled: Compile) -> Any:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if dist.get_rank() == 0:
            dist.send(y, 1)
        else:
            dist.recv(y, 0)
        return y + 1

    return compiled(f)(torch.randn(8, 4))


# ---- what runs as it is written --------------------------------------------------------------------------------------


def breaking_on_rows(function: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
    BREAKING[function.__name__] = on_rows(function, 8, 6)
    return function


@breaking_on_rows
def reduce(x: torch.Tensor) -> Any:
    y, z = x * 2, x * 3
    dist.reduce(y, 0)
    dist.reduce(z, 1, op=dist.ReduceOp.MAX)
    return (y if dist.get_rank() == 0 else z) + 1  # what the other one has is not said


@breaking_on_rows
def scatters_and_gathers(x: torch.Tensor) -> Any:
    is_first, half = dist.get_rank() == 0, torch.empty(len(x) // 2, 4)
    dist.scatter(half, [part * 2 for part in x.chunk(2)] if is_first else None)
    found = [torch.empty_like(half) for _ in range(2)] if is_first else None
    dist.gather(half + 1, found)
    return half, found


@breaking_on_rows
def lists(x: torch.Tensor) -> Any:
    halves = [part * 2 for part in x.chunk(2)]
    taken, part = [torch.empty_like(half) for half in halves], torch.empty_like(halves[0])
    dist.all_to_all(taken, halves)
    dist.reduce_scatter(part, halves)
    return taken, part + 1


@breaking_on_rows
def to_each_other(x: torch.Tensor) -> Any:
    y, z, other = x * 2, torch.empty_like(x), 1 - dist.get_rank()
    works = [dist.isend(y, other), dist.irecv(z, other)]
    total = y.sin().sum()
    for work in works:
        work.wait()
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, z, other), dist.P2POp(dist.irecv, y, other)]):
        work.wait()
    return z + total, y


@breaking_on_rows
def all_objects(x: torch.Tensor) -> Any:
    rank = dist.get_rank()
    shared, taken = [rank + 5, "a" * rank], [None]
    dist.broadcast_object_list(shared, 1)
    dist.scatter_object_list(taken, [3, 4] if rank == 0 else None)
    gathered = [None, None] if rank == 0 else None
    dist.gather_object(rank, gathered)
    return x + shared[0] + taken[0], shared, gathered


@breaking_on_rows
def collected(x: torch.Tensor) -> Any:
    y, z, group = x * 2, x.sum(0), dist.new_group([0, 1])
    dist.all_reduce_coalesced([y, z], group=group)
    return y, z
