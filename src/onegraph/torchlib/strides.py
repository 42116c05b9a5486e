"""What the strides of a tensor say of its place in memory."""

from __future__ import annotations

from collections.abc import Sequence


def is_dense(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the elements fill a block of memory, each in a place of its own, in some order of the dimensions."""
    expected = 1
    for size, stride in sorted(zip(sizes, strides, strict=True), key=lambda dim: dim[1]):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True
