"""Fakes for the inputs and the tangents of a joint graph, and what autograd says of tensors that it has recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from onegraph.torchlib.fake import FakeTensor

#: Views that autograd lets nobody write to, or records in a way of their own, are not made by an operator alone.
_DEFAULT = torch._C._autograd.CreationMeta.DEFAULT


def primal(fake: FakeTensor) -> FakeTensor:
    """A new fake over the same memory, without history: a leaf if the other one requires grad."""
    with torch._C._DisableTorchDispatch():
        elem = torch.empty(0, dtype=fake.dtype, device="meta")
        elem.set_(fake.untyped_storage(), fake.storage_offset(), fake.size(), fake.stride())
    fresh = FakeTensor(fake.fake_mode, elem, fake.device)
    return fresh.requires_grad_(fake.requires_grad)


def tangent(result: FakeTensor) -> FakeTensor:
    """A new fake that lies as the tensor does, in memory of its own."""
    with torch.no_grad(), result.fake_mode:
        return torch.empty_strided(result.size(), result.stride(), dtype=result.dtype, device=result.device)


def is_plain_view(tensor: Tensor) -> bool:
    """Whether autograd treats a tensor as what one operator views of its base, or as no view at all."""
    return not tensor._is_view() or torch._C._autograd._get_creation_meta(tensor) == _DEFAULT


def set_version(tensor: Tensor, version: int) -> None:
    """Let autograd have counted so many writes to the tensor."""
    torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))


@contextmanager
def below_autograd() -> Iterator[None]:
    """Operators run as autograd runs them: they see that gradients are recorded, and nothing records them."""
    with torch.enable_grad(), torch._C._AutoDispatchBelowAutograd():
        yield


def is_graph_kept() -> bool:
    """In a backward pass: whether another one may follow over the same graph."""
    return torch._C._autograd._get_current_graph_task_keep_graph()
