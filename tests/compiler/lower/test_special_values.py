"""NaN, infinities, zeros of both signs, denormals, divisions by zero: as in eager."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from compiler.lower.native import check, compiled
from torch import Tensor

import onegraph

INF, NAN = math.inf, math.nan
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.5,
    -2.5,
    INF,
    -INF,
    NAN,
    1e-40,
    -1e-40,
    1e38,
    -1e38,
    1e-38,
    88.0,
    -104.0,
    3.0,
]

EXACT: dict[str, Callable[[Tensor], Tensor]] = {
    name: getattr(torch, name)
    for name in "abs ceil floor trunc round sign neg relu frac isnan isinf isfinite signbit square".split()
}
CLOSE: dict[str, Callable[[Tensor], Tensor]] = {
    name: getattr(torch, name)
    for name in """exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh asinh acosh atanh asin acos atan
    sigmoid erf erfc rsqrt reciprocal sqrt""".split()
} | {
    name: getattr(F, name)
    for name in """gelu silu mish hardswish hardsigmoid hardtanh elu celu selu softplus softsign logsigmoid leaky_relu
    relu6 softshrink hardshrink tanhshrink""".split()
}


def specials(dtype: torch.dtype) -> Tensor:
    return torch.tensor(SPECIAL, dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_exact_functions(name: str, dtype: torch.dtype) -> None:
    check(EXACT[name], specials(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CLOSE)
def test_functions(name: str, dtype: torch.dtype) -> None:
    x = specials(dtype)
    if name in ("sin", "cos", "tan") and dtype is torch.bfloat16:
        x = x[x.abs() < 1e30]
    if name == "gelu":
        x = x[(x != INF) & (F.gelu(x) != 0)]  # eager's vector kernels have NaN there, and some lose the sign of a zero
    check(CLOSE[name], x, rtol=3e-6 if dtype is torch.float32 else 1e-2, atol=1e-37)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "function",
    [
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        torch.maximum,
        torch.minimum,
        torch.fmax,
        torch.fmin,
        torch.copysign,
        torch.eq,
        torch.ne,
        torch.lt,
        torch.ge,
        torch.fmod,
        torch.remainder,
        torch.floor_divide,
        torch.logical_and,
        torch.heaviside,
        lambda x, y: torch.where(x > y, x, y),
        lambda x, y: torch.clamp(x, y, y + 1),
    ],
)
def test_two_operands(function: Callable[..., Tensor], dtype: torch.dtype) -> None:
    x = specials(dtype)
    if function in (torch.fmod, torch.remainder):
        x = x[(x == 0) | (x.abs() > 1e-30)]  # eager's vector kernel has NaN for denormal divisors
    check(function, x[:, None], x[None, :])


@pytest.mark.parametrize(
    "function",
    [
        torch.atan2,
        torch.hypot,
        torch.nextafter,
        torch.logaddexp,
        torch.logaddexp2,
        torch.xlogy,
        torch.special.xlog1py,
        torch.pow,
        lambda x, y: torch.lerp(x, y, 0.3),
    ],
)
def test_two_operands_close(function: Callable[..., Tensor]) -> None:
    x = specials(torch.float32)
    check(function, x[:, None], x[None, :], rtol=4e-6, atol=2e-8)


@pytest.mark.parametrize("exponent", [0, 0.5, -0.5, 1, 2, 3, -1, -2, 2.5, 7, -3])
def test_known_exponents(exponent: float) -> None:
    check(lambda x: x**exponent, specials(torch.float32), rtol=4e-6, atol=1e-37)
    check(lambda x: x**exponent, specials(torch.float16), rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("where", [0, 3, 18])
@pytest.mark.parametrize(
    "function",
    [
        torch.sum,
        torch.mean,
        torch.amax,
        torch.amin,
        torch.argmax,
        torch.argmin,
        torch.prod,
        torch.any,
        torch.all,
        torch.nansum,
        lambda x: torch.max(x, 0)[1],
        lambda x: torch.softmax(x, 0),
        lambda x: torch.log_softmax(x, 0),
        lambda x: torch.logsumexp(x, 0),
        lambda x: torch.linalg.vector_norm(x, INF),
        lambda x: torch.var(x),
    ],
)
@pytest.mark.parametrize("value", [NAN, INF, -INF, -0.0])
def test_reductions(function: Callable[..., Tensor], where: int, value: float) -> None:
    x = torch.linspace(-1, 1, 19)
    x[where] = value
    check(function, x, rtol=4e-6, atol=1e-6)


def test_reductions_of_nothing_but_infinity() -> None:
    x = torch.full((3, 4), -INF)
    check(lambda x: (torch.softmax(x, 1), torch.logsumexp(x, 1), x.amax(1), x.argmax(1)), x)


def test_ties_take_the_first() -> None:
    x = torch.tensor([[1.0, 3.0, 3.0, 2.0], [NAN, 1.0, NAN, 5.0], [0.0, -0.0, 0.0, -0.0]]).repeat(1, 9)
    check(lambda x: (x.argmax(1), x.argmin(1), x.max(1)[1], x.min(1)[1], x.argmax(), x.argmin()), x)


DIVISIONS: list[Callable[..., Tensor]] = [
    torch.floor_divide,
    torch.remainder,
    torch.fmod,
    lambda x, y: torch.div(x, y, rounding_mode="trunc"),
]


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8], ids=str)
@pytest.mark.parametrize("function", DIVISIONS)
def test_integer_division(function: Callable[..., Tensor], dtype: torch.dtype) -> None:
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    x = torch.tensor([0, 1, 2, 7, 100, high, low, low + 1, high - 1], dtype=dtype)
    y = x[x != 0]
    pairs = torch.cartesian_prod(x, y)
    keep = ~((pairs[:, 0] == low) & (pairs[:, 1] == -1)) if low else torch.ones(len(pairs), dtype=torch.bool)
    check(function, pairs[keep, 0], pairs[keep, 1])


@pytest.mark.parametrize("count", [1, 5, 1000])
@pytest.mark.parametrize("function", DIVISIONS)
def test_integer_division_by_zero_raises(function: Callable[..., Tensor], count: int) -> None:
    x, y = torch.arange(count), torch.ones(count, dtype=torch.int64)
    run = compiled(lambda a, b: (function(a, b),), x, y)
    assert torch.equal(run(x, y)[0], function(x, y))
    y[-1] = 0
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run(x, y)
    y[-1] = 2
    assert torch.equal(run(x, y)[0], function(x, y))


def test_true_division_of_integers_by_zero_gives_infinity() -> None:
    check(lambda x: x / 0, torch.tensor([-1, 0, 1]))


def test_positions_outside_raise() -> None:
    x, index = torch.randn(5, 3), torch.tensor([0, 4, -5])
    lookups: list[tuple[Callable[..., Tensor], type[Exception], Tensor]] = [
        (lambda x, i: x[i], IndexError, index),
        (lambda x, i: torch.index_select(x, 0, i), IndexError, index.abs() % 5),
        (lambda x, i: F.embedding(i, x), IndexError, index.abs() % 5),
        (lambda x, i: x.gather(0, i[:, None]), RuntimeError, index.abs() % 5),
    ]
    for function, error, good in lookups:
        run = compiled(lambda x, i, function=function: (function(x, i),), x, good)
        assert torch.equal(run(x, good)[0], function(x, good))
        with pytest.raises(error):
            run(x, torch.tensor([0, 5, 1]))


def test_conversions() -> None:
    x = torch.tensor([0.0, -0.0, 1.5, -1.5, 2.5, 100.7, -100.7, 0.1])
    for dtype in (torch.int8, torch.int32, torch.int64, torch.bool, torch.float64, torch.bfloat16, torch.float16):
        check(lambda x, dtype=dtype: x.to(dtype), x)
    check(lambda x: x.to(torch.bool), torch.tensor([NAN, INF, 0.0, 1e-45]))
    check(lambda x: x.to(torch.float32), torch.tensor([2**53 + 1, -(2**62), 16777217]))
    check(lambda x: x.to(torch.int8), torch.tensor([127, 128, 255, 256, -129]))


@pytest.mark.parametrize("dtype", (torch.uint8, torch.int8, torch.int32, torch.int64), ids=str)
@pytest.mark.parametrize("count", (0, 1, 7, 8, 9, 31, 63, 64, 100, -1))
def test_shifts(dtype: torch.dtype, count: int) -> None:
    x, by = torch.tensor([255, 128, 7, 1, 0]).to(dtype), torch.full((5,), count).to(dtype)
    check(lambda x, by: (x >> by, x << by), x, by)


def test_powers_of_two_do_not_overflow_before_the_product() -> None:
    x, exponents = torch.tensor([1e-30, 3e-39, 1.0, -0.0]), torch.tensor([200, 140, -149, 1000])
    (ours,) = compiled(lambda x, n: (torch.ldexp(x, n),), x, exponents)(x, exponents)
    assert torch.equal(ours, torch.ldexp(x, exponents))


def test_gelu_of_negative_numbers_does_not_cancel() -> None:
    x = torch.linspace(-3, 0, 100_001)
    (ours,) = compiled(lambda x: (F.gelu(x),), x)(x)
    torch.testing.assert_close(ours.double(), F.gelu(x.double()), rtol=3e-6, atol=0)
    (ours,) = compiled(lambda x: (F.gelu(x),), -torch.zeros(9))(-torch.zeros(9))
    assert ours.signbit().all()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (torch.full_like(x.byte(), 300),),
        lambda x: (torch.full((3,), 1e6, dtype=torch.float16) + x,),
        lambda x: (x.new_full((3,), 1e39),),
        lambda x: (F.pad(x.half(), (1, 1), value=1e6),),
        lambda x: (torch.linspace(0, 1e6, 5, dtype=torch.float16) + x[0],),
        lambda x: (torch.trace((x > 0)[None]),),
        lambda x: (torch.linalg.cross(x > 0, x > 1),),
        lambda x: (torch.argmax(x > 0),),
        lambda x: (F.softmax(x.long(), 0),),
        lambda x: (F.layer_norm(x.int(), (3,)),),
        lambda x: (F.layer_norm(x > 0, (3,)),),
        lambda x: (F.group_norm(x.int()[None], 3),),
        lambda x: (torch.var(x.int(), 0),),
    ],
)
def test_what_eager_refuses_is_refused(function: Callable[[Tensor], tuple[Tensor]]) -> None:
    """Numbers that a type cannot hold, and types that an operator does not take."""
    x = torch.tensor([1.0, 2.0, 3.0])
    with pytest.raises(Exception) as expected:
        function(x)
    with pytest.raises(expected.type, match=re.escape(str(expected.value))):
        compiled(function, x)(x)


def test_sums_of_booleans() -> None:
    x = torch.tensor([[True, True, False], [True, True, True], [False, False, False]])
    check(lambda x: (x.sum(dtype=torch.bool), x.sum(1, dtype=torch.bool), x.prod(1, dtype=torch.bool)), x)
    check(lambda x: (x.sum(0, keepdim=True, dtype=torch.bool), x.sum(0)), x[:, :0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("bound", [0.0, -0.0, NAN, INF, -INF, 1.0])
def test_a_zero_within_bounds_keeps_its_sign(bound: float, dtype: torch.dtype) -> None:
    check(lambda x: (x.clamp(min=bound), x.clamp(max=bound), x.clamp(bound, bound)), specials(dtype).repeat(3))


@pytest.mark.parametrize("columns", [3, 17, 1000])
def test_equal_elements_are_their_own_mean(columns: int) -> None:
    """A mean that is rounded is another number: their distances from it would be normalized to something."""
    x = torch.tensor([0.1, -3.3, 1e15, 1e-30, 7.7e5]).reshape(-1, 1).repeat(1, columns)

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.nn.functional.layer_norm(x, (columns,)), *torch.var_mean(x, 1), x.std(1)

    for ours, theirs in zip(onegraph.compile(function)(x), function(x), strict=True):
        assert torch.equal(ours, theirs), (ours, theirs)
