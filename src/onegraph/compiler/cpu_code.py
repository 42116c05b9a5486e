"""The processor that this process runs on, and how code for it that was compiled before is found again."""

from __future__ import annotations

from functools import partial

import torch

from onegraph.compiler.codegen.loading import load_kernels
from onegraph.compiler.codegen.made_for import identity
from onegraph.compiler.target import Kept, Machine

#: Processors of servers and desktops differ less than what is known here of their loads: one description is for all.
MACHINE = Machine(
    lanes=32,
    totals=64,
    tile_rows=6,
    tile_columns=64 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 16,
    threads=16,
    parts=32,
    thread_nanoseconds=1500,  # it costs half a microsecond
    speed=64,
    stack=1 << 17,
    near=1 << 16,
    line=64,
    long_rows=range(1 << 15, 1 << 19),
)

KEPT = Kept(identity, partial(load_kernels, machine=MACHINE), ("llvm", "asm"))
