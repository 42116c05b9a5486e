"""The launcher against the reference executor: the same plans, the same results and errors."""

from __future__ import annotations

import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from native.planning import agree, alloc, both, extern, plan_of
from torch._subclasses.fake_tensor import FakeTensorMode

from onegraph.ir.loop import Named
from onegraph.ir.plan import Compute, Free, Launch, Pointer, Register, Return, Slot, ViewOf
from onegraph.ir.types import F32, F64, I64


def test_a_kernel_between_its_input_and_its_output() -> None:
    plan = plan_of(
        alloc(1, F32, (4,), (1,)), Launch(0, (Pointer(0), Pointer(1)), (4,)), Free((0,)), Return((Slot(1), None, 5))
    )
    result, nothing, number = agree(plan, torch.arange(4.0))
    assert result.tolist() == [1, 2, 3, 4] and (nothing, number) == (None, 5)


def test_scratch_memory_and_offsets() -> None:
    plan = plan_of(
        alloc(1, F32, (10,), (1,), workspace=True),
        alloc(2, F32, (4,), (1,)),
        Launch(0, (Pointer(0, 4), Pointer(1, 16)), (3,)),
        Launch(0, (Pointer(1, 16), Pointer(2)), (3,)),
        Launch(0, (Pointer(0), Pointer(2, 12)), (1,)),
        Free((1,)),
        Return((Slot(2),)),
    )
    (result,) = agree(plan, torch.arange(4.0))
    assert result.tolist() == [3, 4, 5, 1]


def test_sizes_are_read_and_computed() -> None:
    rows, columns, total = Register(0), Register(1), Register(2)
    plan = plan_of(
        Compute(0, "size", 0, 0),
        Compute(1, "size", 0, 1),
        Compute(2, "mul", rows, columns),
        alloc(1, F32, (columns, rows), (rows, 1)),
        Launch(0, (Pointer(0), Pointer(1)), (total,)),
        Return((Slot(1), rows, total)),
    )
    for shape in [(2, 3), (5, 1), (0, 4)]:
        agree(plan, torch.randn(shape))


@given(
    st.integers(-(2**31), 2**31),
    st.one_of(st.integers(-9, 9), st.integers(-(2**31), 2**31)),
    st.sampled_from(["add", "sub", "mul", "floordiv", "mod", "min", "max"]),
)
def test_integers_are_computed_as_in_python(a: int, b: int, op: str) -> None:
    plan = plan_of(Compute(2, op, Register(0), b), Return((Register(2),)), inputs=[Register(0)])
    native, reference = both(plan)
    try:
        expected = reference(a)
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            native(a)
    else:
        assert native(a) == expected


def test_integers_that_do_not_fit() -> None:
    plan = plan_of(Compute(2, "mul", Register(0), Register(0)), Return((Register(2),)), inputs=[Register(0)])
    native, _ = both(plan)
    with pytest.raises(OverflowError, match="does not fit into 64 bits"):
        native(2**40)
    with pytest.raises(OverflowError):
        native(2**70)
    with pytest.raises(TypeError):
        native(1.5)
    plan = plan_of(Compute(2, "floordiv", Register(0), -1), Return((Register(2),)), inputs=[Register(0)])
    with pytest.raises(OverflowError):
        both(plan)[0](-(2**63))
    plan = plan_of(Compute(2, "mod", Register(0), -1), Return((Register(2),)), inputs=[Register(0)])
    assert both(plan)[0](-(2**63)) == (0,)


def test_views_share_memory() -> None:
    plan = plan_of(
        ViewOf(1, 0, (2, 2), (1, 2), 1),
        extern("aten.clone.default", Slot(1), out=Slot(2)),
        Return((Slot(1), Slot(2))),
    )
    x = torch.arange(8.0)[1:]
    view, copy = agree(plan, x)
    assert view.tolist() == copy.tolist() == [[2, 4], [3, 5]]
    assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() and view.storage_offset() == 2


def test_inputs_and_constants_are_returned_themselves() -> None:
    plan = plan_of(Return((Slot(0), Slot(1))), constants=[(1, "c")])
    x, c = torch.ones(2), torch.zeros(3)
    for run in both(plan, {"c": c}):
        first, second = run(x)
        assert first is x and second is c


