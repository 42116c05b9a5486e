"""Operators that write at positions held by other tensors, against eager: also where several write to one place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from compiler.lower.native import check, compiled
from torch import Tensor

aten = torch.ops.aten


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("strided", [False, True])
def test_scatter(dim: int, strided: bool) -> None:
    x, source = torch.randn(4, 5, 33), torch.randn(4, 6, 40)
    index = torch.randint(0, (4, 5, 33)[dim], (3, 5, 20))
    if strided:
        x, index = x.transpose(0, 2).contiguous().transpose(0, 2), index.flip(0)
    check(lambda x, i, s: x.scatter(dim, i, s), x, index, source)
    check(lambda x, i: x.scatter(dim, i, 2.5), x, index)
    check(lambda x, i, s: x.scatter_add(dim, i, s), x, index, source, rtol=1e-6, atol=1e-6)
    for how in ("sum", "prod", "mean", "amax", "amin"):
        for own in (False, True):
            check(
                lambda x, i, s, how=how, own=own: x.scatter_reduce(dim, i, s, how, include_self=own),
                *(x, index, source),
                rtol=1e-5,
                atol=1e-5,
            )


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8, torch.float64, torch.bfloat16])
def test_types(dtype: torch.dtype) -> None:
    x, source = torch.randint(0, 9, (6, 7)).to(dtype), torch.randint(0, 9, (5, 7)).to(dtype)
    index = torch.randint(0, 6, (5, 7))
    check(lambda x, i, s: x.scatter_add(0, i, s), x, index, source)
    check(lambda x, i, s: x.scatter_reduce(0, i, s, "mean", include_self=False), x, index, source, rtol=1e-2)
    check(lambda x, i, s: x.index_add(0, i, s, alpha=2), x, index[:, 0], source)


@pytest.mark.parametrize("dim", [0, 1])
def test_slices(dim: int) -> None:
    x, source, index = torch.randn(8, 8), torch.randn(8, 8), torch.tensor([3, 0, 3, 7, 7, 1, 2, 3])
    check(lambda x, i, s: x.index_add(dim, i, s), x, index, source, rtol=1e-6, atol=1e-6)
    check(lambda x, i, s: x.index_copy(dim, i, s), x, index, source)
    check(lambda x, i: x.index_fill(dim, i, -1.0), x, index)
    check(lambda x, i, s: x.index_reduce(dim, i, s, "amax", include_self=False), x, index, source)


def test_index_put() -> None:
    x, i, j = torch.randn(6, 5, 4), torch.tensor([1, -1, 1]), torch.tensor([[0], [3]])
    check(lambda x, i, v: x.index_put([i], v), x, i, torch.randn(3, 5, 4))
    check(lambda x, i, v: x.index_put([i], v, True), x, i, torch.randn(3, 5, 4), rtol=1e-6)
    check(lambda x, i, j, v: x.index_put([i, j], v, True), x, i, j, torch.randn(2, 3, 4), rtol=1e-6)
    check(lambda x, i, j, v: aten.index_put(x, [i, None, j], v), x, i, j, torch.randn(2, 3, 5))
    check(lambda x, i, v: aten.index_put(x, [None, i], v), x, i, torch.randn(4))
    check(lambda x, m, v: x.index_put([m], v), x, x > 0, torch.tensor(2.0))
    check(lambda x, i, v: x.put(i, v, True), x, torch.tensor([5, -1, 5]), torch.randn(3), rtol=1e-6)


def test_masked_scatter() -> None:
    x = torch.randn(5, 40)
    check(lambda x, m, s: x.masked_scatter(m, s), x, x > 0, torch.arange(300.0))
    check(lambda x, m, s: x.masked_scatter(m, s), x, torch.rand(40) > 0.5, torch.randn(40, 5).t())
    run = compiled(lambda x, m, s: (x.masked_scatter(m, s),), x, x > 0, torch.ones(2))
    with pytest.raises(RuntimeError, match="Number of elements of source < number of ones in mask"):
        run(x, x > 0, torch.ones(2))


def test_gradient_of_an_embedding() -> None:
    def gradient(g: Tensor, i: Tensor) -> Tensor:
        return aten.embedding_dense_backward(g, i, 7, 2, False)

    check(gradient, torch.randn(3, 11, 16), torch.randint(0, 7, (3, 11)), rtol=1e-5, atol=1e-6)


def test_places_outside_stop_the_program() -> None:
    x, index = torch.randn(3, 4), torch.tensor([[0, 1, 2, 3]])
    run = compiled(lambda x, i: (x.scatter(0, i, 1.0),), x, index)
    with pytest.raises(RuntimeError, match="out of bounds"):
        run(x, index)


def test_what_makes_the_operands_joins_the_loop() -> None:
    x, index = torch.randn(6, 40), torch.randint(0, 6, (6, 40))
    check(lambda x, i: (x * 2).scatter_add(0, i, x + 1) * 3, x, index, rtol=1e-5, atol=1e-5)
    check(lambda x, i: x.scatter_add(0, (i + 1) % 6, x.exp()).relu().cumsum(1), x, index, rtol=1e-5, atol=1e-5)


POSITIONS: dict[str, Callable[[int], Tensor]] = {
    "one place": lambda n: torch.zeros(n, dtype=torch.long),
    "pairs": lambda n: torch.arange(n) // 2,
    "around": lambda n: torch.arange(n) * 3 % min(n, 4),
    "backwards": lambda n: n - 1 - torch.arange(n),
    "each": lambda n: torch.arange(n),
}


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("shape", [(2, 9, 1), (33, 3), (4, 12, 5)])
def test_positions_that_the_graph_computes(shape: tuple[int, ...], name: str) -> None:
    """The last one wins, also where the compiler sees through the positions, and there are vectors."""
    n = shape[1]

    def writes(x: Tensor) -> tuple[Tensor, ...]:
        index = POSITIONS[name](n)
        wide = index.reshape([1, n] + [1] * (x.dim() - 2)).expand(x.shape)
        rows = x[:, 0].flatten()[: len(index)]
        return (
            x.scatter(1, wide, x),
            x.scatter(1, torch.zeros_like(x, dtype=torch.long), x),
            x.index_copy(1, index, x),
            torch.zeros(n).index_put([index[: len(rows)]], rows),
            x.scatter_add(1, wide, x),
        )

    check(writes, torch.randn(shape), rtol=1e-5, atol=1e-5)
    check(writes, torch.randn(shape[::-1]).permute(*range(len(shape))[::-1]), rtol=1e-5, atol=1e-5)
