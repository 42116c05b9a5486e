"""Kernels that are written are compiled by Triton for GPUs, without one: by `.ci/triton`, where Triton is there."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
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
from onegraph.compiler.triton.sources import Source, sources_of
from onegraph.ir.loop_text import parse_program

triton = pytest.importorskip("triton", reason="Triton compiles these")
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
    "uniform numbers": (lambda x: (torch.rand_like(x), torch.bernoulli(x), torch.randint_like(x, 9)), (X,)),
    "normal numbers": (lambda x: (torch.randn_like(x), torch.randn(3 << 20, dtype=torch.bfloat16)), (X,)),
    "double numbers": (lambda x: (torch.rand_like(x), torch.bernoulli(x, 0.3)), (X.double(),)),
    "large integers": (lambda: torch.randint(1 << 40, (1 << 20,)), ()),
    "dropout": (lambda x: torch.ops.aten.native_dropout(x + 1, 0.1, True), (X.half(),)),
    "dropout of an input": (lambda x: torch.ops.aten.native_dropout(x, 0.1, True), (torch.randn(1 << 20),)),
    "functions": (lambda x: x.erf() + x.lgamma() + x.atan2(x + 1) + x.log1p() + torch.fmod(x, 2), (X,)),
}


@pytest.mark.parametrize("gpu", [A100, H100], ids=["8.0", "9.0"])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_compiled(name: str, gpu: Gpu) -> None:
    function, inputs = KERNELS[name]
    found = sources(function, *inputs).sources
    for source, built in zip(found, compile_sources(found, gpu), strict=True):
        cubin = built.cubin
        assert built.source is source and cubin.code[:4] == b"\x7fELF"
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


def assembly(source: Source, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the source becomes, in NVIDIA's language."""
    texts, compile = [], triton.compile

    def seen(*args: Any, **options: Any) -> Any:
        made = compile(*args, **options)
        texts.append(made.asm["ptx"])
        return made

    with monkeypatch.context() as patch:
        patch.setattr(triton, "compile", seen)
        cubins.compiled(source, H100)
    return str(texts[0])


def accesses(source: Source, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """How memory is read and written."""
    return set(re.findall(r"(?:ld|st)\.global[.\w]*", assembly(source, monkeypatch)))


def test_threads_read_several_elements_at_once_where_memory_is_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    for function, x in [
        (lambda x: F.gelu(x + 1), torch.randn(1 << 20)),
        (lambda x: x.softmax(-1), torch.randn(64, 1024)),
        (lambda x: x * 2 + 1, torch.randn(1 << 20).half()),
    ]:
        (source,) = sources(function, x).sources
        assert accesses(source, monkeypatch) == {"ld.global.v4.b32", "st.global.v4.b32"}
        alone = accesses(replace(source, aligned=False), monkeypatch)
        assert len(alone) == 2 and not any(".v" in access for access in alone)


def test_draws_do_not_keep_threads_from_reading_several_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(1 << 20)
    (source,) = sources(lambda x: torch.ops.aten.native_dropout(x * 2, 0.1, True)[0], x).sources
    assert accesses(source, monkeypatch) == {"ld.global.v4.b32", "ld.global.b64", "st.global.v4.b32"}


def test_sines_of_draws_are_approximated_as_in_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuRAND calls `__sincosf` and `logf`, exponential_ `__logf`; a call gives both words of a pair."""
    (normal,) = sources(lambda: torch.randn(3 << 20)).sources
    text = assembly(normal, monkeypatch)
    assert "sin.approx" in text and "cos.approx" in text and "sqrt.rn.f32" in text and "lg2.approx" not in text
    (waits,) = sources(lambda x: torch.ops.aten.exponential(x), torch.empty(1000)).sources
    assert "lg2.approx" in assembly(waits, monkeypatch)


def test_what_is_compiled_for_any_pointers_is_kept_by_itself(tmp_path: Path) -> None:
    (source,), kept = sources(lambda x: x + 1, X).sources, DiskCache(tmp_path / "objects")
    both = [source, replace(source, aligned=False)]
    (wide, general), again = compile_sources(both, H100, kept), compile_sources(both, H100, kept)
    assert wide.cubin.code != general.cubin.code and again == [wide, general]
