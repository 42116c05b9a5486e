"""Kernels in the interpreter touch no element outside of their operands: what would is found, wherever it lies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch
from compiler.graphs import CHECKED, compare, compiled
from gpu.interpreted.interpreter import INTERPRETED

from onegraph.base.context import Context
from onegraph.base.errors import InvalidAccess
from onegraph.compiler.memory.plan import plan
from onegraph.compiler.runtime.launcher import launcher
from onegraph.compiler.triton.index_text import Term
from onegraph.compiler.triton.writer import KernelWriter
from onegraph.ir.loop_text import parse_program


def run(*lines: str, x: torch.Tensor | None = None, i: torch.Tensor | None = None) -> Any:
    """Run a kernel of 40 iterations over x and i of 60 elements, the view v of 40 elements of x, and y of 60."""
    text = f"""program(x, i):
  buffer x: f32[60] stride (1)
  buffer i: i64[60] stride (1)
  buffer v: f32[40] stride (1)
  buffer y: f32[60] stride (1)
  v = view x offset 10
  kernel k0(i0: 40):
    {f"{chr(10)}    ".join(lines)}
  return y
"""
    program = parse_program(text)
    code = INTERPRETED.build(program, Context(CHECKED.replace(sanitize=True)))
    steps = plan(program, code.functions, code.kernels, "cpu", origins={"y": "aten.neg"}, begins=code.begins)
    given = torch.arange(60.0) if x is None else x, torch.arange(60) if i is None else i
    return launcher(steps, code.addresses, {}, 1, code.keep)(*given)


def test_what_is_inside_is_read_and_written() -> None:
    (y,) = run("t0: f32 = load v @ i0", "store y @ i0 + 20 = t0")
    assert torch.equal(y[20:], torch.arange(10.0, 50.0))


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (("t0: f32 = load x @ i0 * 2", "store y @ i0 = t0"), "a load of x is the element 60 of 60"),
        (("t0: f32 = load x @ i0 - 1", "store y @ i0 = t0"), "a load of x is the element -1 of 60"),
        (("t0: f32 = load v @ i0 + 1", "store y @ i0 = t0"), "a load of v is the element 40 of 40"),  # which is in x
        (("t0: f32 = load v @ i0 - 3", "store y @ i0 = t0"), "a load of v is the element -3 of 40"),
        (("t0: f32 = load x @ i0", "store y @ i0 + 21 = t0"), "a store of y is the element 40 of 40"),  # from 20 on
        (("add y @ i0 * 3 += 1.0",), "a store of y is the element 60 of 60"),
        (("t0: i64 = load i @ i0", "t1: f32 = load x @ t0", "store y @ i0 = t1"), "a load of x is the element 99 of"),
    ],
)
def test_what_is_outside_is_found(lines: tuple[str, ...], found: str) -> None:
    i = torch.arange(60)
    i[17] = 99
    with pytest.raises(InvalidAccess, match=f"k0, aten.neg: {found}"):
        run(*lines, i=i)


def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x * 2 + x.sum(0), torch.softmax(x, 1)


def test_a_mask_that_is_forgotten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(37, 50)
    for symbolic in (None, {(0, 0): "n"}):
        graph = compiled(function, x, symbolic=symbolic, target=INTERPRETED, sanitize=True)
        compare(graph(x), function(x))

    def forgetful(self: KernelWriter, lanes: Iterable[str], *more: Term) -> str:
        return " & ".join(term.text for term in more)

    monkeypatch.setattr(KernelWriter, "mask", forgetful)
    for symbolic in (None, {(0, 0): "n"}):
        graph = compiled(function, x, symbolic=symbolic, target=INTERPRETED, sanitize=True)
        with pytest.raises(InvalidAccess, match="is the element"):
            graph(x)
