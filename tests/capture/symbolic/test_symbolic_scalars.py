"""Sizes as numbers that operators take: those that an element type does not hold are refused, as in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import onegraph

SIZES = (5, 7, 100, 300, 70000)
TYPES = (torch.int8, torch.int32, torch.float16)
NUMBERS: tuple[Callable[[int], int], ...] = (
    lambda n: n,
    lambda n: n * 3 + 1,
    lambda n: n * n,
    lambda n: int(3 - n * 0.7),
)
USES: tuple[Callable[[Tensor, int], Tensor], ...] = (
    lambda x, n: torch.full((2,), n, dtype=x.dtype),
    lambda x, n: x.new_full((2,), n),
    lambda x, n: x.fill_(n),
    lambda x, n: x.masked_fill(x > 0, n),
    lambda x, n: torch.where(x > 0, x, n),
    lambda x, n: x.clamp(max=n),
    lambda x, n: x.scatter(0, torch.tensor([0]), n),
    lambda x, n: x + n,
    lambda x, n: x * n,
)


def outcome(function: Callable[..., Any], x: Tensor) -> Any:
    try:
        return function(x)
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("use", range(len(USES)))
@pytest.mark.parametrize("dtype", TYPES)
def test_numbers_that_a_type_does_not_hold(use: int, dtype: torch.dtype) -> None:
    for number in NUMBERS:

        def run(x: Tensor, number: Callable[[int], int] = number) -> Tensor:
            return USES[use](x[:2].to(dtype), number(x.shape[0]))

        compiled = onegraph.compile(run, options={"recompile_limit": 100})
        for n in SIZES:
            expected, result = outcome(run, torch.ones(n)), outcome(compiled, torch.ones(n))
            assert type(result) is type(expected)
            if isinstance(expected, str):
                assert result == expected
            else:
                torch.testing.assert_close(result, expected, rtol=0, atol=0)
        onegraph.reset()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
@pytest.mark.parametrize("bound", [300, -300, -1, 70000, 1 << 40])
@pytest.mark.parametrize("dynamic", [True, False])
def test_bounds_that_a_type_does_not_hold(dtype: torch.dtype, bound: int, dynamic: bool) -> None:
    for bounds in ("min", "max"):

        def run(x: Tensor, name: str = bounds) -> Tensor:
            return x.clamp(**{name: bound + x.shape[0]})

        expected = outcome(run, torch.ones(2, dtype=dtype))
        result = outcome(onegraph.compile(run, dynamic=dynamic), torch.ones(2, dtype=dtype))
        assert str(result) == str(expected)
    onegraph.reset()


def test_a_remainder_of_sizes_divides() -> None:
    def run(x: Tensor) -> Tensor:
        return x.new_ones(100 % (x.shape[0] % x.shape[1]))

    compiled = onegraph.compile(run, options={"raise_compiler_errors": True})
    for size in ((8, 7), (12, 9), (13, 11), (35, 19), (64, 33)):
        torch.testing.assert_close(compiled(torch.ones(size)), run(torch.ones(size)))
    onegraph.reset()


def test_gradients_of_what_has_a_computed_size() -> None:
    """The backward pass is given none of the size that is computed: neither a tensor of it nor the number itself."""

    def run(x: Tensor) -> Tensor:
        return x.new_ones(int(x.shape[0] * 1.7)) * x.sum()

    compiled = onegraph.compile(run, options={"raise_compiler_errors": True})
    for size in (8, 12, 31, 7):
        ours, theirs = torch.ones(size, requires_grad=True), torch.ones(size, requires_grad=True)
        compiled(ours).square().sum().backward()
        run(theirs).square().sum().backward()
        torch.testing.assert_close(ours.grad, theirs.grad)
    onegraph.reset()


def test_numbers_are_set_in_one_graph() -> None:
    def run(x: Tensor) -> Tensor:
        y = x.to(torch.int16)
        y[0] = x.shape[0]
        y[1] = 3
        y[2:4] = y[:2]
        return y

    compiled = onegraph.compile(run, fullgraph=True)
    for size in (5, 7, 300, 32767):
        torch.testing.assert_close(compiled(torch.ones(size)), run(torch.ones(size)))
    with pytest.raises(RuntimeError, match="without overflow"):
        onegraph.compile(run)(torch.ones(40000))
    onegraph.reset()
