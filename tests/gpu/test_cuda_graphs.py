"""CUDA graphs of plans over the stand-in: captured on the second call with the same sizes, then launched as a whole."""

from __future__ import annotations

import gc
import inspect
import random
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
from onegraph.compiler.runtime.cuda_graphs import (
    FORWARD_REFUSED,
    IN_FLIGHT,
    MOST,
    GraphedPlan,
    aside,
    saved_alone,
    stream_of,
    unsuitable_call,
    unsuitable_parts,
)
from onegraph.compiler.runtime.launcher import launcher
from onegraph.compiler.target import Role, Shared
from onegraph.ir.plan import Compute, ExecPlan, Launch, Pointer, Register, Return, Slot, ViewOf
from onegraph.ir.types import F32
from onegraph.torchlib.private import STORAGES

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
    stream, one_at_a_time = driver.stream(), threading.Lock()

    @contextmanager
    def aside(pool: Any) -> Iterator[object]:
        with one_at_a_time, driver.using(stream):
            yield pool

    def make(plan: ExecPlan, fixed: Any = (), constants: Any = None, role: Role | None = None) -> GraphedPlan:
        addresses = [kernel.address for kernel in kernels]
        run = launcher(plan, addresses, constants or {}, keep=tuple(kernels), device="cuda")
        return GraphedPlan(run, plan, role or Role(fixed=frozenset(fixed)), aside, driver.path, "cpu")

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
        "aten.bernoulli.p takes a tensor, and draws random numbers",
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
            ("aten.rand.default", None),
            ("aten.rand_like.default", "aten.rand_like.default takes a tensor, and draws random numbers"),
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
    assert run.why_not == why and not run.captures


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
    assert not any(size.captures for size in run.captures.values())


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


# ---- forward and backward --------------------------------------------------------------------------------------------

#: x to (x + 1) * 2, and x + 1, which is saved.
FORWARD = plan_of(*SIZED.steps[:-1], Return((Slot(2), Slot(1))))
#: What is saved, doubled, and a gradient plus one.
BACKWARD = plan_of(
    Compute(0, "size", 0, 0),
    Compute(1, "add", Register(0), BLOCK - 1),
    Compute(2, "floordiv", Register(1), BLOCK),
    alloc(2, F32, (Register(0),), (1,)),
    alloc(3, F32, (Register(0),), (1,)),
    Launch(1, (Pointer(0), Pointer(2)), (Register(0),), grid=(Register(2),)),
    Launch(0, (Pointer(1), Pointer(3)), (Register(0),), grid=(Register(2),)),
    Return((Slot(2), Slot(3))),
    inputs=(Slot(0), Slot(1)),
)


@pytest.fixture
def pair(graphed: Callable[..., GraphedPlan]) -> tuple[GraphedPlan, GraphedPlan]:
    shared = Shared()
    forward = graphed(FORWARD, role=Role("forward", saved=frozenset({1}), shared=shared))
    return forward, graphed(BACKWARD, role=Role("backward", taken=frozenset({0}), shared=shared))


def test_what_is_saved_is_read_where_it_lies(driver: StandIn, pair: tuple[GraphedPlan, GraphedPlan]) -> None:
    forward, backward = pair
    places = set()
    for call in range(5):
        x, gradient = torch.randn(9), torch.randn(9)
        result, saved = forward(x)
        assert hows(driver) == ["replay" if call else "launch"] * 2
        places |= {saved.data_ptr()} if call else set()
        given = [saved, gradient]
        del saved
        twice, added = backward.consume(given)
        copies = [line.split()[2] for line in driver.lines() if line.startswith("copy")]
        assert copies == ([str(gradient.data_ptr())] if call > 1 else [])
        assert not given and hows(driver) == ["replay" if call > 1 else "launch"] * 2
        assert torch.equal(result, (x + 1) * 2) and torch.equal(twice, result) and torch.equal(added, gradient + 1)
    assert len(places) == 1 and places == forward.role.shared.memories.keys()


def test_a_view_of_what_is_saved_keeps_it(driver: StandIn, pair: tuple[GraphedPlan, GraphedPlan]) -> None:
    forward, _ = pair
    forward(torch.zeros(8))
    parts = [forward(torch.full((8,), float(call)))[1][3:].view(5, 1) for call in range(IN_FLIGHT)]
    assert len({part.data_ptr() for part in parts}) == IN_FLIGHT and set(hows(driver)[2:]) == {"replay"}
    forward(torch.zeros(8))
    assert hows(driver) == ["launch"] * 2
    assert [part.tolist() for part in parts] == [[[call + 1.0]] * 5 for call in range(IN_FLIGHT)]
    assert forward.told == {f"what {IN_FLIGHT} calls have saved for their backward passes is still there"}
    storage = parts.pop().untyped_storage()
    forward(torch.zeros(8))
    assert hows(driver) == ["launch"] * 2
    del storage
    forward(torch.zeros(8))
    assert hows(driver) == ["replay"] * 2 and forward.why_not is None


