"""Admission: how a real object of each type enters the shadow world.

A new type is one function with `@admits(type)` here. The rules, in order: tensors; exact types of the registry;
classes and enum members (used as they are, guarded by identity); containers with a Python subclass; objects of Python
classes (shadow with a lazy `__dict__`); everything else is opaque: usable by identity only.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import functools
import operator
import types
import typing
import weakref
from collections.abc import Callable
from typing import Any

import torch

from onegraph import _C
from onegraph.capture.breaks import SET_ORDER, GraphBreak
from onegraph.capture.calls.registry import IMMUTABLE, ITERATORS, NATIVE_ENUMS, is_outside_class
from onegraph.capture.directives.skipped_code import is_machinery
from onegraph.capture.guards.predicates import SameMembers
from onegraph.capture.guards.source import Attr, Const, Item, Source, Through
from onegraph.capture.heap.deques import Slot
from onegraph.capture.heap.keys import made_quietly
from onegraph.capture.heap.value_types import (
    admit_own_value,
    admit_record,
    can_be_remade,
    guard_own_value,
    has_hidden_fields,
    holds_atoms,
    kind_of_value,
)
from onegraph.capture.heap.world import World
from onegraph.capture.interp.defects import Defect
from onegraph.capture.pyobject.contents import ATOMS, DELETED, UNFILLED, keys_of
from onegraph.capture.pyobject.exact_types import defines, isinstance, once_for_each_class
from onegraph.capture.pyobject.layout import (
    HEAP_TYPE,
    behind_proxy,
    behind_weak_proxy,
    exception_fields,
    instance_dict,
    makes_itself,
    native_method,
)
from onegraph.capture.pyobject.value_text import short

Admission = Callable[[World, Any, Source, bool], Any]
ADMISSIONS: dict[type, Admission] = {}


def admits(*kinds: type) -> Callable[[Admission], Admission]:
    def register(function: Admission) -> Admission:
        for kind in kinds:
            ADMISSIONS[kind] = function
        return function

    return register


def admit_object(world: World, real: Any, source: Source, guarded: bool) -> Any:
    """The shadow of any object that is neither an atom nor a tensor."""
    cls = type(real)
    if cls in ADMISSIONS:
        return ADMISSIONS[cls](world, real, source, guarded)
    if is_machinery(cls.__dict__.get("__module__")):
        raise Defect from AssertionError(f"a {cls.__qualname__} of the tracer has come into the program that it traces")
    if cls.__module__.startswith("triton."):  # kernels: what they remember of their launches is nobody's business
        return admit_identity(world, real, source, guarded)
    if is_outside_class(cls):
        return admit_opaque(world, real, source, guarded)
    if isinstance(real, type | enum.Enum | types.ModuleType):
        return admit_identity(world, real, source, guarded)
    for base in (dict, list, tuple, set, frozenset, collections.deque):
        if isinstance(real, base):
            return ADMISSIONS[base](world, real, source, guarded)
    if isinstance(real, BaseException):
        return admit_exception(world, real, source, guarded)
    if kind_of_value(cls) is not None:
        if guarded:
            guard_own_value(world, real, source)
        return (admit_own_value if can_be_remade(cls) else admit_opaque)(world, real, source, guarded)
    if has_python_layout(cls) and not world.is_stateful(cls):
        return admit_instance(world, real, source, guarded)
    return admit_opaque(world, real, source, guarded)


@once_for_each_class
def has_python_layout(cls: type) -> bool:
    """Whether all state of the instances is in `__dict__` and slots: a blank object of the class can be made.

    Native classes refuse `object.__new__`. Classes with a finalizer are left out: the shadow's end must not run it.
    """
    if cls.__flags__ & HEAP_TYPE == 0 or defines(cls, "__del__"):
        return False
    try:
        object.__new__(cls)
    except TypeError:
        return False
    return True


# ---- used as they are ------------------------------------------------------------------------------------------------


def admit_identity(world: World, real: Any, source: Source, guarded: bool) -> Any:
    """Immutable, or changed by nobody: the object itself, guarded by identity."""
    if guarded:
        world.guard(source, "is", real)
    world.adopt(real, real, source)
    return real


for _kind in (
    type,
    types.ModuleType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    *IMMUTABLE,
    types.GenericAlias,
    types.UnionType,
    property,
    classmethod,
    staticmethod,
    type(dataclasses.MISSING),
    type(dataclasses._FIELD),  # type: ignore[attr-defined]
    type(dataclasses._HAS_DEFAULT_FACTORY),  # type: ignore[attr-defined]
    type(dataclasses.KW_ONLY),
    *{type(form) for form in vars(typing).values() if isinstance(form, typing._Final)},  # type: ignore[attr-defined]
    torch.dtype,
    torch.layout,
    torch.memory_format,
    torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,
    torch.library.CustomOpDef,
    _C.Region,
    _C.disabled,
):
    ADMISSIONS[_kind] = admit_identity


@admits(object)
def admit_sentinel(world: World, real: Any, source: Source, guarded: bool) -> Any:
    """It has nothing but its identity, and may be made anew each call."""
    if guarded:
        world.guard(source, "type", object)
    world.unpinned.add(id(real))
    world.adopt(real, real, source)
    return real


@admits(range, slice, torch.device, *NATIVE_ENUMS)
def admit_value(world: World, real: Any, source: Source, guarded: bool) -> Any:
    """Immutable with an exact equality: the object itself, guarded by value."""
    if guarded:
        world.guard(source, "equal", real)
    world.adopt_value(real, source)
    return real


@admits(types.FunctionType)
def admit_function(world: World, real: types.FunctionType, source: Source, guarded: bool) -> Any:
    """A function is used as it is. One that a function has made may be made anew each call; any may get new code."""
    made_anew = bool(real.__closure__) or "<locals>" in real.__qualname__
    if made_anew:
        world.unpinned.add(id(real))
    if guarded and made_anew:
        world.guard(source, "type", types.FunctionType)
    elif guarded:
        world.guard(source, "is", real)
    if guarded:
        world.guard(Attr(source, "__code__"), "is", real.__code__)
    world.adopt(real, real, source)
    return real


@admits(*ITERATORS)
def admit_opaque(world: World, real: Any, source: Source, guarded: bool) -> Any:
    """A native object with state that we cannot see: it may be handed on, its methods break the graph.

    Another call may bring another one: nothing is assumed but its type.
    """
    if guarded:
        world.guard(source, "type", type(real))
    world.adopt(real, real, source)
    world.opaque[id(real)] = real
    world.unpinned.add(id(real))
    return real


# ---- containers ------------------------------------------------------------------------------------------------------


@admits(list)
def admit_list(world: World, real: list[Any], source: Source, guarded: bool) -> Any:
    shadow = list.__new__(type(real))
    begin_shadow(world, real, shadow, source, guarded)
    unfilled = [UNFILLED] * list.__len__(real)
    list.extend(shadow, unfilled)
    world.record(shadow, real, source, guarded, unfilled)
    return shadow


@admits(dict, collections.OrderedDict, collections.defaultdict, collections.Counter)
def admit_dict(world: World, real: dict[Any, Any], source: Source, guarded: bool) -> Any:
    members = [admit_member(world, key, guarded) for key in keys_of(real)]
    keys = made_quietly(world, lambda: dict(zip(members, keys_of(real), strict=True)), members)
    if keys is None:
        return admit_opaque(world, real, source, guarded)
    space = world.known_namespace(real) if type(real) is dict else None
    if space is not None and source != space.source:
        world.guard(source, "is", real)
        source = space.source
    if isinstance(real, collections.defaultdict):
        shadow = type(real).__new__(type(real))
        collections.defaultdict.__init__(
            shadow, world.admit(real.default_factory, Attr(source, "default_factory"), guarded)
        )
    elif isinstance(real, collections.OrderedDict):
        shadow = collections.OrderedDict.__new__(type(real))
    else:
        shadow = dict.__new__(type(real))
    begin_shadow(world, real, shadow, source, guarded)
    setter = collections.OrderedDict.__setitem__ if isinstance(real, collections.OrderedDict) else dict.__setitem__
    for key in keys:
        setter(shadow, key, UNFILLED)
    entry = world.record(shadow, real, source, guarded, {})
    entry.keys = keys
    world.go_on_as(entry)
    return shadow


@admits(tuple, torch.Size)
def admit_tuple(world: World, real: tuple[Any, ...], source: Source, guarded: bool) -> Any:
    """Tuples are immutable, so they are admitted whole; a named tuple keeps its class."""
    if has_hidden_fields(type(real)):
        return (admit_record if holds_atoms(real) else admit_opaque)(world, real, source, guarded)
    if guarded:
        world.guard(source, "type", type(real))
        world.guard(source, "length", tuple.__len__(real))
    items = [world.admit(item, Item(source, index), guarded) for index, item in enumerate(tuple.__iter__(real))]
    if all(map(operator.is_, tuple.__iter__(real), items)) and not has_instance_dict(real):
        world.adopt_value(real, source)
        return real
    shadow = type(real)(items) if makes_itself(type(real)) else tuple.__new__(type(real), items)
    world.adopt(real, world.keep(shadow), source)
    if has_instance_dict(shadow):
        world.attributes_record(shadow, real, source, guarded)
    return shadow


@admits(set, frozenset)
def admit_set(world: World, real: Any, source: Source, guarded: bool) -> Any:
    """A set is admitted whole, with the order of its elements; they are known by identity or, for atoms, by value."""
    base = set if isinstance(real, set) else frozenset
    items = [admit_member(world, item, guarded) for item in base.__iter__(real)]
    themselves = all(map(operator.is_, base.__iter__(real), items))
    if isinstance(real, frozenset) and not has_instance_dict(real) and themselves:
        if guarded:
            world.guard(source, "type", type(real))
            world.guard(source, "check", SameMembers(tuple(items)))
        world.adopt_value(real, source)
        return real
    plain = type(real) in (set, frozenset)
    copied = real if themselves else items  # a copy of a set has its order, for the most part
    shadow = made_quietly(world, lambda: type(real)(copied) if plain else blank(type(real), items), items)
    if shadow is None:
        return admit_opaque(world, real, source, guarded)
    if base.__len__(shadow) != len(items) or any(map(operator.is_not, base.__iter__(shadow), items)):
        raise GraphBreak(SET_ORDER)
    begin_shadow(world, real, shadow, source, guarded)
    if guarded:
        world.guard(source, "check", SameMembers(tuple(base.__iter__(real))))
    if isinstance(real, set):
        world.record(shadow, real, source, guarded, items)
    return shadow


def admit_member(world: World, member: Any, guarded: bool) -> Any:
    """A key of a dict or an element of a set: the guard on the container says which object it is."""
    if type(member) in ATOMS:
        return member
    shadow = world.admit(member, Const(id(member), short(member), member), guarded)
    world.settled(shadow)
    if world.runs_code(shadow):  # the shadow of the container asks for the hash again, outside of the trace
        world.natively(hash, shadow)
    return shadow


def blank(cls: type, items: list[Any]) -> Any:
    shadow = cls.__new__(cls) if issubclass(cls, set) else frozenset.__new__(cls, items)
    if isinstance(shadow, set):
        set.update(shadow, items)
    return shadow


def begin_shadow(world: World, real: Any, shadow: Any, source: Source, guarded: bool) -> None:
    """What all shadows share: type guard, identity, and the lazy attributes of a Python subclass."""
    if guarded:
        world.guard(source, "type", type(real))
    world.adopt(real, shadow, source)
    if has_instance_dict(shadow):
        world.attributes_record(shadow, real, source, guarded)


def has_instance_dict(value: Any) -> bool:
    return type(value).__dictoffset__ != 0


# ---- objects ---------------------------------------------------------------------------------------------------------


def admit_instance(world: World, real: Any, source: Source, guarded: bool) -> Any:
    """An object of a Python class: a blank one with a lazy `__dict__`; slots are read on demand."""
    shadow = object.__new__(type(real))
    begin_shadow(world, real, shadow, source, guarded)
    return shadow


@admits(collections.deque)
def admit_deque(world: World, real: collections.deque[Any], source: Source, guarded: bool) -> Any:
    shadow = collections.deque.__new__(type(real))
    collections.deque.__init__(shadow, map(Slot, range(collections.deque.__len__(real))), real.maxlen)
    if guarded:
        world.guard(Attr(source, "maxlen"), "equal" if real.maxlen is not None else "is", real.maxlen)
    begin_shadow(world, real, shadow, source, guarded)
    world.record(shadow, real, source, guarded, [])
    return shadow


@admits(types.SimpleNamespace)
def admit_namespace(world: World, real: types.SimpleNamespace, source: Source, guarded: bool) -> Any:
    shadow = types.SimpleNamespace()
    begin_shadow(world, real, shadow, source, guarded)
    return shadow


@admits(types.BuiltinFunctionType, types.MethodWrapperType)
def admit_bound_builtin(world: World, real: Any, source: Source, guarded: bool) -> Any:
    """A native function; one that is bound to an object is that of the object's shadow. (pybind11 binds to records.)"""
    owner = real.__self__
    if owner is None or isinstance(owner, types.ModuleType | type) or not defines(type(owner), real.__name__):
        return admit_identity(world, real, source, guarded)
    if guarded:
        world.guard(source, "type", type(real))
        world.guard(Attr(source, "__name__"), "equal", real.__name__)
    receiver, descriptor = world.admit(owner, Attr(source, "__self__"), guarded), native_method(owner, real)
    shadow = getattr(receiver, real.__name__) if descriptor is None else descriptor.__get__(receiver, type(receiver))
    world.adopt(real, shadow, source)
    return shadow


