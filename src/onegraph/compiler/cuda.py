"""NVIDIA's GPUs as targets: kernels in Triton's language, made for the GPU at hand, launched from a plan in C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import torch
from torch.fx import GraphModule

from onegraph import _C
from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.base.disk_cache import cache_of
from onegraph.base.events import LaunchedOneByOne
from onegraph.compiler.runtime.cuda_graphs import GraphedPlan, aside
from onegraph.compiler.runtime.executor import Executor
from onegraph.compiler.runtime.launcher import launcher
from onegraph.compiler.target import Code, Compile, Kept, Loaded, Role, Target
from onegraph.compiler.triton.cubins import Built, compile_sources, find_built, triton_version
from onegraph.compiler.triton.gpu import Gpu, machine_of, schedule
from onegraph.compiler.triton.sources import sources_of
from onegraph.ir.loop import Program
from onegraph.ir.plan import ExecPlan, KernelInfo


def cuda_target(device: torch.device) -> Target | None:
    """The target for this device; None without Triton, which compiles for it: the extra `gpu` brings it."""
    if find_spec("triton") is None:
        return None
    return target_for(gpu_of(device), device.index or 0)


def gpu_of(device: torch.device) -> Gpu:
    """What there is of everything, as torch says."""
    found: Any = torch.cuda.get_device_properties(device)
    return Gpu(
        10 * found.major + found.minor,
        found.multi_processor_count,
        found.max_threads_per_multi_processor,
        found.regs_per_multiprocessor,
        found.shared_memory_per_block_optin,
    )


@cache
def target_for(gpu: Gpu, index: int) -> Target:
    """The target for a GPU of this kind with this number."""
    machine = machine_of(gpu)
    return Target(
        f"cuda:{index}",
        machine,
        library_as_it_is,
        schedule(machine),
        partial(compile_kernels, gpu=gpu, index=index),
        partial(launcher, device="cuda"),
        Kept(partial(identity, gpu=gpu), partial(load_kernels, gpu=gpu, index=index), ("triton",)),
        partial(graphed, index=index),
    )


def library_as_it_is(module: GraphModule, parameters: frozenset[int], config: Config, compile: Compile) -> GraphModule:
    """Products, convolutions and attention are calls of torch's operators, which choose among libraries themselves."""
    return module


def loaded(built: Built, gpu: Gpu, index: int, config: Config) -> _C.CudaKernel:
    """The kernel on the device. If it wants pointers aligned, it is compiled once more for the first that are not."""
    source, cubin = built.source, built.cubin

    def general() -> _C.CudaKernel:
        (found,) = compile_sources([replace(source, aligned=False)], gpu, cache_of(config, "objects"))
        return loaded(found, gpu, index, config)

    sizes = sum(kind == "i64" for kind in source.signature.values())
    shape = cubin.threads, cubin.shared, len(source.signature) - sizes, sizes
    where = config.cuda_driver, index
    return _C.CudaKernel(cubin.code, source.name, *shape, *where, general if source.aligned else None)


def graphed(
    run: _C.Plan | Executor, plan: ExecPlan, role: Role, cx: Context, index: int
) -> GraphedPlan | _C.Plan | Executor:
    """What begins the launches of a plan by one call; what launches them, where that cannot be: why is an event."""
    device = torch.device("cuda", index)

    def tell(why: str) -> None:
        cx.emit(LaunchedOneByOne(cx.frame, why, role.part))

    found = GraphedPlan(run, plan, role, partial(aside, device), cx.config.cuda_driver, f"{device}", tell)
    return found if found.why_not is None else run


def identity(config: Config, gpu: Gpu) -> str:
    """What the code of kernels depends on besides their program."""
    return f"{gpu} {triton_version()}"


def load_kernels(
    infos: Sequence[KernelInfo], objects: Sequence[str], cx: Context, gpu: Gpu, index: int
) -> Loaded | None:
    """The kernels of a plan, whose code is on disk under these names; None if some is not. Triton is not needed."""
    disk = cx.code or cache_of(cx.config, "objects")
    built = [None if disk is None else find_built(name, disk) for name in objects]
    found = [each for each in built if each is not None]
    if [each.source.name for each in found] != [info.name for info in infos]:
        return None
    kernels = [loaded(each, gpu, index, cx.config) for each in found]
    return Loaded(tuple(kernel.address for kernel in kernels), kernels)


def compile_kernels(program: Program, cx: Context, gpu: Gpu, index: int) -> Code:
    """Write, compile and load the kernels of the program."""
    found = sources_of(program)
    built = compile_sources(found.sources, gpu, cache_of(cx.config, "objects"))
    kernels = [loaded(each, gpu, index, cx.config) for each in built]

    def text() -> str:
        return "\n\n".join(source.text for source in found.sources)

    return Code(
        found.functions,
        tuple(source.info for source in found.sources),
        tuple(kernel.address for kernel in kernels),
        kernels,
        False,
        text,
        {"triton": text},
        found.begins,
        tuple(each.kept for each in built),
        grids=found.grids,
    )
