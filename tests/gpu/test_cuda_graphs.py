"""CUDA graphs of plans over the stand-in: captured on the second call with the same sizes, then launched as a whole."""

from __future__ import annotations

import gc
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from gpu.driver import Kind, StandIn
from gpu.test_plans import BLOCK, INFOS, kernels, plan_of
from native.planning import alloc, extern

from onegraph import _C
from onegraph.compiler.runtime.cuda_graphs import MOST, GraphedPlan, aside, stream_of, unsuitable_call
from onegraph.compiler.runtime.launcher import launcher
from onegraph.ir.plan import Compute, ExecPlan, Launch, Pointer, Register, Return, Slot, ViewOf
from onegraph.ir.types import F32

__all__ = ["kernels"]  # a fixture

#: All memory that is made is returned: what would be freed here is that of a pool on a device.
SIZED = plan_of(
    Compute(0, "size", 0, 0),
    Compute(1, "add", Register(0), BLOCK - 1),
    Compute(2, "floordiv", Register(1), BLOCK),
    alloc(1, F32, (Register(0),), (1,)),
    alloc(2, F32, (Register(0),), (1,)),
    Launch(0, (Pointer(0), Pointer(1)), (Register(0),), grid=(Register(2),)),
    Launch(1, (Pointer(1), Pointer(2)), (Register(0),), grid=(Register(2),)),
    Return((Slot(1), Slot(2), Register(0), None)),
)


@pytest.fixture
def graphed(driver: StandIn, kernels: list[_C.CudaKernel]) -> Callable[..., GraphedPlan]:
    driver.enter()
    stream = driver.stream()

    @contextmanager
    def aside() -> Iterator[None]:
        with driver.using(stream):
            yield

    def make(plan: ExecPlan, fixed: Any = (), constants: Any = None) -> GraphedPlan:
        addresses = [kernel.address for kernel in kernels]
        run = launcher(plan, addresses, constants or {}, keep=tuple(kernels), device="cuda")
        return GraphedPlan(run, plan, fixed, aside, driver.path, "cpu")

    return make


def hows(driver: StandIn) -> list[str]:
    found = [launch.how for launch in driver.launches()]
    driver.forget()
    return found


def test_the_second_call_captures_and_later_ones_replay(driver: StandIn, graphed: Callable[..., GraphedPlan]) -> None:
    run = graphed(SIZED)
    kept = []
    for call in range(5):
        x = torch.randn(9)
        one, two, size, nothing = run(x)
        assert torch.equal(one, x + 1) and torch.equal(two, (x + 1) * 2) and (size, nothing) == (9, None)
        assert hows(driver) == ["launch" if call == 0 else "replay"] * 2
        kept.append((x, one))
    for x, one in kept:  # results stay what they are
        assert torch.equal(one, x + 1)
    assert run.why_not is None and len(run.captures) == 1


def test_other_sizes_are_other_captures(driver: StandIn, graphed: Callable[..., GraphedPlan]) -> None:
    run = graphed(SIZED)
    for size, how in [(3, "launch"), (8, "launch"), (3, "replay"), (8, "replay"), (5, "launch"), (3, "replay")]:
        x = torch.randn(size)
        assert torch.equal(run(x)[1], (x + 1) * 2)
        assert hows(driver) == [how] * 2
    for size in range(100, 100 + MOST):
        run(torch.randn(size))
    assert run.why_not == f"its inputs have more than {MOST} sizes"
    hows(driver)
    run(torch.randn(3))
    assert hows(driver) == ["launch"] * 2


def test_fixed_inputs_are_used_where_they_lie(driver: StandIn, graphed: Callable[..., GraphedPlan]) -> None:
    add = Launch(0, (Pointer(0), Pointer(1)), (4,), grid=(1,))
    run = graphed(plan_of(add, Return((Slot(1),)), inputs=(Slot(0), Slot(1))), fixed={1})
    total, x = torch.zeros(4), torch.zeros(4)
    for call in range(4):
        x = torch.full((4,), float(call))
        (result,) = run(x, total)
        assert result is total and total.tolist() == [call + 1.0] * 4
    assert hows(driver) == ["launch"] + ["replay"] * 3
    other = torch.zeros(4)
    for _ in range(2):
        run(x, other)
    assert other.tolist() == [4.0] * 4 and hows(driver) == ["launch", "replay"] and len(run.captures) == 2
    run(x, x)
    assert hows(driver) == ["launch"]


def test_results_that_share_memory_still_do(driver: StandIn, graphed: Callable[..., GraphedPlan]) -> None:
    plan = plan_of(
        alloc(1, F32, (6,), (1,)),
        Launch(0, (Pointer(0), Pointer(1)), (6,), grid=(2,)),
        ViewOf(2, 1, (2, 2), (1, 2), 1),
        Return((Slot(1), Slot(2), Slot(1), Slot(0))),
    )
    run = graphed(plan)
    for _ in range(3):
        x = torch.randn(6)
        whole, part, again, given = run(x)
        assert torch.equal(whole, x + 1) and torch.equal(part, (x + 1).as_strided((2, 2), (1, 2), 1))
        assert again is whole and given is x and part.stride() == (1, 2)
        assert part.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()


