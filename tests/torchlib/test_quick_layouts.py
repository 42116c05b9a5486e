"""The rules for layouts against the real operators: whatever the samples of torch's operators call, in several layouts.

The tests try some samples of each operator, `python -m tests.torchlib.test_quick_layouts` tries all, in more types.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from onegraph.torchlib.fake import FakeMode
from onegraph.torchlib.layouts import RULES
from onegraph.torchlib.quick_meta import is_elementwise, quick_layout

# Some kernels of these write past their memory where their arguments are not contiguous.
FRAGILE = ("lu", "linalg", "lstsq", "geqrf", "ormqr", "cholesky", "triangular", "householder", "svd", "qr")
IMAGES = {4: torch.channels_last, 5: torch.channels_last_3d}


def channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=IMAGES[x.dim()]) if x.dim() in IMAGES else x


def reversed_in_memory(x: Tensor) -> Tensor:
    order = range(x.dim())[::-1]
    return x.permute(*order).contiguous().permute(*order)


def with_gaps(x: Tensor) -> Tensor:
    return torch.stack([x, x], -1)[..., 0] if x.dim() else x


def of_one_image(x: Tensor) -> Tensor:
    """Channels last, but for a first stride that says nothing."""
    if x.dim() not in IMAGES or x.shape[0] != 1:
        return x
    found = torch.empty_strided(x.shape, (1, *channels_last(x).stride()[1:]), dtype=x.dtype)
    return found.copy_(x)


def as_type(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Which the operator may refuse, and then no rule may take it."""
    return x.to(dtype) if x.is_floating_point() else x


VARIANTS: list[Callable[[Tensor], Tensor]] = [
    *(lambda x: x, channels_last, reversed_in_memory, with_gaps, of_one_image),
    lambda x: x[:1] if x.dim() > 2 else x,
    *(partial(as_type, dtype=dtype) for dtype in (torch.bool, torch.int64, torch.complex64)),
]


class Compare(TorchDispatchMode):
    """Compares what the rules say of every operator that is called with what it gives."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: dict[str, Any] = {}
        self.known: dict[OpOverload, int] = {}

    def __torch_dispatch__(self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        plain = all(x.layout is torch.strided and not (x.is_conj() or x.is_neg()) for x in tensors)
        layout = None
        if tensors and plain and (func in RULES or is_elementwise(func)):
            try:
                layout = quick_layout(func, args, kwargs or {}, tensors)
            except (RuntimeError, TypeError, IndexError):  # of the operator itself, on one element
                layout = None
        try:
            result = func(*args, **kwargs or {})
        except Exception as error:
            of_data = isinstance(error, IndexError) or "ZeroDivisionError" in str(error)
            if layout is not None and not of_data:
                self.wrong[f"{func} takes what is refused"] = described(tensors), args, str(error)
            raise
        if layout is not None:
            self.known[func] = self.known.get(func, 0) + 1
            several = isinstance(layout[0], tuple) and len(layout[0]) == 3 and isinstance(layout[0][2], torch.dtype)
            found = [
                (tuple(shape), tuple(strides), dtype) for shape, strides, dtype in (layout if several else [layout])
            ]
            expected = described(tree_leaves(result))
            if found != expected:
                self.wrong[str(func)] = (
                    expected,
                    found,
                    described(tensors),
                    [a for a in args if not isinstance(a, Tensor)],
                )
        return result


def described(tensors: Any) -> list[Any]:
    return [(tuple(x.shape), x.stride(), x.dtype) for x in tensors]


def compared(dtype: torch.dtype, samples: int) -> Compare:
    compare = Compare()
    for op in op_db:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        given = op.sample_inputs_func(op, "cpu", dtype, False)  # `sample_inputs` looks through the stack for each
        for sample in islice(given, samples):
            for variant in VARIANTS[:1] if any(name in op.name for name in FRAGILE) else VARIANTS:
                run(op.op, variant, (sample.input, sample.args, sample.kwargs), compare)
    return compare


def run(op: Callable[..., Any], variant: Callable[[Tensor], Tensor], given: Any, compare: Compare) -> None:
    def changed(x: Any) -> Any:
        return variant(x) if isinstance(x, Tensor) and x.layout is torch.strided else x

    try:
        first, args, kwargs = tree_map(changed, given)
        with torch.no_grad(), compare:
            op(first, *args, **kwargs)
    except Exception:  # a variant that the operator does not take
        return


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
@pytest.mark.filterwarnings("ignore")
def test_layouts_of_results(dtype: torch.dtype) -> None:
    compare = compared(dtype, 12)
    assert not compare.wrong
    assert len(compare.known) > (150 if dtype is torch.float32 else 80)


def convolutions(count: int) -> Iterator[tuple[Any, ...]]:
    draw = random.Random(0)
    for _ in range(count):
        rank, groups, kernel = draw.choice((1, 2, 2, 3)), draw.choice((1, 1, 2, 4)), draw.choice((1, 3))
        inner, outer, transposed = groups * draw.choice((1, 2)), groups * draw.choice((1, 2, 4)), draw.random() < 0.25
        sizes = [draw.choice((4, 7)) for _ in range(rank)]
        channels = (inner, outer // groups) if transposed else (outer, inner // groups)
        dtype = draw.choice((torch.float32, torch.float32, torch.bfloat16))
        x, weight = torch.randn(draw.choice((1, 2)), inner, *sizes), torch.randn(*channels, *[kernel] * rank)
        bias = draw.choice((None, torch.randn(outer, dtype=dtype)))
        x, weight = (draw.choice(VARIANTS[:6])(t.to(dtype)) for t in (x, weight))
        steps, padding = [draw.choice((1, 2))] * rank, [draw.choice((0, 1))] * rank
        yield x, weight, bias, steps, padding, [draw.choice((1, 1, 3))] * rank, transposed, [0] * rank, groups


def test_convolutions() -> None:
    compared = 0
    for args in convolutions(400):
        mode = FakeMode()
        fakes = [mode.fakeify(value) if isinstance(value, Tensor) else value for value in args]
        try:
            expected = torch.ops.aten.convolution.default(*args)
        except RuntimeError:
            with pytest.raises(RuntimeError), mode:
                torch.ops.aten.convolution.default(*fakes)
            continue
        with mode:
            found = torch.ops.aten.convolution.default(*fakes)
        compared += 1
        assert described([found]) == described([expected]), args[3:]
    assert compared > 200


def test_writes_in_place() -> None:
    x, row, mode = torch.randn(2, 3), torch.randn(3), FakeMode()
    fake, fake_row = mode.fakeify(x), mode.fakeify(row)
    with mode:
        assert fake.add_(fake_row) is fake
        assert fake.mul_(2).clamp_(0).masked_fill_(fake > 0, 1.0) is fake
        assert fake.copy_(fake_row) is fake
        with pytest.raises(RuntimeError, match="broadcast"):
            fake_row.add_(fake)
        with pytest.raises(RuntimeError, match="can't be cast"):
            mode.fakeify(torch.ones(3, dtype=torch.int64)).add_(fake_row)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for kind in (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64):
        report = compared(kind, 10_000)
        print(kind, sum(report.known.values()), "calls of", len(report.known), "operators:", report.wrong or "equal")
