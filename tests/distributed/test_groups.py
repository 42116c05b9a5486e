"""Process groups in guards, with a group of one process: what a graph depends on, and what it is called with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
from torch.distributed.device_mesh import init_device_mesh

import onegraph
from onegraph.base import events as ev
from onegraph.compile import EVENTS
from onegraph.tools.logs import render


@pytest.fixture(autouse=True)
def _world() -> Iterator[None]:
    start()
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def start() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


def captured(function: Any, *args: Any) -> str:
    """The operators of a function's graph, by their names and arguments."""
    found: list[str] = []

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Any:
        nodes = [node for node in module.graph.nodes if node.op.startswith("call")]
        found.append("\n".join(f"{node.name} = {node.target}{node.args}" for node in nodes))
        return module.forward

    wanted = function(*args)
    onegraph.reset()
    result = onegraph.compile(function, fullgraph=True, backend=backend)(*args)
    torch.testing.assert_close(result, wanted + 0 if isinstance(wanted, torch.Tensor) else wanted)
    (text,) = found
    return text


def test_functional_collectives_are_operators() -> None:
    assert captured(lambda x: fc.all_reduce(x * 2, "SUM", dist.group.WORLD) + dist.get_world_size(), torch.ones(2)) == (
        "mul = mul(x, 2)\n"
        "all_reduce = _c10d_functional.all_reduce(mul, 'sum', '0')\n"
        "wait_tensor = _c10d_functional.wait_tensor(all_reduce,)\n"
        "add = add(all_reduce, 1)"
    )


def test_writing_ones_copy_what_those_give() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        dist.all_reduce(y, async_op=True).wait()
        return y + 1

    assert "copy_" in (text := captured(f, torch.ones(2))) and text.count("all_reduce =") == 1


def versions(function: Any, *calls: Any) -> int:
    """How many versions the calls of a function need."""
    onegraph.counters.clear()
    compiled = onegraph.compile(function, fullgraph=True)
    for call in calls:
        call(compiled)
    return int(onegraph.counters["stats"]["unique_graphs"])


def test_a_group_that_is_made_anew_is_the_same_one() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        dist.all_reduce(y)
        return y + dist.get_rank()

    def again(compiled: Any) -> None:
        dist.destroy_process_group()
        start()
        assert compiled(torch.ones(2)).tolist() == [2, 2]

    assert versions(f, lambda compiled: compiled(torch.ones(2)), again) == 1


def test_without_the_group_it_is_eager_modes_error() -> None:
    compiled = onegraph.compile(lambda x: fc.all_reduce(x, "sum", dist.group.WORLD) + 1)
    compiled(torch.ones(2))
    dist.destroy_process_group()
    with pytest.raises(ValueError, match="Unsupported group type"):
        compiled(torch.ones(2))


def test_another_group_is_another_version() -> None:
    one, other = dist.group.WORLD, dist.new_group([0])

    def f(x: torch.Tensor, group: Any) -> torch.Tensor:
        return fc.all_reduce(x, "sum", group) + 1

    def call(group: Any) -> Any:
        return lambda compiled: compiled(torch.ones(2), group)

    assert versions(f, call(one), call(other), call(one)) == 2


def test_another_reduction_is_another_version() -> None:
    def f(x: torch.Tensor, op: Any) -> torch.Tensor:
        y = x * 2
        dist.all_reduce(y, op)
        return y

    ops = [dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.SUM]
    assert versions(f, *[lambda compiled, op=op: compiled(torch.ones(2), op) for op in ops]) == 2


def test_a_mesh_is_known_by_what_it_is() -> None:
    def f(x: torch.Tensor, mesh: Any) -> torch.Tensor:
        return fc.all_reduce(x, "sum", mesh) + mesh.size() + mesh.get_local_rank()

    mesh = init_device_mesh("cpu", (1,))
    assert versions(f, *[lambda compiled: compiled(torch.ones(2), mesh)] * 2) == 1
    assert "_c10d_functional.all_reduce" in captured(f, torch.ones(2), mesh)


def test_guards_say_what_the_group_was() -> None:
    found: list[str] = []
    undo = EVENTS.subscribe(lambda e: found.append(render(e)) if isinstance(e, ev.GuardsBuilt) else None)
    onegraph.compile(lambda x: x + dist.get_rank(), fullgraph=True)(torch.ones(2))
    undo()
    assert "is the process group '0' (gloo) of the ranks (0,), of which this is number 0" in found[0]


def test_collected_collectives_run_as_they_are_written() -> None:
    coalesced: Any = dist.distributed_c10d._coalescing_manager

    def f(x: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(x)
        return x + 1

    compiled, x = onegraph.compile(f), torch.ones(2)
    compiled(x)
    onegraph.counters.clear()
    with coalesced():
        compiled(x)
    assert list(onegraph.counters["graph_break"]) == ["communication"]


def test_a_collective_that_nobody_reads_is_issued() -> None:
    text: list[str] = []
    undo = EVENTS.subscribe(lambda e: text.append(e.text()) if isinstance(e, ev.MemoryPlanned) else None)

    def f(x: torch.Tensor) -> torch.Tensor:
        fc.all_reduce(x, "sum", dist.group.WORLD)
        fc.all_reduce(x, "sum", dist.group.WORLD)
        dist.barrier()
        return x + 1

    onegraph.compile(f, fullgraph=True)(torch.ones(2))
    undo()
    assert text[0].count("all_reduce") == 2 and text[0].count("barrier") == 1
    assert text[0].index("all_reduce") < text[0].index("barrier")


def test_backward_graphs_do_not_issue_what_forward_graphs_have_issued() -> None:
    text: list[str] = []
    undo = EVENTS.subscribe(lambda e: text.append(e.text()) if isinstance(e, ev.MemoryPlanned) else None)
    x = torch.ones(4, requires_grad=True)
    onegraph.compile(lambda x: fc.all_reduce(x.exp(), "sum", dist.group.WORLD).sin(), fullgraph=True)(
        x
    ).sum().backward()
    undo()
    assert [each.count("all_reduce") for each in text] == [1, 1]  # the second is that of the gradient