#: What every exception holds. (A cause suppresses the context: it comes first.)
EXCEPTION_STATE = tuple(
    (name, vars(BaseException)[name]) for name in ("args", "__cause__", "__context__", "__suppress_context__")
)


def admit_exception(world: World, real: BaseException, source: Source, guarded: bool) -> Any:
    """An exception from outside: one of the same class and arguments, with the attributes, cause and context."""
    args = world.admit(real.args, Attr(source, "args"), guarded)
    if isinstance(real, BaseExceptionGroup):  # it looks at the exceptions when it is made
        world.realize_deep(args)
    shadow = type(real).__new__(type(real), *args)
    begin_shadow(world, real, shadow, source, guarded)
    members = [*EXCEPTION_STATE]
    if not isinstance(real, BaseExceptionGroup):  # whose fields are its arguments
        members += exception_fields(type(real))
    for name, member in members:
        with contextlib.suppress(AttributeError):
            member.__set__(shadow, world.admit(member.__get__(real, type(real)), Attr(source, name), guarded))
    for _, member in members:  # setting one may change another
        with contextlib.suppress(AttributeError):
            world.slot_known(shadow, member, member.__get__(shadow, type(real)))
    return shadow


@admits(types.MethodType)
def admit_method(world: World, real: types.MethodType, source: Source, guarded: bool) -> Any:
    if guarded:
        world.guard(source, "type", types.MethodType)
    function = world.admit(real.__func__, Attr(source, "__func__"), guarded)
    owner = world.admit(real.__self__, Attr(source, "__self__"), guarded)
    shadow = types.MethodType(function, owner)
    world.adopt(real, shadow, source)
    return shadow


