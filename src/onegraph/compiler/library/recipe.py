"""Values that are made of parameters alone, such as weights packed for a library, and kept from one call to the next.

A parameter may change between two calls in ways that no version counter shows: through `.data`, through a NumPy array
that shares its memory, in another process. So what was made of it is used only while the kernel, which protects the
memory, has seen no write to it; or where it cannot tell, while a digest of the contents is the same: reading a weight
costs less than packing it. With the option `freeze_parameters`, the program promises not to do that, and identity,
memory and version counter are compared instead.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from onegraph import _C
from onegraph.base.config import Config
from onegraph.base.dataclass import dataclass
from onegraph.torchlib.state import untraced

#: What was made, by recipe and contents: graphs with the same parameters share it.
_MADE: weakref.WeakValueDictionary[Any, Tensor] = weakref.WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class Recipe:
    """Callable with tensors (or None where there is none): gives `function(*tensors, *settings)`.

    `itemsizes` are the bytes of an element of each tensor. A node of a graph has it as its target. A result that
    `is_view` is memory of the first tensor: it is right whatever is written there.
    """

    function: Callable[..., Tensor]
    settings: tuple[Any, ...]
    itemsizes: tuple[int, ...]
    is_view: bool = False

    @property
    def __name__(self) -> str:
        return self.function.__name__

    def __call__(self, *tensors: Tensor | None) -> Tensor:
        with untraced(), torch.no_grad():
            return self.function(*(t if t is None else t.detach() for t in tensors), *self.settings)


#: How it is noticed that a parameter has changed.
Check = Literal["digest", "watch", "version"]


def check_of(config: Config) -> Check:
    """How parameters are checked in this process."""
    if config.freeze_parameters:
        return "version"
    return "watch" if config.watch_parameters and _C.can_watch() else "digest"


def keeping(recipe: Recipe, check: Check) -> Callable[..., Tensor]:
    """The recipe as a callable that does its work again only when the tensors have changed.

    What it has made is kept for each first tensor: a graph may run for several modules. Where this torch has not what
    native code needs for it, the work is done in every call.
    """
    make = partial(_view if recipe.is_view else _make, recipe)
    try:
        return _C.KeptForEach(make, recipe.itemsizes, "version" if recipe.is_view else check)
    except NotImplementedError:
        return recipe


def _view(recipe: Recipe, digests: bytes, *tensors: Tensor | None) -> Tensor:
    return recipe(*tensors)  # of this tensor: another one with equal contents has its own


def _make(recipe: Recipe, digests: bytes, *tensors: Tensor | None) -> Tensor:
    layouts = tuple(None if t is None else (t.dtype, t.shape, t.stride()) for t in tensors)
    key = (recipe, layouts, digests)
    made = _MADE.get(key)
    if made is None:
        made = _MADE[key] = recipe(*tensors)
    return made


def kept_bytes() -> int:
    """The memory of all that is made of parameters and kept."""
    return sum(tensor.numel() * tensor.element_size() for tensor in list(_MADE.values()))
