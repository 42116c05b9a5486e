"""What guards ask of process groups and meshes of devices.

Graphs know a group by its name. So a group that is destroyed, and made anew with the same name, the same ranks and the
same backend, is the same one to them; any other is another.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from onegraph.capture.guards.predicates import Portable, Predicate
from onegraph.torchlib import private

#: Of a process group: its name, the ranks in it, the place of this process among them, its backend.
GroupFacts = tuple[str, tuple[int, ...], int, str]


def group_facts(group: object) -> GroupFacts | None:
    """What guards know of a process group; None where it is none, or its collectives are collected now."""
    if not isinstance(group, dist.ProcessGroup) or private.is_coalescing(group):
        return None
    try:
        ranks, backend = dist.get_process_group_ranks(group), dist.get_backend(group)
    except (KeyError, ValueError):  # it was destroyed
        return None
    return group.group_name, tuple(ranks), group.rank(), backend


def mesh_facts(mesh: object) -> tuple[Any, ...] | None:
    """What guards know of a mesh of devices; None where it is none."""
    if type(mesh) is not DeviceMesh:
        return None
    place = mesh.get_coordinate()
    groups = tuple([group_facts(mesh.get_group(dim)) for dim in range(mesh.ndim)] if place is not None else ())
    ranks = tuple(mesh.mesh.flatten().tolist())
    return mesh.device_type, tuple(mesh.shape), ranks, mesh.mesh_dim_names, place and tuple(place), groups


class GroupIs(Predicate):
    """A process group is as it was."""

    def __init__(self, facts: GroupFacts) -> None:
        self.facts = facts

    def __call__(self, group: object) -> bool:
        return group_facts(group) == self.facts

    def text(self, *what: str) -> str:
        name, ranks, rank, backend = self.facts
        return (
            f"{what[0]} is the process group {name!r} ({backend}) of the ranks {ranks}, of which this is number {rank}"
        )


class MeshIs(Predicate):
    """A mesh of devices is as it was. Nobody changes one, so the same object is not asked again."""

    def __init__(self, facts: tuple[Any, ...]) -> None:
        self.facts = facts
        self.seen: Any = None

    def __call__(self, mesh: object) -> bool:
        if self.seen is not None and self.seen() is mesh:
            return True
        if mesh_facts(mesh) != self.facts:
            return False
        self.seen = weakref.ref(mesh)
        return True

    def portable(self) -> MeshIs:
        return MeshIs(self.facts)

    def text(self, *what: str) -> str:
        device, shape, ranks, _, place, _ = self.facts
        return f"{what[0]} is the mesh {shape} of {device} over ranks {ranks}, and this process is at {place} in it"


class Found(Portable):
    """Where something is found, which is the same for equal parts."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))


def world_group(_: object) -> dist.ProcessGroup | None:
    """The default group of the process."""
    return dist.group.WORLD


class GroupNamed(Found):
    """The process group of a name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, _: object) -> dist.ProcessGroup | None:
        try:
            found: dist.ProcessGroup = private.resolve_group(self.name)
        except RuntimeError:
            return None
        return found

    @property
    def __name__(self) -> str:
        return f"process group {self.name!r} "


class OfMesh(Found):
    """What a method of a mesh gives: a part of it, or a process group."""

    def __init__(self, method: str, args: tuple[Any, ...]) -> None:
        self.method, self.args = method, args

    def __call__(self, mesh: object) -> Any:
        if type(mesh) is not DeviceMesh or self.method not in MESH_PARTS:
            raise ValueError(f"{self.method} gives no part of a mesh")
        return getattr(mesh, self.method)(*self.args)

    @property
    def __name__(self) -> str:
        return f"{self.method}{self.args} of "


#: The methods of a mesh that give parts of it, and groups.
MESH_PARTS = frozenset({"get_group", "__getitem__"})
