"""Recipes: how a value that the trace made is made again by the residual code. A new type is one row of RECIPES."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    GeneratorType,
    MethodType,
    MethodWrapperType,
)
from typing import Any

import torch

from onegraph import _C
from onegraph.capture.breaks import CANNOT_REBUILD, ESCAPING_CLASS, ESCAPING_GENERATOR, GraphBreak
from onegraph.capture.hatches import rebuild_disabled
from onegraph.capture.layout import HEAP_TYPE, exception_fields, makes_itself, slots_of
from onegraph.capture.shadows import DELETED, cell_value

#: Native iterators whose `__reduce__` says exactly what is left of them.
ITERATORS = tuple(
    type(iterator)
    for iterator in (iter([]), iter(()), iter(range(0)), iter(""), enumerate(()), zip(), reversed([]), reversed(()))
)


def rebuild_constant(rebuild: Any, value: Any) -> str:
    if id(value) in rebuild.world.made_classes:
        raise GraphBreak(ESCAPING_CLASS, what=value.__qualname__)
    return rebuild.const(value)


def rebuild_list(rebuild: Any, value: list[Any]) -> str:
    if type(value) is not list:
        return rebuild_object(rebuild, value)
    return rebuild.assign(f"[{rebuild.values(value)}]")


def rebuild_tuple(rebuild: Any, value: tuple[Any, ...]) -> str:
    items = "(" + "".join(f"{rebuild.value(item)}, " for item in tuple.__iter__(value)) + ")"
    if type(value) is tuple:
        return rebuild.assign(items)
    if makes_itself(type(value)):
        return rebuild.assign(f"{rebuild.const(type(value))}({items})")
    return rebuild.assign(f"{rebuild.const(tuple.__new__)}({rebuild.value(type(value))}, {items})")


def rebuild_dict(rebuild: Any, value: dict[Any, Any]) -> str:
    if type(value) is not dict:
        return rebuild_object(rebuild, value)
    items = ", ".join(f"{rebuild.value(key)}: {rebuild.value(item)}" for key, item in value.items())
    return rebuild.assign("{" + items + "}")


def rebuild_set(rebuild: Any, value: set[Any] | frozenset[Any]) -> str:
    if type(value) not in (set, frozenset):
        return rebuild_object(rebuild, value)
    return rebuild.assign(f"{rebuild.const(type(value))}([{rebuild.values(list(value))}])")


def rebuild_slice(rebuild: Any, value: slice) -> str:
    parts = rebuild.values((value.start, value.stop, value.step))
    return rebuild.assign(f"{rebuild.const(slice)}({parts})")


def rebuild_method(rebuild: Any, value: MethodType) -> str:
    return rebuild.assign(
        f"{rebuild.const(MethodType)}({rebuild.value(value.__func__)}, {rebuild.value(value.__self__)})"
    )


def rebuild_bound_builtin(rebuild: Any, value: Any) -> str:
    owner = value.__self__
    if owner is None or isinstance(owner, type | type(torch)):
        return rebuild.const(value)
    return rebuild.assign(f"{rebuild.value(owner)}.{value.__name__}")


def rebuild_partial(rebuild: Any, value: functools.partial[Any]) -> str:
    args = "".join(f", {rebuild.value(item)}" for item in value.args)
    return rebuild.assign(
        f"{rebuild.const(type(value))}({rebuild.value(value.func)}{args}, **{rebuild.value(dict(value.keywords))})"
    )


def rebuild_cell(rebuild: Any, value: CellType) -> str:
    contents = cell_value(value)
    name = rebuild.assign(f"{rebuild.const(CellType)}()")
    rebuild.remember(value, name)
    if contents is not DELETED:
        rebuild.lines.append(f"{name}.cell_contents = {rebuild.value(contents)}")
    return name


def rebuild_function(rebuild: Any, value: FunctionType) -> str:
    """A function made by the trace; one that existed before is a constant."""
    if id(value) not in rebuild.world.made_functions:
        return rebuild.const(value)
    cells = rebuild.value(value.__closure__)
    parts = (
        f"{rebuild.const(value.__code__)}, {rebuild.const(value.__globals__)}, {value.__name__!r}, "
        f"{rebuild.value(value.__defaults__)}, {cells}"
    )
    name = rebuild.assign(f"{rebuild.const(FunctionType)}({parts})")
    rebuild.remember(value, name)
    for attribute in ("__kwdefaults__", "__annotations__", "__dict__"):
        contents = getattr(value, attribute)
        if contents:
            rebuild.lines.append(f"{name}.{attribute} = {rebuild.value(contents)}")
    rebuild.lines.append(f"{name}.__qualname__ = {value.__qualname__!r}")
    return name


def rebuild_iterator(rebuild: Any, value: Any) -> str:
    function, args, *state = value.__reduce__()
    name = rebuild.assign(f"{rebuild.const(function)}({rebuild.values(args)})")
    if state:
        rebuild.lines.append(f"{name}.__setstate__({rebuild.value(state[0])})")
    return name


def rebuild_exception(rebuild: Any, value: BaseException) -> str:
    """An exception with its arguments, attributes, cause and context; its traceback begins anew."""
    cls = rebuild.value(type(value))
    name = rebuild.assign(f"{cls}.__new__({cls}, *{rebuild.value(value.args)})")
    rebuild.remember(value, name)
    attributes = rebuild.world.attributes(value)
    if attributes:
        rebuild.lines.append(f"{name}.__dict__.update({rebuild.value(dict(attributes))})")
    fields = [name for name, _ in exception_fields(type(value))]
    for attribute in ("__cause__", "__context__", "__suppress_context__", *fields):
        contents = getattr(value, attribute, None)
        if contents is not None and contents is not False:
            rebuild.lines.append(f"{name}.{attribute} = {rebuild.value(contents)}")
    return name


def rebuild_object(rebuild: Any, value: Any) -> str:
    """An object of a Python class: a blank one, its container contents, then its attributes."""
    cls = type(value)
    base = next((kind for kind in (collections.OrderedDict, dict, list, set) if isinstance(value, kind)), object)
    if cls.__flags__ & HEAP_TYPE == 0 and base is object:
        raise GraphBreak(
            ESCAPING_GENERATOR if cls is GeneratorType else CANNOT_REBUILD, what=f"{cls.__module__}.{cls.__qualname__}"
        )
    try:
        base.__new__(cls)
    except TypeError:
        raise GraphBreak(CANNOT_REBUILD, what=f"{cls.__module__}.{cls.__qualname__}") from None
    name = rebuild.assign(f"{rebuild.const(base.__new__)}({rebuild.value(cls)})")
    rebuild.remember(value, name)
    if isinstance(value, collections.defaultdict):
        rebuild.lines.append(
            f"{rebuild.const(collections.defaultdict.__init__)}({name}, {rebuild.value(value.default_factory)})"
        )
    match value:
        case dict():
            setter = rebuild.const(base.__setitem__)
            for key, item in dict.items(value):
                rebuild.lines.append(f"{setter}({name}, {rebuild.value(key)}, {rebuild.value(item)})")
        case list():
            rebuild.lines.append(
                f"{rebuild.const(list.extend)}({name}, [{rebuild.values(list(list.__iter__(value)))}])"
            )
        case set():
            rebuild.lines.append(f"{rebuild.const(set.update)}({name}, [{rebuild.values(list(set.__iter__(value)))}])")
    attributes = rebuild.world.attributes(value)
    if attributes:
        rebuild.lines.append(f"{name}.__dict__.update({rebuild.value(dict(attributes))})")
    for _, slot in slots_of(cls):
        try:
            item = slot.__get__(value, cls)
        except AttributeError:
            continue
        rebuild.lines.append(f"{rebuild.const(slot)}.__set__({name}, {rebuild.value(item)})")
    return name


CONSTANTS = (
    type,
    type(torch),
    CodeType,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    range,
    property,
    complex,
    float,
)

RECIPES: tuple[tuple[Any, Callable[[Any, Any], str]], ...] = (
    (CONSTANTS, rebuild_constant),
    (list, rebuild_list),
    (tuple, rebuild_tuple),
    (dict, rebuild_dict),
    ((set, frozenset), rebuild_set),
    (slice, rebuild_slice),
    (MethodType, rebuild_method),
    (FunctionType, rebuild_function),
    ((BuiltinFunctionType, MethodWrapperType), rebuild_bound_builtin),
    (functools.partial, rebuild_partial),
    (CellType, rebuild_cell),
    (ITERATORS, rebuild_iterator),
    (BaseException, rebuild_exception),
    (_C.disabled, rebuild_disabled),
)
