"""Wrappers in a graph: made of their parts, and results taken apart into them."""

from __future__ import annotations

from typing import Any

import torch

from onegraph.capture.breaks import CANNOT_REBUILD, GraphBreak
from onegraph.capture.graph.record import Recorder
from onegraph.torchlib.histories import storage_of
from onegraph.torchlib.private import DisableTorchFunction
from onegraph.torchlib.wrappers import Wrapping, is_float


def wrapped(recorder: Recorder, wrapping: Wrapping, parts: tuple[Any, ...]) -> torch.Tensor:
    """A wrapper of these parts."""
    with DisableTorchFunction():
        made = wrapping(*parts)
    recorder.record(wrapping, parts, {}, made)
    return made


def unwrapped(recorder: Recorder, wrapper: torch.Tensor) -> tuple[Wrapping, tuple[torch.Tensor, ...]]:
    """The parts of a wrapper, and how it is made of them.

    Raises:
        GraphBreak: gradients are recorded for it, and it shares memory with an input, or with another such result.
    """
    with DisableTorchFunction():
        wrapping = Wrapping.of_result(wrapper)
        held = [getattr(wrapper, name) for name in wrapping.names if wrapping.carries]
        storages = {storage_of(part) for part in held if is_float(part)}
        if storages & recorder.unwrapped or any(recorder.inputs_in(part) for part in held if is_float(part)):
            raise GraphBreak(CANNOT_REBUILD, what=f"{wrapping.cls.__qualname__} with gradients that is a view")
        recorder.unwrapped |= storages
        parts = wrapping.taken(wrapper)
    recorder.record(wrapping.taken, (wrapper,), {}, parts)
    return wrapping, parts
