"""Values as bytes and back, without running code of theirs: plain data, and frozen dataclasses of a closed list.

The bytes are JSON. What JSON has no word for is an object of one entry, whose name says what it is:

    (1, 2.5)                       [1, {"float": "0x1.4000000000000p+1"}]
    Launch(kernel=3, ...)          {"Launch": [3, ...]}         the fields in their order

A reader makes nothing but what its codec lists, and of dataclasses nothing whose fields are not what their annotations
say.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeAlias

from onegraph.base.annotations import Check, check_of_field
from onegraph.base.dataclass import dataclass

#: What is encoded; checkers of types cannot say "or a dataclass of the list".
Value: TypeAlias = Any
Json: TypeAlias = Any
#: Bytes of a text: reading one takes at most some 400 MB and two seconds.
LARGEST_TEXT = 16 << 20
#: What JSON has a word for.
_AS_IT_IS = frozenset({type(None), bool, int, str})


class Unkept(Exception):
    """Something has no form as data: the message says what."""


@dataclass(frozen=True, slots=True)
class Named:
    """Objects that are found by a name: `name` gives it, and `find` the object."""

    name: Callable[[Any], str]
    find: Callable[[str], object]


class Codec:
    """Encodes None, bool, int, float, complex, str, bytes, tuples, frozensets, and what is listed here.

    `classes` are frozen dataclasses, which are known by the names of the classes; `named` are types of which there is
    one object for each name.
    """

    def __init__(self, *classes: type, named: Mapping[type, Named] | None = None) -> None:
        self._fields = {cls: tuple(field.name for field in fields(cls)) for cls in classes}
        self._named = dict(named or {})
        self._made: dict[str, Callable[[Any], object]] = {cls.__name__: self._maker(cls) for cls in classes}
        self._made |= {cls.__name__: each.find for cls, each in self._named.items()}
        self._made |= {
            "float": float.fromhex,
            "complex": _complex,
            "bytes": lambda text: base64.b64decode(text, validate=True),
            "set": self._set,
        }

    def encode(self, value: Value) -> bytes:
        """The value as bytes.

        Raises:
            ValueError: for a value that the codec has no word for.
        """
        return json.dumps(self._json(value), separators=(",", ":")).encode()

    def decode(self, data: bytes) -> Value:
        """The value that was encoded.

        Raises:
            ValueError: where the bytes are not those of a value.
        """
        if len(data) > LARGEST_TEXT:
            raise ValueError("these bytes are more than any value takes")
        try:
            return self._value(json.loads(data))
        except (LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            raise ValueError(f"these bytes are no value: {type(error).__name__}: {error}") from None

    def _json(self, value: Value) -> Json:
        kind = type(value)
        if value is None or kind is bool or kind is int or kind is str:
            return value
        if kind is tuple:
            return [self._json(item) for item in value]
        if kind in self._fields:
            return {kind.__name__: [self._json(getattr(value, name)) for name in self._fields[kind]]}
        if kind in self._named:
            return {kind.__name__: self._named[kind].name(value)}
        if kind is float:
            return {"float": value.hex()}
        if kind is complex:
            return {"complex": [value.real.hex(), value.imag.hex()]}
        if kind is bytes:
            return {"bytes": base64.b64encode(value).decode()}
        if kind is frozenset:
            return {"set": sorted((self._json(item) for item in value), key=json.dumps)}
        raise ValueError(f"a value of type {kind.__module__}.{kind.__qualname__} has no encoding here")

    def _value(self, found: Json) -> Value:
        if type(found) is list:
            return tuple([item if type(item) in _AS_IT_IS else self._value(item) for item in found])
        if type(found) is dict:
            ((name, content),) = found.items()
            return self._made[name](content)
        if type(found) is float:
            raise ValueError("a number is neither an integer nor written in base 16")
        return found

    def _set(self, items: Json) -> frozenset[Value]:
        if type(items) is not list:
            raise ValueError("a set is no list")
        return frozenset([self._value(item) for item in items])

    def _maker(self, cls: type) -> Callable[[Any], object]:
        count = len(self._fields[cls])

        def make(content: Any) -> object:
            if type(content) is not list or len(content) != count:
                raise ValueError(f"{cls.__name__} has {count} fields, and others are given")
            values = [item if type(item) in _AS_IT_IS else self._value(item) for item in content]
            for (name, is_right), value in zip(_checks(cls), values, strict=True):
                if not is_right(value):
                    raise ValueError(f"{cls.__name__} has no such {name}")
            return cls(*values)

        return make


@cache
def _checks(cls: type) -> tuple[tuple[str, Check], ...]:
    return tuple((field.name, check_of_field(cls, field)) for field in fields(cls))


def _complex(parts: tuple[str, str]) -> complex:
    real, imaginary = parts
    return complex(float.fromhex(real), float.fromhex(imaginary))
