"""What kernels of the user write to is read out of Triton's own representation of them."""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import onegraph
from onegraph.capture.directives import triton as launches
from onegraph.capture.directives.triton_kernels import UnknownWrites, written_arguments

triton = pytest.importorskip("triton", reason="Triton is not installed")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("Triton interprets in this process", allow_module_level=True)

SOURCE = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def add(x, y, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, mask=at < n) + libdevice.exp(tl.load(y + at, mask=at < n)), mask=at < n)


@triton.jit
def put(place, value, mask):
    tl.store(place, value, mask=mask)


@triton.jit
def product(a, b, c, n, k, B: tl.constexpr):
    at = tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    row = a + at * k
    for i in range(0, k):
        total += tl.load(row, mask=at < n, other=0.0) * tl.load(b + i)
        row += 1
    if n > 5:
        total = total + tl.sum(total, 0)
    put(c + at, total, at < n)


@triton.jit
def scattered(a, index, out, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.atomic_add(out + tl.load(index + at), tl.load(a + at))


@triton.jit
def walking(a, b, n, B: tl.constexpr):
    p, q = a, b
    while n > 0:
        tl.store(q, tl.load(p))
        p += 1
        q += 1
        n -= 1


@triton.jit
def swapping(a, b, n, B: tl.constexpr):
    p, q = a, b
    for i in range(n):
        tl.store(q, tl.load(p))
        p, q = q, p


@triton.jit
def either(a, b, c, n, B: tl.constexpr):
    if n > 3:
        p = a
    else:
        p = b
    tl.store(p, tl.load(c))


@triton.jit
def by_constant(a, b, c, B: tl.constexpr):
    if B > 4:
        tl.store(a, tl.load(c))
    else:
        tl.store(b, tl.load(c))


@triton.jit
def described(a, b, n, B: tl.constexpr):
    p = tl.make_tensor_descriptor(a, (n, n), (n, 1), (B, B))
    q = tl.make_tensor_descriptor(b, (n, n), (n, 1), (B, B))
    q.store([0, 0], p.load([0, 0]))


@triton.jit(noinline=True)
def put_apart(place, value):
    tl.store(place, value)


@triton.jit
def by_function(a, b, B: tl.constexpr):
    put_apart(b, tl.load(a))


@triton.jit
def printing(a, B: tl.constexpr):
    tl.device_print("a", tl.load(a))


@triton.jit
def by_table(table, value, B: tl.constexpr):
    tl.store(tl.load(table).to(tl.pointer_type(tl.float32)), tl.load(value))
"""
linecache.cache["<user kernels>"] = (len(SOURCE), None, SOURCE.splitlines(True), "<user kernels>")
KERNELS: dict[str, Any] = {"__name__": __name__}
exec(compile(SOURCE, "<user kernels>", "exec"), KERNELS)

X = torch.arange(16.0)
INDEX = torch.arange(16)


@pytest.mark.parametrize(
    ("name", "given", "written"),
    [
        ("add", {"x": X, "y": X, "out": X, "n": 16}, "out"),
        ("product", {"a": X, "b": X, "c": X, "n": 16, "k": 4}, "c"),
        ("scattered", {"a": X, "index": INDEX, "out": X}, "out"),
        ("walking", {"a": X, "b": X, "n": 3}, "b"),
        ("swapping", {"a": X, "b": X, "n": 3}, "a b"),
        ("either", {"a": X, "b": X, "c": X, "n": 3}, "a b"),
        ("by_constant", {"a": X, "b": X, "c": X}, "a"),
        ("by_constant", {"a": X, "b": X, "c": X, "B": 2}, "b"),
        ("described", {"a": X, "b": X, "n": 16}, "b"),
    ],
)
def test_written(name: str, given: dict[str, Any], written: str) -> None:
    assert written_arguments(KERNELS[name], {"B": 16, **given}) == set(written.split())


def tuned(name: str, **more: Any) -> Any:
    configs = [triton.Config({"B": size}, num_warps=4) for size in (2, 8)]
    return triton.autotune(configs=configs, key=[], **more)(KERNELS[name])


def test_each_configuration_may_run() -> None:
    assert written_arguments(tuned("by_constant"), {"a": X, "b": X, "c": X}) == {"a", "b"}
    assert written_arguments(tuned("add", reset_to_zero=["x"]), {"x": X, "y": X, "out": X, "n": 16}) == {"x", "out"}


def test_constants_that_are_computed() -> None:
    kernel = triton.heuristics({"B": lambda given: given["n"]})(KERNELS["by_constant"])
    assert written_arguments(kernel, {"a": X, "b": X, "c": X, "n": 2}) == {"b"}


def test_what_cannot_be_told() -> None:
    with pytest.raises(UnknownWrites, match="read from memory"):
        written_arguments(KERNELS["by_table"], {"table": INDEX, "value": X, "B": 16})
    with pytest.raises(UnknownWrites):
        written_arguments(KERNELS["by_function"], {"a": X, "b": X, "B": 16})
    with pytest.raises(UnknownWrites, match="functions of the program run"):
        written_arguments(tuned("add", pre_hook=lambda given, reset_only=False: None), {"x": X, "y": X, "out": X})
    with pytest.raises(UnknownWrites, match="SimpleNamespace"):
        written_arguments(SimpleNamespace(fn=KERNELS["add"].fn), {"x": X})


def graph_of(monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], *inputs: Any) -> str:
    """The text of the graph of a function, whose launches add the first two tensors to the third."""

    def run_kernel(kernel: Any, args: Any, kwargs: Any, tensors: Any, numbers: Any) -> None:
        tensors[-1].copy_(tensors[0] + tensors[min(1, len(tensors) - 1)].exp())

    monkeypatch.setattr(launches, "run_kernel", run_kernel)
    found: list[str] = []

    def backend(graph: torch.fx.GraphModule, examples: Any) -> Any:
        found.append(graph.code)
        return graph

    onegraph.compile(function, backend=backend, fullgraph=True)(*inputs)
    return "\n".join(found)


def test_the_node_says_what_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        KERNELS["add"][(1,)](x, y, out, 16, B=16)
        return out

    assert "(2,))" in graph_of(monkeypatch, f, X, X + 1)


def test_a_kernel_that_writes_to_nothing_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        KERNELS["printing"][(1,)](x, B=16)
        return x + 1

    assert "(0,))" in graph_of(monkeypatch, f, X)


def test_a_tensor_that_is_read_and_written_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        out = x + 0
        KERNELS["add"][(1,)](x, out, out, 16, B=16)
        return out

    assert "(1,))" in graph_of(monkeypatch, f, X)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_what_is_read_alone_is_no_copy(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """The program's own tensors reach the kernel as they are, and are not written to."""
    seen: list[int] = []

    def run_kernel(kernel: Any, args: Any, kwargs: Any, tensors: Any, numbers: Any) -> None:
        seen.extend(tensor.data_ptr() for tensor in tensors[:2])
        tensors[2].copy_(tensors[0] + tensors[1].exp())

    monkeypatch.setattr(launches, "run_kernel", run_kernel)

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        KERNELS["add"][(1,)](x, y, out, x.numel(), B=16)
        return out * 2

    x, y = torch.randn(16), torch.randn(16)
    torch.testing.assert_close(onegraph.compile(f, backend=backend, fullgraph=True)(x, y), (x + y.exp()) * 2)
    assert seen == [x.data_ptr(), y.data_ptr()]
