"""`@dataclass` for the classes of this package: the standard library's, but cheap to define.

The standard library compiles up to seven methods of each class when that is defined, which was more than half of the
time of importing this package. Here a method is compiled when it is first called.
For everybody else it is a dataclass as any other: `fields`, `replace`, `match`, `copy` and `pickle` are as they are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, FrozenInstanceError
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

Method = Callable[..., Any]


def light_dataclass(
    *, slots: bool, frozen: bool = False, eq: bool = True, **others: bool
) -> Callable[[type[Any]], type[Any]]:
    """The arguments are those of `dataclasses.dataclass`; all classes have slots."""
    assert slots

    def decorate(cls: type[Any]) -> type[Any]:
        cls.__doc__ = cls.__doc__ or cls.__name__  # in the place of a text of the signature, which takes time
        made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, **others)(cls)
        names = ["__init__", "__repr__", *["__eq__"] * eq, *["__hash__"] * (eq and frozen)]
        methods: dict[str, Method | None] = {name: _compiled_later(made, name, frozen) for name in names}
        if frozen:
            methods |= _refusals(made) | {"__getstate__": _state_of, "__setstate__": _set_state}
        elif eq:
            methods["__hash__"] = None  # objects that are equal today
        own = dict(vars(made))
        for name, method in methods.items():
            if own.get(name) is None:  # Python writes None for the hash of a class that has an `__eq__`
                setattr(made, name, method)
        return made

    return decorate


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = light_dataclass


def _compiled_later(cls: type[Any], name: str, frozen: bool) -> Method:
    """Compiles the method at its first call and puts it in its own place, where nothing else has been put meanwhile."""
    made: Method | None = None

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal made
        if made is None:
            made = _init_of(cls, frozen) if name == "__init__" else _METHODS[name](cls)
            made.__qualname__ = f"{cls.__qualname__}.{name}"
            if vars(cls).get(name) is method:
                setattr(cls, name, made)
        return made(self, *args, **kwargs)

    return method


def _compiled(name: str, parameters: Iterable[str], body: Iterable[str], names: dict[str, Any]) -> Method:
    lines = [f"def {name}({', '.join(parameters)}):", *(f"    {line}" for line in body)]
    names["__name__"] = __name__  # code without a file is known by it
    exec("\n".join(lines), names)
    method: Method = names[name]
    return method


def _init_of(cls: type[Any], frozen: bool) -> Method:
    """Frozen objects are written by `object.__setattr__`, which the tracer knows: it interprets some classes."""
    names: dict[str, Any] = {"_MISSING": MISSING, "_set": object.__setattr__}
    parameters: tuple[list[str], list[str]] = ["self"], []
    body = []
    for item in dataclasses.fields(cls):
        name, default = item.name, f"_default_{item.name}"
        parameter = value = name
        if item.default is not MISSING:
            names[default] = item.default
            parameter, value = f"{name}={default}", name if item.init else default
        elif item.default_factory is not MISSING:
            names[default] = item.default_factory
            parameter, value = f"{name}=_MISSING", f"{default}()"
            value = f"{value} if {name} is _MISSING else {name}" if item.init else value
        elif not item.init:
            continue
        if item.init:
            parameters[bool(item.kw_only)].append(parameter)
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    body += ["self.__post_init__()"] * hasattr(cls, "__post_init__") or ["pass"]
    plain, named = parameters
    return _compiled("__init__", [*plain, *(["*", *named] if named else ())], body, names)


def _repr_of(cls: type[Any]) -> Method:
    shown = ", ".join(f"{item.name}={{self.{item.name}!r}}" for item in dataclasses.fields(cls) if item.repr)
    text = f'return f"{{self.__class__.__qualname__}}({shown})"'
    return recursive_repr()(_compiled("__repr__", ["self"], [text], {}))


def _eq_of(cls: type[Any]) -> Method:
    compared = [item for item in dataclasses.fields(cls) if item.compare]
    body = [
        "if other.__class__ is self.__class__:",
        f"    return {_tuple('self', compared)} == {_tuple('other', compared)}",
        "return NotImplemented",
    ]
    return _compiled("__eq__", ["self", "other"], body, {})


def _hash_of(cls: type[Any]) -> Method:
    hashed = [item for item in dataclasses.fields(cls) if (item.compare if item.hash is None else item.hash)]
    return _compiled("__hash__", ["self"], [f"return hash({_tuple('self', hashed)})"], {})


_METHODS = {"__repr__": _repr_of, "__eq__": _eq_of, "__hash__": _hash_of}


def _tuple(of: str, items: Iterable[Field[Any]]) -> str:
    return f"({''.join(f'{of}.{item.name}, ' for item in items)})"


def _refusals(cls: type[Any]) -> dict[str, Method]:
    """`__setattr__` and `__delattr__` of a frozen class; classes derived from it may have attributes of their own."""
    names = frozenset(item.name for item in dataclasses.fields(cls))

    def refuse_to_set(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def refuse_to_delete(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": refuse_to_set, "__delattr__": refuse_to_delete}


def _state_of(self: Any) -> list[Any]:
    return [getattr(self, item.name) for item in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for item, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, item.name, value)