def test_inputs_with_gaps_and_without_elements(driver: StandIn, graphed: Callable[..., GraphedPlan]) -> None:
    plan = plan_of(
        alloc(1, F32, (4,), (1,)),
        Launch(0, (Pointer(0, 8), Pointer(1)), (4,), grid=(1,)),
        Return((Slot(1),)),
        inputs=(Slot(0), Slot(3), Register(0)),
    )
    run = graphed(plan)
    for _ in range(3):
        x = torch.randn(9)[1:].as_strided((2, 3), (4, 1))
        (result,) = run(x, torch.empty(0, 5), 7)
        assert torch.equal(result, x.as_strided((4,), (1,), x.storage_offset() + 2) + 1)
    assert hows(driver) == ["launch", "replay", "replay"]


def number(steps: Any) -> ExecPlan:
    return plan_of(*steps, Return((Slot(2),)))


PLAIN: dict[str, tuple[ExecPlan, str]] = {
    "random numbers": (
        number([extern("aten.bernoulli.p", Slot(0), 0.5, out=Slot(2))]),
        "aten.bernoulli.p draws random numbers",
    ),
    "a number of the data": (
        plan_of(extern("aten._local_scalar_dense.default", Slot(0), out=Register(1)), Return((Register(1),))),
        "aten._local_scalar_dense.default gives a number that is in the device's memory",
    ),
    "tensors of another device": (
        number([replace(extern("aten.relu.default", Slot(0), out=Slot(2)), device="meta")]),
        "aten.relu.default makes or takes tensors on meta",
    ),
    "a part of an input": (
        plan_of(ViewOf(1, 0, (1,), (1,), 0), Return((Slot(1),))),
        "a result is a part of an input",
    ),
    "a constant": (plan_of(Return((Slot(1),)), constants=[(1, "c")]), "a result is a constant"),
    "a view of a constant": (
        plan_of(ViewOf(2, 1, (1,), (1,), 0), Return((Slot(2),)), constants=[(1, "c")]),
        "a result is a constant",
    ),
}


def test_calls_of_libraries_are_captured_unless_they_say_otherwise() -> None:
    """They work on the current stream, as torch's compiler takes for granted, too."""
    with torch.library._scoped_library("graphed", "DEF") as library:
        library.define("plain(Tensor x) -> Tensor")
        library.define("own_stream(Tensor x) -> Tensor", tags=(torch.Tag.cudagraph_unsafe,))
        for operator, why in [
            ("aten.addmm.default", None),
            ("graphed.plain.default", None),
            ("graphed.own_stream.default", "graphed.own_stream.default is not to be captured, as its tag says"),
            ("aten.rand.default", "aten.rand.default draws random numbers"),
            ("onegraph.region.default", "onegraph.region.default runs in Python"),
        ]:
            assert unsuitable_call(operator) == why


@pytest.mark.parametrize("name", PLAIN)
def test_what_is_not_captured_runs_as_it_is(name: str, driver: StandIn, graphed: Callable[..., GraphedPlan]) -> None:
    plan, why = PLAIN[name]
    constant = torch.ones(1)
    run = graphed(plan, constants={"c": constant})
    for _ in range(3):
        x = torch.ones(1, dtype=torch.int64 if "number of" in name else torch.float32)
        (result,) = run(x)
        if "part" in name:
            assert result.data_ptr() == x.data_ptr()
        if "constant" in name:
            assert result.data_ptr() == constant.data_ptr()
    assert run.why_not == why and not [*filter(None, run.captures.values())]


def test_inputs_on_another_device(driver: StandIn, graphed: Callable[..., GraphedPlan]) -> None:
    for x, why in [
        (torch.ones(2, device="meta"), "an input lies on another device"),
        (torch.ones(2).to_sparse(), "an input is sparse"),
    ]:
        run = graphed(plan_of(Return((Slot(0),))))
        assert run(x)[0] is x and run.why_not == why and run(x)[0] is x


def test_errors_while_a_graph_is_captured(driver: StandIn, graphed: Callable[..., GraphedPlan]) -> None:
    for fails, why in [
        ({"launch_fails": 719}, "launching add_one: unspecified launch failure"),
        ({"instantiate_fails": 700}, "making a graph of launches: an illegal memory access"),
    ]:
        run = graphed(SIZED)
        run(torch.ones(2))
        driver.set(**fails)
        driver.forget()
        assert run(torch.ones(2))[0].tolist() == [2, 2]  # it runs as without graphs
        assert hows(driver) == ["launch"] * 2 and (run.why_not or "").startswith(f"it cannot be captured: {why}")
        assert run(torch.ones(2))[0].tolist() == [2, 2]
    run = graphed(SIZED)
    run(torch.ones(2))
    driver.set(instantiate_fails=2)
    with pytest.raises(torch.OutOfMemoryError):
        run(torch.ones(2))
    assert run(torch.ones(2))[0].tolist() == [2, 2] and run.why_not is None
    assert driver.alive(Kind.GRAPH) == 0


