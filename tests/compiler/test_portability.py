"""Kernels for other machines: their assembly computes on vectors and calls no function but those of OpenMP.

What this machine can run too, older instruction sets of its own kind, is run and compared with eager.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import pytest
import torch
from compiler.graphs import record
from torch import Tensor, randn
from torch.nn import functional as F

from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.base.errors import CompileError
from onegraph.compiler import compile_graph
from onegraph.compiler.codegen.native import compile_text, optimized
from onegraph.compiler.cpu import CPU

PLAIN = "generic"  # a cpu of which nothing is assumed: the text has no instructions of a machine
OLDER = [PLAIN, "x86-64-v3"] if platform.machine() == "x86_64" else [PLAIN]
LITTLE = 1000  # elements that are not worth a second thread
OPENMP = {"GOMP_parallel", "omp_get_num_threads", "omp_get_thread_num"}

WORK: dict[str, tuple[Callable[..., Any], Tensor]] = {
    "gelu": (F.gelu, randn(64, 1000)),
    "tanh": (torch.tanh, randn(4096)),
    "softmax": (lambda x: x.softmax(-1), randn(64, 1000)),
    "layer_norm": (lambda x: F.layer_norm(x, (1000,)), randn(64, 1000)),
    "column_sum": (lambda x: x.sum(0), randn(256, 1024)),
    "sum": (lambda x: x.sum(), randn(100_000).abs()),
    "double": (lambda x: torch.exp(x) * x, randn(64, 1000, dtype=torch.float64)),
    "bfloat16": (lambda x: x * x + x, randn(64, 1000).bfloat16()),
    "bfloat16 in a short row": (lambda x: F.layer_norm(x, (70,)) + 1, randn(5, 70).bfloat16()),
    "bfloat16 maximum": (lambda x: (x.amax(-1), x.argmin(-1), x.cummax(-1)[0]), randn(9, 70).bfloat16()),
    "float16": (lambda x: x * x + x, randn(64, 1000).half()),
    "float16 maximum": (lambda x: (x.amax(-1), x.argmin(-1), x.cummax(-1)[0]), randn(9, 70).half()),
    "transposed": (lambda x: x.t() + x, randn(128, 128)),
    "integers": (lambda x: x // 3 + x % 7, torch.arange(-2048, 2048)),
}
# Which arithmetic on vectors each of them must have, by machine.
VECTORS = {
    "aarch64": re.compile(r"\t(?:f|s|u)?(?:add|sub|mul|mla|mls|max|maxnm|div|cvtzs|shl)\t?\s*(?:v\d+\.|z\d+\.)"),
    "x86_64": re.compile(r"\t(?:v?(?:add|sub|mul|div)p[sd]|vfn?m(?:add|sub)\d+p[sd]|v?padd[bwdq])\t"),
}
CALLS = {"aarch64": re.compile(r"\tbl\t(?!og\.)(\S+)"), "x86_64": re.compile(r"\tcallq?\t\*?(?!og\.)(\w+)")}


@cache
def text(name: str) -> str:
    function, x = WORK[name]
    return compile_graph(record(function, x), Context(Config(target_cpu=PLAIN)), CPU).text("llvm")


def assembly(name: str, architecture: str, cpu: str) -> str:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(f"{architecture}-unknown-linux-gnu").create_target_machine(
        cpu=cpu, opt=2, codemodel="small"
    )
    return target.emit_assembly(optimized(text(name), target))


@pytest.mark.parametrize("name", WORK)
@pytest.mark.parametrize(("architecture", "cpu"), [("aarch64", "neoverse-n1"), ("x86_64", "x86-64-v3")])
def test_kernels_compute_on_vectors_of_other_machines(architecture: str, cpu: str, name: str) -> None:
    printed = assembly(name, architecture, cpu)
    assert VECTORS[architecture].search(printed) or "maximum" in name
    calls = set(CALLS[architecture].findall(printed))
    assert calls <= OPENMP
    assert "GOMP_parallel" in calls or WORK[name][1].numel() < LITTLE


@pytest.mark.parametrize("name", WORK)
@pytest.mark.parametrize("cpu", OLDER)
def test_older_instruction_sets_give_the_same_results(cpu: str, name: str) -> None:
    function, x = WORK[name]
    found = compile_graph(record(function, x), Context(Config(target_cpu=cpu)), CPU)(x)
    expected = function(x)
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if x.dtype in (torch.bfloat16, torch.float16) else {}
    torch.testing.assert_close(found, expected if isinstance(expected, tuple) else (expected,), **tolerance)


def test_float16_is_converted_without_instructions_for_it() -> None:
    every = torch.arange(-32768, 32768).to(torch.int16).view(torch.float16)
    (widened,) = compile_graph(record(lambda x: x.float(), every), Context(Config(target_cpu=PLAIN)), CPU)(every)
    torch.testing.assert_close(widened, every.float(), rtol=0, atol=0, equal_nan=True)
    many = torch.arange(-(2**31), 2**31, 4093).to(torch.int32).view(torch.float32)
    between = torch.cat([every.float(), (every.double() + every.roll(1).double()).div(2).float(), many])
    (narrowed,) = compile_graph(record(lambda x: x.half(), between), Context(Config(target_cpu=PLAIN)), CPU)(between)
    torch.testing.assert_close(narrowed, between.half(), rtol=0, atol=0, equal_nan=True)
    assert torch.equal(narrowed.signbit(), between.half().signbit())


def test_code_that_calls_what_the_process_has_not_is_an_error() -> None:
    calling = "declare void @no_such_function()\ndefine void @f() {\n  call void @no_such_function()\n  ret void\n}\n"
    with pytest.raises(CompileError, match="this process has not what it calls: no_such_function"):
        compile_text(calling, ["f"])
