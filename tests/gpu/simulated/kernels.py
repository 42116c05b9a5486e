"""Kernels for the simulated devices: the stand-in of the driver launches them, and Triton's interpreter computes.

Triton's compiler, whose code nobody here can run, is exchanged: a cubin is a few words for the stand-in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gpu.driver import StandIn
from gpu.interpreted.interpreter import first_element
from gpu.simulated.images import image_for

from onegraph.compiler import cuda
from onegraph.compiler.triton.cubins import Built, Cubin, function_of
from onegraph.compiler.triton.gpu import Gpu
from onegraph.compiler.triton.sources import Source

DTYPES = {"i1": "bool", "bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64"}
DTYPES |= {f"{sign}{bits}": f"{kind}{bits}" for sign, kind in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)}


def install(driver: StandIn) -> None:
    """Have kernels compiled for this driver."""

    def compile_sources(sources: Sequence[Source], gpu: Gpu, kept: object = None) -> list[Built]:
        return [Built(source, cubin_of(source, gpu, driver)) for source in sources]

    cuda.compile_sources = compile_sources
    stream = driver.stream()
    cuda.aside = lambda device: driver.using(stream)


def cubin_of(source: Source, gpu: Gpu, driver: StandIn) -> Cubin:
    kinds = list(source.signature.values())
    function = function_of(source)

    def compute(parameters: Any, grid: Any) -> None:
        given = [
            first_element(parameters[place], getattr(torch, DTYPES[kind[1:]])) if kind[0] == "*" else parameters[place]
            for place, kind in enumerate(kinds)
        ]
        function[grid[0], grid[1], grid[2]](*given, **source.constants)

    driver.bind(source.name, compute)
    return image_for(source, gpu)
