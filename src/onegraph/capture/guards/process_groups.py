"""What guards ask of process groups and meshes of devices.

Graphs know a group by its name. So a group that is destroyed, and made anew with the same name, the same ranks and the
same backend, is the same one to them; any other is another.
"""

from __future__ import annotations

import weakref
from dataclasses import field
from typing import Any

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from onegraph.base.dataclass import dataclass
from onegraph.capture.guards.predicates import Portable, Predicate
from onegraph.torchlib import private


@dataclass(frozen=True, slots=True)
class GroupFacts(Predicate):
    """A process group is as it was: its name, the ranks in it, the place of this process among them, its backend."""

    name: str
    ranks: tuple[int, ...]
    rank: int
    backend: str

    def __call__(self, group: object) -> bool:
        return facts_of(group) == self

    def text(self, *what: str) -> str:
        place = f"{self.rank} of {len(self.ranks)}"
        return f"{what[0]} is the process group {self.name!r} ({self.backend}), and this process is {place} in it"


def facts_of(group: object) -> GroupFacts | None:
    """What guards know of a process group; None where it is none, or its collectives are collected now."""
    if not isinstance(group, dist.ProcessGroup) or private.is_coalescing(group):
        return None
    try:
        ranks, backend = dist.get_process_group_ranks(group), dist.get_backend(group)
    except (KeyError, ValueError):  # it was destroyed
        return None
    return GroupFacts(group.group_name, tuple(ranks), group.rank(), backend)


def world_group(_: object) -> dist.ProcessGroup | None:
    """The default group of the process."""
    return dist.group.WORLD


@dataclass(frozen=True, slots=True)
class GroupNamed(Portable):
    """The process group of a name."""

    name: str

    def __call__(self, _: object) -> dist.ProcessGroup | None:
        try:
            found: dist.ProcessGroup = private.resolve_group(self.name)
        except RuntimeError:
            return None
        return found

    @property
    def __name__(self) -> str:
        return f"process group {self.name!r} "


@dataclass(frozen=True, slots=True)
class MeshFacts(Predicate):
    """A mesh of devices is as it was: nobody changes one, so that the same object is not asked again."""

    device: str
    ranks: Any
    names: tuple[str, ...] | None
    place: tuple[int, ...] | None
    groups: tuple[GroupFacts | None, ...]
    seen: list[Any] = field(default_factory=list, init=False, compare=False, repr=False)

    def __call__(self, mesh: object) -> bool:
        if self.seen and self.seen[0]() is mesh:
            return True
        if mesh_facts(mesh) != self:
            return False
        self.seen[:] = [weakref.ref(mesh)]
        return True

    def text(self, *what: str) -> str:
        return f"{what[0]} is the mesh {self.ranks} of {self.device}, and this process is at {self.place} in it"


def mesh_facts(mesh: object) -> MeshFacts | None:
    """What guards know of a mesh of devices; None where it is none."""
    if type(mesh) is not DeviceMesh:
        return None
    place = mesh.get_coordinate()
    groups = tuple([facts_of(mesh.get_group(dim)) for dim in range(mesh.ndim)] if place is not None else ())
    ranks = _as_tuples(mesh.mesh.tolist())
    return MeshFacts(mesh.device_type, ranks, mesh.mesh_dim_names, None if place is None else tuple(place), groups)


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class OfMesh(Portable):
    """What a method of a mesh gives: a part of it, or a process group."""

    method: str
    args: tuple[Any, ...]

    def __call__(self, mesh: DeviceMesh) -> Any:
        return getattr(mesh, self.method)(*self.args)

    @property
    def __name__(self) -> str:
        return f"{self.method}{self.args} of "
