"""How calls and their arguments are written in a graph."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import torch

from onegraph.capture.pyobject.contents import ATOMS
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.torchlib.aten import OpOverload

#: What a graph's code can show, and what its nodes may refer to.
GRAPH_CONSTANTS = (*torch.fx.node.base_types, torch.fx.Node, OpOverload, bytes, enum.Enum)
#: What operators take Python's types of numbers for, as the type of their result's elements.
ELEMENT_TYPES = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
#: The functions that tensors have as methods, by the name of the method.
METHOD_NAMES: dict[Any, str] = {
    getattr(torch.Tensor, name): name
    for name in sorted(dir(torch.Tensor), key=lambda name: name.startswith("_"), reverse=True)
    if callable(getattr(torch.Tensor, name)) and name not in ("__class__", "__init_subclass__", "__subclasshook__")
}


def spelled(func: Any, args: tuple[Any, ...]) -> tuple[str, Any, tuple[Any, ...]]:
    """The node kind, target and arguments that reproduce the call: methods and properties by name."""
    name = getattr(func, "__name__", "")
    if name == "__get__" and hasattr(func, "__self__"):
        return "call_function", getattr, (args[0], func.__self__.__name__)
    if name == "__set__" and hasattr(func, "__self__"):
        return "call_function", setattr, (args[0], func.__self__.__name__, *args[1:])
    method = METHOD_NAMES.get(func)
    if method is not None and args and isinstance(args[0], torch.Tensor):
        return "call_method", method, args
    return "call_function", func, args


#: What a text or a number of a class of the program is as a plain one.
PLAIN: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    complex: complex.__pos__,
}


def as_plain(value: Any) -> Any:
    """What operators see of a text or a number: a graph's code cannot show what the program has made of its class."""
    if type(value) in ATOMS or isinstance(value, enum.Enum):
        return value
    return next(made(value) for kind, made in PLAIN.items() if isinstance(value, kind))
