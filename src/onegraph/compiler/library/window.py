"""How the filter of a convolution moves over an image."""

from __future__ import annotations

from typing import Any

from onegraph.base.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    """How the filter moves over the image."""

    padding: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def multiplies_pixels(self) -> bool:
        """Whether a filter of one pixel gives a pixel of each that it meets, from all of its channels."""
        return (self.padding, self.groups) == ((0, 0), 1)

    def arguments(self) -> tuple[Any, ...]:
        """As oneDNN's operators take it."""
        return list(self.padding), list(self.stride), list(self.dilation), self.groups
