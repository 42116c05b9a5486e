"""Attributes over the shadow world: Python's own lookup protocol, reading shadows lazily and guarding what was used."""

from __future__ import annotations

import builtins
import contextlib
import enum
import functools
import types
from typing import Any

import torch

from onegraph.capture.breaks import (
    CLASS_WRITE,
    GRAD_WRITE,
    OBSERVABLE_WRITE,
    TENSOR_ATTRIBUTE,
    TENSOR_HISTORY,
    TENSOR_MEMORY,
    GraphBreak,
)
from onegraph.capture.breaks.hints import reason_of_write, refused_object
from onegraph.capture.bytecode.frame import NULL
from onegraph.capture.calls.registry import is_library
from onegraph.capture.guards.source import Arg, Attr, Const, DictOf, FreeCell, Item, base_of
from onegraph.capture.heap.class_facts import counts
from onegraph.capture.heap.world import World
from onegraph.capture.interp.machine import Machine
from onegraph.capture.interp.rests import ATTRIBUTE, WRITTEN_ATTRIBUTE, Rest, attribute_rest
from onegraph.capture.pyobject.contents import DELETED
from onegraph.capture.pyobject.exact_types import answers_itself, is_data_descriptor, is_descriptor, isinstance, plain
from onegraph.capture.pyobject.layout import HEAP_TYPE, behind_proxy, instance_dict
from onegraph.capture.pyobject.special_methods import is_stateful
from onegraph.torchlib.aten import OpOverload, OpOverloadPacket
from onegraph.torchlib.private import DisableTorchFunction

MISSING = DELETED
#: Kinds whose objects are used as they are: their attributes too, with what they remember of them.
SHARED = (enum.Enum, OpOverload, OpOverloadPacket, torch.library.CustomOpDef)  # type: ignore[attr-defined]
#: The functions that ask a tensor for these, and whose policies know how.
SPECIAL_OF_TENSORS: dict[str, Any] = {f"__{kind.__name__}__": kind for kind in (repr, str, format, hash, dir)}


