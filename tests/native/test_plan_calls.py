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
from native.planning import ADDRESSES, KERNEL, both, extern, plan_of

from onegraph import _C
from onegraph.compiler.runtime.executor import Executor
from onegraph.compiler.runtime.launcher import launcher
from onegraph.ir.plan import Alloc, Free, Launch, Pointer, Return, Slot, ViewOf
from onegraph.ir.types import F32, I64


def test_threads() -> None:
    def threads(parallel: bool, fixed: int) -> int:
        plan = plan_of(Alloc(1, I64, (1,), (1,)), Launch(2, (Pointer(1),), (), parallel), Return((Slot(1),)))
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

    def call(function: Any, args: Any, out: Any) -> tuple[Any, ...]:
        return ("extern", function, args, (), (out,), (None,), False)

    first, second = ("slot", 1), ("slot", 2)
    steps = (
        call(make, (("slot", 0),), first),
        call(make, (first,), second),
        ("free", (first,)),
        call(look, (), ("register", 0)),
        ("free", (second,)),
        call(look, (), ("register", 1)),
        ("return", (("register", 0), ("register", 1))),
    )
    plan = _C.Plan((("slot", 0),), (), 3, (0, 0), steps)
    assert plan(torch.ones(2)) == (1, 0)


@pytest.mark.parametrize("fails", [False, True])
def test_consumed_inputs_live_as_long_as_they_are_needed(fails: bool) -> None:
    x, y, n = torch.ones(2), torch.ones(2), 10**20 if fails else 7
    references = [weakref.ref(x), weakref.ref(y)]

    def look() -> int:
        return sum(reference() is not None for reference in references)

    steps = (
        ("free", (("slot", 0),)),
        ("extern", look, (), (), (("register", 1),), (None,), False),
        ("return", (("slot", 1), ("register", 0), ("register", 1))),
    )
    run = _C.Plan((("slot", 0), ("register", 0), ("slot", 1)), (), 2, (0, 0), steps)
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
    plan = plan_of(Alloc(1, F32, (4,), (1,)), Launch(0, (Pointer(0), Pointer(1)), (4,)), Free((0,)), Return((Slot(1),)))
    for run in both(plan):
        x = torch.arange(4.0)
        reference, inputs = weakref.ref(x), [x]
        del x
        assert run.consume(inputs)[0].tolist() == [1, 2, 3, 4]
        assert inputs == [] and reference() is None


def test_no_leak() -> None:
    plan = plan_of(
        Alloc(1, F32, (4,), (1,)),
        Alloc(2, F32, (4,), (1,), workspace=True),
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
    keeper.plan = _C.Plan((), (), 0, (), (("return", ()),), 0, keeper)
    assert keeper.plan() == () and "1 steps for 0 inputs" in repr(keeper.plan)
    reference = weakref.ref(keeper)
    del keeper
    gc.collect()
    assert reference() is None


def test_calls_at_the_same_time_do_not_share_memory() -> None:
    plan = plan_of(
        Alloc(1, F32, (64,), (1,), workspace=True),
        Alloc(2, F32, (64,), (1,)),
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
    plan = plan_of(Alloc(1, F32, (4,), (1,)), Launch(0, (Pointer(0), Pointer(1)), (4,)), Return((Slot(1),)))
    made_before, _ = both(plan)
    _C.tensor_abi("python")
    try:
        assert type(launcher(plan, ADDRESSES, {})) is Executor
        assert made_before(torch.ones(4))[0].tolist() == [2.0] * 4
    finally:
        _C.tensor_abi("libtorch")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": ()}, "a return at the end"),
        ({"steps": (("jump", 1), ("return", ()))}, "a step is expected"),
        ({"steps": (5, ("return", ()))}, "a step is expected"),
        ({"steps": (("add", 0, 0, 9), ("return", ()))}, "the number of a register is expected, not 9"),
        ({"steps": (("size", 0, 9, 0), ("return", ()))}, "the number of a slot is expected, not 9"),
        ({"steps": (("free", (("register", 0),)), ("return", ()))}, "slots to free"),
        ({"steps": (("return", (("slot", -1),)),)}, "the number of a slot is expected, not -1"),
        ({"steps": (("return", (("cell", 1),)),)}, "a place is expected"),
        ({"steps": (("launch", 0, (), (), False, ()), ("return", ()))}, "the address of a kernel"),
        ({"steps": (("launch", 1, (), (), False, ((int, "x"),)), ("return", ()))}, "an exception type and a message"),
        ({"steps": (("alloc", 0, torch.float32, (0,), (0, 0)), ("return", ()))}, "as many strides as sizes"),
        ({"steps": (("extern", len, (), (), (None, None), (None, None), False), ("return", ()))}, "agree in number"),
        ({"steps": (("extern", 5, (), (), (), (), True), ("return", ()))}, "a callable is expected, not 5"),
        ({"inputs": (None,)}, "a slot or register for each input"),
        ({"constants": ((9, torch.ones(1)),)}, "the number of a slot is expected, not 9"),
        ({"slots": -1}, "counted from 0"),
    ],
)
def test_a_wrong_plan_is_refused_with_the_reason(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {
        "inputs": (("slot", 0),),
        "constants": (),
        "slots": 2,
        "registers": (0,),
        "steps": (("return", ()),),
    }
    assert _C.Plan(**good)(torch.ones(1)) == ()
    with pytest.raises(ValueError, match=message):
        _C.Plan(**{**good, **change})


def test_a_wrong_dtype_is_refused() -> None:
    with pytest.raises((TypeError, AttributeError)):
        _C.Plan((), (), 1, (1,), (("alloc", 0, "float32", (0,), (0,)), ("return", ())))
    with pytest.raises(TypeError):
        _C.Plan([], (), 1, (), ())
