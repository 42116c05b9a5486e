"""Small tensors as text, so that a program needs no file beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import torch

MOST = 64  # elements of all tensors together
HEAD = "inf, nan = float('inf'), float('nan')"
PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})


def as_text(inputs: Sequence[Any], constants: Mapping[str, torch.Tensor]) -> str | None:
    """Statements that give `inputs` and `constants` their values; None if these are large, or lie in one memory."""
    tensors = [each for each in chain(inputs, constants.values()) if isinstance(each, torch.Tensor)]
    if not all(map(is_plain, tensors)) or sum(each.numel() for each in tensors) > MOST:
        return None
    places = [each.untyped_storage().data_ptr() for each in tensors if each.numel()]
    if len({*places}) < len(places):
        return None
    lines = ["inputs = [", *(f"    {value_text(each)}," for each in inputs), "]"]
    if constants:
        lines += ["constants = {", *(f"    {name!r}: {value_text(each)}," for name, each in constants.items()), "}"]
    text = "\n".join(lines)
    return f"{HEAD}\n{text}" if re.search(r"\b(inf|nan)\b", text) else text


def is_plain(value: torch.Tensor) -> bool:
    """Whether a tensor is its elements in order, and nothing else."""
    is_ordinary = type(value) in PLAIN and value.layout is torch.strided and value.device.type == "cpu"
    return is_ordinary and value.is_contiguous() and not value.is_quantized and not value.dtype.is_complex


def value_text(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    text = f"torch.tensor({value.detach().tolist()}, dtype={value.dtype})"
    if value.numel() == 0:
        text = f"torch.empty({list(value.shape)}, dtype={value.dtype})"
    if isinstance(value, torch.nn.Parameter):
        return f"torch.nn.Parameter({text}, requires_grad={value.requires_grad})"
    return f"{text}.requires_grad_()" if value.requires_grad else text
