"""What a run left behind, as a table: a leaf for each place, by its path.

Tensors are kept as copies. An object that was there before the call is a leaf by its name (`Known`): what it holds
stands in the rows of its own. Objects that the call has made are taken apart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import field
from types import FunctionType, MethodType, ModuleType

import numpy
import torch

from onegraph.base.dataclass import dataclass
from onegraph.tools.verification.holders import label
from onegraph.tools.verification.reach import ATOMS, Found, is_closed
from onegraph.torchlib.wrappers import flattened, is_wrapper


@dataclass(frozen=True, slots=True)
class Values:
    """The elements of a tensor or an array, or a float, which is rounded as tensors are."""

    tensor: torch.Tensor
    requires_grad: bool = False
    kind: str = "tensor"


@dataclass(frozen=True, slots=True)
class Known:
    """An object that was there before the call."""

    path: str


@dataclass(frozen=True, slots=True)
class Plain:
    """A value of Python that is compared as it is."""

    value: object


@dataclass(frozen=True, slots=True)
class Kind:
    """The type of an object of which only the contents are compared, and how many there are."""

    name: str
    count: int = 0


Leaf = Values | Known | Plain | Kind
Picture = dict[str, Leaf]


@dataclass(slots=True)
class Painter:
    """Takes values apart. `known` are objects that have a name: those from before, and those that were met."""

    known: dict[int, str]
    #: What is known lives as long as this, so that no other object has its identity.
    kept: list[object] = field(default_factory=list)

    def state(self, found: Iterable[Found]) -> Picture:
        """What these holders hold now."""
        picture: Picture = {}
        for each in found:
            if isinstance(each.target, torch.Tensor):
                picture.update(tensor_leaves(each.path, each.target))
            for end, value in each.holder.contents():
                picture.update(self.leaves(each.path + end, value))
        return picture

    def leaves(self, path: str, value: object) -> Iterator[tuple[str, Leaf]]:
        """The rows of one value."""
        if isinstance(value, float):
            yield path, Values(torch.tensor(value, dtype=torch.float64), kind="float")
            return
        if isinstance(value, (*ATOMS, ModuleType)):
            yield path, Plain(value)
            return
        if id(value) in self.known:
            yield path, Known(self.known[id(value)])
            return
        self.known[id(value)] = path
        self.kept.append(value)
        match value:
            case torch.Tensor():
                yield from tensor_leaves(path, value)
            case numpy.ndarray() | numpy.generic() if value.dtype.kind in "biufc":
                yield path, Values(torch.from_numpy(numpy.array(value, order="C")), kind=type(value).__name__)
            case _:
                held = parts(value)
                yield f"{path} (its type)", Kind(type(value).__qualname__, len(held))
                for end, part in held:
                    yield from self.leaves(path + end, part)


def parts(value: object) -> list[tuple[str, object]]:
    """What an object holds that the call has made. Of objects that are not looked into nothing is listed."""
    match value:
        case dict():
            return [(f"[{label(key)}]", held) for key, held in value.items()]
        case list() | tuple() | deque():
            return [(f"[{number}]", held) for number, held in enumerate(value)]
        case set() | frozenset():
            return [(f"{{{label(held)}}}", held) for held in sorted(value, key=repr)]
        case torch.Generator():
            return [(" (its state)", value.get_state())]
        case type() | FunctionType() | MethodType():
            return []
    held = getattr(value, "__dict__", None)
    if not isinstance(held, dict) or is_closed(type(value)) and not isinstance(value, torch.nn.Module):
        return []
    return [(f".{name}", part) for name, part in held.items()]


def tensor_leaves(path: str, tensor: torch.Tensor) -> Iterator[tuple[str, Leaf]]:
    """The elements of a tensor, or those of the tensors that a wrapper is made of."""
    if not is_wrapper(tensor):
        yield path, values_of(tensor)
        return
    names, _, _ = flattened(tensor)
    yield f"{path} (its type)", Kind(type(tensor).__qualname__, len(names))
    for name in names:
        yield from tensor_leaves(f"{path}.{name}", getattr(tensor.detach(), name))


def values_of(tensor: torch.Tensor) -> Values:
    """A copy of the elements of a tensor, as they are now."""
    with torch.no_grad():
        return Values(tensor.detach().clone(), tensor.requires_grad)