def test_library_calls() -> None:
    x, y = torch.randn(3, 4), torch.randn(4, 5)
    product = extern("aten.mm.default", Slot(0), Slot(1), out=Slot(2))
    agree(plan_of(product, Return((Slot(2),)), inputs=(Slot(0), Slot(1))), x, y)
    cpu, double = Named("device", "cpu"), Named("dtype", "float64")
    keyword = plan_of(
        Compute(0, "size", 0, 0),
        extern("aten.full.default", (Register(0), 2), 1.5, dtype=double, device=cpu, out=Slot(1)),
        extern("aten.cat.default", (Slot(0), Slot(0)), 1, out=Slot(2)),
        extern("aten.sum.dim_IntList", Slot(0), (0, 1), True, dtype=None, out=Slot(3)),
        Return((Slot(1), Slot(2), Slot(3))),
    )  # fmt: skip
    agree(keyword, x)
    several = plan_of(
        extern("aten.sort.default", Slot(0), 1, True, out=(Slot(1), None), several=True),
        extern("aten.split.Tensor", Slot(0), 2, 1, out=(None, Slot(2)), several=True),
        extern("aten._local_scalar_dense.default", Slot(3), out=Register(1)),
        Return((Slot(1), Slot(2), Register(1))),
        inputs=(Slot(0), Slot(3)),
    )
    agree(several, x, torch.tensor(7))


def test_a_result_with_other_strides_is_copied() -> None:
    x = torch.randn(3, 4)
    wanted = (((4, 3), (3, 1)),)
    plan = plan_of(extern("aten.t.default", Slot(0), out=Slot(1), expected=wanted), Return((Slot(1),)))
    (result,) = agree(plan, x)
    assert result.stride() == (3, 1)
    kept = plan_of(extern("aten.t.default", Slot(0), out=Slot(1), expected=(((4, 3), (1, 4)),)), Return((Slot(1),)))
    (result,) = agree(kept, x)
    assert result.data_ptr() == x.data_ptr()
    single = plan_of(extern("aten.t.default", Slot(0), out=Slot(1), expected=(((1, 3), (9, 1)),)), Return((Slot(1),)))
    agree(single, torch.randn(3, 1))


def test_errors_of_kernels_and_operators() -> None:
    plan = plan_of(
        alloc(1, F64, (1000,), (1,)),
        Launch(1, (Pointer(0),)),
        extern("aten.mm.default", Slot(0), Slot(0), out=Slot(2)),
        Return((Slot(2),)),
    )
    negative, flat = torch.tensor([-1.0]), torch.ones(3)
    before = sys.getrefcount(negative), sys.getrefcount(flat)
    for run in both(plan):
        with pytest.raises(ZeroDivisionError, match="a negative number"):
            run(negative)
        with pytest.raises(RuntimeError, match="must be a matrix"):
            run(flat)
    assert (sys.getrefcount(negative), sys.getrefcount(flat)) == before


def test_wrong_calls_are_refused() -> None:
    plan = plan_of(alloc(1, F32, (4,), (1,)), Launch(0, (Pointer(0), Pointer(1)), (4,)), Return((Slot(1),)))
    native, reference = both(plan)
    for run in (native, reference):
        with pytest.raises(TypeError, match="the graph takes 1 inputs, got 2"):
            run(torch.ones(4), 1)
    with pytest.raises(TypeError, match="the graph takes 1 inputs"):
        native(x=torch.ones(4))
    with pytest.raises(TypeError, match="a tensor is expected, not int"):
        native(5)
    with FakeTensorMode():
        fake = torch.ones(4)
    for without_memory in (fake, torch.ones(4, device="meta")):
        with pytest.raises(RuntimeError, match="memory of its own"):
            native(without_memory)
    size = plan_of(Compute(0, "size", 0, 3), Return((Register(0),)))
    with pytest.raises(TypeError, match="no dimension 3"):
        both(size)[0](torch.ones(2))
    sized = plan_of(alloc(1, F32, (Register(0),), (1,)), Return((Slot(1),)), inputs=(Register(0),))
    with pytest.raises(RuntimeError, match="size -2"):
        both(sized)[0](-2)
    with pytest.raises(RuntimeError, match="could not allocate"):
        both(sized)[0](2**58)
    scratch = plan_of(alloc(1, F32, (Register(0),), (1,)), Return(()), inputs=(Register(0),))
    for size_of in (2**58, 2**62):
        with pytest.raises(MemoryError):
            both(scratch)[0](size_of)
    empty = plan_of(Return((Slot(3),)))
    with pytest.raises(RuntimeError, match="an empty slot is used"):
        both(empty)[0](torch.ones(1))


def test_large_and_empty_tensors() -> None:
    n = 300_000
    plan = plan_of(
        alloc(1, F64, (n,), (1,)), extern("aten.fill_.Scalar", Slot(1), 2.5, out=Slot(2)), Return((Slot(1),))
    )
    agree(plan, torch.ones(1))
    plan = plan_of(alloc(1, I64, (3, 0), (1, 1)), Launch(0, (Pointer(1), Pointer(1)), (0,)), Return((Slot(1),)))
    agree(plan, torch.ones(1))
    plan = plan_of(alloc(1, F32, (), ()), Launch(0, (Pointer(0), Pointer(1)), (1,)), Return((Slot(1),)))
    agree(plan, torch.tensor(1.0))
