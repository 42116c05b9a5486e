"""The sanitizer finds accesses outside of buffers, memory that is too small, and what is read before it is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from compiler.graphs import CHECKED, compare, compiled, record

from onegraph import _C
from onegraph.base.context import Context
from onegraph.base.errors import InvalidAccess
from onegraph.compiler import compile_graph
from onegraph.compiler.codegen.kernels import compile_kernels
from onegraph.compiler.cpu import CPU, MACHINE
from onegraph.compiler.memory.check import InvalidPlan
from onegraph.compiler.memory.plan import plan
from onegraph.compiler.runtime.executor import Executor
from onegraph.compiler.runtime.launcher import launcher
from onegraph.ir.loop import Buffer
from onegraph.ir.loop_text import parse_program

SANITIZED = replace(CHECKED, sanitize=True, library_calls="aten")
ORIGINS = {"y": "aten.neg.default at model.py:3", "w": "aten.abs.default"}
RUNNERS = pytest.mark.parametrize("run", [launcher, Executor])


def run_program(body: str, run: Callable[..., Any] = launcher, *more: torch.Tensor) -> Any:
    """Run a program over x, i and y of 40 elements, w of the workspace, under the sanitizer."""
    lines = "\n  ".join(body.strip().splitlines())
    text = f"""program(x, i):
  buffer x: f32[40] stride (1)
  buffer i: i64[40] stride (1)
  buffer w: f32[40] stride (1)
  buffer y: f32[40] stride (1)
  {lines}
  return y
"""
    program = parse_program(text)
    code = compile_kernels(program, Context(SANITIZED), MACHINE)
    steps = plan(program, code.functions, code.kernels, "cpu", origins=ORIGINS)
    call = run(steps, code.addresses, {}, 1, code.keep)
    return call(*(more or (torch.arange(40.0), torch.arange(40))))


def kernel(vector: str, *lines: str, axis: int = 40) -> str:
    return "\n".join((f"kernel k0(i0: {axis}){vector}:", *(f"  {line}" for line in lines)))


@RUNNERS
@pytest.mark.parametrize("vector", ["", " vector i0 by 16"])
@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (("t0: f32 = load x @ i0 + 1", "store y @ i0 = t0"), "load at a0 [+] 1 of x is the element {beyond} of 40"),
        (("t0: f32 = load x @ i0 - 1", "store y @ i0 = t0"), "load at a0 - 1 of x is the element -1 of 40"),
        (("t0: f32 = load x @ -i0 + 38", "store y @ i0 = t0"), "load at -a0 [+] 38 of x is the element -1 of 40"),
        (("t0: f32 = load x @ i0 * 2", "store y @ i0 = t0"), r"load at a0 \* 2 of x is the element \d+ of 40"),
        (("t0: f32 = load x @ 40", "store y @ i0 = t0"), "load at 40 of x is the element 40 of 40"),
        (("t0: f32 = load x @ i0", "store y @ i0 + 1 = t0"), "store at a0 [+] 1 of y is the element {beyond} of 40"),
        (("t0: f32 = load x @ i0", "store y @ -i0 + 38 = t0"), "store at -a0 [+] 38 of y is the element -1 of 40"),
    ],
)
def test_an_access_outside_is_named(run: Callable[..., Any], vector: str, lines: tuple[str, ...], found: str) -> None:
    with pytest.raises(InvalidAccess) as raised:
        run_program(kernel(vector, *lines), run)
    raised.match(r"k0, aten.neg.default at model.py:3: " + found.format(beyond="40"))


@RUNNERS
def test_indices_that_tensors_hold_are_checked(run: Callable[..., Any]) -> None:
    body = kernel("", "t0: i64 = load i @ i0", "t1: f32 = load x @ t0", "store y @ i0 = t1")
    x, i = torch.randn(40), torch.arange(40).flip(0)
    assert torch.equal(run_program(body, run, x, i)[0], x[i])
    i[17] = 1234567
    with pytest.raises(InvalidAccess, match="of x is the element 1234567 of 40"):
        run_program(body, run, x, i)
    wide = body.replace("):", ") vector i0 by 16:")
    with pytest.raises(InvalidAccess, match="of x is the element 1234567 of 40"):
        run_program(wide, run, x, i)


def test_conditions_and_tails_touch_nothing() -> None:
    body = kernel(
        " vector i0 by 16",
        "t0: i64 = load i @ i0",
        "t1: bool = lt(t0, 40)",
        "t2: f32 = load x @ t0 if t1",
        "t3: f32 = load x @ t0 - 1 if t1",
        "store y @ i0 = t2",
    ).replace("t0 - 1", "t0")
    x, i = torch.randn(40), torch.arange(40) * 2
    expected = torch.where(i < 40, x[i.clamp(max=39)], 0)
    assert torch.equal(run_program(body, launcher, x, i)[0], expected)


def test_an_input_with_less_memory_than_it_says() -> None:
    body = kernel("", "t0: f32 = load x @ i0", "store y @ i0 = t0")
    with pytest.raises(InvalidAccess, match="x spans 160 bytes, from byte 0 on, of memory of 12 bytes"):
        run_program(body, launcher, torch.randn(3), torch.arange(40))


def test_what_was_not_written_is_no_number() -> None:
    body = """
