"""Torch functions that the program takes over: `__torch_function__` of its classes, and its modes.

The protocol is torch's (`torch.overrides`): the innermost mode is asked first, while it is out of the way, then the
classes of the arguments, each in its turn, until one does not answer NotImplemented. What they run is interpreted, and
ends at plain tensors, of which the graph is made.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Sequence
from types import FunctionType, MethodWrapperType
from typing import Any

import torch
from torch.overrides import get_default_nowrap_functions, get_overridable_functions, resolve_name

from onegraph.capture import breaks as b
from onegraph.capture.breaks import GraphBreak
from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.heap.native_calls import is_torch
from onegraph.capture.heap.subclass_tensors import is_transparent
from onegraph.capture.pyobject.exact_types import isinstance, plain
from onegraph.torchlib.private import (
    TRANSFORMS,
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    FakeTensor,
    is_torch_function_enabled,
    make_dual,
    unpack_dual,
)

_alias = torch.ops.aten.alias.default
_GRAD = inspect.signature(torch.autograd.grad)


def overridden(tracer: Tracing, func: Any, types: Sequence[type], args: Any, kwargs: Any) -> Any:
    """What the program makes of a call of a torch function: its innermost mode, or else the classes of the arguments.

    Raises:
        TypeError: all of them answer NotImplemented.
    """
    asked = list(zip(types, owners(types, (args, kwargs)), strict=True))
    kinds = tuple(tracer.type_of(owner) if kind is FakeTensor else kind for kind, owner in asked)
    given = (func, kinds, args) if kwargs is None else (func, kinds, args, kwargs)
    modes = tracer.recorder.modes
    if modes:
        mode = modes.pop()
        try:
            return tracer.call(tracer.getattr(mode, "__torch_function__"), given, {})
        finally:
            modes.append(mode)
    for _, owner in asked:
        result = tracer.call(tracer.getattr(owner, "__torch_function__"), given, {})
        if result is not NotImplemented:
            return result
    asked_in_vain = "".join(f"  - tensor subclass {kind!r}\n" for kind in kinds)
    raise TypeError(
        f"Multiple dispatch failed for '{resolve_name(func)}'; all __torch_function__ handlers returned "
        f"NotImplemented:\n\n{asked_in_vain}\nFor more information, try re-running with TORCH_LOGS=not_implemented"
    )


def owners(types: Sequence[type], value: Any) -> Iterator[Any]:
    """The first argument of each of the classes, in their order, which is that in which torch asks them."""
    leaves = list(leaves_of(value))
    return (next(leaf for leaf in leaves if type(leaf) is kind) for kind in types)


def leaves_of(value: Any) -> Iterator[Any]:
    match plain(value):
        case tuple() | list():
            for item in value:
                yield from leaves_of(item)
        case dict():
            yield from leaves_of(list(value.values()))
        case _:
            yield value


def taken_over(tracer: Tracing, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What becomes of a call of a native function that has a handler; NotImplemented if that is all there is to it."""
    recorder = tracer.recorder
    is_asked, is_dual = is_overridable(function), any(function is each for each in (make_dual, unpack_dual))
    if not (is_asked or is_dual or forgets_classes(function)):
        return NotImplemented  # arguments of others may be anything: an import is given all globals of its module
    handles = recorder.handles.among((args, kwargs))
    if not handles and not recorder.modes:
        return NotImplemented
    if handles and is_dual:
        name = f"forward_ad.{function.__name__.lstrip('_')}"
        raise GraphBreak(b.GRADIENT_CALL, name=name, what=name, why="on a tensor of a subclass")
    if handles and forgets_classes(function):
        result = tracer.call(function, recorder.handles.without(args), recorder.handles.without(kwargs))
        return recorder.handles.given_back(result, handles)
    if not is_asked:
        return NotImplemented
    asked = recorder.handles.among(asked_of(function, args, kwargs))
    types = list(dict.fromkeys(map(type, asked))) if is_torch_function_enabled() else []
    if types or recorder.modes:
        return overridden(tracer, function, types, args, kwargs)
    if not handles:
        return NotImplemented
    result = tracer.call(function, recorder.handles.without(args), recorder.handles.without(kwargs))
    return recorder.handles.given_back(result, handles)