class Attributes(Machine):
    """The part of the tracer that reads and writes attributes."""

    world: World

    def type_of(self, obj: Any) -> type:
        """type(obj) as the program sees it: a fake tensor has the type of the tensor that it stands for."""
        if isinstance(obj, torch.Tensor):
            real = self.world.real(obj)
            if real is not obj:
                return type(real)
            return torch.nn.Parameter if builtins.isinstance(obj, torch.nn.Parameter) else torch.Tensor
        if isinstance(obj, torch.SymInt):
            return int
        if isinstance(obj, torch.SymFloat):
            return float
        if isinstance(obj, torch.SymBool):
            return bool
        return type(obj)

    def getattr(self, obj: Any, name: str) -> Any:
        if isinstance(obj, torch.Tensor):
            return self._tensor_attribute(obj, name)
        if isinstance(obj, types.ModuleType):
            return self._module_attribute(obj, name)
        if isinstance(obj, type):
            return self._type_attribute(obj, name)
        if isinstance(obj, super):
            return self._super_attribute(obj, name)
        if isinstance(obj, types.FunctionType):
            return self._function_attribute(obj, name)
        if isinstance(obj, SHARED):
            return self._shared_attribute(obj, name)
        cls = type(obj)
        if name == "__traceback__" and issubclass(cls, BaseException):
            return self.traceback_of(obj)
        if cls.__flags__ & HEAP_TYPE == 0 and cls is not types.SimpleNamespace:
            return self._native_attribute(obj, name)
        custom = self.class_lookup(cls, "__getattribute__")
        fallback = self.type_lookup(cls, "__getattr__")
        rest = ATTRIBUTE if fallback is NULL else attribute_rest(fallback, obj, name)
        try:
            if isinstance(custom, types.FunctionType):
                return self.call(custom, (obj, name), {}, rest)
            return self.generic_getattr(obj, name, rest)
        except AttributeError:
            if fallback is NULL:
                raise
        return self.call(fallback, (obj, name), {}, ATTRIBUTE)

    def _shared_attribute(self, obj: Any, name: str) -> Any:
        """An attribute of an object that is used as it is. What a member of an enumeration holds may be changed."""
        value, own = getattr(obj, name), instance_dict(obj) if isinstance(obj, enum.Enum) else None
        held = f"_{name}_" if find_in_class(type(obj), name)[0] is enum.Enum else name
        if own is None or held not in own:
            return value
        return self.world.admit(value, Item(DictOf(self.world.origin.get(id(obj), Const(id(obj), name, obj))), held))

    def traceback_of(self, exception: BaseException) -> types.TracebackType | None:
        """Of an exception from outside the traceback that it came with, of which nothing is known."""
        real = self.world.real(exception)
        if real is exception:
            return exception.__traceback__
        if real.__traceback__ is None:
            self.world.guard(Attr(self.world.origin[id(exception)], "__traceback__"), "is", None)
            return exception.__traceback__
        if exception.__traceback__ is not None:  # it was raised again: its entries are of both kinds
            raise refused_object(real)
        source = self.world.origin[id(exception)]
        return self.world.admit(real.__traceback__, Attr(source, "__traceback__"))

    def generic_getattr(self, obj: Any, name: str, rest: Rest | None = None) -> Any:
        """object.__getattribute__ over a shadow: data descriptors, instance dict, then the rest of the class."""
        cls = type(obj)
        if name == "__class__" and find_in_class(cls, name)[0] is object:
            return self.type_of(obj)
        attributes = self.world.attributes(obj)
        if name == "__dict__" and attributes is None and cls.__dictoffset__ and not self.world.is_outside(obj):
            attributes = object.__getattribute__(obj, name)
        if name == "__dict__" and attributes is not None:
            self.world.parts.setdefault(id(attributes), (obj, name))
            return attributes
        owner, found = find_in_class(cls, name)
        if id(obj) in self.world.opaque:
            self._refuse_hidden(obj, found, name)
        if found is not MISSING and is_data_descriptor(found):
            return self._bind(owner, found, obj, name, rest)
        if attributes is not None:
            with contextlib.suppress(KeyError):
                return self.world.lookup(attributes, name)
        if found is not MISSING:
            return self._bind(owner, found, obj, name, rest)
        raise AttributeError(f"'{cls.__name__}' object has no attribute '{name}'")

    def _refuse_hidden(self, obj: Any, found: Any, name: str) -> None:
        """Of an opaque object only the methods of its class are known; its instance dictionary must not hide them."""
        own = getattr(obj, "__dict__", None)
        if not (isinstance(found, METHODS) or found is DEVICE) or (type(own) is dict and name in own):
            self.world.refuse_opaque(obj)
        if type(own) is dict:
            self.world.guard(DictOf(self.world.origin[id(obj)]), "lacks", name)

    def class_lookup(self, cls: type, name: str) -> Any:
        """A special method as the class has it, or MISSING; object's own count as missing."""
        owner, found = find_in_class(cls, name)
        if is_stateful(found):
            raise refused_object(found)
        return MISSING if owner is object or owner is None else found

    def bind_special(self, found: Any, obj: Any) -> Any:
        if is_stateful(found):
            raise refused_object(found)
        return super().bind_special(found, obj)

    def class_attribute(self, cls: type, name: str) -> Any:
        return find_in_class(cls, name)[1]

    def _admit_class_value(self, cls: type, owner: type, found: Any, name: str) -> Any:
        """A value of a class dictionary. Functions of a library are guarded with their classes."""
        self._guard_not_overridden(cls, owner, name)
        if self.is_made(owner):
            return found
        source = Item(DictOf(Const(id(owner), owner.__qualname__, owner)), name)
        return self.world.admit(found, source, not (is_library(owner.__module__ or "") and counts(name, found)))

    def wrapped(self, cls: type, owner: type, found: Any, name: str, part: str) -> Any:
        """What a property, class method or static method in a class dictionary wraps: an object has its shadow."""
        value = getattr(found, part)
        holder = self._admit_class_value(cls, owner, found, name)
        if type(value) is types.FunctionType:
            if id(holder) in self.world.origin:
                self.world.found_at[id(value)] = Attr(self.world.origin[id(holder)], part)
            return value
        if self.is_made(owner):
            return value
        guarded = not is_library(owner.__module__ or "")
        return self.world.admit(value, Attr(self.world.origin[id(holder)], part), guarded)

    def _guard_not_overridden(self, cls: type, owner: type, name: str) -> None:
        """The classes before `owner` in the MRO do not have the name. (`super()` passes over some that do.)"""
        for kind in cls.__mro__[: cls.__mro__.index(owner)]:
            if name not in kind.__dict__ and not is_library(kind.__module__ or "") and not self.is_made(kind):
                self.world.guard(DictOf(Const(id(kind), kind.__qualname__, kind)), "lacks", name)

    def is_made(self, cls: type) -> bool:
        """Whether the traced program itself made the class."""
        return id(cls) in self.world.made_classes

    def _bind(self, owner: type, found: Any, obj: Any, name: str, rest: Rest | None = None) -> Any:
        """What a class attribute gives on an instance."""
        match plain(found):
            case types.FunctionType():
                return types.MethodType(self._admit_class_value(type(obj), owner, found, name), obj)
            case property():
                if found.fget is None:
                    raise AttributeError(f"property '{name}' of '{owner.__name__}' object has no getter")
                return self.call(self.wrapped(type(obj), owner, found, name, "fget"), (obj,), {}, rest)
            case classmethod():
                return self._class_method(type(obj), owner, found, name)
            case staticmethod():
                return self.wrapped(type(obj), owner, found, name, "__func__")
            case types.MemberDescriptorType():
                return self._slot(obj, found, name)
            case types.MethodDescriptorType() | types.WrapperDescriptorType():
                return found.__get__(obj, type(obj))
            case types.GetSetDescriptorType():
                return found.__get__(self.world.realize(obj), type(obj))
            case types.BuiltinFunctionType() | types.ClassMethodDescriptorType():
                return found.__get__(obj, type(obj)) if hasattr(found, "__get__") else found
        getter = self.class_lookup(type(found), "__get__")
        value = self._admit_class_value(type(obj), owner, found, name)
        if getter is MISSING:
            return value
        if isinstance(getter, types.FunctionType):
            return self.call(getter, (value, obj, type(obj)), {}, rest)
        return getter(value, obj, type(obj))

    def _class_method(self, cls: type, owner: type, found: Any, name: str) -> Any:
        """A class method, bound. What it wraps may bind itself."""
        if is_descriptor(found.__func__) and type(found.__func__) is not types.FunctionType:
            return self.natively(found.__get__, None, cls)
        return types.MethodType(self.wrapped(cls, owner, found, name, "__func__"), cls)

    def _slot(self, obj: Any, member: types.MemberDescriptorType, name: str) -> Any:
        """A `__slots__` attribute: a shadow's slot is filled when it is first read."""
        if self.world.real(obj) is not obj:
            self.world.fill_slot(obj, member, name)
        value = member.__get__(obj, type(obj))
        if name == "keywords" and isinstance(obj, functools.partial):
            self.world.parts.setdefault(id(value), (obj, name))
        return value

    def _tensor_attribute(self, obj: torch.Tensor, name: str) -> Any:
        if name == "__class__":
            return self.type_of(obj)
        if name in SPECIAL_OF_TENSORS:  # those of the fake tell of the fake
            return types.MethodType(SPECIAL_OF_TENSORS[name], obj)
        cls = self.type_of(obj)
        method = vars(torch.nn.Parameter).get(name) if cls is torch.nn.Parameter else None
        if isinstance(method, types.FunctionType):
            return types.MethodType(method, obj)
        if name == "__dict__":  # that of the fake is our own
            raise GraphBreak(TENSOR_ATTRIBUTE, name=name)
        if name in ("__getstate__", "__sizeof__"):
            raise GraphBreak(TENSOR_MEMORY, what=f"Tensor.{name}")
        real = self.world.real(obj)
        if name in ("grad", "_grad") and real is not obj:
            with DisableTorchFunction():
                gradient = real.grad
            return self.world.admit(gradient, Attr(self.world.origin[id(obj)], "grad"))
        if name == "is_leaf" and real is not obj:  # not among what is guarded of each tensor
            try:
                with DisableTorchFunction():
                    was_leaf = real.is_leaf
            except RuntimeError:  # autograd refuses to tell the history of a view
                raise GraphBreak(TENSOR_HISTORY, what="is_leaf") from None
            self.world.admit(was_leaf, Attr(self.world.origin[id(obj)], "is_leaf"))
        own = getattr(real, "__dict__", None)
        if real is not obj and own and name in own:
            return self.world.admit(own[name], Item(DictOf(self.world.origin[id(obj)]), name))
        if self.type_lookup(cls, name) is not NULL:
            return getattr(obj, name)
        if real is not obj:
            self.world.guard(self.world.origin[id(obj)], "lacks_attr", name)
        raise AttributeError(f"'{cls.__name__}' object has no attribute '{name}'")

    def _module_attribute(self, module: types.ModuleType, name: str) -> Any:
        if answers_itself(type(module)):
            raise refused_object(module)
        namespace = vars(module)
        if name == "__dict__":
            return self.world.namespace_dict(namespace)
        found = self.type_lookup(type(module), name)
        if found is not NULL and is_data_descriptor(found):
            return self._bind(*find_in_class(type(module), name), module, name, ATTRIBUTE)
        try:
            return self.world.read_global(namespace, None, name)
        except KeyError:
            deleted = name in namespace
        if deleted:
            raise AttributeError(f"module '{module.__name__}' has no attribute '{name}'")
        own = type(namespace.get("__getattr__")) is types.FunctionType and not is_library(module.__name__)
        if own and found is NULL:
            return self.call(self.world.read_global(namespace, None, "__getattr__"), (name,), {}, ATTRIBUTE)
        return getattr(module, name)

    def _type_attribute(self, cls: type, name: str) -> Any:
        if name == "__dict__" and not self.is_made(cls):
            return self._class_dict(cls)
        if name == "__annotations__" and not self.is_made(cls):
            return self._annotations(cls)
        if name in OWN_OF_CLASSES:
            return getattr(cls, name)
        if name == "__class__":
            return self.type_of(cls)
        meta_owner, meta = find_in_class(type(cls), name)
        if meta is not MISSING and is_data_descriptor(meta) and isinstance(meta, property):
            return self.call(self.wrapped(type(cls), meta_owner, meta, name, "fget"), (cls,), {}, ATTRIBUTE)
        owner, found = find_in_class(cls, name)
        if found is MISSING:
            self.type_lookup(cls, name)  # so the class is one of those that were looked at
            fallback = self.class_lookup(type(cls), "__getattr__")
            if isinstance(fallback, types.FunctionType) and meta is MISSING:
                return self.call(fallback, (cls, name), {}, ATTRIBUTE)
            if isinstance(meta, types.FunctionType):
                return types.MethodType(meta, cls)
            if isinstance(meta, staticmethod):
                return self.wrapped(type(cls), meta_owner, meta, name, "__func__")
            if meta is not MISSING and not is_descriptor(meta):
                return self._admit_class_value(type(cls), meta_owner, meta, name)
            return getattr(cls, name)
        return self._bind_to_class(cls, owner, found, name)

    def _class_dict(self, cls: type) -> types.MappingProxyType[str, Any]:
        """The read-only `__dict__` of a class from outside, a new one each time; to libraries, the original."""
        if is_library(self.frames[-1].globals.get("__name__") or ""):
            return cls.__dict__
        source = DictOf(Const(id(cls), cls.__qualname__, cls))
        guarded = not is_library(cls.__module__ or "")
        made = types.MappingProxyType(self.world.admit(behind_proxy(cls.__dict__), source, guarded))
        self.world.parts[id(self.world.keep(made))] = (cls, "__dict__")
        return made

    def _annotations(self, cls: type) -> Any:
        """The annotations of a class from outside: where it has none, it gets empty ones when it is asked."""
        names = behind_proxy(cls.__dict__)
        if "__annotations__" not in names and id(names) in self.world.shadow_of:
            raise GraphBreak(CLASS_WRITE, what=f"__annotations__ of {cls.__qualname__}")
        source = Item(DictOf(Const(id(cls), cls.__qualname__, cls)), "__annotations__")
        return self.world.admit(cls.__annotations__, source, not is_library(cls.__module__ or ""))

    def _bind_to_class(self, cls: type, owner: type, found: Any, name: str) -> Any:
        """What an entry of the dictionary of `owner` gives on its subclass `cls`."""
        value = self._admit_class_value(cls, owner, found, name)
        match plain(value):
            case classmethod():
                return self._class_method(cls, owner, found, name)
            case staticmethod():
                return self.wrapped(cls, owner, found, name, "__func__")
            case types.FunctionType():
                return value
        getter = self.class_lookup(type(value), "__get__")
        if isinstance(getter, types.FunctionType):
            return self.call(getter, (value, None, cls), {}, ATTRIBUTE)
        return value if getter is MISSING else getter(value, None, cls)

    def _super_attribute(self, obj: Any, name: str) -> Any:
        start, owner, kind = obj.__thisclass__, obj.__self__, obj.__self_class__
        if name in ("__class__", "__thisclass__", "__self__", "__self_class__") or kind is None:
            return getattr(obj, name)
        mro = kind.__mro__
        for cls in mro[mro.index(start) + 1 :]:
            if name in vars(cls):
                found = vars(cls)[name]
                if owner is kind:
                    return self._bind_to_class(kind, cls, found, name)
                return self._bind(cls, found, owner, name, ATTRIBUTE)
        raise AttributeError(f"'super' object has no attribute '{name}'")

    def _function_attribute(self, function: types.FunctionType, name: str) -> Any:
        origin = self.world.origin.get(id(function))
        if name == "__globals__":
            return self.world.namespace_dict(function.__globals__)
        if (name in NAMES or name in FUNCTION_STATE) and origin is not None:
            value = getattr(function, name)
            return self.world.admit(value, Attr(origin, name), self.is_guarded_function(function))
        known = self.world.shadow_of.get(id(function.__dict__))
        if known is not None and (name in known or name in function.__dict__):
            with contextlib.suppress(KeyError):
                return self.world.lookup(known, name)
            raise AttributeError(f"'function' object has no attribute '{name}'")
        if origin is not None and name in function.__dict__:
            return self.world.admit(function.__dict__[name], Attr(origin, name), self.is_guarded_function(function))
        if origin and find_in_class(types.FunctionType, name)[0] is None and self.is_guarded_function(function):
            self.world.guard(origin, "lacks_attr", name)
        return getattr(function, name)

    def is_guarded_function(self, function: types.FunctionType) -> bool:
        """Whether what a function holds may change: always, but for what a library has defined in its modules."""
        if not is_library(function.__module__ or "") or "<locals>" in function.__qualname__:
            return True
        source = self.world.origin.get(id(function))
        while source is not None and (base := base_of(source)) is not None:
            source = base
        return isinstance(source, Arg | FreeCell)

    def _native_attribute(self, obj: Any, name: str) -> Any:
        """An attribute of an object of a native type: methods are bound natively, state is admitted."""
        if type(obj) is types.MethodType and find_in_class(types.MethodType, name)[0] is None:
            return self.getattr(obj.__func__, name)
        origin = self.world.origin.get(id(obj))
        if id(obj) in self.world.opaque:
            value = getattr(obj, name)
            if isinstance(value, types.BuiltinFunctionType | types.MethodWrapperType):
                return value
            assert origin is not None
            return self.world.admit(value, Attr(origin, name))
        attributes = self.world.attributes(obj)  # of an exception
        if attributes is not None and not is_data_descriptor(find_in_class(type(obj), name)[1]):
            with contextlib.suppress(KeyError):
                return self.world.lookup(attributes, name)
        return getattr(self.world.realize(obj) if type(obj) is types.CellType else obj, name)

    def setattr(self, obj: Any, name: str, value: Any) -> None:
        self._refuse_shared(obj, name)
        custom = self.class_lookup(type(obj), "__setattr__")
        if isinstance(custom, types.FunctionType):
            self.call(custom, (obj, name, value), {}, WRITTEN_ATTRIBUTE)
        else:
            self.generic_setattr(obj, name, value)

    def _refuse_shared(self, obj: Any, name: str) -> None:
        """Everybody sees what is written to a class, a module or a function from outside."""
        if isinstance(obj, type | types.ModuleType | types.FunctionType) and not self.was_made(obj):
            raise GraphBreak(reason_of_write(obj), what=f"{name} of {object.__getattribute__(obj, '__name__')}")

    def was_made(self, obj: Any) -> bool:
        return id(obj) in self.world.made_classes or id(obj) in self.world.made_functions

    def generic_setattr(self, obj: Any, name: str, value: Any) -> None:
        if isinstance(obj, torch.Tensor):
            if name not in ("grad", "requires_grad") and hasattr(torch.Tensor, name):
                return setattr(obj, name, value)
            raise GraphBreak(GRAD_WRITE if name in ("grad", "requires_grad") else TENSOR_ATTRIBUTE, name=name)
        self._refuse_shared(obj, name)
        owner, found = find_in_class(type(obj), name)
        match plain(found):
            case property():
                if found.fset is None:
                    raise AttributeError(f"property '{name}' of '{type(obj).__name__}' object has no setter")
                setter = self.wrapped(type(obj), owner, found, name, "fset")
                self.call(setter, (obj, value), {}, WRITTEN_ATTRIBUTE)
                return
            case types.MemberDescriptorType():
                self.world.slot_written(obj, found)
                found.__set__(obj, value)
                return
        setter = self.class_lookup(type(found), "__set__") if found is not MISSING else MISSING
        attributes = self.world.attributes(obj)
        if isinstance(setter, types.FunctionType):
            self.call(setter, (found, obj, value), {}, WRITTEN_ATTRIBUTE)
        elif setter is not MISSING or attributes is None or id(obj) in self.world.opaque:
            if self.world.is_outside(obj):
                raise GraphBreak(OBSERVABLE_WRITE, what=f"{name} of a {type(obj).__name__}")
            (type if isinstance(obj, type) else object).__setattr__(obj, name, value)
        else:
            self.world.touch(attributes)
            attributes[name] = value

    def delattr(self, obj: Any, name: str) -> None:
        custom = self.class_lookup(type(obj), "__delattr__")
        if isinstance(custom, types.FunctionType):
            self.call(custom, (obj, name), {}, WRITTEN_ATTRIBUTE)
        else:
            self.generic_delattr(obj, name)

    def generic_delattr(self, obj: Any, name: str) -> None:
        self._refuse_shared(obj, name)
        owner, found = find_in_class(type(obj), name)
        attributes = self.world.attributes(obj)
        deleter = self.class_lookup(type(found), "__delete__") if found is not MISSING else MISSING
        if isinstance(found, property) and found.fdel is not None:
            self.call(self.wrapped(type(obj), owner, found, name, "fdel"), (obj,), {}, WRITTEN_ATTRIBUTE)
        elif isinstance(deleter, types.FunctionType):
            self.call(deleter, (found, obj), {}, WRITTEN_ATTRIBUTE)
        elif attributes is not None and dict.__contains__(attributes, name):
            self.world.present(attributes, name)
            self.world.touch(attributes)
            del attributes[name]
        elif self.world.is_outside(obj):
            raise GraphBreak(OBSERVABLE_WRITE, what=f"{name} of a {type(obj).__name__}")
        else:
            (type if isinstance(obj, type) else object).__delattr__(obj, name)


#: What the class of a class tells of it, and not what the class has inherited.
OWN_OF_CLASSES = frozenset(
    """__dict__ __mro__ __bases__ __base__ __name__ __qualname__ __module__ __doc__ __annotations__ __abstractmethods__
    __text_signature__""".split()
)
#: What a class has for its instances to call.
METHODS = (types.FunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, classmethod, staticmethod)
#: What a torch.Generator has that never changes.
DEVICE = vars(torch.Generator)["device"]
#: Attributes of functions that a program may change.
FUNCTION_STATE = frozenset("__closure__ __defaults__ __kwdefaults__ __dict__ __annotations__".split())
#: What functions of one code may be called.
NAMES = frozenset({"__name__", "__qualname__", "__doc__", "__module__"})


def find_in_class(cls: type, name: str) -> tuple[Any, Any]:
    """The class of the MRO that has the attribute, and its raw value; (None, MISSING) when there is none."""
    for kind in cls.__mro__:
        if name in kind.__dict__:
            return kind, kind.__dict__[name]
    return None, MISSING
