"""Code that was compiled before: of graphs that live, and of plans that are found on disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from onegraph.base.context import Context, Store
from onegraph.base.dataclass import dataclass
from onegraph.base.disk_cache import cache_of
from onegraph.base.late import late_module
from onegraph.compiler.codegen.linking import Compiled, has_functions, placed
from onegraph.compiler.target import Loaded, Machine
from onegraph.ir.plan import KernelInfo

if TYPE_CHECKING:
    from onegraph.compiler.codegen.native import linked_object
    from onegraph.compiler.codegen.perf_map import tell_perf
else:  # code that was found is put in its place without LLVM
    linked_object = late_module("onegraph.compiler.codegen.native").linked_object
    tell_perf = late_module("onegraph.compiler.codegen.perf_map").tell_perf


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


def load_object(key: str, names: Sequence[str], cpu: str, kept: Store) -> Compiled | None:
    """Native code that is kept under this name; None if it is not, or has no such functions, or cannot be used here."""
    code = kept.load(key)
    if code is None or not has_functions(code, names):
        return None
    return placed(code, names, key) or linked_object(code, names, cpu, key)
