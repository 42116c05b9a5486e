"""What plans and compiled graphs on disk consist of."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from onegraph.base.dataclass import dataclass
from onegraph.ir import loop, plan

LARGEST_TABLE = 1 << 16  # bytes of what a lowering has made


@dataclass(frozen=True, slots=True)
class Table:
    """A tensor that a lowering has made."""

    dtype: str
    shape: tuple[int, ...]
    elements: bytes

    @staticmethod
    def of(tensor: torch.Tensor) -> Table:
        return Table(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), contents(tensor))

    def tensor(self) -> torch.Tensor:
        """Raises ValueError, AttributeError, TypeError for one that nobody has made."""
        dtype: Any = getattr(torch, self.dtype)
        if min(self.shape, default=0) < 0 or prod(self.shape) * dtype.itemsize != len(self.elements):
            raise ValueError("a table has other elements than its shape says")
        if not self.elements:
            return torch.empty(self.shape, dtype=dtype)
        return torch.frombuffer(bytearray(self.elements), dtype=dtype).reshape(self.shape)


PLAN_CLASSES = (
    loop.Named, plan.ExecPlan, plan.KernelInfo, plan.Register, plan.Slot, plan.Compute, plan.Alloc, plan.ViewOf,
    plan.Pointer, plan.Launch, plan.ExternCall, plan.Free, plan.Return,
)  # fmt: skip


def contents(tensor: torch.Tensor) -> bytes:
    """The bytes of the elements, in their order."""
    flat = torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.detach().flatten())  # of one element, too
    return bytes(flat.view(torch.uint8).numpy()) if flat.numel() else b""
