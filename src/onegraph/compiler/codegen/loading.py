"""Code that was compiled before: of graphs that live, and of plans that are found on disk."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakValueDictionary

from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass
from onegraph.base.disk_cache import cache_of
from onegraph.compiler.codegen.native import load_object
from onegraph.compiler.codegen.perf_map import tell_perf
from onegraph.compiler.target import Loaded, Machine
from onegraph.ir.plan import KernelInfo


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Function:
    """A compiled kernel; it lives as long as a graph holds it."""

    address: int
    errors: tuple[tuple[str, str], ...]
    accesses: tuple[tuple[int, str], ...]
    engine: object
    kept: str  #: the name of the object on disk that it is in; empty if there is none


LIVING: WeakValueDictionary[tuple[Machine, str, str], Function] = WeakValueDictionary()


def load_kernels(infos: Sequence[KernelInfo], objects: Sequence[str], cx: Context, machine: Machine) -> Loaded | None:
    """The kernels of a plan, whose code is in objects of these names, on disk or in `cx.code`; None if some is not."""
    cpu, disk = cx.config.target_cpu, cx.code or cache_of(cx.config, "objects")
    known = {info.name: function for info in infos if (function := LIVING.get((machine, cpu, info.name))) is not None}
    missing: dict[str, list[KernelInfo]] = {}
    for info, kept in zip(infos, objects, strict=True):
        if info.name not in known:
            missing.setdefault(kept, []).append(info)
    for kept, wanted in missing.items():
        loaded = None if disk is None else load_object(kept, [info.name for info in wanted], cpu, disk)
        if loaded is None:
            return None
        if cx.config.perf_map:
            tell_perf(loaded.code, loaded.addresses)
        for info in wanted:
            function = Function(loaded.addresses[info.name], info.errors, info.accesses, loaded.engine, kept)
            known[info.name] = LIVING[machine, cpu, info.name] = function
    found = tuple(known[info.name] for info in infos)
    return Loaded(tuple(function.address for function in found), found)
