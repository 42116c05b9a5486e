"""Attributes of tensors: what torch has of them, what the program has set on them, and what their class has."""

from __future__ import annotations

import contextlib
import types
from typing import Any, Protocol

import torch

from onegraph.capture.breaks import SUBCLASS_ATTRIBUTE, TENSOR_ATTRIBUTE, TENSOR_HISTORY, TENSOR_MEMORY, GraphBreak
from onegraph.capture.bytecode.frame import NULL
from onegraph.capture.guards.source import Attr, DictOf, Item
from onegraph.capture.pyobject.contents import holds
from onegraph.capture.pyobject.exact_types import defined, defines, is_data_descriptor, isinstance
from onegraph.torchlib.private import DisableTorchFunction


class Asked(Protocol):
    """What is asked of the tracer."""

    world: Any
    recorder: Any
    type_lookup: Any

    def type_of(self, obj: Any) -> type: ...


#: The functions that ask a tensor for these, and whose policies know how.
SPECIAL_OF_TENSORS: dict[str, Any] = {f"__{kind.__name__}__": kind for kind in (repr, str, format, hash, dir)}
#: What the plain tensor that a handle stands for does not know of the real one.
HIDDEN_OF_HANDLES = frozenset("grad _grad grad_fn is_leaf _base _version __getstate__ __sizeof__ __reduce_ex__".split())


def handle_attribute(tracer: Asked, obj: torch.Tensor, name: str) -> Any:
    """An attribute of a tensor of a subclass: what torch has defined, the recorder or the class is asked for.

    NULL of what the program has defined, which is read as that of any other object.
    """
    if name in HIDDEN_OF_HANDLES:
        raise GraphBreak(SUBCLASS_ATTRIBUTE, name=name, cls=type(obj).__qualname__)
    if name in SPECIAL_OF_TENSORS:
        return types.MethodType(SPECIAL_OF_TENSORS[name], obj)
    if defined(type(obj), name) is defined(torch.Tensor, name) and name not in ("__class__", "__dict__"):
        if defines(type(obj), name):
            return getattr(obj, name)
    return NULL


def wrapper_attribute(tracer: Asked, obj: torch.Tensor, name: str) -> Any:
    """An attribute of a wrapper: a part, what torch has defined, or what it was given by the program.

    NULL of what the class has beside it, which is read as that of any other object.
    """
    if (known := of_history(tracer, obj, name)) is not NULL:
        return known
    real = tracer.world.real(obj)
    if name == "is_leaf" and real is not obj and obj.requires_grad == real.requires_grad:
        return admit_is_leaf(tracer, obj, real)
    if name in HIDDEN_OF_HANDLES or name == "__dict__":
        raise GraphBreak(SUBCLASS_ATTRIBUTE, name=name, cls=type(obj).__qualname__)
    if name in SPECIAL_OF_TENSORS:
        return types.MethodType(SPECIAL_OF_TENSORS[name], obj)
    if name == "__class__":
        return type(obj)
    own = vars(obj)
    if isinstance(own.get(name), torch.Tensor):
        return tracer.recorder.part(obj, name)
    if defines(type(obj), name):
        return getattr(obj, name) if defined(type(obj), name) is defined(torch.Tensor, name) else NULL
    real = tracer.world.real(obj)
    if real is not obj and name in vars(real):
        return tracer.world.admit(vars(real)[name], Item(DictOf(tracer.world.origin[id(obj)]), name))
    if name in own and not holds(own[name], lambda each: isinstance(each, torch.Tensor)):
        return own[name]
    raise GraphBreak(SUBCLASS_ATTRIBUTE, name=name, cls=type(obj).__qualname__)


def of_history(tracer: Asked, obj: torch.Tensor, name: str) -> Any:
    """What autograd has of a tensor: what the program has set, or the gradient that one from outside has. Or NULL."""
    if (known := tracer.world.gradients.read(obj, name)) is not NULL:
        return known
    real = tracer.world.real(obj)
    if name not in ("grad", "_grad") or real is obj:
        return NULL
    with DisableTorchFunction():
        gradient = real.grad
    return tracer.world.admit(gradient, Attr(tracer.world.origin[id(obj)], "grad"))


def admit_is_leaf(tracer: Asked, obj: torch.Tensor, real: torch.Tensor) -> bool:
    """Whether a tensor from outside was a leaf."""
    try:
        with DisableTorchFunction():
            was_leaf = real.is_leaf
    except RuntimeError:  # autograd refuses to tell the history of a view
        raise GraphBreak(TENSOR_HISTORY, what="is_leaf") from None
    return bool(tracer.world.admit(was_leaf, Attr(tracer.world.origin[id(obj)], "is_leaf")))


def tensor_attribute(tracer: Asked, obj: torch.Tensor, name: str) -> Any:
    """An attribute of a plain tensor."""
    if name == "__class__":
        return tracer.type_of(obj)
    if name in SPECIAL_OF_TENSORS:  # those of the fake tell of the fake
        return types.MethodType(SPECIAL_OF_TENSORS[name], obj)
    cls = tracer.type_of(obj)
    method = vars(torch.nn.Parameter).get(name) if cls is torch.nn.Parameter else None
    if isinstance(method, types.FunctionType):
        return types.MethodType(method, obj)
    if name == "__dict__":
        return names_of_tensor(tracer, obj, name)
    if name in ("__getstate__", "__sizeof__"):
        raise GraphBreak(TENSOR_MEMORY, what=f"Tensor.{name}")
    if (known := of_history(tracer, obj, name)) is not NULL:
        return known
    real = tracer.world.real(obj)
    if name == "is_leaf" and real is not obj:  # not among what is guarded of each tensor
        admit_is_leaf(tracer, obj, real)
    if is_field(cls, name):
        return getattr(obj, name)
    own = getattr(real, "__dict__", None)
    known = tracer.world.shadow_of.get(id(own))
    if real is obj and name in tracer.world.tensor_names.get(id(obj), ()):
        return tracer.world.tensor_names[id(obj)][name]
    if known is not None:
        with contextlib.suppress(KeyError):
            return tracer.world.lookup(known, name)
    elif real is not obj and own and name in own:
        return tracer.world.admit(own[name], Item(DictOf(tracer.world.origin[id(obj)]), name))
    if tracer.type_lookup(cls, name) is not NULL:
        return getattr(obj, name)
    if known is None and real is not obj:
        tracer.world.guard(tracer.world.origin[id(obj)], "lacks_attr", name)
    raise AttributeError(f"'{cls.__name__}' object has no attribute '{name}'")


def is_field(cls: type, name: str) -> bool:
    """Whether the class answers for the name, whatever an instance has under it."""
    return defines(cls, name) and is_data_descriptor(defined(cls, name))


def names_of_tensor(tracer: Asked, obj: torch.Tensor, name: str) -> dict[str, Any]:
    """What a tensor from outside has in Python. What the fake of one that the graph makes has is our own."""
    real = tracer.world.real(obj)
    if real is obj:
        raise GraphBreak(TENSOR_ATTRIBUTE, name=name)
    names: dict[str, Any] = tracer.world.admit(real.__dict__, DictOf(tracer.world.origin[id(obj)]))
    return names


def names_of_made(tracer: Asked, obj: torch.Tensor) -> dict[str, Any]:
    """What the program has set on a tensor that the graph makes."""
    names: dict[str, Any] = tracer.world.tensor_names.setdefault(id(tracer.world.keep(obj)), {})
    return names