def test_what_synchronizes_cannot_be_captured(driver: StandIn, kernels: list[_C.CudaKernel]) -> None:
    graph = _C.CudaGraph((), driver.path)
    with pytest.raises(RuntimeError, match="the default stream cannot be captured"):
        graph.capture(lambda: None, None)
    with pytest.raises(ValueError, match="a graph that was captured takes 0 inputs"):
        graph.replay()

    def synchronizes() -> None:
        driver.lib.cuCtxSynchronize()

    with driver.using(driver.stream()):
        with pytest.raises(RuntimeError, match=r"ending the capture of a graph of launches: .*_INVALIDATED, 901"):
            graph.capture(synchronizes, None)
        assert driver.complaints() == ["cuCtxSynchronize while a stream captures"]
        driver.forget()
        with pytest.raises(ZeroDivisionError):
            graph.capture(lambda: 1 // 0, None)
        assert graph.capture(lambda: 5, None) == 5  # nothing is left of the others
        graph.replay()
        with pytest.raises(ValueError, match="takes 0 inputs, got 1"):
            graph.replay(torch.ones(1))


def test_where_the_program_captures_it_is_a_part_of_that(driver: StandIn, graphed: Callable[..., GraphedPlan]) -> None:
    run, stream, x = graphed(SIZED), driver.stream(), torch.ones(2)
    run(x)
    outer = _C.CudaGraph((), driver.path)
    driver.forget()
    with driver.using(stream):
        one, two, *_ = outer.capture(lambda: run(x), (run, x))
        x.fill_(5)
        outer.replay()
    assert one.tolist() == [6, 6] and two.tolist() == [12, 12] and hows(driver) == ["replay"] * 2
    assert not [*filter(None, run.captures.values())]


def test_graphs_end_with_what_they_launch(driver: StandIn, kernels: list[_C.CudaKernel]) -> None:
    gc.collect()
    alive = {kind: driver.alive(kind) for kind in (Kind.GRAPH, Kind.EXEC)}
    kernel = driver.kernel("short", "")
    graph = _C.CudaGraph((), driver.path)
    with driver.using(driver.stream()):
        graph.capture(partial(_C.launch_cuda_kernel, kernel.address, (1,), (), ()), kernel)
    del kernel
    driver.kernel("other", "")
    driver.kernel("other", "")
    graph.replay()
    assert [launch.kernel for launch in driver.launches()] == ["short"]
    modules = driver.alive(Kind.MODULE)
    del graph
    driver.kernel("other", "")
    assert {kind: driver.alive(kind) for kind in alive} == alive and driver.alive(Kind.MODULE) < modules


def test_another_stream_waits_for_the_last_one(driver: StandIn, graphed: Callable[..., GraphedPlan]) -> None:
    run = graphed(SIZED)
    first, second = driver.stream(), driver.stream()
    for stream in (first, first, first, second, second, first):
        with driver.using(stream):
            assert run(torch.ones(2))[1].tolist() == [4, 4]
    streams = [launch.stream for launch in driver.launches() if launch.how == "replay"]
    assert streams[::2] == [first, first, second, second, first]


def test_threads_have_graphs_of_their_own(driver: StandIn, graphed: Callable[..., GraphedPlan]) -> None:
    run = graphed(SIZED)
    wrong: list[BaseException] = []

    def calls(seed: int) -> None:
        try:
            for call in range(20):
                x = torch.full((5,), float(seed * 100 + call))
                assert torch.equal(run(x)[1], (x + 1) * 2)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=calls, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(INFOS) == 2 and run.why_not is None


def test_captures_have_a_stream_and_memory_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of torch: this one has no devices, but the same functions."""
    entered: list[Any] = []
    pool, stream = object(), object()

    @contextmanager
    def within(*what: Any) -> Iterator[None]:
        entered.append(what)
        yield
        entered.append("left")

    device = torch.device("cuda", 3)
    assert [*inspect.signature(torch.cuda.use_mem_pool).parameters] == ["pool", "device"]
    assert next(iter(inspect.signature(torch.cuda.stream).parameters)) == "stream"
    monkeypatch.setattr(torch.cuda, "MemPool", lambda: pool)
    monkeypatch.setattr(torch.cuda, "Stream", lambda on: entered.append(on) or stream)
    monkeypatch.setattr(torch.cuda, "use_mem_pool", within)
    monkeypatch.setattr(torch.cuda, "stream", within)
    for made in ([device], []):
        entered.clear()
        with aside(device) as surroundings:
            assert surroundings is pool
        assert entered == [*made, (stream,), (pool, device), "left", "left"]
    stream_of.cache_clear()
