"""The debug switch that proves that tracing changed nothing real: fingerprints of all admitted objects."""

from __future__ import annotations

import enum
from types import CellType
from typing import Any

import torch

from onegraph.base.errors import OnegraphError
from onegraph.capture.calls.registry import is_outside_class
from onegraph.capture.guards.source import Source, describe
from onegraph.capture.heap.type_rules import rule_of
from onegraph.capture.pyobject.exact_types import plain
from onegraph.capture.pyobject.layout import instance_dict
from onegraph.torchlib.histories import version_of
from onegraph.torchlib.private import DisableTorchFunction


class Fingerprints:
    """The contents, by identity, of the real objects that a trace has admitted."""

    def __init__(self) -> None:
        self._taken: dict[int, tuple[Any, Source, Any]] = {}

    def note(self, real: Any, source: Source) -> None:
        """Take the fingerprint of an object when it is first admitted."""
        if id(real) not in self._taken:
            self._taken[id(real)] = (real, source, fingerprint(real))

    def verify(self) -> None:
        """Raise OnegraphError when an admitted object is not as it was."""
        for real, source, before in self._taken.values():
            if fingerprint(real) != before:
                raise OnegraphError(f"tracing changed {describe(source)}, a {type(real).__name__}")


def fingerprint(real: Any) -> Any:
    match plain(real):
        case torch.Tensor():
            with DisableTorchFunction():
                history = None if real._is_view() else real.grad_fn is None  # a view makes it when it is asked
                return version_of(real), real.shape, real.stride(), real.dtype, real.requires_grad, history
        case enum.Enum():
            return None  # they remember what they were asked for
        case _ if is_outside_class(type(real)) or type(real).__module__ == "torch._ops":
            return None  # others change the one, and operators remember their overloads when they are asked for
        case CellType():
            try:
                return id(real.cell_contents)
            except ValueError:
                return None
        case _:
            attributes = instance_dict(real) if getattr(type(real), "__dictoffset__", 0) else None
            named = [(name, id(value)) for name, value in attributes.items()] if attributes else None
            return list(map(id, rule_of(type(real)).members(real))), named
