"""Plans whose kernels run on a CUDA device: the launcher against the reference executor, over the stand-in.

Tensors that lie on the CPU stand for the device's, so that kernels, which tests write in Python, can compute.
"""

from __future__ import annotations

import ctypes
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from time import thread_time
from typing import Any

import pytest
import torch
from gpu.driver import Kind, StandIn, image_of
from native.planning import alloc, extern

from onegraph import _C
from onegraph.base.config import Config
from onegraph.compiler.cpu import CPU
from onegraph.compiler.kept_graphs import CODEC, KeptGraph, kept_graph
from onegraph.compiler.runtime.executor import Executor
from onegraph.compiler.runtime.launcher import launcher, no_times
from onegraph.compiler.target import Kept
from onegraph.ir.plan import Alloc, Compute, ExecPlan, Free, KernelInfo, Launch, Pointer, Register, Return, Slot, ViewOf
from onegraph.ir.types import F32

INFOS = (KernelInfo("add_one"), KernelInfo("double"))
BLOCK = 4


def floats(address: int, count: int) -> Any:
    return (ctypes.c_float * count).from_address(address)


def pointwise(function: Callable[[float], float]) -> Callable[[Any, Any], None]:
    """A kernel whose programs take BLOCK elements each, up to the size that it is given."""

    def compute(parameters: Any, grid: Any) -> None:
        count = min(parameters[2], grid[0] * BLOCK)
        source, target = floats(parameters[0], count), floats(parameters[1], count)
        target[:] = [function(x) for x in source]

    return compute


@pytest.fixture
def kernels(driver: StandIn) -> list[_C.CudaKernel]:
    driver.set(any_memory=1)
    driver.bind("add_one", pointwise(lambda x: x + 1))
    driver.bind("double", pointwise(lambda x: 2 * x))
    return [driver.kernel(info.name, "ppi", threads=32) for info in INFOS]


ONE_TENSOR = (Slot(0),)


def plan_of(*steps: Any, inputs: Any = ONE_TENSOR, constants: Any = ()) -> ExecPlan:
    return ExecPlan(tuple(inputs), tuple(constants), 8, 8, INFOS, steps)


def both(plan: ExecPlan, kernels: list[_C.CudaKernel], constants: Any = None) -> tuple[_C.Plan, Executor]:
    addresses = [kernel.address for kernel in kernels]
    native = launcher(plan, addresses, constants or {}, keep=kernels, device="cuda")
    assert isinstance(native, _C.Plan)
    return native, Executor(plan, addresses, constants or {}, code=kernels)


SIZED = plan_of(
    Compute(0, "size", 0, 0),
    Compute(1, "add", Register(0), BLOCK - 1),
    Compute(2, "floordiv", Register(1), BLOCK),
    alloc(1, F32, (Register(0),), (1,), workspace=True),
    alloc(2, F32, (Register(0),), (1,)),
    Launch(0, (Pointer(0), Pointer(1)), (Register(0),), grid=(Register(2),)),
    Launch(1, (Pointer(1), Pointer(2)), (Register(0),), grid=(Register(2), 1)),
    Free((1,), ours=True),
    Return((Slot(2), Register(0))),
)