kernel k0(i0: 39):
  t0: f32 = load x @ i0
  store w @ i0 = t0
kernel k1(i0: 40):
  t0: f32 = load w @ i0
  store y @ i0 = t0
"""
    (result,) = run_program(body)
    assert result[-1].isnan() and not result[:-1].isnan().any()


def test_memory_of_the_kernel_s_own_is_checked() -> None:
    body = "kernel k0(i0: 40):\n  local m: f32[4]\n  store m @ i0 = 1.0\n  t0: f32 = load m @ 0\n  store y @ i0 = t0"
    with pytest.raises(InvalidAccess, match="store at a0 of .* is the element 4, which is not there"):
        run_program(body)


def test_fences_around_memory_of_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library call that writes next to what it is given."""
    x = torch.randn(600, 600)
    graph = compiled(lambda x: (x @ x).sum(1), x, sanitize=True, library_calls="aten")
    compare(graph(x), (x @ x).sum(1), rtol=1e-3, atol=1e-3)
    real = torch.ops.aten.mm.out._op

    def careless(a: Any, b: Any, out: torch.Tensor) -> torch.Tensor:
        out.as_strided((1,), (1,), out.storage_offset() + out.numel()).fill_(1.0)
        return real(a, b, out=out)

    monkeypatch.setattr("onegraph.compiler.runtime.launcher._BOUND", {"aten.mm.out": careless})
    graph = compiled(lambda x: (x @ x).sum(1), x, sanitize=True, library_calls="aten")
    assert isinstance(graph.run, _C.Plan)
    with pytest.raises(InvalidAccess, match="careless.* has written outside of memory of 1440000 bytes"):
        graph(x)


def rows_into_a_batch(a: torch.Tensor) -> torch.Tensor:
    a = a * 1
    for i in range(1, 5):
        row, sub = a[..., i, :i].clone(), a[..., :i, :i].clone()
        a = torch.select_scatter(
            a, torch.slice_scatter(a[..., i, :], torch.ops.aten.copy(a[..., i, :i], row + sub.sum(-2)), -1, 0, i), -2, i
        )
    return a + 1


def test_rooms_for_elements_alone_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of a batch with the strides of the batch, and memory for its elements, as it had been."""

    def product_of_sizes(buffer: Buffer) -> int:
        size = buffer.type.dtype.size
        for extent in buffer.type.shape:
            size *= extent.constant or 0
        return size

    monkeypatch.setattr("onegraph.compiler.memory.reuse.size_of", product_of_sizes)
    gaps = replace(CPU, passes=tuple(each for each in CPU.passes if each.name != "close_gaps"))
    x = torch.randn(2, 4, 64, 64)
    module = record(rows_into_a_batch, x)
    with pytest.raises(InvalidPlan, match="needs .* bytes"):
        compile_graph(module, Context(CHECKED), gaps)
    graph = compile_graph(module, Context(replace(SANITIZED, verify=False)), gaps)
    with pytest.raises(InvalidAccess, match=r"aten\..* spans \d+ bytes, from byte \d+ on, of memory of \d+ bytes"):
        graph(x)
    whole = compile_graph(module, Context(SANITIZED), CPU)
    compare(whole(x), rows_into_a_batch(x))
