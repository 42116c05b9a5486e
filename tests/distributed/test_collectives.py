"""What communicates in a graph, in two processes: results and gradients are eager's on both."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import pytest
import torch
import torch.distributed as dist

import onegraph
from tests.distributed.models import import_what_children_need
from tests.distributed.processes import two_processes
from tests.distributed.programs import BREAKING, PROGRAMS, Program


@pytest.fixture(autouse=True, scope="module")
def _imported() -> None:
    """What each child would import and find out, torch's own functional collectives in eager mode, too."""
    import_module("torch._dynamo")
    import_what_children_need()


def settled(value: Any) -> Any:
    """Copies of tensors, which are waited for."""
    if isinstance(value, torch.Tensor):
        return value.detach() + 0 if value.dtype != torch.bool else value
    return [settled(each) for each in value] if isinstance(value, (list, tuple)) else value


def are_close(a: Any, b: Any) -> bool:
    """Without `torch.testing`, which imports distributed tensors where there is a group."""
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.allclose(a, b, rtol=1e-5, atol=1e-6)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(are_close, a, b))
    return bool(a == b)


def check(name: str, run: Program, fullgraph: bool, backend: str) -> None:
    torch.manual_seed(100 + dist.get_rank())
    wanted = settled(run(lambda function: function))
    onegraph.reset()
    onegraph.counters.clear()
    torch.manual_seed(100 + dist.get_rank())
    found = settled(run(lambda function: onegraph.compile(function, fullgraph=fullgraph, backend=backend)))
    assert are_close(found, wanted), f"{name}: {found} is not {wanted}"
    assert fullgraph or onegraph.counters["graph_break"], name


def check_all(programs: list[tuple[str, bool]], backend: str) -> None:
    warnings.simplefilter("ignore")
    for name, fullgraph in programs:
        check(name, (PROGRAMS if fullgraph else BREAKING)[name], fullgraph, backend)
        dist.barrier()


@pytest.mark.parametrize(
    ("backend", "part"), [("eager", slice(0, None, 4)), ("aot_eager", slice(1, None, 3)), ("native", slice(20)),
                          ("native", slice(20, None))],
)  # fmt: skip
def test_one_graph_gives_the_results_of_eager_mode(backend: str, part: slice) -> None:
    two_processes(check_all, [(name, True) for name in list(PROGRAMS)[part]], backend)


def test_what_is_not_followed_runs_as_it_is_written() -> None:
    two_processes(check_all, [(name, False) for name in BREAKING], "native")
