"""Generated kernels: pointwise chains, reductions, normalisations, layouts and low precision.

Each is also compared with its limit: the time in which a plain addition reads and writes as many bytes, or, where the
arithmetic takes longer than that, the time in which a product of matrices does as many multiplications.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.contenders import CONTENDERS, reset
from benchmarks.measure import Result, Settings, interleaved
from onegraph.base.events import KernelsCompiled
from onegraph.compile import EVENTS
from onegraph.tools.record import recording

ARITHMETIC = ("gelu x10", "gelu tanh x10")  # one loop over vectors without a rest: each instruction is one an element
MULTIPLICATION = re.compile(r"= (?:fmul|call \S+ \S+ \S+ @llvm\.fma\.)")
SIDE = 512


def gelu_chain(x: Tensor) -> Tensor:
    for _ in range(10):
        x = F.gelu(x) * 1.1 + 0.3
    return x


def tanh_gelu_chain(x: Tensor) -> Tensor:
    for _ in range(10):
        x = F.gelu(x, approximate="tanh") * 1.1 + 0.3
    return x


def multiply_add(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return a * b + c


def softmax(x: Tensor) -> Tensor:
    return x.softmax(-1)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, (x.shape[-1],), weight, bias)


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() * weight


def add_transposed(x: Tensor, y: Tensor) -> Tensor:
    return x.t() + y


def bias_gelu_residual(x: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
    return F.gelu(x + bias) + residual


def cases() -> Iterator[tuple[str, Callable[..., object], tuple[Tensor, ...]]]:
    r = torch.randn
    yield "gelu x10, 1024x1024", gelu_chain, (r(1024, 1024),)
    yield "gelu tanh x10, 1024x1024", tanh_gelu_chain, (r(1024, 1024),)
    yield "a*b+c, 1M", multiply_add, (r(1 << 20), r(1 << 20), r(1 << 20))
    yield "a*b+c, 1M bf16", multiply_add, tuple(r(1 << 20).bfloat16() for _ in range(3))
    yield "a*b+c, 16M", multiply_add, (r(1 << 24), r(1 << 24), r(1 << 24))
    yield "power, 1M", torch.pow, (torch.rand(1 << 20), r(1 << 20))
    yield "bias+gelu+residual, 512x3072", bias_gelu_residual, (r(512, 3072), r(3072), r(512, 3072))
    yield "softmax, 4096x1024", softmax, (r(4096, 1024),)
    yield "softmax, 4096x1000", softmax, (r(4096, 1000),)
    yield "layer norm, 4096x1024", layer_norm, (r(4096, 1024), r(1024), r(1024))
    yield "rms norm, 4096x1024", rms_norm, (r(4096, 1024), r(1024))
    yield "cross entropy, 512x32000", F.cross_entropy, (r(512, 32000), torch.randint(32000, (512,)))
    yield "sum of dim 0, 4096x1024", partial(torch.sum, dim=0), (r(4096, 1024),)
    yield "sum of everything, 1M", torch.sum, (r(1 << 20),)
    yield "x.t()+y, 2048x2048", add_transposed, (r(2048, 2048), r(2048, 2048))


def in_a_function(target: Callable[..., object]) -> Callable[..., object]:
    """Compilers take Python functions: give builtins and partials one."""
    return lambda *args: target(*args)


def moving(size: int) -> Callable[[], object]:
    """Reads two thirds of so many bytes and writes one, into memory that is there."""
    x, y, z = (torch.ones(max(size // 12, 1)) for _ in range(3))
    return lambda: torch.add(x, y, out=z)


def multiplying(count: int) -> Callable[[], object]:
    """A product of matrices with so many multiplications, each with its addition."""
    x, y = torch.ones(max(count // SIDE**2, 1), SIDE), torch.ones(SIDE, SIDE)
    if not torch.backends.mkldnn.is_available():
        return lambda: torch.mm(x, y)
    return lambda: torch.ops.mkldnn._linear_pointwise(x, y, None, "none", [], "")


def multiplications(run: Callable[[], object], elements: int) -> int:
    """How many the code does for so many elements, and fused ones with an addition. The run compiles it."""
    with recording(EVENTS, [KernelsCompiled]) as recorded:
        run()
    return elements * sum(len(MULTIPLICATION.findall(item.text)) for item in recorded)


def run(settings: Settings) -> Iterator[Result]:
    for name, target, args in cases():
        with torch.no_grad():
            runs = {key: partial(compile(in_a_function(target)), *args) for key, compile in CONTENDERS.items()}
            size = sum(t.nbytes for t in (*args, target(*args)))  # type: ignore[attr-defined]
            count = multiplications(runs["onegraph"], args[0].numel())
            if name.startswith(ARITHMETIC):
                limit, what = multiplying(count), f"its {count / 1e6:.0f} million multiplications take"
            else:
                limit, what = moving(size), f"moving its {size / 1e6:.1f} MB takes"
            samples = interleaved(runs | {"limit": limit}, settings.rounds(15), settings.clock)
            ratio = samples["onegraph"].median / samples.pop("limit").median
            yield Result("kernels", name, "ms", samples, f"{name}: {ratio:.2f} times what {what}")
        reset()
