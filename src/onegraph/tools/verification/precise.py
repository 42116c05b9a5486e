"""The state of a call in double precision, for a while: what it computes then tells which rounding is better."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch

#: The precise type in the place of each type that is rounded.
PRECISE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


@contextmanager
def in_float64(tensors: Iterable[torch.Tensor]) -> Iterator[None]:
    """Within, these tensors have the same values in double precision, and new ones are made so.

    Those that share memory do so within, too: all memory is converted as a whole, and they are views of it.

    Raises:
        RuntimeError: for a tensor that is not strided, or cannot be given other memory.
    """
    listed = list({id(each): each for each in tensors if each.dtype in PRECISE}.values())
    before = [(each, each.detach()) for each in listed]
    converted: dict[tuple[int, torch.dtype], torch.Tensor] = {}
    default = torch.get_default_dtype()
    try:
        for each, data in before:
            each.data = converted_view(data, converted)
        torch.set_default_dtype(torch.float64)
        yield
    finally:
        torch.set_default_dtype(default)
        for each, data in before:
            each.data = data


def converted_view(data: torch.Tensor, converted: dict[tuple[int, torch.dtype], torch.Tensor]) -> torch.Tensor:
    if data.layout is not torch.strided:
        raise RuntimeError(f"a tensor of layout {data.layout} is not converted")
    storage = data.untyped_storage()
    key = (storage._cdata, data.dtype)
    if key not in converted:
        whole = torch.empty(0, dtype=data.dtype, device=data.device).set_(storage)
        converted[key] = whole.to(PRECISE[data.dtype])
    return converted[key].as_strided(data.size(), data.stride(), data.storage_offset())