def asked_of(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The arguments whose classes a function asks. What gradients are multiplied by has none for autograd."""
    if function is torch.Tensor.backward:
        return args[:1]
    if function is not torch.autograd.grad:
        return args, kwargs
    given = _GRAD.bind(*args, **kwargs).arguments
    return given["outputs"], given["inputs"]


def is_overridable(function: Any) -> bool:
    """Whether torch asks the classes of the arguments of a function."""
    match plain(function):
        case FunctionType():
            return any(name.startswith("has_torch_function") for name in function.__code__.co_names)
        case MethodWrapperType():
            return is_torch(function)
    return id(function) in overridable()


@functools.cache
def overridable() -> dict[int, Any]:
    """The native functions of torch that ask classes, by their identity."""
    return {id(function): function for group in get_overridable_functions().values() for function in group}


def forgets_classes(function: Any) -> bool:
    """Whether what a function makes of a tensor of a subclass is a plain tensor: levels of transforms are such."""
    module = None if function is TRANSFORMS.gradients else getattr(function, "__module__", None)
    return isinstance(module, str) and module.startswith(("torch._functorch.", "torch._C._functorch"))


@policy(vars(torch.Tensor)["__torch_function__"].__func__)
def default_function(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """That of `torch.Tensor`: the function itself, whose tensors become ones of the class."""
    cls, func, types, given, *rest = args
    named = rest[0] if rest else kwargs.get("kwargs")
    types = tracer.world.realize(types)
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = tracer.call(func, tuple(tracer.world.realize(given)), dict(tracer.world.realize(named or {})))
    return result if func in get_default_nowrap_functions() else converted(tracer, result, cls)


def converted(tracer: Tracing, result: Any, cls: type) -> Any:
    """A result with its tensors as ones of a class."""
    if cls is torch.Tensor:
        return result
    match plain(result):
        case torch.Tensor():
            return result if issubclass(tracer.type_of(result), cls) else of_class(tracer, result, cls)
        case tuple() | list():
            items = [converted(tracer, item, cls) for item in result]
            return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
    return result


@policy(torch.Tensor.as_subclass)
def as_subclass(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Another tensor with the same elements. It is a view, through which gradients are recorded."""
    tensor, cls = (*args, *kwargs.values())
    return of_class(tracer, tensor, cls)


def made_wrapper(tracer: Tracing, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """A wrapper that the program makes of tensors: its class runs as it is, as for all that it computes.

    One of tensors of a subclass that is interpreted breaks the graph.
    """
    if tracer.recorder.handles.among((args, kwargs)):
        raise GraphBreak(b.SUBCLASS_MADE, what=f"{cls.__qualname__} of a tensor of another subclass")
    args, kwargs = tracer.recorder.as_traced(args), tracer.recorder.as_traced(kwargs)
    with DisableTorchFunction():
        made: torch.Tensor = cls(*args, **kwargs)
    tracer.recorder.record(cls, args, kwargs, made)
    return made


def of_class(tracer: Tracing, tensor: torch.Tensor, cls: Any) -> torch.Tensor:
    handles = tracer.recorder.handles
    if not isinstance(cls, type) or not issubclass(cls, torch.Tensor) or not is_transparent(cls):
        raise GraphBreak(b.SUBCLASS_MADE, what="Tensor.as_subclass")
    if handles.plain_of(tensor) is not None:
        tensor = handles.plain_of(tensor)
    with tracer.recorder.alone():
        alias: torch.Tensor = _alias(tensor)
    return alias if cls is torch.Tensor else handles.make(alias, cls)
