"""Which sizes become symbolic, and how symbolic sizes are written as guards and as code."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from onegraph.capture.source import Source


@dataclass(slots=True)
class History:
    """The sizes that the traces of one code object have seen at each source."""

    sizes: dict[Source, tuple[int, ...]] = field(default_factory=dict)
    changing: dict[Source, set[int]] = field(default_factory=dict)

    def policy(self, dynamic: bool | None) -> ShapePolicy:
        return ShapePolicy(self, dynamic)


@dataclass(frozen=True, slots=True)
class ShapePolicy:
    """`dynamic` True: every size above one is symbolic; None: those that were seen to change; False: none."""

    history: History
    dynamic: bool | None

    def symbolic_dims(self, source: Source, tensor: torch.Tensor) -> tuple[int, ...]:
        """The dimensions of an input that get a symbol."""
        sizes = tuple(tensor.shape)
        if self.dynamic is False or isinstance(tensor, torch.nn.Parameter):
            return ()
        if self.dynamic:
            return tuple(dim for dim, size in enumerate(sizes) if size > 1)
        seen = self.history.sizes.setdefault(source, sizes)
        changing = self.history.changing.setdefault(source, set())
        if len(seen) == len(sizes):
            changing.update(dim for dim, (old, new) in enumerate(zip(seen, sizes, strict=True)) if old != new)
        return tuple(dim for dim in sorted(changing) if dim < len(sizes) and sizes[dim] > 1)
