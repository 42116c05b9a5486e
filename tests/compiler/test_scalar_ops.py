"""Every scalar operation, for every type that it accepts, against its meaning in the table."""

from __future__ import annotations

import ctypes
import math
from itertools import product

import numpy as np
import pytest

from onegraph.compiler.codegen import outline
from onegraph.compiler.codegen.llvm_ops import FUNCTIONS, LLVM_OPS
from onegraph.compiler.codegen.module import KernelSource, module_text
from onegraph.compiler.codegen.native import compile_text, instructions
from onegraph.compiler.cpu import CPU
from onegraph.compiler.evaluate import numpy_type
from onegraph.compiler.literals import fold
from onegraph.ir.loop_text import parse_kernel
from onegraph.ir.scalar import SCALAR_OPS, ScalarOp, operand_dtypes
from onegraph.ir.types import BOOL, F32, F64, I8, I32, I64, U8, DType

USABLE = [name for name in ("avx2", "avx512f") if instructions() in (name, "avx512f")]
TYPES = (BOOL, U8, I8, I32, I64, F32, F64)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 100.0, -100.0, math.inf, -math.inf, math.nan, 1e-40]


def test_every_operation_has_an_emission() -> None:
    assert set(LLVM_OPS) == set(SCALAR_OPS)


def compute(
    op: ScalarOp, result: DType, dtypes: tuple[DType, ...], args: list[np.ndarray], vector: bool, machine: str
) -> np.ndarray:
    size = len(args[0])
    lines = [f"kernel k(i0: {size}){' vector i0 by 16' if vector else ''}:"]
    lines += [f"  t{k}: {t} = load p{k} @ i0" for k, t in enumerate(dtypes)]
    lines += [f"  r: {result} = {op.name}({', '.join(f't{k}' for k in range(op.arity))})"]
    lines += [f"  store p{op.arity} @ i0 = r"]
    name = f"test_{op.name}_{'_'.join(map(str, dtypes))}_{vector}_{machine}"
    buffers = {f"p{k}": t for k, t in enumerate((*dtypes, result))}
    made = module_text([KernelSource(name, parse_kernel("\n".join(lines)), buffers)], CPU.machine, machine)
    code = compile_text(made.text, [name])
    out = np.zeros(size, numpy_type(result))
    pointers = (ctypes.c_void_p * (op.arity + 1))(*(a.ctypes.data for a in (*args, out)))
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(code.addresses[name])
    assert function(pointers, None, 1) == 0
    return out


def operands(op: ScalarOp, dtypes: tuple[DType, ...]) -> list[np.ndarray]:
    """Ordinary and special values, in all pairs of the special ones; no division of integers by zero."""
    random = np.random.default_rng(0)
    columns = []
    count = len(SPECIAL) ** 2
    for position, dtype in enumerate(dtypes):
        special = np.array(SPECIAL)
        grid = np.repeat(special, len(special)) if position % 2 else np.tile(special, len(special))
        values = np.concatenate([grid, random.normal(size=77) * 3, random.uniform(-80, 80, 70)])
        if not dtype.is_float:
            values = np.nan_to_num(values, posinf=7, neginf=-7)
            if op.name in ("floor_div", "trunc_div", "remainder", "fmod") and position == 1:
                values = np.where(np.abs(values) < 1, 3, values)
            if op.name in ("shl", "shr") and position == 1:
                values = np.abs(values) % 70
            if dtype.kind in ("uint", "bool"):
                values = np.abs(values)
        columns.append(values.astype(numpy_type(dtype)))
    assert len(columns[0]) > count
    return columns


CASES = [
    (op, dtype)
    for op in SCALAR_OPS.values()
    for dtype in TYPES
    if dtype.kind in op.kinds and not (op.name == "pow" and not dtype.is_float)
]


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=lambda case: str(getattr(case, "name", case)))
def test_emission_means_what_the_table_says(op: ScalarOp, dtype: DType) -> None:
    result = BOOL if op.rule == "compare" else dtype
    dtypes = operand_dtypes(op, result, [BOOL if op.rule == "where" else dtype, *[dtype] * (op.arity - 1)])
    args = operands(op, dtypes)
    with np.errstate(all="ignore"):
        precise = op.cost >= 10 and result is F32 and op.name != "nextafter"
        precise = [a.astype(np.float64) if precise else a for a in args]
        expected = np.asarray(op.evaluate(*precise)).astype(numpy_type(result))
    for vector, machine in dict.fromkeys([(False, ""), (True, ""), *((True, name) for name in USABLE)]):
        found = compute(op, result, dtypes, args, vector, machine)
        if not result.is_float:
            np.testing.assert_array_equal(found, expected)
            continue
        exact = op.cost < 10 and op.name not in ("floor_div", "remainder", "fma")
        tolerance = 0 if exact else 1e-6 if dtype is F32 else 1e-14
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance / 4, equal_nan=True)
        if op.name not in ("maximum", "minimum", "floor_div", "remainder", "sign"):  # equal zeros: eager's choice
            zero = (expected == 0) & (found == 0)
            np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_that_is_called_gives_the_same_bits(
    name: str, dtype: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    op = SCALAR_OPS[name]
    dtypes = operand_dtypes(op, dtype, [dtype] * op.arity)
    args = operands(op, dtypes)
    for vector, machine in dict.fromkeys([(False, ""), (True, ""), *((True, name) for name in USABLE)]):
        expected = compute(op, dtype, dtypes, args, vector, machine)
        with monkeypatch.context() as patch:
            patch.setattr(outline, "WRITTEN_OUT", 0)
            found = compute(op, dtype, dtypes, args, vector, machine)
        np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))


def test_a_function_that_a_kernel_computes_very_often_is_in_the_code_once() -> None:
    often, seldom = outline.WRITTEN_OUT + 1, outline.WRITTEN_OUT
    lines = ["kernel k(i0: 64) vector i0 by 16:", "  s0: f32 = load p0 @ i0"]
    lines += [f"  s{k + 1}: f32 = sin(s{k})" for k in range(often)]
    lines += [f"  e{k + 1}: f32 = exp({f'e{k}' if k else f's{often}'})" for k in range(seldom)]
    lines += [f"  store p1 @ i0 = e{seldom}"]
    kernel = parse_kernel("\n".join(lines))
    text = module_text([KernelSource("often", kernel, {"p0": F32, "p1": F32})], CPU.machine).text
    assert text.count("define internal <16 x float> @og.sin.v16f32(") == 1
    assert text.count("call <16 x float> @og.sin.v16f32(") == often
    assert "@og.exp" not in text


@pytest.mark.parametrize("op", [op for op in SCALAR_OPS.values() if op.rule == "compare"], ids=lambda op: op.name)
def test_questions_about_literals_are_answered_while_compiling(op: ScalarOp) -> None:
    for args in product(SPECIAL, repeat=op.arity):
        answer = fold(op.name, BOOL, args)
        assert answer is bool(op.evaluate(*map(np.float64, args))), args
