"""Which guards a compiled version does without: the option `guard_filter_fn`, and functions for it.

    onegraph.compile(model, options={"guard_filter_fn": onegraph.skip_guard_on_inbuilt_nn_modules_unsafe})

Such a function is given the guards and says of each whether it is kept. Without a guard, a version runs also where what
it would have checked is another one, and its result may be wrong. Guards on the tensors that graphs take, on their
sizes and on the state of the process are kept in any case: compiled code reads memory by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onegraph.base.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class GuardSource:
    """Where the value of a guard is found. The methods have torch's names.

    `module` is the class of the `nn.Module` through which it is read, if there is one.
    """

    name: str
    module: type | None

    def is_unspecialized_nn_module(self) -> bool:
        """Whether it is read through an `nn.Module`."""
        return self.module is not None

    def is_unspecialized_builtin_nn_module(self) -> bool:
        """Whether that module is one of torch's own, such as `torch.nn.Linear`."""
        return self.module is not None and self.module.__module__.startswith(("torch.nn.", "torch.ao."))


@dataclass(frozen=True, slots=True)
class OriginalGuard:
    """A guard as text, and where its value is found."""

    text: str
    source: GuardSource


@dataclass(frozen=True, slots=True)
class GuardFilterEntry:
    """What a filter is told of a guard.

    Attributes:
        name: where the value is found, as the program would write it; empty for the state of the process.
        has_value, value: the value in the call that is being compiled, if it can be read without running code.
        guard_type: what is checked, by torch's name where there is one: TENSOR_MATCH, TYPE_MATCH, ID_MATCH,
            EQUALS_MATCH, SEQUENCE_LENGTH, DICT_KEYS_MATCH, DICT_CONTAINS, GLOBAL_STATE, SHAPE_ENV ...
        derived_guard_types: our own name of it, in a tuple.
        is_global: whether it is found in the globals of a module.
        orig_guard: its text and source.
        is_parameter: whether the value is an `nn.Parameter`.
    """

    name: str
    has_value: bool
    value: Any
    guard_type: str
    derived_guard_types: tuple[str, ...]
    is_global: bool
    orig_guard: OriginalGuard
    is_parameter: bool


Entries = Sequence[GuardFilterEntry]


def skip_guard_on_inbuilt_nn_modules_unsafe(guard_entries: Entries) -> list[bool]:
    """Do without guards on what is read through torch's own modules."""
    return [not entry.orig_guard.source.is_unspecialized_builtin_nn_module() for entry in guard_entries]


def skip_guard_on_all_nn_modules_unsafe(guard_entries: Entries) -> list[bool]:
    """Do without guards on what is read through modules."""
    return [not entry.orig_guard.source.is_unspecialized_nn_module() for entry in guard_entries]


def skip_guard_on_globals_unsafe(guard_entries: Entries) -> list[bool]:
    """Do without guards on globals."""
    return [not entry.is_global for entry in guard_entries]


def keep_tensor_guards_unsafe(guard_entries: Entries, keep_parameters: bool = False) -> list[bool]:
    """Keep guards on tensors alone."""
    tensors = (entry.guard_type == "TENSOR_MATCH" for entry in guard_entries)
    return [
        tensor and (keep_parameters or not entry.is_parameter)
        for tensor, entry in zip(tensors, guard_entries, strict=True)
    ]


def keep_portable_guards_unsafe(guard_entries: Entries) -> list[bool]:
    """Keep guards on the state of the process, on sizes, and on tensors that are no globals."""
    kept = ("GLOBAL_STATE", "SHAPE_ENV")
    return [e.guard_type in kept or (e.guard_type == "TENSOR_MATCH" and not e.is_global) for e in guard_entries]


def skip_all_guards_unsafe(guard_entries: Entries) -> list[bool]:
    """Do without guards."""
    return [False for _ in guard_entries]
