"""Kernels that Triton compiles, launched over the stand-in: they are given what cubins say of their parameters."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from gpu.driver import StandIn

from onegraph import _C

triton = pytest.importorskip("triton", reason="Triton is not installed")

SOURCE = """\
import triton
import triton.language as tl


@triton.jit
def gelu(x, y, out, n, B: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    there = at < n
    z = tl.load(x + at, mask=there) + tl.load(y + at, mask=there)
    tl.store(out + at, 0.5 * z * (1 + tl.erf(z * 0.7071067811865476)), mask=there)


@triton.jit
def softmax(x, out, rows, columns, B: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * columns + tl.arange(0, B)
    there = tl.arange(0, B) < columns
    z = tl.load(x + at, mask=there, other=float("-inf"))
    e = tl.exp(z - tl.max(z, 0))
    tl.store(out + at, e / tl.sum(e, 0), mask=there)


@triton.jit
def product(a, b, c, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for begin in range(0, k, K):
        left = tl.load(a + rows[:, None] * k + (begin + inner)[None, :])
        total = tl.dot(left, tl.load(b + (begin + inner)[:, None] * n + columns[None, :]), total)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16))
"""
#: Types of pointers, how many sizes, constants.
KERNELS: dict[str, tuple[tuple[str, ...], tuple[str, ...], dict[str, int]]] = {
    "gelu": (("x", "y", "out"), ("n",), {"B": 1024}),
    "softmax": (("x", "out"), ("rows", "columns"), {"B": 4096}),
    "product": (("a", "b", "c"), ("n", "k"), {"M": 128, "N": 128, "K": 128}),
}


@dataclass(frozen=True)
class Built:
    """What Triton says of a kernel."""

    cubin: bytes
    name: str
    threads: int
    shared: int
    pointers: int
    sizes: int

    def load(self, driver: StandIn) -> _C.CudaKernel:
        return _C.CudaKernel(self.cubin, self.name, self.threads, self.shared, self.pointers, self.sizes, driver.path)


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, int], Built]]:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    file = "<kernels of test_cubins>"
    linecache.cache[file] = (len(SOURCE), None, SOURCE.splitlines(True), file)
    names: dict[str, Any] = {}
    exec(compile(SOURCE, file, "exec"), names)
    known: dict[tuple[str, int], Built] = {}

    def built(kernel: str, arch: int) -> Built:
        if (kernel, arch) not in known:
            pointers, sizes, constants = KERNELS[kernel]
            kind = "*fp16" if kernel == "product" else "*fp32"
            signature = {
                **dict.fromkeys(pointers, kind),
                **dict.fromkeys(sizes, "i64"),
                **dict.fromkeys(constants, "constexpr"),
            }
            aligned = {(place,): [["tt.divisibility", 16]] for place in range(len(pointers))}
            source = ASTSource(names[kernel], signature, constants, aligned)
            options = {"num_warps": 8, "num_stages": 3, "enable_fp_fusion": True}
            made = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
            assert made.metadata.global_scratch_size == 0
            counts = len(pointers), len(sizes)
            known[kernel, arch] = Built(
                made.asm["cubin"], made.metadata.name, 32 * made.metadata.num_warps, made.metadata.shared, *counts
            )
        return known[kernel, arch]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        yield built


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_of_triton_is_launched(
    name: str, arch: int, driver: StandIn, build: Callable[[str, int], Built]
) -> None:
    driver.set(capability=arch, shared=166912 if arch == 80 else 232448)
    built = build(name, arch)
    kernel = built.load(driver)
    assert 16 <= kernel.registers <= 255 and kernel.threads == 256 and kernel.shared == built.shared
    memory = [driver.know(torch.zeros(8)) for _ in range(built.pointers)]
    pointers, sizes = tuple(tensor.data_ptr() for tensor in memory), tuple(range(1000, 1000 + built.sizes))
    _C.launch_cuda_kernel(kernel.address, (7, 2), pointers, sizes)
    (launch,) = driver.launches()
    assert (launch.kernel, launch.grid, launch.block) == (name, (7, 2, 1), (256, 1, 1))
    assert launch.shared == built.shared and launch.parameters == (*pointers, *sizes, 0, 0)


def test_much_shared_memory_is_asked_for(driver: StandIn, build: Callable[[str, int], Built]) -> None:
    built = build("product", 80)
    assert built.shared > 48 << 10
    driver.set(shared=built.shared - 1)
    with pytest.raises(RuntimeError, match=f"a block needs {built.shared} bytes of shared memory, and has at most"):
        built.load(driver)


def test_a_cubin_for_another_device_is_refused(driver: StandIn, build: Callable[[str, int], Built]) -> None:
    with pytest.raises(RuntimeError, match=r"on a device of compute capability 8\.0, gelu: .*209\)"):
        build("gelu", 90).load(driver)
    with pytest.raises(RuntimeError, match="the cubin is cut off"):
        replace(build("gelu", 80), cubin=build("gelu", 80).cubin[:-1]).load(driver)
    driver.set(capability=86)
    build("gelu", 80).load(driver)
    built = build("gelu", 80)
    for counts in [(2, 1), (4, 1), (3, 0)]:
        with pytest.raises(RuntimeError, match="its parameters are not"):
            _C.CudaKernel(built.cubin, built.name, 256, 0, *counts, driver.path)
