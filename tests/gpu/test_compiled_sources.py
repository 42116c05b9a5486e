"""Kernels that are written are compiled by Triton for GPUs, without one: by `.ci/triton`, where Triton is there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gpu.test_triton_source import ADDED, sources

from onegraph.base.disk_cache import DiskCache
from onegraph.base.errors import CompileError
from onegraph.compiler.triton import cubins
from onegraph.compiler.triton.cubins import compile_sources
from onegraph.compiler.triton.gpu import A100, H100, Gpu
from onegraph.compiler.triton.sources import sources_of
from onegraph.ir.loop_text import parse_program

pytest.importorskip("triton", reason="Triton compiles these")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("Triton interprets in this process", allow_module_level=True)

X = torch.randn(40, 70)
KERNELS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "gelu": (lambda x, y: F.gelu(x + y), (X, torch.randn(40, 70))),
    "softmax": (lambda x: torch.softmax(x, -1), (X,)),
    "long rows": (lambda x: torch.softmax(x, -1), (torch.randn(3, 5000),)),
    "turned": (lambda x: x.t().contiguous() + 1, (X,)),
    "bfloat16": (lambda x: F.layer_norm(x, (70,)), (X.bfloat16(),)),
    "float16": (lambda x: x.sigmoid() * x.tanh(), (X.half(),)),
    "float64": (lambda x: x.exp() / x.sqrt() + x.pow(1.5), (X.double(),)),
    "small integers": (lambda x: (x // 3, x % 5, x >> 1, ~x, x < 2), ((X * 100).to(torch.int8),)),
    "checks": (lambda x: x // 3 * (x + 1), ((X * 100).to(torch.int32),)),
    "positions": (lambda x: (x.argmax(1), x.amax(0), x.prod(1), (x > 0).any(1)), (X,)),
    "rows by number": (lambda table, at: F.embedding(at, table), (X, torch.arange(30))),
    "windows": (lambda x: F.max_pool2d(x, 3, 2, 1), (torch.randn(2, 3, 13, 11),)),
    "functions": (lambda x: x.erf() + x.lgamma() + x.atan2(x + 1) + x.log1p() + torch.fmod(x, 2), (X,)),
}


@pytest.mark.parametrize("gpu", [A100, H100], ids=["8.0", "9.0"])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_compiled(name: str, gpu: Gpu) -> None:
    function, inputs = KERNELS[name]
    found = sources(function, *inputs).sources
    for source, cubin in zip(found, compile_sources(found, gpu), strict=True):
        assert cubin.name == source.name and cubin.code[:4] == b"\x7fELF"
        assert cubin.threads == 32 * source.blocks.warps and cubin.shared <= gpu.shared


def test_sizes_of_the_call_and_atomic_additions() -> None:
    symbolic = sources(lambda x: x.softmax(1), X, symbolic={(0, 0): "n", (0, 1): "m"}).sources
    added = sources_of(parse_program(ADDED.format(dtype="bf16"))).sources
    assert len(compile_sources([*symbolic, *added], H100)) == len(symbolic) + len(added)


def test_what_was_compiled_is_found_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, kept = sources(lambda x: x + 1, X).sources, DiskCache(tmp_path / "objects")
    first = compile_sources(found, H100, kept)

    def compiled(*args: object) -> None:
        raise AssertionError("it is on disk")

    monkeypatch.setattr(cubins, "compiled", compiled)
    assert compile_sources(found, H100, kept) == first
    with pytest.raises(AssertionError, match="it is on disk"):
        compile_sources(found, A100, kept)


def test_more_shared_memory_than_there_is() -> None:
    small = Gpu(80, 1, 1024, 1 << 16, shared=16)
    with pytest.raises(CompileError, match="bytes of shared memory, and there are 16"):
        compile_sources(sources(lambda x: x.sum(), torch.randn(64, 1000)).sources, small)
