"""Attributes over the shadow world: Python's own lookup protocol, reading shadows lazily and guarding what was used."""

from __future__ import annotations

import builtins
import enum
import types
from typing import Any

import torch

from onegraph.capture.breaks import (
    CLASS_WRITE,
    GRAD_WRITE,
    OBSERVABLE_WRITE,
    SUBCLASS_ATTRIBUTE,
    GraphBreak,
)
from onegraph.capture.breaks.hints import reason_of_write, refused_object
from onegraph.capture.bytecode.frame import NULL
from onegraph.capture.calls.libraries import is_library
from onegraph.capture.guards.source import Arg, Attr, Const, DictOf, FreeCell, Item, base_of, member_at
from onegraph.capture.heap.class_facts import ANNOTATIONS, counts
from onegraph.capture.heap.subclass_tensors import is_handle
from onegraph.capture.heap.tensor_attributes import (
    handle_attribute,
    is_field,
    names_of_made,
    names_of_tensor,
    tensor_attribute,
    wrapper_attribute,
)
from onegraph.capture.heap.thread_locals import is_thread_local, read_of_thread, write_of_thread
from onegraph.capture.heap.world import World
from onegraph.capture.interp.lookup import Entry, find_in_class
from onegraph.capture.interp.machine import Machine
from onegraph.capture.interp.rests import Rest
from onegraph.capture.pyobject.exact_types import (
    answers_itself,
    defined,
    defines,
    dict_of,
    is_descriptor,
    isinstance,
    mro_of,
)
from onegraph.capture.pyobject.layout import HEAP_TYPE, behind_proxy, instance_dict
from onegraph.capture.pyobject.native_members import KEYWORDS_OF, TRACEBACK_OF, wrapped_member
from onegraph.capture.pyobject.special_methods import is_stateful
from onegraph.torchlib.aten import OpOverload, OpOverloadPacket
from onegraph.torchlib.wrappers import is_wrapper

#: Kinds whose objects are used as they are: their attributes too, with what they remember of them.
SHARED = (enum.Enum, OpOverload, OpOverloadPacket, torch.library.CustomOpDef)  # type: ignore[attr-defined]


