"""Recipes: how a value that the trace made is made again by the residual code. A new type is one row of RECIPES."""

from __future__ import annotations

import collections
import functools
import gc
import io
import operator
import random
import weakref
from collections.abc import Callable
from types import (
    BuiltinFunctionType,
    CellType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import Any

import torch

from onegraph import _C
from onegraph.capture.breaks import CANNOT_REBUILD, ESCAPING_CLASS, GraphBreak
from onegraph.capture.directives.hatches import rebuild_disabled
from onegraph.capture.interp.tracebacks import pass_through, stand_ins
from onegraph.capture.pyobject.contents import ATOMS, DELETED, cell_value, keys_of, members_of
from onegraph.capture.pyobject.exact_types import isinstance, plain
from onegraph.capture.pyobject.iterator_positions import EMPTY, ITERATORS, write_position
from onegraph.capture.pyobject.layout import (
    HEAP_TYPE,
    exception_fields,
    instance_dict,
    makes_itself,
    native_method,
    slots_of,
)


def rebuild_constant(rebuild: Any, value: Any) -> str:
    if id(value) in rebuild.world.made_classes:
        if isinstance(value, type):
            raise GraphBreak(ESCAPING_CLASS, what=value.__qualname__)
        raise GraphBreak(CANNOT_REBUILD, what=type(value).__qualname__)
    return rebuild.known(value)


def rebuild_list(rebuild: Any, value: list[Any]) -> str:
    if type(value) is not list:
        return rebuild_object(rebuild, value)
    if not contains(value, value):
        return rebuild.assign(f"[{rebuild.values(value)}]")
    name = rebuild.assign("[]")
    rebuild.remember(value, name)
    rebuild.lines.append(f"{name}.extend([{rebuild.values(value)}])")
    return name


def rebuild_tuple(rebuild: Any, value: tuple[Any, ...]) -> str:
    items = "(" + "".join(f"{rebuild.value(item)}, " for item in tuple.__iter__(value)) + ")"
    if type(value) is tuple:
        return rebuild.assign(items)
    if makes_itself(type(value)):
        return rebuild.assign(f"{rebuild.const(type(value))}({items})")
    return with_attributes(
        rebuild, value, rebuild.assign(f"{rebuild.const(tuple.__new__)}({rebuild.value(type(value))}, {items})")
    )


def with_attributes(rebuild: Any, value: Any, name: str) -> str:
    """The object with the contents of its instance dictionary, which may refer to it."""
    rebuild.remember(value, name)
    fill_attributes(rebuild, value, name)
    return name


#: How many attributes objects of one class have at most whose dictionaries share their keys.
SHARED_KEYS = 30


def fill_attributes(rebuild: Any, value: Any, name: str) -> None:
    """Fill the instance dictionary, one by one: so it shares its keys with those of the other objects of the class."""
    attributes = rebuild.world.attributes(value)
    if not attributes:
        return
    filled = rebuild.instance_dict(name, type(value))
    if len(attributes) > SHARED_KEYS:
        rebuild.lines.append(f"{filled}.update({rebuild.value(dict(attributes))})")
        return
    items = [(rebuild.value(key), rebuild.value(item)) for key, item in attributes.items()]
    filled = rebuild.assign(filled)
    rebuild.lines += [f"{filled}[{key}] = {item}" for key, item in items]


def rebuild_dict(rebuild: Any, value: dict[Any, Any]) -> str:
    if type(value) is not dict:
        return rebuild_object(rebuild, value)
    if not contains(value, value):
        return rebuild.assign("{" + entries(rebuild, value) + "}")
    name = rebuild.assign("{}")
    rebuild.remember(value, name)
    rebuild.lines.append(f"{name}.update({{{entries(rebuild, value)}}})")
    return name


def entries(rebuild: Any, value: dict[Any, Any]) -> str:
    return ", ".join(f"{rebuild.value(key)}: {rebuild.value(item)}" for key, item in value.items())


#: How deep a container is searched for itself.
LOOKED_INTO = 3


def contains(value: Any, wanted: Any, depth: int = 0) -> bool:
    """Whether a container of the trace is found in its own contents, or is too deep to tell."""
    if type(value) in weakref.ProxyTypes:  # one of a dead object has no class to ask for
        return False
    match plain(value):
        case dict():
            items = list(dict.values(value))
        case list() | tuple():
            items = members_of(value)
        case _:
            items = [*(instance_dict(value) or {}).values()] if type(value).__flags__ & HEAP_TYPE else []
    return any(item is wanted or depth > LOOKED_INTO or contains(item, wanted, depth + 1) for item in items)


def rebuild_set(rebuild: Any, value: set[Any] | frozenset[Any]) -> str:
    if type(value) not in (set, frozenset):
        return rebuild_object(rebuild, value)
    kind = rebuild.const(type(value))
    items = list(value)
    if not all(map(hashes_by_value, items)):
        return rebuild.assign(f"{kind}([{rebuild.values(items)}])")
    order = in_order_of_entry(items, type(value))
    if order is not None:
        return rebuild.assign(f"{kind}([{rebuild.values(order)}])")
    order = in_order_of_entry(items, lambda items: set(frozenset(items)))  # as a display of constants is made
    if order is None or type(value) is frozenset:
        raise GraphBreak(CANNOT_REBUILD, what="set whose order depends on its past")
    return rebuild.assign(f"{kind}({rebuild.const(frozenset)}([{rebuild.values(order)}]))")


TRIALS = 1000


def in_order_of_entry(items: list[Any], make: Callable[[list[Any]], Any]) -> list[Any] | None:
    """In which order the elements must come so that the set that is made of them has them in the order of `items`.

    Where two elements want one place in the table, the one that comes later goes elsewhere, to the front perhaps.
    """
    order, draw = list(items), random.Random(0)
    for _ in range(TRIALS):
        wrong = [item for found, item in zip(make(order), items, strict=True) if found is not item]
        if not wrong:
            return order
        moved = draw.choice(wrong)
        order.remove(moved)
        order.insert(draw.choice((0, len(order))), moved)
    return None


def hashes_by_value(value: Any) -> bool:
    return all(map(hashes_by_value, value)) if type(value) is tuple else type(value) in ATOMS


def rebuild_range(rebuild: Any, value: range) -> str:
    parts = (value.start, value.stop, value.step)
    return rebuild.assign(f"{rebuild.const(range)}({rebuild.values(parts)})")


def rebuild_slice(rebuild: Any, value: slice) -> str:
    parts = rebuild.values((value.start, value.stop, value.step))
    return rebuild.assign(f"{rebuild.const(slice)}({parts})")


class NativeLike:
    """An object of ours in the place of a native one, whose methods have their names only."""


def rebuild_method(rebuild: Any, value: MethodType) -> str:
    if isinstance(value.__self__, NativeLike):
        return rebuild.assign(f"{rebuild.value(value.__self__)}.__{value.__func__.__name__}__")
    return rebuild.assign(
        f"{rebuild.const(MethodType)}({rebuild.value(value.__func__)}, {rebuild.value(value.__self__)})"
    )


def rebuild_bound_builtin(rebuild: Any, value: Any) -> str:
    owner = value.__self__
    if owner is None or isinstance(owner, type | type(torch)):
        return rebuild.const(value)
    descriptor = native_method(owner, value) if type(owner).__flags__ & HEAP_TYPE else None
    if descriptor is not None:
        made, cls = rebuild.const(descriptor), rebuild.const(descriptor.__objclass__)
        return rebuild.assign(f"{made}.__get__({rebuild.value(owner)}, {cls})")
    return rebuild.assign(f"({rebuild.value(owner)}).{value.__name__}")


def rebuild_partial(rebuild: Any, value: functools.partial[Any]) -> str:
    args = "".join(f", {rebuild.value(item)}" for item in value.args)
    made = f"{rebuild.const(functools.partial.__new__)}({rebuild.value(type(value))}, {rebuild.value(value.func)}"
    keywords = rebuild.value(dict(value.keywords))
    return with_attributes(rebuild, value, rebuild.assign(f"{made}{args}, **{keywords})"))


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
        return rebuild.known(value)
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
    fresh = FunctionType(value.__code__, value.__globals__, value.__name__, None, value.__closure__)
    for attribute in ("__qualname__", "__doc__", "__module__"):
        own = getattr(value, attribute)
        if own is not getattr(fresh, attribute):
            rebuild.lines.append(f"{name}.{attribute} = {rebuild.value(own)}")
    return name


def rebuild_property(rebuild: Any, value: property) -> str:
    """A property made by the trace; one that existed before is a constant."""
    parts = [value.fget, value.fset, value.fdel]
    world = rebuild.world
    if id(value) not in world.births and not any(id(part) in world.made_functions for part in parts):
        return rebuild.known(value)
    if type(value) is not property:
        raise GraphBreak(CANNOT_REBUILD, what=type(value).__qualname__)
    if value.__doc__ is not getattr(value.fget, "__doc__", None):
        parts.append(value.__doc__)
    return rebuild.assign(f"{rebuild.const(property)}({rebuild.values(parts)})")


def rebuild_iterator(rebuild: Any, value: Any) -> str:
    cls = type(value)
    kind = next(kind for kind in cls.__mro__ if kind in ITERATORS)
    function, args, *state = kind.__reduce__(value)
    if cls is not kind:  # calling it would run the program's own `__new__` and `__init__`
        return rebuild_iterator_subclass(rebuild, value, kind, args, state)
    if cls in EMPTY and function is iter and not state and len(args) == 1:  # at its end it reduces to another type
        return rebuild.assign(f"{rebuild.const(ended)}({rebuild.const(type(value))})")
    name = rebuild.assign(f"{rebuild.const(function)}({rebuild.values(args)})")
    if state and state[0] is not None:
        write_position(rebuild, name, value, state[0])
    return name


def rebuild_iterator_subclass(rebuild: Any, value: Any, kind: type, args: Any, state: list[Any]) -> str:
    cls = rebuild.value(type(value))
    name = rebuild.assign(f"{rebuild.const(kind)}.__new__({cls}, {rebuild.values(args)})")
    with_attributes(rebuild, value, name)
    if state and state[0] is not None:
        rebuild.late.append(f"{rebuild.const(kind)}.__setstate__({name}, {rebuild.value(state[0])})")
    return name


def ended(kind: type) -> Any:
    """An iterator of this type that has come to its end."""
    iterator = EMPTY[kind]()
    while next(iterator, ended) is not ended:
        pass
    return iterator


def rebuild_view_iterator(rebuild: Any, value: Any) -> str:
    """An iterator over a dict, a view of one or a set: one that has gone as far over the same container."""
    left = operator.length_hint(value)
    held = [item for item in gc.get_referents(value) if isinstance(item, dict | set | frozenset)]
    if held and isinstance(held[0], set | frozenset) and list(set(list(held[0]))) != list(held[0]):
        raise GraphBreak(CANNOT_REBUILD, what="iterator over a set whose order depends on its past")
    if not held:  # it has come to its end
        return rebuild.assign(f"{rebuild.const(iter)}({rebuild.const(())})")
    try:
        value.__reduce__()
    except RuntimeError as error:
        raise GraphBreak(CANNOT_REBUILD, what=f"iterator that fails: {error}") from None
    over, container = rebuild.const(VIEW_ITERATORS[type(value)]), rebuild.value(held[0])
    rebuild.settle(held[0])
    return rebuild.assign(f"{rebuild.const(advanced)}({over}({container}), {left})")


def advanced(iterator: Any, left: int) -> Any:
    """The iterator with so many items left."""
    while operator.length_hint(iterator) > left:
        next(iterator)
    return iterator


VIEW_ITERATORS: dict[type, Callable[[Any], Any]] = {
    type(over({})): over
    for over in (
        iter,
        lambda d: iter(d.values()),
        lambda d: iter(d.items()),
        reversed,
        lambda d: reversed(d.values()),
        lambda d: reversed(d.items()),
    )
} | {type(iter(set())): iter}


def rebuild_namespace(rebuild: Any, value: SimpleNamespace) -> str:
    name = rebuild.assign(f"{rebuild.const(type(value))}()")
    rebuild.remember(value, name)
    rebuild.lines.append(f"{name}.__dict__.update({rebuild.value(dict(vars(value)))})")
    return name


def rebuild_deque(rebuild: Any, value: collections.deque[Any]) -> str:
    if type(value) is not collections.deque:
        return rebuild_object(rebuild, value)
    name = rebuild.assign(f"{rebuild.const(type(value))}((), {value.maxlen!r})")
    rebuild.remember(value, name)
    rebuild.lines.append(f"{name}.extend([{rebuild.values(list(value))}])")
    return name


def rebuild_buffer(rebuild: Any, value: io.StringIO | io.BytesIO) -> str:
    """A file in memory, at its place; what it has become by other means is not known."""
    name = rebuild.assign(f"{rebuild.const(type(value))}()")
    if value.closed:
        rebuild.lines.append(f"{name}.close()")
        return name
    state = value.__getstate__()
    rebuild.lines.append(f"{name}.__setstate__({rebuild.value(state)})")
    return name


def rebuild_bytearray(rebuild: Any, value: bytearray) -> str:
    if type(value) is bytearray:
        return rebuild.assign(f"{rebuild.const(bytearray)}({bytes(value)!r})")
    name = rebuild.assign(f"{rebuild.const(bytearray.__new__)}({rebuild.value(type(value))})")
    rebuild.lines.append(f"{rebuild.const(bytearray.extend)}({name}, {bytes(value)!r})")
    return with_attributes(rebuild, value, name)


def rebuild_weak_reference(rebuild: Any, value: weakref.ref[Any]) -> str:
    target = value() if type(value) is weakref.ref else None
    if target is None:
        raise GraphBreak(CANNOT_REBUILD, what="weak reference")
    parts = [target] if value.__callback__ is None else [target, value.__callback__]
    return rebuild.assign(f"{rebuild.const(weakref.ref)}({rebuild.values(parts)})")


def rebuild_weak_proxy(rebuild: Any, value: Any) -> str:
    """It does not tell whom it calls when its object dies."""
    raise GraphBreak(CANNOT_REBUILD, what="weak proxy")


def rebuild_exception(rebuild: Any, value: BaseException) -> str:
    """An exception with its arguments, attributes, cause, context, and the user's part of its traceback."""
    cls = rebuild.value(type(value))
    name = rebuild.assign(f"{cls}.__new__({cls}, *{rebuild.value(value.args)})")
    with_attributes(rebuild, value, name)
    past = stand_ins(value.__traceback__)
    if past:
        rebuild.lines.append(f"{rebuild.const(pass_through)}({rebuild.const(past)}, {name})")
    grouped = isinstance(value, BaseExceptionGroup)  # whose fields are its arguments
    fields = [] if grouped else [name for name, _ in exception_fields(type(value))]
    for attribute in ("__cause__", "__context__", "__suppress_context__", *fields):
        contents = getattr(value, attribute, None)
        if contents is not None and contents is not False:
            rebuild.lines.append(f"{name}.{attribute} = {rebuild.value(contents)}")
    return name


CONTAINERS = (collections.OrderedDict, dict, list, set, collections.deque)


def rebuild_object(rebuild: Any, value: Any) -> str:
    """An object of a Python class: a blank one, its container contents, then its attributes."""
    cls = type(value)
    base = next((kind for kind in CONTAINERS if isinstance(value, kind)), object)
    if cls.__flags__ & HEAP_TYPE == 0 and base is object:
        raise GraphBreak(CANNOT_REBUILD, what=f"{cls.__module__}.{cls.__qualname__}")
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
    if isinstance(value, collections.deque):
        items = rebuild.values(list(collections.deque.__iter__(value)))
        made, length = rebuild.const(collections.deque.__init__), collections.deque.maxlen.__get__(value)
        rebuild.lines.append(f"{made}({name}, [{items}], {length})")
    elif isinstance(value, dict):
        setter = rebuild.const(base.__setitem__)
        for key in keys_of(value):
            item = dict.__getitem__(value, key)
            rebuild.lines.append(f"{setter}({name}, {rebuild.value(key)}, {rebuild.value(item)})")
    elif isinstance(value, list):
        rebuild.lines.append(f"{rebuild.const(list.extend)}({name}, [{rebuild.values(list(list.__iter__(value)))}])")
    elif isinstance(value, set):
        rebuild.lines.append(f"{rebuild.const(set.update)}({name}, [{rebuild.values(list(set.__iter__(value)))}])")
    fill_attributes(rebuild, value, name)
    for _, slot in slots_of(cls):
        try:
            item = slot.__get__(value, cls)
        except AttributeError:
            continue
        rebuild.lines.append(f"{rebuild.const(slot)}.__set__({name}, {rebuild.value(item)})")
    return name


CONSTANTS = (
    type,
    ClassMethodDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
    type(torch),
    CodeType,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    complex,
    float,
)

Recipe = Callable[[Any, Any], str]
#: Kinds of values and their recipes; the first that fits is taken.
RECIPES: list[tuple[Any, Recipe]] = [
    (CONSTANTS, rebuild_constant),
    (list, rebuild_list),
    (tuple, rebuild_tuple),
    (dict, rebuild_dict),
    ((set, frozenset), rebuild_set),
    (slice, rebuild_slice),
    (range, rebuild_range),
    (MethodType, rebuild_method),
    (FunctionType, rebuild_function),
    (property, rebuild_property),
    ((BuiltinFunctionType, MethodWrapperType), rebuild_bound_builtin),
    (functools.partial, rebuild_partial),
    (CellType, rebuild_cell),
    (ITERATORS, rebuild_iterator),
    (tuple(VIEW_ITERATORS), rebuild_view_iterator),
    (collections.deque, rebuild_deque),
    (bytearray, rebuild_bytearray),
    (weakref.ref, rebuild_weak_reference),
    (weakref.ProxyTypes, rebuild_weak_proxy),
    ((io.StringIO, io.BytesIO), rebuild_buffer),
    (SimpleNamespace, rebuild_namespace),
    (BaseException, rebuild_exception),
    (_C.disabled, rebuild_disabled),
]


def recipe(*kinds: type) -> Callable[[Recipe], Recipe]:
    """Register the recipe of these types."""

    def register(function: Recipe) -> Recipe:
        RECIPES.append((kinds, function))
        return function

    return register