def test_a_backward_graph_is_captured_with_its_forward_graph_alone(
    driver: StandIn, pair: tuple[GraphedPlan, GraphedPlan]
) -> None:
    forward, backward = pair
    for _ in range(3):  # what is saved lies anywhere
        backward(torch.ones(4), torch.ones(4))
    assert hows(driver) == ["launch"] * 6 and backward.why_not is None
    for _ in range(2):
        _, saved = forward(torch.ones(4))
    for _ in range(2):
        backward(saved, torch.ones(4))
    assert set(hows(driver)[-2:]) == {"replay"}
    forward.refuse("a test")
    for _ in range(2):
        assert backward(saved, torch.ones(4))[0].tolist() == [4] * 4
    assert hows(driver) == ["launch"] * 4 and backward.why_not == FORWARD_REFUSED
    assert not forward.role.shared.memories


def test_graphs_of_one_memory_wait_for_each_other(driver: StandIn, pair: tuple[GraphedPlan, GraphedPlan]) -> None:
    """A forward graph on another stream than the last backward graph's would write to what that still reads."""
    forward, backward = pair
    first, second = driver.stream(), driver.stream()

    def step(here: int, there: int) -> list[str]:
        with driver.using(here):
            _, saved = forward(torch.ones(4))
        with driver.using(there):
            backward(saved, torch.ones(4))
        found = [line.split()[0] for line in driver.lines() if not line.startswith("copy")]
        driver.forget()
        return found

    for _ in range(3):
        step(first, first)
    assert step(first, first) == ["replay"] * 4
    assert step(first, second) == ["replay"] * 2 + ["synchronize"] + ["replay"] * 2
    assert step(first, first) == ["synchronize"] + ["replay"] * 4
    with pytest.raises(TypeError, match="shares the memory of one that has its own"):
        graph = _C.CudaGraph((), driver.path)
        _C.CudaGraph((), driver.path, 0, _C.CudaGraph((), driver.path, 0, graph))


