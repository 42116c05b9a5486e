"""What operators do besides computing results: what a graph that fails half way may have left behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch

from onegraph.torchlib import private
from onegraph.torchlib.aten import PURE_NAMESPACES, is_random, leaves, written_arguments
from onegraph.torchlib.overlaps import refuse_overlaps
from onegraph.torchlib.private import OpOverload

aten = torch.ops.aten
#: Operators that write to arguments in training, though their schemas do not say so: the positions of those.
UNSAID = {
    aten.native_batch_norm.default: (3, 4),
    aten.cudnn_batch_norm.default: (3, 4),
    aten.miopen_batch_norm.default: (3, 4),
}
#: Operators that add to what they write: where they fail in the midst of it, they cannot be run again.
ADDING = frozenset(
    f"aten::{name}" for name in ("index_add_", "index_reduce_", "put_", "scatter_", "scatter_add_", "scatter_reduce_")
)


class SideEffects:
    """Of the operators that have run on fakes so far.

    `random`: numbers were drawn from the generator of the CPU. `unknown`: there may be an effect that nobody sees.
    `writes`: the storages, by address, that were written to since somebody took them, and whether by adding.
    `real`: the real storages that those of fakes stand for, by address.
    """

    __slots__ = ("random", "real", "unknown", "writes")

    def __init__(self) -> None:
        self.random = False
        self.unknown = False
        self.writes: dict[int, bool] = {}
        self.real: dict[int, int] = {}

    def note(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """An operator is about to run.

        Raises:
            OverlappingWrite: it writes to memory that it reads in another place.
        """
        if is_free(op):
            return
        if not isinstance(op, OpOverload):
            self.unknown = True
            return
        if op.namespace not in PURE_NAMESPACES:
            self.unknown = self.unknown or not is_repeatable(op)
            self.random = True  # it may draw without saying so
        written = (
            written_arguments(op) if op not in UNSAID else UNSAID[op] if named(op, "training", args, kwargs) else ()
        )
        refuse_overlaps(op, written, args, kwargs, self.real)
        for position in written:
            for tensor in leaves([argument(op, position, args, kwargs)], {}):
                if isinstance(tensor, torch.Tensor):
                    storage = tensor.untyped_storage()._cdata
                    self.writes[storage] = self.writes.get(storage, False) or adds(op, args, kwargs)
                    if op._schema.name.startswith("aten::_foreach_") and not tensor.is_inference():
                        private.increment_version((tensor,))  # as their kernels do, which fakes do not run
        if is_random(op) and named(op, "dropout_p", args, kwargs) != 0:
            self.random = True
            self.unknown = self.unknown or any(
                isinstance(value, torch.Tensor | torch.device) and value_device(value).type != "cpu"
                for value in leaves(args, kwargs)
            )


@cache
def is_free(op: Any) -> bool:
    """Whether the operator has no side effect at all."""
    pure = isinstance(op, OpOverload) and op.namespace in PURE_NAMESPACES
    return pure and not (op in UNSAID or is_random(op) or written_arguments(op))


@cache
def is_repeatable(op: OpOverload) -> bool:
    """Whether a custom operator only computes results, by its schema, which has to be true for any compiler.

    What communicates is run as often as the others of its group run it.
    """
    schema = op._schema
    aliases = any(each.alias_info is not None for each in (*schema.arguments, *schema.returns))
    return bool(schema.returns) and not aliases and "c10d" not in op.namespace


def argument(op: OpOverload, position: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """One argument of a call, by its position in the schema."""
    formal = op._schema.arguments[position]
    return args[position] if position < len(args) else kwargs.get(formal.name, formal.default_value)


def named(op: OpOverload, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """One argument of a call by its name; None if the operator has none of this name."""
    formals = op._schema.arguments
    return next((argument(op, i, args, kwargs) for i, formal in enumerate(formals) if formal.name == name), None)


def adds(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    return op._schema.name in ADDING or bool(named(op, "accumulate", args, kwargs))


def value_device(value: torch.Tensor | torch.device) -> torch.device:
    return value.device if isinstance(value, torch.Tensor) else value
