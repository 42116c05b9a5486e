"""The FX container, with its Python code written when it is first needed: most graphs are compiled, never called."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch

from onegraph.base.dataclass import dataclass
from onegraph.base.gone import when_gone
from onegraph.torchlib import private

#: In the `meta` of nodes that a checkpoint of the program has around it: which one.
CHECKPOINT = "checkpoint"


class LazyGraphModule(private.LazyGraphModule):  # type: ignore[misc, valid-type]
    """A graph whose code is written when it is first run.

    torch's calls itself as a module then: the hooks of all modules would run for it.
    """

    def _lazy_forward(self, *args: Any, **kwargs: Any) -> Any:
        self.real_recompile()
        return self.forward(*args, **kwargs)

    forward = _lazy_forward


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """A call of `torch.utils.checkpoint`. `keeps(operator, args, kwargs)` tells of each operator in it, in their order,
    whether what it gives is kept all the same."""

    keeps: Callable[[Any, tuple[Any, ...], dict[str, Any]], bool] | None = None


def release_source(module: torch.fx.GraphModule) -> None:
    """FX keeps the source of each module for good: let go of it with the module."""
    code: CodeType = type(module).forward.__code__
    when_gone(module, forget_source, code.co_filename)


def forget_source(name: str) -> None:
    private.forget_source(name)
    linecache.cache.pop(name, None)


def devices_of(module: torch.fx.GraphModule) -> list[torch.device]:
    """The devices that something of a captured graph is computed on, in its order.

    Nothing is on `meta`; zero-dimensional tensors of the CPU are numbers to other devices.
    """
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
