"""Whether a value is what the annotation of a field says, for fields of frozen dataclasses that hold plain data.

    shape: tuple[int | Register, ...]      a tuple, each item of which is an int or a Register

Annotations are texts, and are looked at when a class is first read. An int will do for a float; what says nothing about
data (`object`, `Any`, a callable) accepts everything.
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import Field
from typing import Any, TypeAlias

Check: TypeAlias = Callable[[object], bool]
#: What stands in annotations for tuples and frozensets.
_ITEMS = (Sequence, Set, frozenset)


def check_of_field(cls: type, field: Field[Any]) -> Check:
    """The check of one field of a class, whose values there are from now on."""
    names = vars(sys.modules[cls.__module__])
    return _check(_meaning(field.type, names), names)


def _meaning(hint: Any, names: Mapping[str, Any]) -> Any:
    return eval(hint, dict(names)) if isinstance(hint, str) else hint  # of a source file of this package


def _check(hint: Any, names: Mapping[str, Any]) -> Check:
    if isinstance(hint, typing.ForwardRef):
        hint = hint.__forward_arg__
    if isinstance(hint, str):
        return _named(hint, names)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _union([_check(argument, names) for argument in arguments], arguments)
    if origin is typing.Literal:
        return lambda value: any(value == each and type(value) is type(each) for each in arguments)
    if origin is tuple:
        return _tuple(arguments, names)
    if origin in _ITEMS:
        items, kind = _check(arguments[0], names), tuple if origin is Sequence else frozenset
        return lambda value: isinstance(value, kind) and all(map(items, value))
    if hint is None:
        return lambda value: value is None
    if hint is float:
        return lambda value: type(value) in (float, int)
    if isinstance(hint, type) and hint not in (object, Any) and not getattr(hint, "_is_protocol", False):
        return lambda value: isinstance(value, hint)
    return lambda value: True


def _named(text: str, names: Mapping[str, Any]) -> Check:
    """Names may stand for what contains them: they are looked up when a value is there."""
    found: list[Check] = []

    def check(value: object) -> bool:
        if not found:
            found.append(_check(_meaning(text, names), names))
        return found[0](value)

    return check


def _union(checks: Sequence[Check], arguments: Sequence[Any]) -> Check:
    exact = frozenset(type(None) if each is None else each for each in arguments if each is None or type(each) is type)
    pairs = zip(arguments, checks, strict=True)
    others = [check for _, check in sorted(pairs, key=lambda pair: type(pair[0]) is type)]  # classes are mostly exact

    def check(value: object) -> bool:
        if type(value) in exact:
            return True
        for is_right in others:  # noqa: SIM110 - a generator takes twice as long
            if is_right(value):
                return True
        return False

    return check


def _tuple(arguments: Sequence[Any], names: Mapping[str, Any]) -> Check:
    if len(arguments) == 2 and arguments[1] is ...:
        items = _check(arguments[0], names)
        return lambda value: type(value) is tuple and all(map(items, value))
    checks = [_check(argument, names) for argument in arguments]

    def check(value: object) -> bool:
        if not isinstance(value, tuple) or len(value) != len(checks):
            return False
        for is_right, item in zip(checks, value, strict=True):  # noqa: SIM110
            if not is_right(item):
                return False
        return True

    return check
