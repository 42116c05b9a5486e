"""Compares the gradients of compiled operators with eager's, for every sample of torch's operator database.

Each sample is compiled publicly and trained with for one step: its results, whether they need gradients, and the
gradients of all inputs must be eager's. Where eager raises, the compiled call must raise the same.

Errors are relative to the largest element of a tensor. In float32 a larger one than `TOLERANCE` is allowed if it is no
larger than eager's own, against what eager computes in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

import onegraph
from tests.opinfo.accuracy import widened
from tests.opinfo.harness import SEED, copies, layout_of_result, on_tensors

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def check_gradients(op: Any, dtype: torch.dtype, limit: int | None = None, **options: Any) -> int:
    """Compare every sample, compiled with these options; gives how many were equal.

    Raises:
        AssertionError: where one differs.
    """
    torch.manual_seed(0)
    equal = 0
    for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=True)):
        if limit is not None and number >= limit:
            break
        arguments = (sample.input, tuple(sample.args), dict(sample.kwargs))
        flat, inputs = on_tensors(op.op, arguments)
        expected, again = (trained(flat, inputs) for _ in range(2))
        truth = trained(*on_tensors(op.op, tree_map_only(Tensor, widened, arguments)))
        compiled = onegraph.compile(flat, options={"raise_compiler_errors": True, **options})
        try:
            compare(trained(compiled, inputs), expected, again, truth, dtype)
        except Exception as error:
            error.add_note(f"{op.formatted_name}, sample {number}: {sample.summary()}")
            raise
        finally:
            onegraph.reset()
        equal += 1
    return equal


def trained(function: Callable[..., tuple[Any, ...]], inputs: list[Tensor]) -> tuple[Any, ...] | Exception:
    """The results, whether each needs gradients, and the gradients of the inputs that do; or what was raised."""
    leaves = copies([x.detach() for x in inputs])
    for leaf, x in zip(leaves, inputs, strict=True):
        leaf.requires_grad_(x.requires_grad)
    torch.manual_seed(SEED)
    try:
        results = function(*leaves)
        roots = [x for x in results if isinstance(x, Tensor) and x.requires_grad]
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        directions = [direction(x) for x in roots]
        gradients = torch.autograd.grad(roots, wanted, directions, allow_unused=True) if roots and wanted else ()
    except Exception as error:  # the compiled call must raise the same
        return error
    needs = [isinstance(x, Tensor) and x.requires_grad for x in results]
    return tuple(x.detach() if isinstance(x, Tensor) else x for x in results), needs, gradients


def direction(result: Tensor) -> Tensor:
    """Some gradient of a result; the same for the same result, in any type."""
    generator = torch.Generator().manual_seed(SEED)
    dense = torch.randn(result.shape, generator=generator).to(result.dtype)
    return dense if result.layout is torch.strided else dense.to_sparse(layout=result.layout)


def compare(ours: Any, theirs: Any, again: Any, truth: Any, dtype: torch.dtype) -> None:
    """Raise AssertionError where a compiled step did something else.

    `again` is what eager does a second time, and `truth` what it does in float64.
    """
    if isinstance(ours, Exception) and not isinstance(theirs, Exception):
        raise ours
    if isinstance(theirs, Exception):
        assert (type(ours), str(ours)) == (type(theirs), str(theirs)), (ours, theirs)
        return
    assert ours[1] == theirs[1], ("what needs gradients", ours[1], theirs[1])
    for mine, other in zip(ours[0], theirs[0], strict=True):
        if isinstance(other, Tensor):
            assert layout_of_result(mine) == layout_of_result(other), (layout_of_result(mine), layout_of_result(other))
    known = not isinstance(truth, Exception) and all(map(is_near, theirs[0], truth[0]))
    for part in (0, 2):
        exact = truth[part] if known else [None] * len(ours[part])
        for mine, other, repeated, value in zip(ours[part], theirs[part], again[part], exact, strict=True):
            if isinstance(other, Tensor):
                _compare_elements(mine, other, repeated, value, TOLERANCE[dtype])
            else:
                assert type(mine) is type(other), (mine, other)


def _compare_elements(ours: Tensor, theirs: Tensor, again: Tensor, truth: Tensor | None, tolerance: float) -> None:
    """Those that eager repeats."""
    if theirs.layout is not torch.strided:
        ours, theirs, again = (x.to_dense() for x in (ours, theirs, again))
        truth = None if truth is None else truth.to_dense()
    known = (theirs == again) | ((theirs != theirs) & (again != again))
    ours, theirs = ours[known], theirs[known]
    inexact = theirs.is_floating_point() or theirs.is_complex()
    atol = tolerance * largest(theirs) if inexact else 0.0
    if inexact and truth is not None and truth.shape == known.shape:
        error = largest(theirs - truth[known])
        if largest(ours - truth[known]) <= error:
            atol = max(atol, 2 * error)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=atol, equal_nan=True)


def is_near(result: Any, truth: Any) -> bool:
    """Whether results in float32 and in float64 are the same: those of random operators are others."""
    if not isinstance(truth, Tensor):
        return True
    result, truth = result.to_dense().double(), truth.to_dense().double()
    return result.shape == truth.shape and largest(result - truth) <= 1e-2 * largest(truth)


def largest(values: Tensor) -> float:
    """The largest of the finite ones."""
    finite = values[values.isfinite()].abs()
    return float(finite.max()) if finite.numel() else 0.0
