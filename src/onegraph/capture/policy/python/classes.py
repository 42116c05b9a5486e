"""What class a value is of: `isinstance`, `issubclass`, abstract classes and protocols."""

from __future__ import annotations

import _abc
import abc
import builtins
import types
import typing
from typing import Any

import torch

from onegraph import _C
from onegraph.capture import breaks as b
from onegraph.capture.calls.registry import breaks, native, policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.guards.source import NOWHERE
from onegraph.capture.policy.python.iteration import StandIn
from onegraph.capture.pyobject.exact_types import answers_itself, isinstance
from onegraph.torchlib.arrays.array import Array


def asked_abstract(tracer: Tracing, cls: type, abstract: type) -> bool:
    """Whether a class is one of an abstract class, which may be registered with it later."""
    answer = issubclass(cls, abstract)
    tracer.abstract_answers.note(cls, abstract, answer)
    tracer.world.guard(NOWHERE, "check", tracer.abstract_answers)
    return answer


@policy(_abc._abc_instancecheck)
def instance_check(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    abstract, value = args
    return asked_abstract(tracer, tracer.type_of(value), abstract)


@policy(_abc._abc_subclasscheck)
def subclass_check(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    abstract, cls = args
    return asked_abstract(tracer, cls, abstract)


breaks(b.CLASS_WRITE, _abc._abc_register, _abc._reset_registry, _abc._reset_caches)


def check_of(kinds: Any, name: str) -> types.FunctionType | None:
    """The function of the program or of `typing` that answers for a class of such a metaclass, if there is one."""
    hook = getattr(type(kinds), name, None)
    if not isinstance(hook, types.FunctionType) or hook.__module__.startswith("torch."):
        return None
    return hook


def kinds_in(kinds: Any) -> tuple[Any, ...] | None:
    """The classes of a tuple or a union of them."""
    if isinstance(kinds, tuple):
        return kinds
    union = isinstance(kinds, types.UnionType) or typing.get_origin(kinds) is typing.Union
    return typing.get_args(kinds) if union else None


def bare(kinds: Any) -> Any:
    """The class that an alias of `typing` without arguments stands for (`typing.Iterable`)."""
    alias = not isinstance(kinds, type) and typing.get_origin(kinds) is not None and not typing.get_args(kinds)
    return typing.get_origin(kinds) if alias else kinds


@policy(builtins.issubclass)
def issubclass_(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    cls, kinds = args[0], bare(args[1])
    several = kinds_in(kinds)
    if several is not None:
        return any(issubclass_(tracer, (cls, kind), {}) for kind in several)
    hook = check_of(kinds, "__subclasscheck__")
    if hook is None or not isinstance(cls, type):
        return bool(tracer.run_native(issubclass, args, kwargs))
    if hook is abc.ABCMeta.__subclasscheck__:
        return asked_abstract(tracer, cls, kinds)
    return bool(tracer.truth(tracer.call(hook, (kinds, cls), {})))


@policy(builtins.isinstance)
def isinstance_(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    value, kinds = args[0], bare(args[1])
    if isinstance(value, StandIn | Array):
        return issubclass(value.kind, kinds)
    several = kinds_in(kinds)
    if several is not None:
        return any(isinstance_(tracer, (value, kind), {}) for kind in several)
    hook = check_of(kinds, "__instancecheck__")
    if hook is abc.ABCMeta.__instancecheck__:
        return asked_abstract(tracer, tracer.type_of(value), kinds)
    if hook is not None:
        return bool(tracer.truth(tracer.call(hook, (kinds, value), {})))
    if isinstance(value, torch.Tensor):
        return tensor_is(tracer, value, kinds)
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return builtins.isinstance(tracer.type_of(value)(), kinds)
    if not answers_itself(type(value)):
        return builtins.isinstance(value, kinds)
    return bool(tracer.natively(builtins.isinstance, value, kinds))


@policy(_C.is_of)
def is_of(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """What functions of ours ask that finish an instruction behind a break, and are traced."""
    value, kinds = args
    return issubclass(tracer.type_of(value), kinds)


native("identity", _C.answers_itself, _C.look_up)


def tensor_is(tracer: Tracing, value: torch.Tensor, kinds: Any) -> bool:
    """isinstance of a fake tensor: answered for the type that the program would see."""
    shown = tracer.type_of(value)
    if kinds is torch.nn.Parameter:
        return builtins.isinstance(value, torch.nn.Parameter)
    if kinds is torch.nn.Buffer:  # an attribute, by which other tensors of this kind are told apart
        return has_attribute(tracer, value, "_is_buffer") and builtins.isinstance(value, torch.nn.Buffer)
    if isinstance(kinds, type) and issubclass(kinds, torch.Tensor) and type(kinds) is type(torch.Tensor):
        return issubclass(shown, kinds)
    return builtins.isinstance(value, kinds)


def has_attribute(tracer: Tracing, value: Any, name: str) -> bool:
    try:
        tracer.getattr(value, name)
    except AttributeError:
        return False
    return True
