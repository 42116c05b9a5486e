"""What a call of a plan does besides its result: lifetimes, threads, the GIL, autograd; and which plans are refused."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import weakref
from typing import Any

import pytest
import torch
from native.planning import ADDRESSES, KERNEL, alloc, both, extern, plan_of

from onegraph import _C
from onegraph.compiler.runtime.executor import Executor
from onegraph.compiler.runtime.launcher import SCALAR_TYPES, launcher
from onegraph.ir.plan import Compute, ExecPlan, Free, Launch, Pointer, Register, Return, Slot, ViewOf
from onegraph.ir.types import F32, I64, dtype_of_torch


def test_threads() -> None:
    def threads(parallel: bool, fixed: int) -> int:
        plan = plan_of(alloc(1, I64, (1,), (1,)), Launch(2, (Pointer(1),), (), parallel), Return((Slot(1),)))
        mine, theirs = (run(torch.ones(1))[0].item() for run in both(plan, threads=fixed))
        assert mine == theirs
        return mine

    assert threads(True, 0) == torch.get_num_threads()
    assert threads(True, 3) == 3 and threads(False, 3) == 1


def test_tensors_are_freed_when_the_plan_says_so() -> None:
    made: list[weakref.ref[torch.Tensor]] = []

    def make(x: torch.Tensor) -> torch.Tensor:
        made.append(weakref.ref(result := x + 1))
        return result

    def look() -> int:
        return sum(reference() is not None for reference in made)

    plan = plan_of(
        extern("make", Slot(0), out=Slot(1)),
        extern("make", Slot(1), out=Slot(2)),
        Free((1,)),
        extern("look", out=Register(0)),
        Free((2,)),
        extern("look", out=Register(1)),
        Return((Register(0), Register(1))),
    )
    assert launcher(plan, ADDRESSES, {}, recipes={"make": make, "look": look})(torch.ones(2)) == (1, 0)


@pytest.mark.parametrize("recorded", [False, True])
def test_libraries_that_are_given_packed_weights_are_told_that_no_gradients_are_recorded(recorded: bool) -> None:
    def look(fails: int = 0) -> int:
        return int(torch.is_grad_enabled()) // (1 - fails)

    names = ("mkldnn.look.default", "library.look.default")
    for name, expected in zip(names, (False, recorded), strict=True):
        recipes = {name: look, "library.check.default": look}
        seen = plan_of(
            extern(name, out=Register(0)),
            extern("library.check.default", out=Register(1)),
            Return((Register(0), Register(1))),
        )
        failing = plan_of(extern(name, 1, out=Register(0)), Return((Register(0),)))
        for kind in (launcher, Executor):
            with torch.set_grad_enabled(recorded):
                assert kind(seen, ADDRESSES, {}, recipes=recipes)(torch.ones(2)) == (expected, recorded)
                with pytest.raises(ZeroDivisionError):
                    kind(failing, ADDRESSES, {}, recipes=recipes)(torch.ones(2))
                assert torch.is_grad_enabled() == recorded


@pytest.mark.parametrize("fails", [False, True])
def test_consumed_inputs_live_as_long_as_they_are_needed(fails: bool) -> None:
    x, y, n = torch.ones(2), torch.ones(2), 10**20 if fails else 7
    references = [weakref.ref(x), weakref.ref(y)]

    def look() -> int:
        return sum(reference() is not None for reference in references)

    plan = plan_of(
        Free((0,)),
        extern("look", out=Register(1)),
        Return((Slot(1), Register(0), Register(1))),
        inputs=(Slot(0), Register(0), Slot(1)),
    )
    run = launcher(plan, ADDRESSES, {}, recipes={"look": look})
    assert isinstance(run, _C.Plan)
    inputs: list[Any] = [x, n, y]
    count = sys.getrefcount(n)
    del x, y
    if fails:
        with pytest.raises(OverflowError):
            run.consume(inputs)
    else:
        (result, *numbers) = run.consume(inputs)
        assert numbers == [7, 1] and result.tolist() == [1, 1]
        del result
    assert inputs == [] and look() == 0 and (not fails or sys.getrefcount(n) < count)
    with pytest.raises(TypeError, match="a list of 3 inputs"):
        run.consume([])


def test_the_executor_consumes_as_the_launcher_does() -> None:
    plan = plan_of(alloc(1, F32, (4,), (1,)), Launch(0, (Pointer(0), Pointer(1)), (4,)), Free((0,)), Return((Slot(1),)))
    for run in both(plan):
        x = torch.arange(4.0)
        reference, inputs = weakref.ref(x), [x]
        del x
        assert run.consume(inputs)[0].tolist() == [1, 2, 3, 4]
        assert inputs == [] and reference() is None


def test_no_leak() -> None:
    plan = plan_of(
        alloc(1, F32, (4,), (1,)),
        alloc(2, F32, (4,), (1,), workspace=True),
        Launch(0, (Pointer(0), Pointer(2)), (4,)),
        Launch(0, (Pointer(2), Pointer(1)), (4,)),
        ViewOf(3, 1, (2, 2), (2, 1), 0),
        extern("aten.mm.default", Slot(3), Slot(3), out=Slot(4), expected=(((2, 2), (1, 2)),)),
        Return((Slot(4), Slot(0))),
    )
    native, _ = both(plan)
    x = torch.ones(4)
    counts = []
    for _ in range(3):
        for _ in range(1000):
            native(x)
        counts.append((sys.getrefcount(x), sys.getallocatedblocks()))
    assert counts[1][0] == counts[2][0] and abs(counts[1][1] - counts[2][1]) < 500
    result = native(x)[0]
    reference = weakref.ref(result)
    del result
    assert reference() is None


def test_a_plan_is_collected_with_what_it_holds() -> None:
    class Keeper:
        pass

    keeper = Keeper()
    keeper.plan = launcher(plan_of(Return(()), inputs=()), ADDRESSES, {}, keep=keeper)
    assert keeper.plan() == () and "for 0 inputs" in repr(keeper.plan)
    reference = weakref.ref(keeper)
    del keeper
    gc.collect()
    assert reference() is None


def test_calls_at_the_same_time_do_not_share_memory() -> None:
    plan = plan_of(
        alloc(1, F32, (64,), (1,), workspace=True),
        alloc(2, F32, (64,), (1,)),
        Launch(0, (Pointer(0), Pointer(1)), (64,)),
        Launch(0, (Pointer(1), Pointer(2)), (64,)),
        Return((Slot(2),)),
    )
    native, _ = both(plan)
    wrong: list[int] = []

    def work(k: int) -> None:
        x = torch.full((64,), float(k))
        for _ in range(60):
            if native(x)[0].tolist() != [k + 2.0] * 64:
                wrong.append(k)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def test_the_gil_is_released_for_heavy_kernels() -> None:
    n = 200_000
    seen: list[bool] = []
    release, entered = threading.Event(), threading.Event()

    @KERNEL
    def wait(pointers: Any, sizes: Any, threads: int) -> int:
        entered.set()
        seen.append(release.wait(10))
        return 0

    address = ctypes.cast(wait, ctypes.c_void_p).value or 0
    native = launcher(plan_of(Launch(0, (Pointer(0),)), Return(())), [address, 0, 0], {}, 0, wait)
    thread = threading.Thread(target=native, args=(torch.ones(n),))
    thread.start()
    assert entered.wait(10)
    release.set()
    thread.join()
    assert seen == [True]


def test_runs_below_autograd_and_autocast() -> None:
    plan = plan_of(extern("aten.mm.default", Slot(0), Slot(0), out=Slot(1)), Return((Slot(1),)))
    native, _ = both(plan)
    x = torch.randn(3, 3, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        (result,) = native(x)
        assert torch.mm(x, x).dtype is torch.bfloat16
    assert result.dtype is torch.float32 and not result.requires_grad
    assert torch.equal(result, (x @ x).detach()) and (x @ x).requires_grad
    with torch.inference_mode():
        assert native(torch.ones(2, 2))[0].is_inference()
    with pytest.raises(RuntimeError):
        native(torch.ones(2))
    assert torch.mm(x, x).requires_grad, "also after an error everything is as before"


def test_without_libtorch_the_plan_runs_in_python() -> None:
    plan = plan_of(alloc(1, F32, (4,), (1,)), Launch(0, (Pointer(0), Pointer(1)), (4,)), Return((Slot(1),)))
    made_before, _ = both(plan)
    _C.tensor_abi("python")
    try:
        assert type(launcher(plan, ADDRESSES, {})) is Executor
        assert made_before(torch.ones(4))[0].tolist() == [2.0] * 4
    finally:
        _C.tensor_abi("libtorch")


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (plan_of(Compute(0, "add", 0, Register(9)), Return(())), "8 registers has no register 9"),
        (plan_of(Compute(0, "size", 9, 0), Return(())), "8 slots has no slot 9"),
        (plan_of(Return((Slot(-1),))), "no slot -1"),
        (plan_of(Return(()), inputs=(Register(8),)), "no register 8"),
        (plan_of(Return(()), constants=[(9, "c")]), "no slot 9"),
    ],
)
def test_a_wrong_plan_is_refused_with_the_reason(plan: ExecPlan, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        launcher(plan, ADDRESSES, {"c": torch.ones(1)})


@pytest.mark.parametrize("name", [name for name in SCALAR_TYPES if name is not None])
def test_each_element_type_has_its_number(name: str) -> None:
    dtype = getattr(torch, name)
    step = alloc(1, dtype_of_torch(name, dtype.itemsize), (3, 2), (1, 3))
    native, _ = both(plan_of(step, Return((Slot(1),))))
    (made,) = native(torch.ones(1))
    assert made.dtype is dtype and made.shape == (3, 2) and made.stride() == (1, 3)
