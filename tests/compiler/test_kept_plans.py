"""Plans on disk: a graph that was compiled before is found by its text, and by nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from autograd.programs import functional
from torch import Tensor
from torch.nn import functional as F

import onegraph
from onegraph.autograd.runtime import bind
from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.base.events import Event, Events, Recompiled, StageTimed
from onegraph.compile import EVENTS
from onegraph.compiler import compile_graph, pipeline
from onegraph.compiler.codegen import kernels
from onegraph.compiler.cpu import CPU
from onegraph.compiler.kept_graphs import KeptRecipe
from onegraph.compiler.kept_plans import place_of
from onegraph.compiler.pipeline import NativeGraph

TABLE = torch.tensor([3.0, -1.0, 2.0])


def fused(x: Tensor, y: Tensor) -> Any:
    return (x * 2.5 + y).sin().sum(0), x - y


def products(x: Tensor, y: Tensor) -> Any:
    return (torch.mm(x, y.t()).relu() @ x,)


def written(x: Tensor, y: Tensor) -> Any:
    x.mul_(y).add_(1)
    return (x.view(-1)[::2],)


def resized(x: Tensor, y: Tensor) -> Any:
    return (F.interpolate((x * y)[None, None], scale_factor=1.7, mode="bicubic"),)


def with_constants(x: Tensor, y: Tensor) -> Any:
    return (x[:, :3] * torch.tensor([3.0, -1.0, 2.0]) + y.sum() * torch.tensor(1.5),)


def taken(x: Tensor, y: Tensor) -> Any:
    return (x[torch.tensor([0, 2]), 1:] * 2, torch.gather(y, 1, (x > 0).long()), y.bool(), y.to(torch.int8))


def drawn(x: Tensor, y: Tensor) -> Any:
    return (torch.rand_like(x) + y, F.dropout(x * y, 0.5, True))


def numbers(x: Tensor, y: Tensor) -> Any:
    return (torch.where(x > y, float("inf"), -0.0), torch.full((2,), 3 - 2j), x.new_zeros(0, 3))


PROGRAMS = (fused, products, written, resized, with_constants, taken, drawn, numbers)


def context(folder: Path, seen: list[Event] | None = None, **options: Any) -> Context:
    events = Events()
    if seen is not None:
        events.subscribe(seen.append)
    return Context(Config(cache_dir=folder, **options), events)


def examples() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(4, 5), torch.rand(4, 5) + 0.5


def outcome(program: Callable[..., Any], cx: Context) -> tuple[NativeGraph, list[Any]]:
    graph = functional(program, *examples())
    native = compile_graph(graph.module, cx, CPU)
    inputs = examples()
    with torch.no_grad():
        return native, [*bind(graph.spec, native)(*inputs), *inputs]


def forget_kernels() -> None:
    """As another process would: the code is loaded from disk."""
    kernels.LIVING.clear()


def refused(*_: object) -> Any:
    raise AssertionError("the graph is lowered again")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_graph_is_found_again(program: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before: list[Event] = []
    cold, wanted = outcome(program, context(tmp_path, before))
    forget_kernels()
    after: list[Event] = []
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "lower_graph", refused)
        warm, found = outcome(program, context(tmp_path, after))
    torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
    assert (warm.plan, warm.kernels, warm.fallbacks) == (cold.plan, cold.kernels, cold.fallbacks)
    for stage in ("aten", "loops", "fused", "memory", "llvm"):
        assert warm.text(stage) == cold.text(stage)
    passes = {"PassRun", "StageTimed", "KernelsCompiled", "DiskSearched"}  # what was done, and how long it took
    told = [[type(e).__name__ for e in seen if type(e).__name__ not in passes] for seen in (before, after)]
    assert told[0] == told[1]


def test_constants_are_found_by_their_places(tmp_path: Path) -> None:
    """Equal graphs may name their constants differently, and the other way round."""

    def made(names: tuple[str, str]) -> Any:
        graph = functional(lambda x, y: (x * 2 + y,), *examples())
        holder, nodes = torch.nn.Module(), list(graph.module.graph.nodes)
        values = {}
        for name, value in zip(names, (3.0, 5.0), strict=True):
            holder.register_buffer(name, torch.full((4, 5), value))
            with graph.module.graph.inserting_before(nodes[0]):
                values[name] = graph.module.graph.get_attr(name)
            values[name].meta["val"] = nodes[0].meta["val"]
        first, second = (values[name] for name in names)
        module = torch.fx.GraphModule(holder, graph.module.graph)
        product = next(node for node in nodes if node.target is torch.ops.aten.mul.Tensor)
        total = next(node for node in nodes if node.target is torch.ops.aten.add.Tensor)
        product.args, total.args = (nodes[0], first), (product, second)
        return compile_graph(module, context(tmp_path), CPU)

    x, y = examples()
    for names in (("a", "b"), ("b", "a"), ("c", "d")):
        forget_kernels()
        torch.testing.assert_close(made(names)(x, y)[0], x * 3 + 5)
    assert len([*(tmp_path / "plans").iterdir()]) == 1


def test_errors_of_kernels_are_the_same(tmp_path: Path) -> None:
    def outside(x: Tensor, y: Tensor) -> Any:
        return (x[(y * 100).long()[:, 0]] * 2,)

    for _ in range(2):
        with pytest.raises(IndexError, match="index .* out of"):
            outcome(outside, context(tmp_path))
        forget_kernels()


def variants() -> dict[str, Callable[[], tuple[Any, ...]]]:
    """Graphs of which no two are the same: a program, its inputs, and more arguments."""
    x, y = examples()
    return {
        "plain": lambda: (fused, (x, y)),
        "another literal": lambda: (lambda x, y: ((x * 2.25 + y).sin().sum(0), x - y), (x, y)),
        "an integer": lambda: (lambda x, y: ((x * 2 + y).sin().sum(0), x - y), (x, y)),
        "a switch": lambda: (lambda x, y: ((x * True + y).sin().sum(0), x - y), (x, y)),
        "other results": lambda: (lambda x, y: ((x * 2.5 + y).sin().sum(0), x), (x, y)),
        "another size": lambda: (fused, (x[:3], y[:3])),
        "other strides": lambda: (fused, (x.t().contiguous().t(), y)),
        "another type": lambda: (fused, (x.double(), y)),
        "another place": lambda: (fused, (torch.randn(21)[1:].view(4, 5), y)),
        "an integer more": lambda: (lambda x, y: (x * 2.5, y + 1), (x, y)),
        "a number more": lambda: (lambda x, y: (x * 2.5, y + 1.0), (x, y)),
        "a table": lambda: (lambda x, y: (x[:, :3] * torch.tensor([3.0, -1.0, 2.0]), y), (x, y)),
        "another table": lambda: (lambda x, y: (x[:, :3] * torch.tensor([3.0, -1.0, 2.5]), y), (x, y)),
        "another zero": lambda: (lambda x, y: (x + 0.0, y), (x, y)),
        "a negative zero": lambda: (lambda x, y: (x + -0.0, y), (x, y)),
    }


def key(name: str, cx: Context, given: dict[int, int] | None = None, consumes: bool = False) -> str:
    program, inputs = variants()[name]()
    place = place_of(functional(program, *inputs).module, cx, CPU, given, consumes)
    assert place is not None
    return place.key


def test_other_graphs_have_other_names(tmp_path: Path) -> None:
    cx = context(tmp_path)
    keys = [key(name, cx) for name in variants()]
    keys += [key("plain", cx, {0: 0}), key("plain", cx, consumes=True)]
    keys += [key("plain", context(tmp_path, eager_rounding=False))]
    keys += [key("plain", context(tmp_path, target_cpu="haswell"))]
    torch.use_deterministic_algorithms(True)
    try:
        keys.append(key("plain", cx))
    finally:
        torch.use_deterministic_algorithms(False)
    assert len(set(keys)) == len(keys)
    assert key("plain", cx) == keys[0]


def test_another_lowering_is_another_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from onegraph.compiler.lower import registry

    before = key("plain", context(tmp_path))
    monkeypatch.setitem(registry._TABLE, torch.ops.aten.sin.default, lambda g, x: x)
    assert key("plain", context(tmp_path)) != before


@pytest.mark.parametrize("options", [{"cache": False}, {"cache_plans": False}, {"verify": True}, {"sanitize": True}])
def test_nothing_is_kept_where_it_is_not_to_be(options: dict[str, bool], tmp_path: Path) -> None:
    outcome(fused, context(tmp_path, **options))
    assert not (tmp_path / "plans").exists()


def test_large_tensors_of_the_program_are_not_kept(tmp_path: Path) -> None:
    outcome(lambda x, y: (x * torch.full((4, 5), 1.5), y), context(tmp_path))
    outcome(with_constants, context(tmp_path))
    assert all(path.stat().st_size < 4000 for path in (tmp_path / "plans").iterdir())


@pytest.mark.parametrize("gone", ["objects", "plans"])
def test_what_is_gone_is_made_again(gone: str, tmp_path: Path) -> None:
    _, wanted = outcome(fused, context(tmp_path))
    for path in (tmp_path / gone).iterdir():
        path.unlink()
    forget_kernels()
    _, found = outcome(fused, context(tmp_path))
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    assert [*(tmp_path / gone).iterdir()]


def test_what_is_no_plan_is_made_again(tmp_path: Path) -> None:
    _, wanted = outcome(fused, context(tmp_path))
    (path,) = (tmp_path / "plans").iterdir()
    place = place_of(functional(fused, *examples()).module, context(tmp_path), CPU, None, False)
    assert place is not None and path.name == place.key

    def is_plan() -> bool:
        with place.find_or_make() as entry:
            return entry is not None

    assert is_plan()
    for content in (b"", b"1", b'{"Slot": [1]}', b"{", b'{"KeptPlan": [1]}'):
        place.disk.store(place.key, content)
        assert not is_plan()
        _, found = outcome(fused, context(tmp_path))
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)
        assert is_plan()


SCRIPT = """
import sys, torch, onegraph
from onegraph.base.events import StageTimed
from onegraph.compile import EVENTS
stages = []
EVENTS.subscribe(lambda event: stages.append(event.stage) if isinstance(event, StageTimed) else None)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 3))
compiled = onegraph.compile(model, fullgraph=True, options={"smallest_recorded_graph": 0, "cache_captures": False})
x = torch.randn(5, 8)
compiled(x).square().sum().backward()
assert "compile: find plan" in stages
print("lowered" if "compile: lower" in stages else "found", [p.grad.sum().item() for p in model.parameters()])
"""


def test_another_process_finds_a_step_of_training(tmp_path: Path) -> None:
    def run() -> tuple[str, str]:
        environment = {"PATH": "/usr/bin:/bin", "ONEGRAPH_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
        printed = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
        ).stdout
        what, _, gradients = printed.partition(" ")
        return what, gradients

    (first, wanted), (second, found) = run(), run()
    assert (first, second) == ("lowered", "found")
    assert found == wanted


def test_numbers_that_change_are_not_asked(tmp_path: Path) -> None:
    """A graph with symbols has no text, and looking for one says nothing of their values."""

    def program(x: Tensor, step: int, scale: float) -> Tensor:
        return (x * (1.0 + 0.1 * step) + scale).cumsum(0)[x.shape[0] // 2 :]

    stages: list[str] = []
    unsubscribe = EVENTS.subscribe(
        lambda event: stages.append(type(event).__name__) if isinstance(event, Recompiled) else None
    )
    compiled = onegraph.compile(program, fullgraph=True, options={"cache_dir": tmp_path, "verify": False})
    try:
        for number in range(2, 9):
            x = torch.randn(number + 1, 3)
            torch.testing.assert_close(compiled(x, number, number / 3), program(x, number, number / 3))
    finally:
        unsubscribe()
    assert len(stages) == 1


def test_a_region_finds_what_was_kept(tmp_path: Path) -> None:
    stages: list[str] = []
    unsubscribe = EVENTS.subscribe(lambda event: stages.append(event.stage) if isinstance(event, StageTimed) else None)
    x, y = examples()
    try:
        for expected in (True, False):
            stages.clear()
            options = {"cache_dir": tmp_path, "verify": False}
            found = onegraph.compile(fused, fullgraph=True, options=options)(x, y)
            torch.testing.assert_close(found, fused(x, y))
            assert ("compile: lower" in stages) is expected
            onegraph.reset()
    finally:
        unsubscribe()


@pytest.mark.parametrize(("module", "name"), [("linear", "partial"), ("linear", "nothing"), ("recipe", "Recipe")])
def test_a_recipe_is_a_function_of_the_library(module: str, name: str) -> None:
    assert KeptRecipe("linear", "packed_weight", (), ()).made().function.__name__ == "packed_weight"
    with pytest.raises(ValueError, match="has no function"):
        KeptRecipe(module, name, (), ()).made()
