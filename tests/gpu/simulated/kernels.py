"""Kernels for the simulated devices: the stand-in of the driver launches them, and Triton's interpreter computes.

Triton's compiler, whose code nobody here can run, is exchanged: a cubin is a few words for the stand-in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from threading import Lock
from typing import Any

import gpu.interpreted.interpreter  # noqa: F401 - it mends Triton's
import pytest
from gpu.driver import StandIn
from gpu.interpreted.bounds import pointer
from gpu.simulated import link
from gpu.simulated.images import image_for

import onegraph
from onegraph.compiler import cuda
from onegraph.compiler.triton.cubins import Built, Cubin, function_of
from onegraph.compiler.triton.gpu import Gpu
from onegraph.compiler.triton.sources import Source

INTERPRETER = Lock()  #: it knows of one grid at a time


@cache
def installed() -> StandIn:
    """The driver of this process: kernels are compiled for it, and it knows the streams and memory of the devices."""
    driver = StandIn()

    def compile_sources(sources: Sequence[Source], gpu: Gpu, kept: object = None) -> list[Built]:
        return [Built(source, cubin_of(source, gpu, driver)) for source in sources]

    cuda.compile_sources = compile_sources
    link(driver)
    return driver


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """The driver, which complains of nothing behind a test. It knows no memory but that of its devices."""
    found = installed()
    monkeypatch.setenv("ONEGRAPH_CUDA_DRIVER", found.path)
    onegraph.reset()
    found.set(devices=2, capability=90, shared=232448, quiet=0)
    found.forget()
    yield found
    complaints = found.complaints()
    found.forget()
    assert not complaints


def cubin_of(source: Source, gpu: Gpu, driver: StandIn) -> Cubin:
    kinds = list(source.signature.values())
    function = function_of(source)

    def compute(parameters: Any, grid: Any) -> None:
        given = [
            pointer(parameters[place], kind) if kind[0] == "*" else parameters[place]
            for place, kind in enumerate(kinds)
        ]
        with INTERPRETER:
            function[grid[0], grid[1], grid[2]](*given, **source.constants)

    driver.bind(source.name, compute)
    return image_for(source, gpu)
