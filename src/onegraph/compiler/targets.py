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
    """What a captured graph is compiled for: the device that its values are on.

    None if there is no target for it, or if they are on several.
    """
    device, *others = devices_of(module) or [torch.device("cpu")]
    return None if others or device.type not in TARGETS else TARGETS[device.type](device)
