"""Tensors whose memory holds the conjugate or the negative of their elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

import onegraph

FUNCTIONS: dict[str, Callable[[Tensor], Any]] = {
    "conjugate": lambda x: torch.fft.fft(x).conj(),
    "part of a conjugate": lambda x: torch.fft.fft(x).conj()[0],
    "both": lambda x: (lambda z: (z, z.conj()))(torch.fft.fft(x)),
    "inverse": lambda x: (torch.fft.ifft(x), torch.fft.ihfft(x.real)),
    "imaginary part": lambda x: torch.fft.fft(x).conj().imag,
    "computed of an imaginary part": lambda x: torch.fft.fft(x).conj().imag + 1,
    "sum of an imaginary part": lambda x: torch.fft.fft(x).conj().imag.sum(),
    "product": lambda x: torch.fft.fft(x).conj() * x,
    "matrix product": lambda x: torch.fft.fft(x).conj() @ torch.fft.fft(x).mH,
    "negative": lambda x: torch._neg_view(x),
    "computed of a negative": lambda x: torch._neg_view(x) + 1,
    "part of a negative": lambda x: (torch._neg_view(x * 2)[1:], x),
    "computed of a part by strides": lambda x: x.as_strided((2, 3), (6, 1)) + 1,
    "negative by strides": lambda x: torch._neg_view(x * 2).as_strided((2, 3), (6, 1)) + 1,
    "transposed negative": lambda x: torch._neg_view(x * 2).t(),
}
INPUTS: dict[str, Callable[[], Tensor]] = {
    "real": lambda: torch.randn(4, 6),
    "negated": lambda: torch._neg_view(torch.randn(4, 6)),
    "complex": lambda: torch.randn(4, 6, dtype=torch.complex64),
    "conjugated": lambda: torch.randn(4, 6, dtype=torch.complex64).conj(),
}


@pytest.mark.parametrize("input", INPUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_and_their_bits_are_eagers(name: str, input: str) -> None:
    x = INPUTS[input]()
    expected = tree_leaves(FUNCTIONS[name](x))
    found = tree_leaves(onegraph.compile(FUNCTIONS[name], fullgraph=True)(x))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
        assert (ours.is_conj(), ours.is_neg(), ours.stride()) == (theirs.is_conj(), theirs.is_neg(), theirs.stride())


def test_gradients() -> None:
    def loss(x: Tensor) -> Tensor:
        return (torch.fft.fft(x).conj().imag * x).sum()

    x = torch.randn(5, requires_grad=True)
    (expected,) = torch.autograd.grad(loss(x), x)
    (found,) = torch.autograd.grad(onegraph.compile(loss)(x), x)
    torch.testing.assert_close(found, expected)
