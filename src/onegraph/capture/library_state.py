"""Globals of libraries that are state: what they hold is no constant of the library, and guarded like the program's."""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator
from typing import Any

_STORE = dis.opmap["STORE_GLOBAL"]
_EXTENDED = dis.opmap["EXTENDED_ARG"]
#: Module -> how the names begin under which it keeps what others register.
_REGISTRIES = {"torch.nn.modules.module": "_global_", "torch.optim.optimizer": "_global_"}
#: Module -> the names that its own functions bind anew.
_REBOUND: dict[str, frozenset[str]] = {}


def is_state(module: str, names: dict[str, Any], name: str) -> bool:
    """Whether the global `name` of a library's module is bound anew by functions of the module, or is a registry."""
    if module in _REGISTRIES and name.startswith(_REGISTRIES[module]):
        return True
    if module not in _REBOUND:
        _REBOUND[module] = frozenset(rebound for code in codes_of(names, module) for rebound in bound_by(code))
    return name in _REBOUND[module]


def codes_of(names: dict[str, Any], module: str) -> Iterator[types.CodeType]:
    """The code of the functions that a module defines, also of those in its classes and in other functions."""
    todo, seen = [*names.values()], set[int]()
    while todo:
        value = todo.pop()
        kind = type(value)
        if id(value) in seen:  # classes have each other
            continue
        seen.add(id(value))
        if kind is types.FunctionType:
            todo += [value.__code__] if value.__globals__ is names else [value.__dict__.get("__wrapped__")]
        elif issubclass(kind, type) and value.__dict__.get("__module__") == module:
            todo += value.__dict__.values()
        elif kind in (staticmethod, classmethod):
            todo.append(value.__func__)
        elif kind is types.CodeType:
            yield value
            todo += [const for const in value.co_consts if type(const) is types.CodeType]


def bound_by(code: types.CodeType) -> Iterator[str]:
    """The globals that the instructions of this code bind."""
    if _STORE not in code.co_code[::2]:
        return
    high = 0
    for op, arg in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        if op == _STORE:
            yield code.co_names[high << 8 | arg]
        high = high << 8 | arg if op == _EXTENDED else 0
