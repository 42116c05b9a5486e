"""GPUs as targets: what the scheduler, the choice of blocks and the launches ask of one."""

from __future__ import annotations

from functools import partial

from onegraph.base.dataclass import dataclass
from onegraph.base.pipeline import Pass
from onegraph.compiler.lower import draws  # noqa: F401 - it registers its lowerings
from onegraph.compiler.lower.streams import BLOCK
from onegraph.compiler.schedule.absorb_views import absorb_views
from onegraph.compiler.schedule.axes import merge_axes, split_axes
from onegraph.compiler.schedule.close_gaps import close_gaps
from onegraph.compiler.schedule.dead_code import remove_dead_code
from onegraph.compiler.schedule.drop_roundings import drop_roundings
from onegraph.compiler.schedule.flatten import flatten
from onegraph.compiler.schedule.fuse import fuse
from onegraph.compiler.schedule.inline import inline
from onegraph.compiler.schedule.split_reductions import split_reductions
from onegraph.compiler.target import Machine
from onegraph.ir.loop import Program


@dataclass(frozen=True, slots=True)
class Gpu:
    """A kind of GPU. `capability` is that of CUDA, times ten; sizes are those of one multiprocessor, in bytes."""

    capability: int
    multiprocessors: int
    threads: int
    registers: int
    shared: int


#: Additions in the time of a launch, 2 microseconds.
LAUNCH = 1 << 24

A100 = Gpu(80, 108, 2048, 1 << 16, 166_912)
H100 = Gpu(90, 132, 2048, 1 << 16, 232_448)


def machine_of(gpu: Gpu) -> Machine:
    """The GPU as the scheduler sees it: no kernel keeps a row in memory of its own, and none is a tile of a product."""
    return Machine(
        lanes=32,
        totals=64,
        tile_rows=1,
        tile_columns=32,
        threads=32,  # a row has hundreds of its own
        parts=4 * gpu.multiprocessors,
        thread_nanoseconds=1,
        speed=1 << 14,
        stack=0,
        near=0,
        line=128,
        long_rows=range(0),
        runs_in_order=False,
        drawing_threads=gpu.multiprocessors * (gpu.threads // BLOCK) * BLOCK,
    )


def schedule(machine: Machine) -> tuple[Pass[Program], ...]:
    """From loops as operators are lowered to loops as kernels are written of them."""
    inlined = partial(inline, launch=LAUNCH, most_loads=8)
    divided = partial(split_reductions, machine=machine)
    fused = partial(fuse, machine=machine)
    return (
        Pass(
            "inline", inlined, "first: chains of operators shrink to their ends, which leaves the choices that matter"
        ),
        Pass("split_reductions", divided, "before fuse, which would tie what surrounds them to few programs"),
        Pass("fuse", fused, "on coordinates: axes of different kernels are compared through the buffers they index"),
        Pass("drop_roundings", drop_roundings, "after fusing, which brings operators together; it leaves dead code"),
        Pass("remove_dead_code", remove_dead_code, "after fusing, which folds values"),
        Pass("close_gaps", close_gaps, "after fusing and folding, which leave the buffers that there will be"),
        Pass("flatten", flatten, "strides become part of the index expressions, which the passes below need", True),
        Pass("absorb_views", absorb_views, "after flatten, when kernels no longer depend on the shapes of buffers"),
        Pass("split_axes", split_axes, "after flatten, where reshapes have left divisions that did not cancel"),
        Pass("merge_axes", merge_axes, "last: short axes that split_axes has made may continue others"),
    )
