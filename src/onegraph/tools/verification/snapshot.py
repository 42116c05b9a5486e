"""The state of a call as it was: all that its holders held, the memory of their tensors, and the state of the process.

The call runs on the objects themselves, as programs that close over their model or name it have it, and the state is
put back behind each run. What was not changed is not touched. A tensor whose memory is written back has another version
from then on: what is remembered of its elements, by autograd or by a cache, is known to be old.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import numpy
import torch

from onegraph.base.dataclass import dataclass
from onegraph.tools.verification.holders import Restore
from onegraph.tools.verification.reach import Found
from onegraph.torchlib.private import increment_version


@dataclass(frozen=True, slots=True)
class Memory:
    """The bytes of one storage, and the tensors that lie in it."""

    storage: torch.UntypedStorage
    saved: torch.UntypedStorage
    tensors: tuple[torch.Tensor, ...]

    def restore(self) -> None:
        if self.storage.nbytes() != self.saved.nbytes():
            self.storage.resize_(self.saved.nbytes())
        elif torch.equal(as_bytes(self.storage), as_bytes(self.saved)):
            return
        self.storage.copy_(self.saved)
        increment_version(tuple(each for each in self.tensors if not each.is_inference()))


def as_bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def memories(tensors: Iterable[torch.Tensor]) -> list[Memory]:
    """The memory of these tensors; those without any are left out."""
    lying: dict[int, list[torch.Tensor]] = {}
    for tensor in tensors:
        if tensor.layout is torch.strided and tensor.device.type != "meta":
            try:
                lying.setdefault(tensor.untyped_storage()._cdata, []).append(tensor)
            except (RuntimeError, NotImplementedError):  # a wrapper: what it wraps is found as its attributes
                continue
    storages = [(group[0].untyped_storage(), tuple(group)) for group in lying.values()]
    return [Memory(storage, storage.clone(), group) for storage, group in storages]


@dataclass(frozen=True, slots=True)
class Setting:
    """A state of the process: what it is called, and how it is read and written."""

    name: str
    get: Callable[[], object]
    put: Callable[[object], object]


SETTINGS = (
    Setting("torch's random state", torch.get_rng_state, torch.set_rng_state),  # type: ignore[arg-type]
    Setting("the state of random", random.getstate, random.setstate),  # type: ignore[arg-type]
    Setting("the state of numpy.random", numpy.random.get_state, numpy.random.set_state),  # type: ignore[arg-type]
    Setting("is_grad_enabled", torch.is_grad_enabled, torch.set_grad_enabled),  # type: ignore[arg-type]
    Setting("the default dtype", torch.get_default_dtype, torch.set_default_dtype),  # type: ignore[arg-type]
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What `restore` puts back, in that order: objects, then memory, then the process."""

    holders: tuple[Restore, ...]
    memories: tuple[Memory, ...]
    settings: tuple[tuple[Setting, object], ...]

    @classmethod
    def of(cls, found: Iterable[Found]) -> Snapshot:
        """The state of these holders now."""
        listed = list(found)
        tensors = [each.target for each in listed if isinstance(each.target, torch.Tensor)]
        held = tuple(memories({id(each): each for each in tensors}.values()))
        settings = tuple((setting, setting.get()) for setting in SETTINGS)
        return cls(tuple(each.holder.save() for each in listed), held, settings)

    def restore(self) -> None:
        """Put everything back."""
        with torch.no_grad():
            for restore in self.holders:
                restore()
            for memory in self.memories:
                memory.restore()
        for setting, value in self.settings:
            setting.put(value)
