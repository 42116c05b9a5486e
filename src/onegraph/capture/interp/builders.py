"""Parts of displays, calls and patterns: `[*a]`, `{**a}`, `f(*a, **b)`, `match`."""

from __future__ import annotations

import operator
from typing import Any

from onegraph.capture.bytecode import Instr
from onegraph.capture.bytecode.frame import NULL
from onegraph.capture.interp.lookup import is_python, type_name
from onegraph.capture.interp.parts import Part

_MATCHES_SELF = 1 << 22  # Py_TPFLAGS_MATCH_SELF: a class pattern with one positional matches the subject itself


class Builders(Part):
    """The part of the machine that gathers items and takes subjects of patterns apart."""

    def _runs_python(self, obj: Any, *names: str) -> bool:
        return any(is_python(self.type_lookup(type(obj), name)) for name in names)

    def ask_length(self, items: Any) -> None:
        """How many items there will be, which CPython asks where it makes room for them."""
        if self._runs_python(items, "__len__", "__length_hint__"):
            self.call(operator.length_hint, (items,), {})

    def list_extend(self, container: list[Any], items: Any) -> None:
        """`[*items]`"""
        cls = type(items)
        if self.type_lookup(cls, "__iter__") is NULL and self.type_lookup(cls, "__getitem__") is NULL:
            raise TypeError(f"Value after * must be an iterable, not {type_name(cls)}")
        if self._runs_python(items, "__iter__", "__next__"):
            iterator = self.iter(items)
            self.ask_length(items)
            container.extend(self._take(iterator, None))
        else:
            self.natively(container.extend, items)

    def list_to_tuple(self, items: list[Any]) -> tuple[Any, ...]:
        """`(*items,)`"""
        return tuple(items)

    def set_update(self, container: set[Any], items: Any) -> None:
        """`{*items}`"""
        if self._runs_python(items, "__iter__", "__next__"):
            self.natively(container.update, self._take(self.iter(items), None))
        else:
            self.natively(container.update, items)

    def _mapping(self, other: Any) -> Any:
        """A dict with the entries of a mapping; None of what is none, or says so by an AttributeError."""
        if issubclass(type(other), dict) and not self._runs_python(other, "__iter__"):
            return other
        found: dict[Any, Any] = {}
        try:
            for key in self._take(self.iter(self.call(self.getattr(other, "keys"), (), {})), None):
                self.natively(operator.setitem, found, key, self.getitem(other, key))
        except AttributeError:
            return None
        return found

    def dict_update(self, container: dict[Any, Any], other: Any) -> None:
        """`{**other}`"""
        found = self._mapping(other)
        if found is None:
            raise TypeError(f"'{type_name(type(other))}' object is not a mapping")
        self.natively(container.update, found)

    def dict_merge(self, container: dict[Any, Any], other: Any, function: Any) -> None:
        """`function(**other)`"""
        found = self._mapping(other)
        if found is None:
            raise TypeError(
                f"{describe_callable(function)} argument after ** must be a mapping, not {type_name(type(other))}"
            )
        for key, value in found.items():
            if key in container:
                if not isinstance(key, str):
                    raise TypeError(f"{describe_callable(function)} keywords must be strings")
                raise TypeError(f"{describe_callable(function)} got multiple values for keyword argument '{key}'")
            container[key] = value

    def star_arguments(self, function: Any, args: Any) -> tuple[Any, ...]:
        """`function(*args)`"""
        cls = type(args)
        if self.type_lookup(cls, "__iter__") is NULL and self.type_lookup(cls, "__getitem__") is NULL:
            raise TypeError(f"{describe_callable(function)} argument after * must be an iterable, not {type_name(cls)}")
        if self._runs_python(args, "__iter__", "__next__"):
            iterator = self.iter(args)
            self.ask_length(args)
            return tuple(self._take(iterator, None))
        return self.natively(tuple, args)

    def star_keywords(self, named: Any) -> dict[str, Any]:
        """`function(**named)`, which has been put together."""
        return named if type(named) is dict else dict(named)

    def match_keys(self, subject: Any, keys: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The values of a mapping pattern, None if it does not match."""
        if len(set(keys)) < len(keys):
            twice = next(key for index, key in enumerate(keys) if key in keys[:index])
            raise ValueError(f"mapping pattern checks duplicate key ({twice!r})")
        get = self.getattr(subject, "get")
        values = []
        for key in keys:
            value = self.call(get, (key, NULL), {})
            if value is NULL:
                return None
            values.append(value)
        return tuple(values)

    def match_class(self, subject: Any, cls: Any, positional: int, names: tuple[str, ...]) -> tuple[Any, ...] | None:
        """The attributes of a class pattern, None if it does not match."""
        if not issubclass(type(cls), type):
            found: tuple[Any, ...] | None
            found = self.native_instruction(Instr("MATCH_CLASS", positional), (subject, cls, names))  # which raises
            return found
        if not self.call(isinstance, (subject, cls), {}):
            return None
        seen: set[str] = set()
        values: list[Any] = self._match_positional(subject, cls, positional, seen) if positional else []
        for name in names:
            if values and values[-1] is NULL:
                break
            values.append(self._match_attribute(subject, cls, name, seen))
        return None if any(value is NULL for value in values) else tuple(values)

    def _match_positional(self, subject: Any, cls: type, count: int, seen: set[str]) -> list[Any]:
        arguments = self._optional(cls, "__match_args__")
        if arguments is NULL:
            arguments = ()
            if cls.__flags__ & _MATCHES_SELF:
                if count > 1:
                    raise TypeError(_too_many(cls, 1, count))
                return [subject]
        if type(arguments) is not tuple:
            raise TypeError(f"{type_name(cls)}.__match_args__ must be a tuple (got {type_name(type(arguments))})")
        if len(arguments) < count:
            raise TypeError(_too_many(cls, len(arguments), count))
        values: list[Any] = []
        for name in arguments[:count]:
            if type(name) is not str:
                raise TypeError(f"__match_args__ elements must be strings (got {type_name(type(name))})")
            values.append(self._match_attribute(subject, cls, name, seen))
            if values[-1] is NULL:
                break
        return values

    def _match_attribute(self, subject: Any, cls: type, name: str, seen: set[str]) -> Any:
        if name in seen:
            raise TypeError(f"{type_name(cls)}() got multiple sub-patterns for attribute {name!r}")
        seen.add(name)
        return self._optional(subject, name)

    def _optional(self, obj: Any, name: str) -> Any:
        """An attribute, or NULL."""
        try:
            return self.getattr(obj, name)
        except AttributeError:
            return NULL


def _too_many(cls: type, allowed: int, given: int) -> str:
    plural = "" if allowed == 1 else "s"
    return f"{type_name(cls)}() accepts {allowed} positional sub-pattern{plural} ({given} given)"


def describe_callable(function: Any) -> str:
    """How CPython names a callable in the error of a call."""
    name = getattr(function, "__qualname__", None)
    if name is None:
        return str(function)
    module = getattr(function, "__module__", None)
    return f"{name}()" if module in (None, "builtins") else f"{module}.{name}()"
