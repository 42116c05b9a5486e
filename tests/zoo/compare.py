"""Two results of a model, compared: the same structure, the same numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

PLAIN = (int, float, complex, str, bytes, bool, type(None), torch.dtype, torch.device, torch.Size)


def leaves(value: object, path: str = "output", seen: frozenset[int] = frozenset()) -> Iterator[tuple[str, object]]:
    """Tensors and plain values of a result with their paths, and the type of every container and object in between.

    An object that is none of these (a key-value cache) is walked through its attributes.
    """
    if isinstance(value, (Tensor, *PLAIN)):
        yield path, value
        return
    yield f"type({path})", type(value).__qualname__
    if id(value) in seen or isinstance(value, (type, nn.Module)):
        return
    seen = seen | {id(value)}
    match value:
        case Mapping():
            items = [(f"{path}[{key!r}]", item) for key, item in value.items()]
        case list() | tuple():
            items = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
        case _:
            items = [(f"{path}.{name}", item) for name, item in getattr(value, "__dict__", {}).items()]
    for inner, item in items:
        yield from leaves(item, inner, seen)


def difference(expected: object, actual: object, tolerance: float = 1e-5) -> str:
    """The first difference of two results in words, or an empty string."""
    left, right = dict(leaves(expected)), dict(leaves(actual))
    if left.keys() != right.keys():
        return f"only in one: {sorted(left.keys() ^ right.keys())[:5]}"
    for path, value in left.items():
        other = right[path]
        if isinstance(value, Tensor) and isinstance(other, Tensor):
            described, error = description(value), relative_error(value, other)
            if described != description(other):
                return f"{path}: {description(other)} instead of {described}"
            if not error < tolerance:
                return f"{path}: relative error {error:.1e}"
        elif type(value) is not type(other) or value != other:
            return f"{path}: {other!r} instead of {value!r}"
    return ""


def description(tensor: Tensor) -> str:
    kind = f"{type(tensor).__name__} {tensor.dtype} {list(tensor.shape)} on {tensor.device}"
    return f"{kind}, requires grad" if tensor.requires_grad else kind


def relative_error(expected: Tensor, actual: Tensor) -> float:
    """The largest difference, relative to the largest value of the tensor."""
    if expected.shape != actual.shape:
        return math.inf
    if expected.numel() == 0:
        return 0.0
    if not expected.is_floating_point():
        return 0.0 if torch.equal(expected, actual) else math.inf
    if not torch.equal(expected.isfinite(), actual.isfinite()):
        return math.inf
    one, two = expected.nan_to_num().double(), actual.nan_to_num().double()
    return ((one - two).abs().max() / one.abs().max().clamp_min(1e-30)).item()


def largest_error(expected: object, actual: object) -> float:
    """The largest relative error of two results of the same structure."""
    right = dict(leaves(actual))
    pairs = [(value, right.get(path)) for path, value in leaves(expected) if isinstance(value, Tensor)]
    return max((relative_error(a, b) if isinstance(b, Tensor) else math.inf for a, b in pairs), default=0.0)