@admits(functools.partial)
def admit_partial(world: World, real: functools.partial[Any], source: Source, guarded: bool) -> Any:
    if guarded:
        world.guard(source, "type", type(real))
    function = world.admit(real.func, Attr(source, "func"), guarded)
    args = world.admit(real.args, Attr(source, "args"), guarded)
    keywords = world.realize(world.admit(real.keywords, Attr(source, "keywords"), guarded))
    shadow = functools.partial(function, *args, **keywords)
    world.adopt(real, shadow, source)
    if instance_dict(real) is not None:
        world.attributes_record(shadow, real, source, guarded)
    return shadow


@admits(types.CellType)
def admit_cell(world: World, real: types.CellType, source: Source, guarded: bool) -> Any:
    empty = is_empty(real)
    shadow = types.CellType() if empty else types.CellType(UNFILLED)
    world.adopt(real, shadow, source)
    world.record(shadow, real, source, guarded, [DELETED if empty else UNFILLED])
    if empty and guarded:
        world.guard(source, "check", is_empty)
    return shadow


def is_empty(cell: types.CellType) -> bool:
    """Whether the variable of the cell has no value (yet)."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return True
    return False


@admits(types.MappingProxyType)
def admit_mapping_proxy(world: World, real: types.MappingProxyType[Any, Any], source: Source, guarded: bool) -> Any:
    """A view of the shadow of the mapping behind it: the program may change that."""
    shadow = types.MappingProxyType(world.admit(behind_proxy(real), Through(source, behind_proxy), guarded))
    world.adopt(real, shadow, source)
    return shadow


@admits(weakref.ref)
def admit_weak_reference(world: World, real: weakref.ref[Any], source: Source, guarded: bool) -> Any:
    """A reference to the shadow of the referent: the original would hand out the real object."""
    if guarded:
        world.guard(source, "type", weakref.ref)
    target = world.admit(real(), Through(source, call_reference), guarded)
    shadow = weakref.ref(target) if target is not None else dead(world, real)
    world.adopt(real, shadow, source)
    return shadow


@admits(weakref.KeyedRef)
def admit_keyed_reference(world: World, real: weakref.KeyedRef[Any, Any], source: Source, guarded: bool) -> Any:
    """A value of a weak dictionary."""
    if guarded:
        world.guard(source, "type", weakref.KeyedRef)
    target = world.admit(real(), Through(source, call_reference), guarded)
    key = world.admit(real.key, Attr(source, "key"), guarded)
    shadow = weakref.KeyedRef(target, None, key) if target is not None else dead(world, real)  # type: ignore[arg-type]
    world.adopt(real, world.keep(shadow), source)
    return shadow


@admits(*weakref.ProxyTypes)
def admit_weak_proxy(world: World, real: Any, source: Source, guarded: bool) -> Any:
    """One of the shadow, if its object lives: what the program writes to that is seen through it."""
    target = behind_weak_proxy(real)
    if target is None:
        return admit_opaque(world, real, source, guarded)
    if guarded:
        world.guard(source, "type", type(real))
    shadow = weakref.proxy(world.admit(target, Through(source, behind_weak_proxy), guarded))
    world.adopt(real, shadow, source)
    return shadow


def dead(world: World, reference: weakref.ref[Any]) -> weakref.ref[Any]:
    """A reference to nothing is used as it is. Another call may bring another one."""
    world.unpinned.add(id(reference))
    return reference


def call_reference(reference: weakref.ref[Any]) -> Any:
    return reference()


@admits(super)
def admit_super(world: World, real: Any, source: Source, guarded: bool) -> Any:
    owner = world.admit(real.__self__, Attr(source, "__self__"), guarded)
    shadow = super(real.__thisclass__, owner)
    world.adopt(real, shadow, source)
    return shadow
