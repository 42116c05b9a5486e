"""The targets that there are, and which of them a captured graph is compiled for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule

from onegraph.base.late import late_module
from onegraph.compiler.cpu import CPU
from onegraph.compiler.target import Target

if TYPE_CHECKING:
    from onegraph.compiler.cuda import cuda_target
else:  # for who has a GPU
    cuda_target = late_module("onegraph.compiler.cuda").cuda_target

#: By the kind of device: the target for one such device; None where this process has no compiler for it.
TARGETS: dict[str, Callable[[torch.device], Target | None]] = {"cpu": lambda device: CPU, "cuda": cuda_target}


def target_of(module: GraphModule) -> Target | None:
    """The target for a captured graph: the one for the device that its values are on.

    None if there is no target for it, or if they are on several: zero-dimensional tensors of the CPU are numbers to
    other devices, and nothing is ever computed on `meta`.
    """
    devices = devices_of(module)
    if not devices:
        return CPU
    (device, *others) = devices
    return None if others or device.type not in TARGETS else TARGETS[device.type](device)


def devices_of(module: GraphModule) -> list[torch.device]:
    """The devices that something is computed on, in the order of the graph."""
    values = [value for node in module.graph.nodes for value in tensors_in(node.meta.get("example_value"))]
    found = dict.fromkeys(value.device for value in values if value.device.type != "meta")
    others = [device for device in found if device.type != "cpu"]
    is_on_cpu = any(value.device.type == "cpu" and (not others or value.dim()) for value in values)
    return [device for device in found if device.type != "cpu" or is_on_cpu]


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from tensors_in(each)
