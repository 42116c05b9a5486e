"""The guards that are left when a filter of the program has chosen: see `onegraph.base.guard_filters`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any

import torch

from onegraph.base.errors import InvalidArgument
from onegraph.base.guard_filters import GuardFilterEntry, GuardSource, OriginalGuard
from onegraph.capture.guards.guard import Guard
from onegraph.capture.guards.recompiling import MISSING, value_at
from onegraph.capture.guards.source import Globals, Source, base_of, root_of, written
from onegraph.capture.pyobject.exact_types import isinstance

Filter = Callable[[Sequence[GuardFilterEntry]], Sequence[bool]]

#: What torch calls the kinds of guards.
TYPES = {
    "type": "TYPE_MATCH",
    "is": "ID_MATCH",
    "equal": "EQUALS_MATCH",
    "length": "SEQUENCE_LENGTH",
    "keys": "DICT_KEYS_MATCH",
    "has": "DICT_CONTAINS",
    "lacks": "DICT_CONTAINS",
    "lacks_attr": "NOT_PRESENT_IN_GENERIC_DICT",
    "tensor": "TENSOR_MATCH",
    "same": "DUPLICATE_INPUT",
    "memory": "STORAGE_OVERLAPPING",
    "class": "CLASS_MATCH",
    "names": "MODULE_MATCH",
}
#: Compiled code reads memory by them.
NEEDED = frozenset({"tensor", "memory"})
NOWHERE = GuardSource("", None)
STATE = tuple(
    GuardFilterEntry("", False, None, kind, (), False, OriginalGuard(text, NOWHERE), False)
    for kind, text in (("GLOBAL_STATE", "the state of the process"), ("SHAPE_ENV", "the sizes of tensors"))
)


def filtered(choose: Filter, guards: Sequence[Guard], function: FunctionType, values: tuple[Any, ...]) -> set[int]:
    """The identities of the guards that are kept.

    Args:
        choose: the filter of the program.
        function, values: the frame that is compiled.

    Raises:
        InvalidArgument: where the filter gives no answer for each of them, or raises.
    """
    entries = [*STATE, *(entry_of(guard, function, values) for guard in guards)]
    try:
        answers = list(choose(entries))
    except Exception as error:
        raise InvalidArgument(f"guard_filter_fn failed: {type(error).__name__}: {error}") from error
    if len(answers) != len(entries):
        raise InvalidArgument(f"guard_filter_fn gave {len(answers)} answers for {len(entries)} guards")
    chosen = zip(guards, answers[len(STATE) :], strict=True)
    return {id(guard) for guard, keep in chosen if keep or guard.kind in NEEDED}


def entry_of(guard: Guard, function: FunctionType, values: tuple[Any, ...]) -> GuardFilterEntry:
    value = value_at(guard.source, function, values)
    owners = (type(each) for each in path_values(guard.source, function, values) if isinstance(each, torch.nn.Module))
    name = written(guard.source)
    return GuardFilterEntry(
        name,
        value is not MISSING,
        None if value is MISSING else value,
        TYPES.get(guard.kind, guard.kind.upper()),
        (guard.kind,),
        isinstance(root_of(guard.source), Globals) or guard.kind == "names",
        OriginalGuard(str(guard), GuardSource(name, next(owners, None))),
        isinstance(value, torch.nn.Parameter),
    )


def path_values(source: Source, function: FunctionType, values: tuple[Any, ...]) -> Iterator[Any]:
    """The values that are read on the way, from the last one on."""
    at: Source | None = source
    while at is not None:
        yield value_at(at, function, values)
        at = base_of(at)
