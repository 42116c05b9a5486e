"""Process groups and meshes of devices: used as they are, and guarded by what graphs depend on.

What the program asks of them (`get_rank`, `mesh.size()`) is answered while tracing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from onegraph.capture.breaks import COMMUNICATION, GraphBreak
from onegraph.capture.breaks.hints import public_name
from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.guards.predicates import Predicate
from onegraph.capture.guards.process_groups import (
    GroupIs,
    GroupNamed,
    MeshIs,
    OfMesh,
    group_facts,
    mesh_facts,
    world_group,
)
from onegraph.capture.guards.source import NOWHERE, Source, Through
from onegraph.capture.heap.type_rules import TypeRule, admit_opaque, rule_for
from onegraph.capture.heap.types.constants import Values
from onegraph.capture.heap.world import World
from onegraph.torchlib.state import untraced


class ByFacts(TypeRule):
    """The object itself, as long as another one has the same facts."""

    def guard_of(self, real: object) -> Predicate | None:
        """What is guarded of it; None if nothing can be known."""
        raise NotImplementedError

    def admit(self, world: World, real: Any, source: Source, guarded: bool) -> Any:
        with untraced():
            guard = self.guard_of(real)
        if guard is None:
            return admit_opaque(world, real, source, guarded)
        world.guard(source, "check", guard)  # of its class, too
        world.adopt_value(real, source)
        return real


@rule_for(dist.ProcessGroup)
class Groups(ByFacts):
    def guard_of(self, real: object) -> Predicate | None:
        facts = group_facts(real)
        return None if facts is None else GroupIs(facts)


@rule_for(DeviceMesh)
class Meshes(ByFacts):
    def guard_of(self, real: object) -> Predicate | None:
        facts = mesh_facts(real)
        return None if facts is None else MeshIs(facts)


@rule_for(type(dist.ReduceOp.SUM))
class Reductions(Values):
    """`ReduceOp.SUM` and the others."""


def group_of(tracer: Tracing, given: Any, name: str) -> dist.ProcessGroup:
    """The process group that an argument of the function of this name is.

    Raises:
        GraphBreak: it is none that a guard knows.
    """
    mesh, dims = given, ()
    if type(given) is tuple and len(given) == 2:
        mesh, *dims = tracer.world.realize(given)
    if given is None:
        given = tracer.world.admit(world_group(None), Through(NOWHERE, world_group))
    elif type(given) is str:
        named = GroupNamed(given)
        given = tracer.world.admit(named(None), Through(NOWHERE, named))
    elif isinstance(mesh, DeviceMesh):
        given = of_mesh(DeviceMesh.get_group, tracer, (mesh, *dims), {})
    if not isinstance(given, dist.ProcessGroup) or id(given) in tracer.world.opaque:
        raise GraphBreak(COMMUNICATION, name=name)
    return given


@policy(vars(type(dist.group))["WORLD"].fget)
def world(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return tracer.world.admit(world_group(None), Through(NOWHERE, world_group))


def of_group(question: Callable[..., Any], tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function says of a process group, whose facts are guarded."""
    given = inspect.signature(question).bind(*args, **kwargs)
    group = group_of(tracer, given.arguments.pop("group", None), public_name(question))
    others = tracer.numbers.concrete_deep(given.arguments, "rank")
    with untraced():
        return question(group=group, **others)


for _question in (
    dist.get_rank,
    dist.get_world_size,
    dist.get_backend,
    dist.get_process_group_ranks,
    dist.get_group_rank,
    dist.get_global_rank,
):
    policy(_question)(partial(of_group, _question))


def asked(method: Callable[..., Any], tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a method of a process group, or an attribute, says."""
    (group,) = (*args, *kwargs.values())
    group_of(tracer, group, f"ProcessGroup.{method.__name__}")
    return method(group)


_FACTS = {name: getattr(dist.ProcessGroup, name) for name in ("rank", "size", "name", "group_name")}
for _method in _FACTS.values():
    policy(getattr(_method, "fget", _method))(partial(asked, getattr(_method, "fget", _method)))


def of_mesh(method: Callable[..., Any], tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a method of a mesh gives: what it says is guarded with the mesh; parts of it and groups are found there."""
    mesh, *others = args
    name = getattr(method, "__name__", str(method))
    if not isinstance(mesh, DeviceMesh) or id(mesh) in tracer.world.opaque:
        raise GraphBreak(COMMUNICATION, name=f"DeviceMesh.{name}")
    others = tracer.numbers.concrete_deep(tracer.world.realize_deep((*others, *kwargs.values())), "dimension")
    with untraced():
        found = method(mesh, *others)
    if not isinstance(found, DeviceMesh | dist.ProcessGroup):
        return found
    return tracer.world.admit(found, Through(tracer.world.origin[id(mesh)], OfMesh(name, others)))


#: The methods and properties of meshes that are answered.
_OF_MESHES = """size ndim shape device_type mesh_dim_names get_rank get_local_rank get_coordinate get_group __getitem__
    _get_mesh_dim_by_name""".split()
for _name in _OF_MESHES:
    _member = vars(DeviceMesh).get(_name)
    _member = getattr(_member, "fget", _member)
    if _member is not None:
        policy(_member)(partial(of_mesh, _member))