def test_a_call_in_the_middle_of_another_one_is_launched(
    driver: StandIn, pair: tuple[GraphedPlan, GraphedPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As finalizers may make it: the results of the outer one are not copied yet."""
    forward, _ = pair
    for _ in range(2):
        forward(torch.ones(4))
    driver.forget()
    clone, inner = torch.UntypedStorage.clone, []

    def calling(storage: Any) -> Any:
        if not inner:
            inner.append(None)
            inner.append(forward(torch.zeros(4))[0])
        return clone(storage)

    monkeypatch.setattr(torch.UntypedStorage, "clone", calling)
    result, _ = forward(torch.ones(4))
    assert result.tolist() == [4] * 4 and inner[1].tolist() == [2] * 4


class Flying:
    """Random calls of a pair: what a forward graph has saved stays what it is until the last one has let go of it."""

    def __init__(self, seed: int, pair: tuple[GraphedPlan, GraphedPlan]) -> None:
        self.random = random.Random(seed)
        self.forward, self.backward = pair
        self.calls: list[tuple[torch.Tensor, Any]] = []

    def start(self) -> None:
        x = torch.full((self.random.choice((3, 5, 9)),), float(self.random.randrange(1000)))
        result, saved = self.forward(x)
        assert torch.equal(result, (x + 1) * 2)
        self.calls.append((x, self.random.choice((saved, saved[1:], saved.untyped_storage())) if x[0] < 100 else saved))

    def finish(self) -> None:
        whole = [
            n for n, (x, saved) in enumerate(self.calls) if isinstance(saved, torch.Tensor) and len(saved) == len(x)
        ]
        if whole:
            at = self.random.choice(whole)
            x, saved = self.calls[at] if self.random.random() < 0.3 else self.calls.pop(at)
            given = [saved, x]
            del saved
            twice, added = self.backward.consume(given)
            assert torch.equal(twice, (x + 1) * 2) and torch.equal(added, x + 1)

    def drop(self) -> None:
        if self.calls:
            self.calls.pop(self.random.randrange(len(self.calls)))

    def check(self) -> None:
        for x, saved in self.calls:
            seen = saved if isinstance(saved, torch.Tensor) else torch.empty(0).set_(saved)
            assert (seen == x[0] + 1).all()

    def run(self) -> None:
        for _ in range(12):
            self.random.choice((self.start, self.start, self.finish, self.finish, self.drop))()
            self.check()


def test_a_thousand_random_sequences(driver: StandIn, pair: tuple[GraphedPlan, GraphedPlan]) -> None:
    for seed in range(1000):
        Flying(seed, pair).run()
    found = hows(driver)
    assert found.count("replay") > 10 * found.count("launch")
    assert pair[0].why_not is None and pair[1].why_not is None


def test_what_shares_memory_with_a_result_is_copied_with_it() -> None:
    result, own = torch.ones(4), torch.ones(2)
    values = (result, result[1:], own, own.view(2, 1), torch.empty(0), 5)
    assert saved_alone(values, (None,) * 6, frozenset({1, 2, 3, 4, 5})) == {2, 3}
    assert saved_alone(values, (None, None, 0, None, None, None), frozenset({1, 2, 3})) == frozenset()


def test_a_torch_that_does_not_say_who_has_memory(
    graphed: Callable[..., GraphedPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(STORAGES, "is_there", False)
    shared = Shared()
    forward = graphed(FORWARD, role=Role("forward", saved=frozenset({1}), shared=shared))
    backward = graphed(BACKWARD, role=Role("backward", taken=frozenset({0}), shared=shared))
    assert (forward.why_not, backward.why_not) == ("this torch does not say who has memory", FORWARD_REFUSED)
    assert graphed(SIZED).why_not is None


def test_a_role_without_graphs(driver: StandIn, graphed: Callable[..., GraphedPlan]) -> None:
    run = graphed(SIZED, role=Role("backward", why_not="it runs in pieces"))
    for _ in range(3):
        run(torch.ones(4))
    assert run.told == {"it runs in pieces"} and hows(driver) == ["launch"] * 6


def test_parts_of_a_program_that_are_not_captured() -> None:
    draws = "aten.rand_like.default"
    why = unsuitable_call(draws)
    assert [*unsuitable_parts([("forward", [draws]), ("backward", [])])] == [
        ("forward", why),
        ("backward", FORWARD_REFUSED),
    ]
    assert [*unsuitable_parts([("forward", []), ("backward", [draws])])] == [("backward", why)]
    assert [*unsuitable_parts([("inference", ["aten.mm.default", draws])])] == [("inference", why)]


def test_attention_draws_nothing_without_dropout(graphed: Callable[..., GraphedPlan]) -> None:
    attention = "aten.scaled_dot_product_attention.default"
    x = Slot(0)
    for call, draws in [
        (extern(attention, x, x, x, out=Slot(1)), False),
        (extern(attention, x, x, x, None, 0.0, True, out=Slot(1)), False),
        (extern(attention, x, x, x, None, 0.1, out=Slot(1)), True),
        (extern(attention, x, x, x, dropout_p=0.5, out=Slot(1)), True),
    ]:
        run = graphed(plan_of(call, Return((Slot(1),))))
        assert run.why_not == (f"{attention} takes a tensor, and draws random numbers" if draws else None)
    assert unsuitable_call(attention) is None


def test_random_numbers_of_another_device(graphed: Callable[..., GraphedPlan]) -> None:
    run = graphed(plan_of(extern("aten.rand.default", (2,), device="meta", out=Slot(1)), Return((Slot(1),))))
    assert run(torch.ones(1))[0].is_meta and run.why_not == "it draws random numbers on another device"


def test_random_numbers_are_drawn_before_each_launch(driver: StandIn, graphed: Callable[..., GraphedPlan]) -> None:
    """In the order of the plan, of the sizes of the inputs."""
    draw = partial(extern, device="cpu", dtype=torch.float32)
    plan = plan_of(
        Compute(0, "size", 0, 0),
        draw("aten.randn.default", (Register(0),), out=Slot(1)),
        alloc(2, F32, (Register(0),), (1,)),
        Launch(1, (Pointer(1), Pointer(2)), (Register(0),), grid=(2,)),
        draw("aten.rand.default", (2,), out=Slot(3)),
        Return((Slot(2), Slot(3))),
    )
    run = graphed(plan)
    torch.manual_seed(5)
    found = [run(torch.ones(size)) for size in (4, 4, 7, 4, 7, 7)]
    assert hows(driver) == ["launch", "replay", "launch", "replay", "replay", "replay"]
    torch.manual_seed(5)
    for size, (doubled, last) in zip((4, 4, 7, 4, 7, 7), found, strict=True):
        assert torch.equal(doubled, 2 * torch.randn(size)) and torch.equal(last, torch.rand(2))


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
        with aside(device, None if made else pool) as surroundings:
            assert surroundings is pool
        assert entered == [*made, (stream,), (pool, device), "left", "left"]
    stream_of.cache_clear()
