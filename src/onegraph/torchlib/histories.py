"""What autograd has recorded of a tensor, as far as it says so without making it, and fakes that are recorded alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from onegraph.torchlib import private
from onegraph.torchlib.private import FakeTensor


def version_of(tensor: Tensor) -> int | None:
    """How often the tensor was written to, asked past function modes; None for one of inference mode."""
    with private.DisableTorchFunction():
        return None if tensor.is_inference() else tensor._version


def is_leaf(tensor: Tensor) -> bool:
    """Whether a tensor that requires grad is a leaf, as far as it can be said without asking for the history of a view.

    Autograd makes that when it is asked, which the program would see, and refuses to where it was made under no_grad.
    """
    base = tensor._base
    if base is not None and base.requires_grad:
        return private.get_creation_meta(tensor) == private.CreationMeta.NO_GRAD_MODE
    return tensor.is_leaf


def gradients_of(
    results: Sequence[Tensor], leaves: Sequence[Tensor], given: Sequence[Tensor], keep: bool = True
) -> Sequence[Any]:
    """Gradients for the leaves, from those `given` for the results, whose history stays unless it is not to be kept.

    It asks the engine, as `torch.autograd.grad` does, which compares sizes first, and imports sympy for that.
    """
    if private.run_backward is torch.autograd.grad:
        return list(torch.autograd.grad(results, leaves, given, retain_graph=keep, allow_unused=True))
    found: Sequence[Any] = private.run_backward(
        tuple(results), tuple(given), keep, False, tuple(leaves), True, accumulate_grad=False
    )
    return found


def has_plain_base(tensor: Tensor) -> bool:
    """Whether gradients are recorded for a view, and not for what it views: its own views in `no_grad` have none."""
    with private.DisableTorchFunction():
        return tensor.requires_grad and tensor._base is not None and not tensor._base.requires_grad


def recorded_as(tensor: Tensor, fake: FakeTensor) -> FakeTensor:
    """The fake of a tensor, recorded by autograd as that is; `fake` is not recorded yet."""
    if not tensor.requires_grad:
        return fake
    with torch.enable_grad():
        if has_plain_base(tensor):
            view: FakeTensor = torch.ops.aten.alias.default(fake).requires_grad_()
            second: FakeTensor = view if is_leaf(tensor) else torch.ops.aten.alias.default(view)
            return second
        if is_leaf(tensor):
            fake.requires_grad_()
            return fake
        computed = fake.clone().requires_grad_().clone()
        assert isinstance(computed, FakeTensor)
    with private.DisableTorchDispatch():
        computed.data = fake  # the clone of what is not dense has other strides, and memory of its own
    return computed


def storage_of(tensor: Tensor) -> int:
    """The address of what a tensor is stored in: views of one tensor share it."""
    with private.DisableTorchFunction():
        address: int = tensor.untyped_storage()._cdata
    return address


def is_view(tensor: Tensor) -> bool:
    """Whether a tensor shows elements of another one, as autograd knows."""
    with private.DisableTorchFunction():
        return tensor._base is not None


def is_view_of_leaf(tensor: Tensor) -> bool:
    """Whether gradients are recorded for a view of a leaf: autograd lets no program write to it."""
    with private.DisableTorchFunction():
        return tensor.requires_grad and tensor._base is not None and tensor._base.is_leaf


def refuse_view_of_leaf(tensor: Tensor) -> None:
    if is_view_of_leaf(tensor):
        raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")


def is_recorded(tensor: Tensor) -> bool:
    """Whether gradients are recorded for the tensor."""
    with private.DisableTorchFunction():
        return tensor.requires_grad
