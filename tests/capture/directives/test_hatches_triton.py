"""Launches of Triton kernels are nodes of the graph. Triton is stood in for: what is tested is everything around it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import onegraph
from tests.capture.directives.triton_stand_in import Autotuner, jit
from tests.capture.resume.test_breaks import Watch

X = torch.arange(10.0)
BLOCK = 4


@jit
def add_kernel(program, left, right, out, count, block):
    places = slice(program * block, min((program + 1) * block, count))
    out[places] = left[places] + right[places]


tuned_kernel = Autotuner(add_kernel, [{"block": 5}, {"block": 3}])


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    count = out.numel()
    add_kernel[(-(-count // BLOCK),)](x, y, out, count, block=BLOCK)
    return out


def add_by_meta(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    count = out.numel()
    grid = lambda meta: (-(-count // meta["block"]),)  # noqa: E731
    torch.library.wrap_triton(add_kernel)[grid](x, y, out, count, block=BLOCK)
    return out


def add_tuned(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    tuned_kernel[lambda meta: (4,)](left=x, right=y, out=out, count=out.numel())
    return out


backends = pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])


@backends
@pytest.mark.parametrize("function", [add, add_by_meta, add_tuned])
def test_one_graph(backend: str, function: Any) -> None:
    compiled = onegraph.compile(lambda x: function(x * 2, x) + 1, backend=backend, fullgraph=True)
    with Watch() as watch:
        for x in (X, X + 1):
            before = len(add_kernel.launches)
            torch.testing.assert_close(compiled(x), x * 3 + 1)
            assert len(add_kernel.launches) == before + 1
    assert len(watch.graphs) == 1


@backends
def test_an_argument_of_the_program_is_written(backend: str) -> None:
    def f(x, out):
        add_kernel[(3,)](x + 1, x, out, x.numel(), BLOCK)
        return out * 2

    out = torch.zeros(10)
    result = onegraph.compile(f, backend=backend, fullgraph=True)(X, out)
    torch.testing.assert_close(out, X * 2 + 1)
    torch.testing.assert_close(result, (X * 2 + 1) * 2)


def test_sizes_that_change() -> None:
    compiled = onegraph.compile(lambda x: add(x, x) + 1, fullgraph=True)
    for size in (10, 7, 12):
        torch.testing.assert_close(compiled(X[:size]), X[:size] * 2 + 1)


def by_tensors(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    add_kernel[lambda meta: (-(-x.numel() // meta["block"]),)](x, x, out, x.numel(), block=BLOCK)
    return out


def by_sizes(x: torch.Tensor) -> torch.Tensor:
    out, count = torch.empty_like(x), x.numel()
    add_kernel[lambda meta: (-(-count // meta["block"]), 1)](x, x, out, count, block=BLOCK)
    return out


def by_sizes_tuned(x: torch.Tensor) -> torch.Tensor:
    out, count = torch.empty_like(x), x.numel()
    tuned_kernel[lambda meta: (-(-meta["count"] // meta["block"]) + 0 * count,)](x, x, out, count)
    return out


@backends
@pytest.mark.parametrize("function", [by_tensors, by_sizes, by_sizes_tuned])
def test_a_grid_that_is_computed(backend: str, function: Any) -> None:
    """A function of what the program has made is called while it is traced, and its sizes stay symbolic."""
    compiled = onegraph.compile(lambda x: function(x) + 1, backend=backend, fullgraph=True)
    with Watch() as watch:
        for size in (10, 7, 12, 9):
            add_kernel.launches.clear()
            torch.testing.assert_close(compiled(X.repeat(2)[:size]), X.repeat(2)[:size] * 2 + 1)
            block = 3 if function is by_sizes_tuned else BLOCK
            assert [grid[0] for grid in add_kernel.launches] == [-(-size // block)]
    assert len(watch.graphs) == 2


def test_tensors_that_need_gradients() -> None:
    x = X.clone().requires_grad_()
    result = onegraph.compile(lambda x: add(x.detach(), x.detach()) * x, fullgraph=True)(x)
    result.sum().backward()
    torch.testing.assert_close(x.grad, X * 2)


def test_which_kernel_it_is_is_guarded() -> None:
    @jit
    def subtract_kernel(program, left, right, out, count, block):
        places = slice(program * block, (program + 1) * block)
        out[places] = left[places] - right[places]

    def f(kernel, x):
        out = torch.empty_like(x)
        kernel[(3,)](x, x + 1, out, 10, BLOCK)
        return out

    compiled = onegraph.compile(f, fullgraph=True)
    torch.testing.assert_close(compiled(add_kernel, X), X * 2 + 1)
    torch.testing.assert_close(compiled(subtract_kernel, X), -torch.ones(10))


def test_what_cannot_be_a_node_breaks() -> None:
    def f(x):
        out = torch.empty_like(x)
        add_kernel[(3,)](x, x, out, 10, block={"a": 4}["a"], **{})
        return out

    torch.testing.assert_close(onegraph.compile(f, fullgraph=True)(X), X * 2)

    def g(x):
        out = torch.empty_like(x)
        add_kernel[(3,)](x, x, out, 10, block=object())
        return out

    with pytest.raises(onegraph.GraphBreakError, match="launch of the Triton kernel add_kernel cannot be a node"):
        onegraph.compile(g, fullgraph=True)(X)