def test_kernels_between_inputs_and_results(driver: StandIn, kernels: list[_C.CudaKernel]) -> None:
    native, reference = both(SIZED, kernels)
    for count in (1, 4, 5, 1000, 0):
        x = torch.randn(count)
        for run in (native, reference):
            driver.forget()
            result, number = run(x)
            assert torch.equal(result, (x + 1) * 2) and number == count
            launches = driver.launches()
            assert len(launches) == (2 if count else 0)
            for launch in launches:
                assert launch.grid == (-(-count // BLOCK), 1, 1) and launch.block == (32, 1, 1)
                assert launch.parameters[2:] == (count, 0, 0)
            if count:
                assert launches[0].parameters[0] == x.data_ptr() and launches[1].parameters[1] == result.data_ptr()
                assert launches[0].parameters[1] == launches[1].parameters[0]


def test_offsets_views_library_calls_and_constants(driver: StandIn, kernels: list[_C.CudaKernel]) -> None:
    plan = plan_of(
        alloc(1, F32, (8,), (1,)),
        Launch(0, (Pointer(0, 4), Pointer(1, 8)), (3,), grid=(1,)),
        Launch(1, (Pointer(7), Pointer(1, 20)), (2,), grid=(1, 1, 1)),
        ViewOf(2, 1, (3,), (1,), 2),
        extern("aten.mul.Tensor", Slot(2), Slot(2), out=Slot(3)),
        Return((Slot(1), Slot(3))),
        constants=[(7, "c")],
    )
    for run in both(plan, kernels, {"c": torch.tensor([5.0, 6.0])}):
        buffer, squares = run(torch.arange(4.0))
        assert buffer[2:7].tolist() == [2, 3, 4, 10, 12] and squares.tolist() == [4, 9, 16]


def test_operands_that_are_not_aligned_have_kernels_of_their_own(driver: StandIn, kernels: list[_C.CudaKernel]) -> None:
    """By where the operand begins, in the tensor and of itself."""
    driver.bind("wide", pointwise(lambda x: x + 1))
    image, asked = image_of({"wide": ("ppi", {"aligned": 16})}), list[int]()

    def general() -> _C.CudaKernel:
        asked.append(1)
        return driver.kernel("add_one", "ppi", threads=32)

    wide = [_C.CudaKernel(image, "wide", 32, 0, 2, 1, driver.path, 0, general) for _ in range(2)]
    steps = [alloc(1, F32, (8,), (1,)), Launch(0, (Pointer(0, 4), Pointer(1, 16)), (4,), grid=(1,)), Return((Slot(1),))]
    for run in both(plan_of(*steps), [wide[0], kernels[1]]):
        for begin, kernel in [(0, "add_one"), (1, "add_one"), (3, "wide"), (2, "add_one")]:
            driver.forget()
            x = torch.arange(12.0)
            assert x.data_ptr() % 16 == 0
            assert run(x[begin:])[0][4:].tolist() == (x[begin + 1 : begin + 5] + 1).tolist()
            assert [launch.kernel for launch in driver.launches()] == [kernel]
    assert asked == [1]
    steps[1] = Launch(0, (Pointer(0, 16), Pointer(1, 16)), (4,), grid=(1,))
    for run in both(plan_of(*steps), [wide[1], kernels[1]]):
        run(torch.ones(12))
    assert asked == [1]


def test_a_grid_has_up_to_three_dimensions(driver: StandIn, kernels: list[_C.CudaKernel]) -> None:
    x, y, z = map(Register, range(3))
    pointers = (Pointer(0), Pointer(0))
    grids = [(x,), (x, y), (x, y, z), (5, z, 6), (z, z, x)]
    launches = [Launch(0, pointers, (1,), grid=grid) for grid in grids]
    plan = plan_of(*launches, Return(()), inputs=(Slot(0), x, y, z))
    for run in both(plan, kernels):
        driver.forget()
        run(torch.zeros(1), 2, 3, 4)
        assert [launch.grid for launch in driver.launches()] == [(2, 1, 1), (2, 3, 1), (2, 3, 4), (5, 4, 6), (4, 4, 2)]


def test_launches_are_on_the_stream_that_torch_uses(driver: StandIn, kernels: list[_C.CudaKernel]) -> None:
    native, reference = both(SIZED, kernels)
    stream = driver.stream()
    for run in (native, reference):
        driver.forget()
        run(torch.ones(3))
        with driver.using(stream):
            run(torch.ones(3))
        assert [launch.stream for launch in driver.launches()] == [0, 0, stream, stream]


def test_a_launch_that_fails_ends_the_call(driver: StandIn, kernels: list[_C.CudaKernel]) -> None:
    for run in both(SIZED, kernels):
        driver.forget()
        driver.set(launch_fails=700)
        with pytest.raises(
            RuntimeError, match=r"launching add_one: an illegal memory .* \(CUDA_ERROR_ILLEGAL_ADDRESS, 700"
        ):
            run(torch.ones(3))
        assert not driver.launches()
        run(torch.ones(3))
        assert len(driver.launches()) == 2
    driver.set(any_memory=0)
    with pytest.raises(RuntimeError, match="launching add_one: invalid argument"):
        both(SIZED, kernels)[0](torch.ones(3))
    assert driver.complaints()
    driver.forget()


def test_what_is_launched_is_measured(driver: StandIn, kernels: list[_C.CudaKernel]) -> None:
    times = no_times(SIZED)
    run = launcher(SIZED, [kernel.address for kernel in kernels], {}, keep=kernels, times=times, device="cuda")
    run(torch.ones(3))
    run(torch.ones(3))
    assert times[::2].tolist() == [2, 2, 2] and all(nanoseconds > 0 for nanoseconds in times[1::2])


def test_plans_that_cannot_be_are_refused(driver: StandIn, kernels: list[_C.CudaKernel]) -> None:
    addresses = [kernel.address for kernel in kernels]
    begin, end = alloc(1, F32, (4,), (1,)), Return((Slot(1),))
    pointers = (Pointer(0), Pointer(1))
    for grid, device in [((1,), "cpu"), ((), "cuda"), ((1, 1, 1, 1), "cuda")]:
        with pytest.raises(ValueError, match=f"a kernel on {device} is not launched in a grid of {len(grid)} dim"):
            launcher(plan_of(begin, Launch(0, pointers, (4,), grid=grid), end), addresses, {}, device=device)
    for lies, device in [("cuda", "cpu"), ("meta", "cuda"), ("cuda:1", "cpu"), ("cuda:1", "cuda:0")]:
        with pytest.raises(ValueError, match=f"a plan for {device} makes no tensors on {lies}"):
            launcher(plan_of(Alloc(1, F32, (4,), (1,), lies), end), addresses, {}, device=device)
    few = plan_of(begin, Launch(0, pointers, (), grid=(1,)), end)
    with pytest.raises(SystemError, match="add_one is given 2 pointers and 0 sizes, and takes 2 and 1"):
        both(few, kernels)[0](torch.ones(4))
    with pytest.raises(ValueError, match="add_one takes 2 pointers, 1 sizes"):
        both(few, kernels)[1](torch.ones(4))
    checked = ExecPlan((), (), 1, 0, INFOS, (Return(()),), sanitize=True)
    with pytest.raises(ValueError, match="sanitize is for the processor's"):
        launcher(checked, addresses, {}, device="cuda")


def test_memory_elsewhere_is_not_given_to_kernels(
    driver: StandIn, kernels: list[_C.CudaKernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = [kernel.address for kernel in kernels]
    there = plan_of(
        Alloc(1, F32, (2,), (1,), "cuda"),
        Alloc(2, F32, (2,), (1,), "cuda:0", workspace=True),
        Launch(0, (Pointer(0), Pointer(2)), (2,), grid=(1,)),
        Launch(0, (Pointer(2), Pointer(1)), (2,), grid=(1,)),
        Return((Slot(1),)),
    )
    run = launcher(there, addresses, {}, keep=kernels, device="cuda")
    assert run(torch.zeros(2))[0].tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="a tensor with memory of its own is expected"):
        run(torch.zeros(2, device="meta"))
    monkeypatch.undo()  # torch's numbers of devices
    made = plan_of(alloc(1, F32, (2,), (1,)), Launch(0, (Pointer(1), Pointer(0)), (2,), grid=(1,)), Return((Slot(1),)))
    for plan in (SIZED, made):
        run = launcher(plan, addresses, {}, keep=kernels, device="cuda")
        with pytest.raises(RuntimeError, match="add_one, a kernel on CUDA device 0, is given memory on cpu"):
            run(torch.zeros(2))
    scratch = plan_of(
        alloc(1, F32, (2,), (1,), workspace=True),
        Launch(0, (Pointer(1), Pointer(1)), (2,), grid=(1,)),
        Return(()),
        inputs=(),
    )
    with pytest.raises(RuntimeError, match="is given memory on None"):
        launcher(scratch, addresses, {}, keep=kernels, device="cuda")()


def test_plans_are_data(driver: StandIn, kernels: list[_C.CudaKernel]) -> None:
    kept = KeptGraph(SIZED, ("a", "b"), (), (), 2, ())
    read = CODEC.decode(CODEC.encode(kept))
    assert read == kept and any(isinstance(step, Launch) and step.grid for step in read.plan.steps)
    assert both(read.plan, kernels)[0](torch.ones(2))[0].tolist() == [4, 4]
    target = replace(CPU, device="cuda:0", kept=Kept(lambda config: "a GPU", lambda infos, names, cx: None, ()))
    where = Config(), ("a", "b"), {}, {}, 2, ()
    assert kept_graph(SIZED, target, *where) == replace(kept, device="cuda:0", made_for="a GPU")
    assert kept_graph(SIZED, replace(target, kept=None), *where) is None


def test_tensors_are_made_on_another_device() -> None:
    """On torch's device without memory, as on CUDA; where there is none, the error is eager's."""
    steps = (
        Alloc(1, F32, (Register(0), 3), (3, 1), "meta"),
        Alloc(2, F32, (2,), (1,), "meta", workspace=True),
        extern("aten.t.default", Slot(1), out=Slot(3), expected=(((3, Register(0)), (Register(0), 1)),)),
        Return((Slot(1), Slot(2), Slot(3))),
    )
    plan = plan_of(*steps, inputs=(Register(0),))
    for run in (launcher(plan, (), {}, device="meta"), Executor(plan, (), {})):
        made, scratch, turned = run(5)
        assert made.is_meta and made.shape == (5, 3) and made.stride() == (3, 1) and made.dtype is torch.float32
        assert scratch.is_meta and turned.is_meta and turned.stride() == (5, 1)
        with pytest.raises(RuntimeError, match="-5|negative"):
            run(-5)
    if torch.cuda.is_available():
        return
    there = plan_of(Alloc(1, F32, (2,), (1,), "cuda"), Return((Slot(1),)), inputs=())
    with pytest.raises(Exception) as eager:
        torch.empty(2, device="cuda")
    for run in (launcher(there, (), {}, device="cuda"), Executor(there, (), {})):
        with pytest.raises(type(eager.value), match="aten::empty_strided|not compiled with CUDA|not linked"):
            run()


def test_a_thousand_sequences_of_launches(driver: StandIn) -> None:
    """Threads, streams, kernels that come and go: the driver complains of nothing, and each stream has its order."""
    driver.set(any_memory=1)
    memory = torch.zeros(64)
    stream = {name: driver.stream() for name in ("a", "b")}
    wrong: list[BaseException] = []

    def sequences(seed: int) -> None:
        choose = random.Random(seed)
        try:
            kernels = [driver.kernel(f"k{seed}_0", "pi")]
            for number in range(250):
                if choose.random() < 0.3:
                    kernels[choose.randrange(len(kernels))] = driver.kernel(f"k{seed}_{number}", "pi")
                if choose.random() < 0.2 and len(kernels) < 4:
                    kernels.append(driver.kernel(f"k{seed}_{number}", "pi"))
                if choose.random() < 0.1 and len(kernels) > 1:
                    kernels.pop()
                steps = [
                    Launch(choose.randrange(len(kernels)), (Pointer(0, 4 * choose.randrange(64)),), (Register(0),),
                           grid=(choose.choice((0, 1, Register(1))),))
                    for _ in range(choose.randrange(4))
                ]  # fmt: skip
                infos = tuple(KernelInfo(kernel.name) for kernel in kernels)
                plan = ExecPlan((Slot(0), Register(0), Register(1)), (), 1, 2, infos, (*steps, Return(())))
                run = launcher(plan, [kernel.address for kernel in kernels], {}, keep=tuple(kernels), device="cuda")
                for _ in range(choose.randrange(3)):
                    name = choose.choice(("a", "b"))
                    with driver.using(stream[name]):
                        sent = seed << 32 | number
                        run(memory, sent, choose.choice((0, 2)))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=sequences, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and not driver.complaints()
    launches = driver.launches()
    assert len(launches) > 500 and {launch.stream for launch in launches} == {*stream.values()}
    for seed in range(4):
        numbers = [launch.parameters[1] & 0xFFFFFFFF for launch in launches if launch.parameters[1] >> 32 == seed]
        assert numbers == sorted(numbers)
        assert all(launch.kernel.startswith(f"k{launch.parameters[1] >> 32}_") for launch in launches)
    assert driver.alive(Kind.MODULE) < 100


def test_a_launch_is_cheap(driver: StandIn) -> None:
    """A small part of what Triton's own dispatch costs; it is far below the bound, which busy machines hold, too."""
    kernel, x = driver.kernel("k", "ppi"), torch.ones(8)
    launch = Launch(0, (Pointer(0), Pointer(0)), (Register(0),), grid=(Register(1),))
    inputs = (Slot(0), Register(0), Register(1))
    driver.set(quiet=1)
    seconds = []
    for count in (100, 1100):
        plan = ExecPlan(inputs, (), 1, 2, (KernelInfo("k"),), (*[launch] * count, Return(())))
        run = launcher(plan, [kernel.address], {}, keep=kernel, device="cuda")
        run(x, 8, 1)
        best = 1e9
        for _ in range(10):
            begin = thread_time()
            run(x, 8, 1)
            best = min(best, thread_time() - begin)
        seconds.append(best)
    each = (seconds[1] - seconds[0]) / 1000
    assert each < 2e-6, f"a launch takes {each * 1e6:.2f} us"
