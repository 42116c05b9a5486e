"""Tensors of classes with a `__torch_function__`: in the graph they are plain tensors.

The program sees a *handle*, a tensor of its class that has the layout of the plain one and no elements. What is
computed with handles is computed with the plain tensors, once the class has been asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from onegraph.capture.guards.predicates import Predicate
from onegraph.capture.pyobject.exact_types import isinstance, plain
from onegraph.torchlib.fake import FakeMode, FakeTensor
from onegraph.torchlib.private import is_torch_function_enabled, make_subclass
from onegraph.torchlib.state import tracing_suspended, untraced
from onegraph.torchlib.wrappers import Wrapping, is_wrapper_class

#: A class that overrides this does as it likes with operators.
NO_DISPATCH = torch.Tensor.__torch_dispatch__
PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def is_transparent(cls: type[torch.Tensor]) -> bool:
    """Whether tensors of the class are elements like those of any other: only functions in Python can see the class."""
    slots = any("__slots__" in vars(kind) for kind in cls.__mro__ if issubclass(kind, torch.Tensor))
    return (
        type(cls) in (type(torch.Tensor), type(torch.nn.Parameter))
        and cls.__torch_dispatch__ == NO_DISPATCH
        and not slots
    )


def as_plain(tensor: torch.Tensor) -> torch.Tensor:
    """The elements of a tensor of any class as a plain tensor: a view, through which gradients are recorded."""
    with untraced():
        return torch.Tensor.as_subclass(tensor, torch.Tensor)


def as_tensor_of(tensor: torch.Tensor, cls: type) -> torch.Tensor:
    """A plain tensor of the graph's own, as one of a class. It stays what others were computed from."""
    tensor.__class__ = cls
    return tensor


class WrappedAlike(Predicate):
    """A wrapper is made as it was, of whatever parts."""

    def __init__(self, wrapping: Wrapping) -> None:
        self.wrapping = wrapping

    def __call__(self, value: Any) -> bool:
        with tracing_suspended():
            return self.wrapping.fits(value)

    def text(self, *what: str) -> str:
        return f"{what[0]} is a {self.wrapping.cls.__qualname__} of the same layout and context"


class Handles:
    """The handles of a trace, and the plain tensors that they stand for."""

    def __init__(self, fake: FakeMode) -> None:
        self._fake = fake
        self._plain: dict[int, torch.Tensor] = {}
        self._keep: list[torch.Tensor] = []

    def __bool__(self) -> bool:
        return bool(self._plain)

    def make(self, tensor: torch.Tensor, cls: type) -> torch.Tensor:
        """A new handle of a class."""
        with untraced(), self._fake.sizes.trusted():
            empty = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
            handle: torch.Tensor = make_subclass(cls, empty)
        self._plain[id(handle)] = tensor
        self._keep.append(handle)
        return handle

    def plain_of(self, handle: Any) -> torch.Tensor | None:
        """The plain tensor that a handle stands for; None of any other value."""
        return self._plain.get(id(handle))

    def handle_of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The handle that stands for a plain tensor; the tensor itself if there is none."""
        return next((handle for handle in self._keep if self._plain[id(handle)] is tensor), tensor)

    def among(self, value: Any) -> list[torch.Tensor]:
        """The handles in tuples, lists and dicts, in their order."""
        match plain(value):
            case torch.Tensor():
                return [value] if id(value) in self._plain else []
            case tuple() | list():
                return [handle for item in value for handle in self.among(item)]
            case dict():
                return [handle for item in value.values() for handle in self.among(item)]
        return []

    def without(self, value: Any) -> Any:
        """The same with plain tensors in the place of handles."""
        match plain(value):
            case torch.Tensor():
                return self._plain.get(id(value), value)
            case tuple() | list() if self.among(value):
                items = [self.without(item) for item in value]
                return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
            case dict() if self.among(value):
                return {key: self.without(item) for key, item in value.items()}
        return value

    def given_back(self, result: Any, handles: list[torch.Tensor]) -> Any:
        """A result of plain tensors: one that was given as a handle is given back as that."""
        match plain(result):
            case torch.Tensor():
                return next((handle for handle in handles if self._plain[id(handle)] is result), result)
            case tuple() | list() if any(isinstance(item, torch.Tensor) for item in result):
                items = [self.given_back(item, handles) for item in result]
                return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
        return result


def asks_classes(kinds: Iterable[type]) -> bool:
    """Whether torch asks these classes of arguments of a function. (Of attributes it names the class in any case.)"""
    return is_torch_function_enabled() and any(map(is_asked, kinds))


def is_asked(kind: type) -> bool:
    """Whether functions of a class are interpreted. Those of wrappers are run as they are, on wrappers of fakes."""
    return kind is not FakeTensor and kind not in PLAIN_TENSORS and not is_wrapper_class(kind)


def is_handle(value: Any) -> bool:
    """Whether a tensor of a trace is a handle."""
    kind: Any = type(value)
    return not issubclass(kind, FakeTensor) and kind not in PLAIN_TENSORS and not is_wrapper_class(kind)
