"""The handles of hooks that the trace registers, and what registers them for real."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from onegraph import _C
from onegraph.capture.breaks import CANNOT_REBUILD, GraphBreak
from onegraph.capture.heap.hooks import Hook, Hooks
from onegraph.capture.heap.type_rules import Rebuilding, rule_for
from onegraph.capture.heap.types.objects import Objects
from onegraph.torchlib.histories import is_recorded
from onegraph.torchlib.hooked import edges_reached, register_as


@rule_for(RemovableHandle)
class Handles(Objects):
    """The handle of a hook that is registered for real where the handle is made."""

    def rebuild(self, rebuild: Rebuilding, value: RemovableHandle) -> str:
        hooks: Hooks = rebuild.world.hooks
        wanted = hooks.of(value)
        if wanted is None and id(value) in hooks.handles:  # it was removed
            raise GraphBreak(CANNOT_REBUILD, what="handle of a hook that was removed")
        if wanted is None:
            return super().rebuild(rebuild, value)
        for hook in hooks.registered:  # those of one tensor run in their order
            if hook is wanted:
                return registered(rebuild, hook)
            if hook.tensor is wanted.tensor:
                rebuild.value(hook.handle)
        raise AssertionError("unreachable")


def registered(rebuild: Rebuilding, hook: Hook) -> str:
    """The expression of the handle, behind the statement that registers the hook: the hook may refer to its handle."""
    if hook.is_moved():
        raise hook.refused("on a tensor that is written to afterwards")
    kind = rebuild.const(RemovableHandle)
    handle = rebuild.assign(f"{kind}.__new__({kind})")
    rebuild.remember(hook.handle, handle)
    try:
        values = rebuild.values((hook.tensor, hook.function))
    except GraphBreak as cannot:
        cannot.born = cannot.born or hook.born
        raise
    rebuild.lines.append(
        f"{rebuild.const(_C.disabled(register_as))}({handle}, {rebuild.const(hook.register)}, {values})"
    )
    return handle


def register_hooks(
    rebuild: Any, outputs: Callable[[], Sequence[torch.Tensor]], is_input: Callable[[Any], bool]
) -> list[str]:
    """Register the hooks that a later backward pass can reach, from what leaves the graph, and say which tensors keep
    their gradients or are recorded from now on. Returns the statements."""
    hooks: Hooks = rebuild.world.hooks
    if not hooks.state():
        return []
    before = len(rebuild.lines)
    waiting = [hook for hook in hooks.registered if not is_input(hook.tensor)]
    for hook in hooks.registered:
        if hook not in waiting:
            rebuild.value(hook.handle)
    while waiting:
        reached = edges_reached(outputs())
        found = [hook for hook in waiting if hook.edge in reached]
        if not found:
            break
        for hook in found:
            rebuild.value(hook.handle)
        waiting = [hook for hook in waiting if hook not in found]
    left = {id(tensor) for tensor in outputs()}
    for tensor in hooks.retaining:
        if id(tensor) in left or is_input(tensor):
            rebuild.lines.append(f"{rebuild.const(_C.disabled(torch.Tensor.retain_grad))}({rebuild.value(tensor)})")
    for tensor in hooks.changed:
        function = rebuild.const(_C.disabled(torch.Tensor.requires_grad_))
        rebuild.lines.append(f"{function}({rebuild.value(tensor)}, {is_recorded(tensor)})")
    lines: list[str] = rebuild.lines[before:]
    return lines
