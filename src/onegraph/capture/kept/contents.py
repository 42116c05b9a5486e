"""What an object of the program is, as far as a capture has looked at it: a text that is equal in another process
where the object is. An object without such a text is known by its identity alone, and is nothing to keep on disk.
"""

from __future__ import annotations

import dataclasses
import decimal
import enum
import functools
import logging
import operator
import re
import types
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import numpy
import torch

from onegraph import _C
from onegraph.base.codec import Unkept
from onegraph.capture.calls.libraries import NATIVE_ENUMS, is_library
from onegraph.capture.interp.functions import row_of
from onegraph.capture.pyobject.contents import DELETED
from onegraph.capture.pyobject.exact_types import dict_of, mro_of
from onegraph.capture.pyobject.type_forms import TYPE_FORMS
from onegraph.capture.pyobject.weakly_known import WRAPPERS, parts_of
from onegraph.torchlib.aten import OpOverload, OpOverloadPacket

#: Native functions, and what native types have for their instances.
NATIVE = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType,
    types.GetSetDescriptorType, types.MemberDescriptorType, types.MethodWrapperType,
)  # fmt: skip
#: Objects that say all that they are.
_PLAIN = (
    type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.layout, torch.memory_format,
    decimal.Decimal, torch.torch_version.TorchVersion, type(...), operator.attrgetter, operator.itemgetter,
    operator.methodcaller, type(dataclasses.MISSING), type(vars(dataclasses)["_FIELD"]), type(dataclasses.KW_ONLY),
    *TYPE_FORMS, types.GenericAlias, types.UnionType, *NATIVE_ENUMS,
)  # fmt: skip


#: The name of a member, whatever its class has under that name.
NAME_OF: Callable[[Any], str] = vars(enum.Enum)["name"].fget


def content(value: Any) -> str:
    """The text for an object.

    Raises:
        Unkept: it has none.
    """
    kind = type(value)
    maker = _MAKERS.get(kind)
    if maker is not None:
        return f"{kind.__name__} {maker(value)}"
    if isinstance(value, type):
        return f"class {_class_name(value)}"
    if isinstance(value, enum.Enum):
        return f"member {_class_name(kind)}.{NAME_OF(value)}"
    if kind in _PLAIN or kind is torch.Size:
        return plain(value)
    if kind in NATIVE:
        return f"native {_native(value)}{mark_of(value)}"
    if isinstance(value, types.ModuleType):  # an object of its own in the place of one
        return f"module {vars(value).get('__name__')}"
    if value is DELETED:
        return "nothing"
    raise Unkept(f"an object of type {kind.__qualname__}")


def plain(value: Any) -> str:
    text = repr(value)
    if " at 0x" in text:
        raise Unkept(f"an object of type {type(value).__qualname__}")
    return f"{type(value).__qualname__} {text}"


def code_digest(code: types.CodeType) -> str:
    """What a code object does, and the code objects in it, with the lines that it has, counted from its first one."""
    digest = blake2b(digest_size=16)
    _add_code(digest.update, code)
    return digest.hexdigest()


def class_shape(cls: type) -> str:
    """Which bases and names a class has, and of what kinds. What its functions do is told of each that runs."""
    names = sorted(f"{name} {_kind_in_class(value)}" for name, value in dict_of(cls).items())
    text = f"{[_class_name(base) for base in mro_of(cls)]} {names}"
    return blake2b(text.encode(), digest_size=16).hexdigest()


def mark_of(function: Any) -> str:
    """What the program has said of a function."""
    mark = row_of(function).mark
    return "" if mark is None else f" marked {getattr(mark, '__qualname__', 'so')}"


def _function(function: types.FunctionType) -> str:
    module = str(function.__module__)
    body = "" if is_library(module) else code_digest(function.__code__)
    return f"{module}.{function.__qualname__} {body}{mark_of(function)}"


def _native(value: Any) -> str:
    owner = getattr(value, "__objclass__", None)
    if owner is None:
        bound = getattr(value, "__self__", None)
        if (
            bound is not None
            and not isinstance(bound, types.ModuleType | type)
            and type(bound).__module__ != "builtins"
        ):
            owner = type(bound)
        elif isinstance(bound, type):
            owner = bound
    home = _class_name(owner) if isinstance(owner, type) else getattr(value, "__module__", None)
    return f"{type(value).__name__} {home}.{value.__name__}"


def _class_name(cls: type) -> str:
    return f"{vars(type)['__module__'].__get__(cls)}.{vars(type)['__qualname__'].__get__(cls)}"


def _kind_in_class(value: Any) -> str:
    """What a value in a class is. A function of a library may have been replaced by one of the program."""
    kind = type(value)
    if kind in WRAPPERS:
        return f"{kind.__name__} {[None if part is None else _kind_in_class(part) for part in parts_of(value)]}"
    if kind is types.FunctionType:
        own = is_library(str(value.__globals__.get("__name__")))
        return f"function {value.__qualname__} of {'a library' if own else value.__module__}"
    return "a class" if isinstance(value, type) else kind.__qualname__


def _wrapper(value: Any) -> str:
    return str([None if part is None else content(part) for part in parts_of(value)])


def _cached(value: Any) -> str:
    inner = vars(value).get("__wrapped__")
    if inner is None:
        raise Unkept("a function with a cache that does not say what it is around")
    return content(inner)


def _add_code(update: Callable[[bytes], object], code: types.CodeType) -> None:
    facts = (
        code.co_name, code.co_qualname, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount,
        code.co_flags, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
    )  # fmt: skip
    update(f"{facts}".encode())
    update(code.co_code)
    update(code.co_exceptiontable)
    update(code.co_linetable)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            _add_code(update, const)
        else:
            update(_constant(const).encode())


def _constant(const: Any) -> str:
    """A constant of code: sets have no order, and what was put there by whoever made the code has a name at most."""
    if type(const) is frozenset:
        return f"frozenset {sorted(map(_constant, const))}"
    if type(const) is tuple:
        return f"tuple {list(map(_constant, const))}"
    text = repr(const)
    if " at 0x" in text and type(const) is not str:
        text = f"{getattr(const, '__module__', '')}.{getattr(const, '__qualname__', '')}"
    return f"{type(const).__name__} {text}"


_MAKERS: dict[type, Callable[[Any], str]] = {
    types.FunctionType: _function,
    types.CodeType: code_digest,
    types.ModuleType: lambda value: str(vars(value).get("__name__")),
    property: _wrapper,
    classmethod: _wrapper,
    staticmethod: _wrapper,
    OpOverload: str,
    OpOverloadPacket: str,
    numpy.ufunc: lambda value: value.__name__,
    re.Pattern: lambda value: f"{value.pattern!r} {value.flags}",
    functools._lru_cache_wrapper: _cached,
    logging.Logger: lambda value: repr(value.name),  # what it lets pass it decides in each call
    _C.disabled: lambda value: f"{content(value.__wrapped__)} {value.code is None}",
    _C.Region: lambda value: content(value.__wrapped__),
}
