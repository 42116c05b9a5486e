"""The processor that this process runs on, as a target: LLVM's code, called from a plan in C."""

from __future__ import annotations

from functools import partial

from onegraph.base.pipeline import Pass
from onegraph.compiler.codegen.kernels import compile_kernels
from onegraph.compiler.cpu_code import KEPT, MACHINE
from onegraph.compiler.library.choose import choose_calls
from onegraph.compiler.runtime.launcher import launcher
from onegraph.compiler.schedule.absorb_views import absorb_views
from onegraph.compiler.schedule.axes import merge_axes, split_axes
from onegraph.compiler.schedule.close_gaps import close_gaps
from onegraph.compiler.schedule.dead_code import remove_dead_code
from onegraph.compiler.schedule.drop_roundings import drop_roundings
from onegraph.compiler.schedule.flatten import flatten
from onegraph.compiler.schedule.fuse import fuse
from onegraph.compiler.schedule.inline import inline
from onegraph.compiler.schedule.overlap import overlap
from onegraph.compiler.schedule.pad_in_place import pad_in_place
from onegraph.compiler.schedule.split_reductions import split_reductions
from onegraph.compiler.schedule.tile_products import tile_products
from onegraph.compiler.schedule.unroll_and_jam import unroll_and_jam
from onegraph.compiler.schedule.vectorize import vectorize
from onegraph.compiler.target import Machine, Target
from onegraph.ir.loop import Program


def schedule(machine: Machine) -> tuple[Pass[Program], ...]:
    """From loops as operators are lowered to loops as LLVM is given them."""
    divided = partial(split_reductions, machine=machine)
    fused = partial(fuse, machine=machine)
    tiled = partial(tile_products, machine=machine)
    unrolled = partial(unroll_and_jam, machine=machine)
    vectors = partial(vectorize, machine=machine)
    return (
        Pass("inline", inline, "first: chains of operators shrink to their ends, which leaves the choices that matter"),
        Pass("pad_in_place", pad_in_place, "after inline, which puts around what is simple where it is read"),
        Pass("split_reductions", divided, "before fuse, which would tie what surrounds them to few threads"),
        Pass("fuse", fused, "on coordinates: axes of different kernels are compared through the buffers they index"),
        Pass("drop_roundings", drop_roundings, "after fusing, which brings operators together; it leaves dead code"),
        Pass(
            "tile_products",
            tiled,
            "on coordinates, when kernels are whole; it leaves dead code",
        ),
        Pass("remove_dead_code", remove_dead_code, "after fusing, which folds values; dead loads would weigh in below"),
        Pass("unroll_and_jam", unrolled, "on coordinates, when kernels are whole: what they read then shows"),
        Pass("close_gaps", close_gaps, "after fusing and folding, which leave the buffers that there will be"),
        Pass("flatten", flatten, "strides become part of the index expressions, which the passes below need", True),
        Pass("absorb_views", absorb_views, "after flatten, when kernels no longer depend on the shapes of buffers"),
        Pass("split_axes", split_axes, "after flatten, where reshapes have left divisions that did not cancel"),
        Pass("merge_axes", merge_axes, "after splitting, which makes short axes that may continue others"),
        Pass("vectorize", vectors, "behind what changes kernels: it needs the final axes and body of each"),
        Pass("overlap", overlap, "last: it orders the steps that there will be, and changes none"),
    )


CPU = Target(
    "cpu",
    MACHINE,
    partial(choose_calls, machine=MACHINE),
    schedule(MACHINE),
    partial(compile_kernels, machine=MACHINE),
    launcher,
    KEPT,
)
