"""`str.format` in the steps of which it is made: a field is looked up, converted and formatted as in an f-string."""

from __future__ import annotations

import itertools
import string
from _string import formatter_field_name_split
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing

CONVERSIONS = {"s": "str", "r": "repr", "a": "ascii"}
#: How deep fields may stand in the specifications of others.
NESTED = 2


class Irregular(Exception):
    """The template is one that `str.format` refuses."""


@policy(str.format)
def format_(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    template, *values = args
    try:
        check(template)
    except Irregular:
        return tracer.run_native(str.format, args, kwargs)
    return formatted(tracer, template, values, kwargs.__getitem__, itertools.count())


@policy(str.format_map)
def format_map(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    template, *others = args
    try:
        if len(others) != 1 or kwargs or any(type(first) is int or not first for first in check(template)):
            raise Irregular
    except Irregular:
        return tracer.run_native(str.format_map, args, kwargs)
    return formatted(tracer, template, (), lambda name: tracer.getitem(others[0], name), itertools.count())


def check(template: Any, depth: int = NESTED) -> list[Any]:
    """What the fields of a template begin with: a number, a name, or nothing; raises `Irregular`."""
    found: list[Any] = []
    try:
        for _, name, spec, conversion in string.Formatter().parse(template):
            if name is not None:
                first, path = formatter_field_name_split(name)
                found += [first, *check(spec, depth - 1)]
                if depth == 0 or conversion not in (None, *CONVERSIONS) or any(part == "" for _, part in path):
                    raise Irregular
    except (TypeError, ValueError):
        raise Irregular from None
    if "" in found and any(type(first) is int for first in found):
        raise Irregular
    return found


def formatted(
    tracer: Tracing, template: str, values: Sequence[Any], named: Callable[[str], Any], numbers: Iterator[int]
) -> str:
    """The template with its fields filled; `numbers` counts those that have no name."""
    pieces = []
    for text, name, spec, conversion in string.Formatter().parse(template):
        pieces.append(text)
        if name is None:
            continue
        first, path = formatter_field_name_split(name)
        key: Any = next(numbers) if first == "" else first
        if type(key) is int and key >= len(values):
            raise IndexError(f"Replacement index {key} out of range for positional args tuple")
        value = values[key] if type(key) is int else named(key)
        for is_attribute, part in path:
            value = tracer.getattr(value, part) if is_attribute else tracer.getitem(value, part)
        if conversion is not None:
            value = tracer.convert(value, CONVERSIONS[conversion])
        pieces.append(tracer.format(value, formatted(tracer, spec or "", values, named, numbers)))
    return "".join(pieces)
