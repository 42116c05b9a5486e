"""Views of one operator with several results, returned beside what is computed from them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest
import torch
from torch import Tensor

import onegraph

OPTIONS = {"raise_compiler_errors": True}
PARTS: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "chunk": lambda x: x.chunk(2, -1),
    "split": lambda x: x.split(2, 0),
    "split-sizes": lambda x: x.split([1, 3], 1),
    "unbind": lambda x: x.unbind(0),
    "tensor-split": lambda x: x.tensor_split(2),
    "computed": lambda x: (x * 2).chunk(2, -1),
    "of-a-view": lambda x: x.t()[1:].unbind(1),
}
USES: dict[str, Callable[[Tensor, Tensor], list[Tensor]]] = {
    "encoder": lambda m, s: [m.sum() + s.exp().sum() * 3, m, s],
    "changed": lambda m, s: [m.sum() + s.exp().sum() * 3, m, s.exp()],
    "one": lambda m, s: [m.sin(), m],
    "further": lambda m, s: [m[:1], m[:1].sum() * s.sum(), s],
    "chain": lambda m, s: [m, m.exp(), m.exp().sum() + s.sum(), s, s.sum()],
}


def gradients(f: Callable[[Tensor], list[Tensor]]) -> list[Any]:
    found: list[Any] = []
    for count in (1, 2):
        for chosen in combinations(range(len(f(torch.ones(4, 4)))), count):
            x = torch.linspace(-1, 1, 16, dtype=torch.float64).reshape(4, 4).requires_grad_()
            results = f(x)
            value = sum((results[n] * (n + 1)).sin().sum() for n in chosen)
            found += [r.detach() for r in results]
            found += torch.autograd.grad(value, [x, *results], allow_unused=True)
    return found


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("parts", PARTS)
def test_parts_have_eagers_gradients(parts: str, use: str, backend: str) -> None:
    def f(x: Tensor) -> list[Tensor]:
        first, second, *_ = PARTS[parts](x)
        return USES[use](first, second)

    expected, result = gradients(f), gradients(onegraph.compile(f, backend=backend, options=OPTIONS))
    for a, b in zip(result, expected, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("parts", PARTS)
def test_parts_are_written_to_as_in_eager(parts: str) -> None:
    def f(x: Tensor) -> list[Tensor]:
        first, second, *_ = PARTS[parts](x)
        return [first, second, first.sum() * second.sum()]

    def write(function: Callable[[Tensor], list[Tensor]]) -> Any:
        x = torch.ones(4, 4, requires_grad=True)
        results = function(x)
        try:
            results[1].mul_(2)
        except RuntimeError as error:
            return str(error)
        return [r.detach() for r in results]

    expected, result = write(f), write(onegraph.compile(f, options=OPTIONS))
    if isinstance(expected, str):
        assert result == expected
    else:
        torch.testing.assert_close(result, expected)