class Attributes(Machine):
    """The part of the tracer that reads and writes attributes."""

    world: World
    recorder: Any

    def type_of(self, obj: Any) -> type:
        """type(obj) as the program sees it: a fake tensor has the type of the tensor that it stands for."""
        if isinstance(obj, torch.Tensor):
            real = self.world.real(obj)
            if real is not obj:
                return type(real)
            if is_handle(obj) or is_wrapper(obj):
                return type(obj)
            return torch.nn.Parameter if builtins.isinstance(obj, torch.nn.Parameter) else torch.Tensor
        if isinstance(obj, torch.SymInt):
            return int
        if isinstance(obj, torch.SymFloat):
            return float
        if isinstance(obj, torch.SymBool):
            return bool
        return type(obj)

    def read_attribute(self, obj: Any, name: str) -> Any:
        if isinstance(obj, torch.Tensor):
            if is_wrapper(obj):
                known = wrapper_attribute(self, obj, name)
            elif is_handle(obj):
                known = handle_attribute(self, obj, name)
            else:
                return tensor_attribute(self, obj, name)
            return super().read_attribute(obj, name) if known is NULL else known
        if isinstance(obj, SHARED):
            return self._shared_attribute(obj, name)
        if id(obj) in self.world.opaque and is_thread_local(obj):
            return read_of_thread(self, obj, name)
        if isinstance(obj, types.ModuleType) and answers_itself(type(obj)):
            raise refused_object(obj)
        return super().read_attribute(obj, name)

    def _shared_attribute(self, obj: Any, name: str) -> Any:
        """An attribute of an object that is used as it is. What a member of an enumeration holds may be changed."""
        value, own = getattr(obj, name), instance_dict(obj) if isinstance(obj, enum.Enum) else None
        is_own = defined(type(obj), name) is vars(enum.Enum).get(name, NULL)
        held = f"_{name}_" if is_own else name
        if own is None or held not in own:
            return value
        return self.world.admit(value, Item(DictOf(self.world.origin.get(id(obj), Const(id(obj), name, obj))), held))

    def traceback_of(self, exception: BaseException) -> types.TracebackType | None:
        """Of an exception from outside the traceback that it came with, of which nothing is known."""
        real = self.world.real(exception)
        if real is exception:
            return TRACEBACK_OF(exception)
        if TRACEBACK_OF(real) is None:
            self.world.guard(member_at(self.world.origin[id(exception)], type(real), TRACEBACK_OF), "is", None)
            return TRACEBACK_OF(exception)
        if TRACEBACK_OF(exception) is not None:  # it was raised again: its entries are of both kinds
            raise refused_object(real)
        source = self.world.origin[id(exception)]
        admitted: types.TracebackType = self.world.admit(
            TRACEBACK_OF(real), member_at(source, type(real), TRACEBACK_OF)
        )
        return admitted

    def generic_getattr(self, obj: Any, name: str, rest: Rest | None = None) -> Any:
        if id(obj) in self.world.opaque:
            if not flags_of(type(obj)) & HEAP_TYPE:
                return self.read_natively(obj, name)
            self._refuse_hidden(obj, name)
        return super().generic_getattr(obj, name, rest)

    def _refuse_hidden(self, obj: Any, name: str) -> None:
        """Of an opaque object only the methods of its class are known; its instance dictionary must not hide them."""
        own, found = getattr(obj, "__dict__", None), defined(type(obj), name)
        if found is CLASS:
            return
        if not (isinstance(found, METHODS) or found is DEVICE) or (type(own) is dict and name in own):
            self.world.refuse_opaque(obj)
        if type(own) is dict:
            self.world.guard(DictOf(self.world.origin[id(obj)]), "lacks", name)

    def type_getattr(self, cls: type, name: str, rest: Rest | None = None) -> Any:
        if name == "__dict__" and not self.is_made(cls):
            return self._class_dict(cls)
        if name == "__annotations__" and not self.is_made(cls):
            return self._annotations(cls)
        if name in OWN_OF_CLASSES:
            return getattr(cls, name)
        if not defines(cls, name):
            self.type_lookup(cls, name)  # so the class is one of those that were looked at
        return super().type_getattr(cls, name, rest)

    def super_getattr(self, obj: Any, name: str, rest: Rest | None = None) -> Any:
        self.world.refuse_opaque(obj)
        return super().super_getattr(obj, name, rest)

    def class_value(self, found: Entry) -> Any:
        """Functions of a library are guarded with their classes."""
        owner = self._owner(found)
        if self.is_made(owner):
            return found.value
        if self.world.written_in_class(owner, found.name):
            return self.world.namespaces[id(owner)].written[found.name]
        guarded = not (is_library(owner.__module__ or "") and counts(found.name, found.value))
        value = self.world.admit(found.value, Item(names_of_class(owner), found.name), guarded)
        self.world.class_values[id(owner), found.name] = value
        return value

    def wrapped(self, found: Entry, part: str) -> Any:
        """An object that is wrapped has its shadow."""
        member, holder = wrapped_member(found.value, part), self.class_value(found)
        value = member(found.value)
        source = self.world.origin.get(id(holder))
        if source is None:  # the class was made by the program
            return value
        place = member_at(source, type(found.value), member)
        if type(value) is types.FunctionType:
            self.world.found_at[id(value)] = place
            return value
        return self.world.admit(value, place, not is_library(self._owner(found).__module__ or ""))

    def _owner(self, found: Entry) -> type:
        """The class that has the entry. Those before it do not have the name. (`super()` passes over some that do.)"""
        is_asked = found.behind is None
        for kind in mro_of(found.cls):
            if found.name in dict_of(kind) or self.world.written_in_class(kind, found.name):
                if is_asked:
                    return kind
            elif not is_library(kind.__module__ or "") and not self.is_made(kind):
                self.world.guard(names_of_class(kind), "lacks", found.name)
            is_asked = is_asked or kind is found.behind
        raise AssertionError(f"{found.name} has left its class")

    def is_made(self, cls: type) -> bool:
        """Whether the traced program itself made the class."""
        return id(cls) in self.world.made_classes

    def own_value(self, obj: Any, name: str) -> Any:
        if not dictoffset_of(type(obj)):
            return NULL
        try:
            if isinstance(obj, types.ModuleType):
                imports = name == "__getattr__" and is_library(obj.__name__)  # with code that is not looked at
                return NULL if imports else self.world.read_global(vars(obj), None, name)
            if type(obj) is types.FunctionType:
                return self._own_of_function(obj, name)
            attributes = self.world.attributes(obj)
            if attributes is not None:
                return self.world.lookup(attributes, name)
            return self._own_of_shared(obj, name) if flags_of(type(obj)) & HEAP_TYPE else super().own_value(obj, name)
        except KeyError:
            return NULL

    def _own_of_shared(self, obj: Any, name: str) -> Any:
        """What an object that is used as it is has in its instance dictionary: a form of `typing`, a kernel."""
        own = instance_dict(obj)
        if own is None or isinstance(obj, type) or id(obj) in self.world.opaque or not self.world.is_pinned(obj):
            return NULL
        place = Item(DictOf(self.world.origin[id(obj)]), name)
        return self.world.admit(own[name], place, not is_library(type(obj).__module__ or ""))

    def _own_of_function(self, function: types.FunctionType, name: str) -> Any:
        origin = self.world.origin.get(id(function))
        own = function.__dict__
        known = self.world.shadow_of.get(id(own))
        if known is not None and (name in known or name in own):
            return self.world.lookup(known, name)
        if name in own:
            return self._of_function(function, name, own[name])
        if origin is not None and not defines(types.FunctionType, name) and self.is_guarded_function(function):
            self.world.guard(origin, "lacks_attr", name)
        return NULL

    def _of_function(self, function: types.FunctionType, name: str, value: Any) -> Any:
        """What a function has, which may be one from outside."""
        origin = self.world.origin.get(id(function))
        if origin is None:
            return value
        return self.world.admit(value, Attr(origin, name), self.is_guarded_function(function))

    def read_descriptor(self, found: Entry, obj: Any) -> Any:
        if obj is None:
            return self.class_value(found).__get__(None, found.cls)
        if type(found.value) in FIELDS:
            return self._field(found, obj)
        return found.value.__get__(obj, found.cls)

    def _field(self, found: Entry, obj: Any) -> Any:
        """What a native object, or a slot, holds. (That of a shadow is filled when it is first read.)"""
        name, field = found.name, found.value
        if isinstance(obj, types.FunctionType):
            return self._field_of_function(obj, name)
        if field is CLASS:
            return self.type_of(obj)
        if name == "__dict__":
            return self._instance_dict(obj, field)
        if name == "__traceback__" and isinstance(obj, BaseException):
            return self.traceback_of(obj)
        if type(field) is types.MemberDescriptorType:
            if self.world.real(obj) is not obj:
                self.world.fill_slot(obj, field, name)
        elif flags_of(type(obj)) & HEAP_TYPE or type(obj) is types.CellType:
            self.world.realize(obj)
        value = field.__get__(obj, type(obj))
        if field is KEYWORDS_OF.descriptor:
            self.world.parts.setdefault(id(value), (obj, name))
        return value

    def _field_of_function(self, function: types.FunctionType, name: str) -> Any:
        if name == "__globals__":
            return self.world.namespace_dict(function.__globals__)
        value = getattr(function, name)
        return self._of_function(function, name, value) if name in NAMES or name in FUNCTION_STATE else value

    def _instance_dict(self, obj: Any, field: Any) -> dict[str, Any]:
        if isinstance(obj, types.ModuleType):
            return self.world.namespace_dict(vars(obj))
        attributes = self.world.attributes(obj)
        if attributes is None:
            attributes = field.__get__(obj, type(obj))
        self.world.parts.setdefault(id(attributes), (obj, "__dict__"))
        return attributes

    def read_natively(self, obj: Any, name: str) -> Any:
        """Methods are bound natively, state is admitted. A library may import what it is asked for."""
        if isinstance(obj, types.ModuleType):
            if is_library(obj.__name__):
                return getattr(obj, name)
            if name in vars(obj):  # the program has deleted it
                raise AttributeError(f"module '{obj.__name__}' has no attribute '{name}'")
        elif isinstance(obj, type):
            return self.type_getattr(obj, name)
        elif flags_of(type(obj)) & HEAP_TYPE:
            return self.generic_getattr(obj, name)
        value = super().read_natively(obj, name)
        if id(obj) not in self.world.opaque or isinstance(value, types.BuiltinFunctionType | types.MethodWrapperType):
            return value
        return self.world.admit(value, Attr(self.world.origin[id(obj)], name))

    def special_value(self, found: Any) -> Any:
        if is_stateful(found):
            raise refused_object(found)
        return found

    def _class_dict(self, cls: type) -> types.MappingProxyType[str, Any]:
        """The read-only `__dict__` of a class from outside, a new one each time."""
        if id(cls) in self.world.namespaces:
            raise GraphBreak(CLASS_WRITE, what=f"the names of {cls.__qualname__}")
        source = names_of_class(cls)
        asked_by_library = is_library(self.frames[-1].globals.get("__name__") or "")
        guarded = not asked_by_library and not is_library(cls.__module__ or "")
        made = types.MappingProxyType(self.world.admit(behind_proxy(cls.__dict__), source, guarded))
        self.world.parts[id(self.world.keep(made))] = (cls, "__dict__")
        return made

    def _annotations(self, cls: type) -> Any:
        """The annotations of a class from outside: where it has none, it gets empty ones when it is asked."""
        names = behind_proxy(cls.__dict__)
        if id(names) in self.world.shadow_of and not any(name in names for name in ANNOTATIONS):
            raise GraphBreak(CLASS_WRITE, what=f"__annotations__ of {cls.__qualname__}")
        annotations = cls.__annotations__
        name = next((name for name in ANNOTATIONS if names.get(name) is annotations), "__annotations__")
        return self.world.admit(annotations, Item(names_of_class(cls), name), not is_library(cls.__module__ or ""))

    def is_guarded_function(self, function: types.FunctionType) -> bool:
        """Whether what a function holds may change: always, but for what a library has defined in its modules."""
        if not is_library(function.__module__ or "") or "<locals>" in function.__qualname__:
            return True
        source = self.world.origin.get(id(function))
        while source is not None and (base := base_of(source)) is not None:
            source = base
        return isinstance(source, Arg | FreeCell)

    def write_attribute(self, obj: Any, name: str, *value: Any) -> None:
        if isinstance(obj, type) and value and self._is_data(obj, name, value[0]):
            return self.world.write_to_class(obj, names_of_class(obj), name, value[0])
        if type(obj) is types.ModuleType and value and not (name.startswith("__") or is_library(obj.__name__)):
            return self.world.write_global(vars(obj), name, value[0])
        self._refuse_shared(obj, name)
        if id(obj) in self.world.opaque and is_thread_local(obj):
            return write_of_thread(self, obj, name, *value)
        super().write_attribute(obj, name, *value)

    def _is_data(self, cls: type, name: str, value: Any) -> bool:
        """Whether a class of the program has data under a name, which nothing but code of the program looks at."""
        found = None if name.startswith("__") else find_in_class(cls, name)
        return (
            found is not None
            and not self.is_made(cls)
            and not is_library(cls.__module__ or "")
            and id(behind_proxy(cls.__dict__)) not in self.world.shadow_of
            and flags_of(cls) & HEAP_TYPE != 0
            and flags_of(cls) & IMMUTABLE == 0
            and self.type_lookup(type(cls), "__setattr__") is type.__setattr__
            and find_in_class(type(cls), name) is None
            and not any(isinstance(each, type) or is_descriptor(each) for each in (found.value, value))
        )

    def _write_name(self, names: dict[str, Any], alike: Any, name: str, *value: Any) -> None:
        """Set an attribute, or without a value delete it, in the dict that holds those of an object.

        `alike` is one of a class with the same name that has none: it raises what the object would.
        """
        if value:
            self.world.touch(names)
            names[name] = value[0]
        elif self.world.present(names, name):
            self.world.touch(names)
            del names[name]
        else:
            delattr(alike, name)

    def _refuse_shared(self, obj: Any, name: str) -> None:
        """Everybody sees what is written to a class, a module or a function from outside."""
        shared = isinstance(obj, type | types.ModuleType | types.FunctionType) and not self.was_made(obj)
        if shared and not (isinstance(obj, types.ModuleType) and hasattr(defined(type(obj), name), "__set__")):
            raise GraphBreak(reason_of_write(obj), what=f"{name} of {object.__getattribute__(obj, '__name__')}")

    def was_made(self, obj: Any) -> bool:
        return id(obj) in self.world.made_classes or id(obj) in self.world.made_functions

    def write_generic(self, obj: Any, name: str, *value: Any) -> None:
        self._refuse_shared(obj, name)
        if not isinstance(obj, torch.Tensor):
            return super().write_generic(obj, name, *value)
        is_gradient = name == "grad" and bool(value) and is_wrapper(obj) and self.world.real(obj) is not obj
        if not is_gradient and (is_handle(obj) or is_wrapper(obj)):
            if defines(torch.Tensor, name) or is_wrapper(obj):
                raise GraphBreak(SUBCLASS_ATTRIBUTE, name=name, cls=type(obj).__qualname__)
            return super().write_generic(obj, name, *value)
        of_class = is_field(cls := self.type_of(obj), name)
        if name == "grad" and value:
            self.world.gradients[obj] = value[0]
        elif name == "requires_grad" and value and isinstance(value[0], bool) and self.getattr(obj, "is_leaf"):
            self.call(torch.Tensor.requires_grad_, (obj, value[0]), {})
        elif name in ("grad", "requires_grad") or (of_class and not value):
            raise GraphBreak(GRAD_WRITE, name=name)
        elif of_class:
            setattr(obj, name, *value)
        else:
            alike = type(cls.__name__, (), {})()
            made = self.world.real(obj) is obj
            names = names_of_made(self, obj) if made else names_of_tensor(self, obj, name)
            self._write_name(names, alike, name, *value)

    def write_descriptor(self, found: Entry, obj: Any, *value: Any) -> None:
        if type(found.value) is types.MemberDescriptorType:
            if self.world.real(obj) is not obj and not value:
                self.world.fill_slot(obj, found.value, found.name)
            super().write_natively(obj, found.name, *value)
            self.world.slot_written(obj, found.value)
        else:
            self._write_for_real(obj, found.name, *value)

    def write_natively(self, obj: Any, name: str, *value: Any) -> None:
        attributes = None if id(obj) in self.world.opaque else self.world.attributes(obj)
        if attributes is not None and (value or dict.__contains__(attributes, name)):
            if value:
                self.world.touch(attributes)
                attributes[name] = value[0]
            else:
                self.world.present(attributes, name)
                self.world.touch(attributes)
                del attributes[name]
        else:
            self._write_for_real(obj, name, *value)

    def _write_for_real(self, obj: Any, name: str, *value: Any) -> None:
        if self.world.is_outside(obj):
            raise GraphBreak(OBSERVABLE_WRITE, what=f"{name} of a {type(obj).__name__}")
        super().write_natively(obj, name, *value)


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
#: Native descriptors of what an object holds.
FIELDS = frozenset({types.GetSetDescriptorType, types.MemberDescriptorType})
#: What an object says of its class.
CLASS = vars(object)["__class__"]
#: The flag of classes that cannot be written to.
IMMUTABLE = 1 << 8
# Read without asking the class of the class.
flags_of = vars(type)["__flags__"].__get__
dictoffset_of = vars(type)["__dictoffset__"].__get__


def names_of_class(cls: type) -> DictOf:
    """The source of what a class has."""
    return DictOf(Const(id(cls), cls.__qualname__, cls))
