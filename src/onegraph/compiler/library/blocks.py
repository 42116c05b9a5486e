"""Memory for what is made of weights and kept: pieces of blocks in large pages, of which one weight would not fill any.

What is read from its beginning to its end in each call is read half as fast again from large pages as from small ones.
A block is released with the last of its pieces.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from threading import Lock

import torch
from torch import Tensor

from onegraph import _C

BLOCK = 32 << 20  # bytes
LINE = 64


class Blocks:
    """Gives pieces of the block that was begun last, or of a new one."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: weakref.ref[Tensor] | None = None
        self._taken = 0

    def piece(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """A contiguous tensor that holds anything."""
        size = math.prod(shape) * dtype.itemsize
        with self._lock:
            block = None if self._last is None else self._last()
            if block is None or self._taken + size > block.numel():
                block = torch.empty(max(BLOCK, size), dtype=torch.uint8)
                _C.prefer_large_pages(block.data_ptr(), block.numel())
                self._last, self._taken = weakref.ref(block), 0
            made = block[self._taken : self._taken + size].view(dtype).view(*shape)
            self._taken += -(-size // LINE) * LINE
        made._block = block  # type: ignore[attr-defined]  # which lives as long
        return made


BLOCKS = Blocks()
