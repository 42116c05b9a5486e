"""The targets that there are, and which of them a graph is compiled for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch.fx import GraphModule

from onegraph.base.late import late_module
from onegraph.compiler.cpu import CPU
from onegraph.compiler.target import Target
from onegraph.torchlib.graph import devices_of

if TYPE_CHECKING:
    from onegraph.compiler.cuda import cuda_target
else:  # for who has a GPU
    cuda_target = late_module("onegraph.compiler.cuda").cuda_target

#: By the kind of device: the target for one such device; None where this process has no compiler for it.
TARGETS: dict[str, Callable[[torch.device], Target | None]] = {"cpu": lambda device: CPU, "cuda": cuda_target}


def target_of(module: GraphModule) -> Target | None:
    """What a captured graph is compiled for: the device that its values are on, of several the first but the CPU.

    What lies on others is left to torch's operators. None if there is no target for the device.
    """
    found = devices_of(module) or [torch.device("cpu")]
    device = next((device for device in found if device.type != "cpu"), found[0])
    return TARGETS[device.type](device) if device.type in TARGETS else None


def target_here(name: str) -> Target | None:
    """The target for a device by its name; None if this process has no such device, or nothing that compiles for it.

    Raises:
        ValueError: that is no name of a device that targets are for.
    """
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"{name} is no device") from None
    if device.type not in TARGETS or (device.type != "cpu" and device.index is None):
        raise ValueError(f"there are no kernels for {name}")
    count = getattr(torch, device.type).device_count()
    return TARGETS[device.type](device) if (device.index or 0) < count else None
