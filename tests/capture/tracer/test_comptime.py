"""Code of the program that runs while it is compiled."""

from __future__ import annotations

import builtins
from typing import Any

import pytest
import torch
from torch._dynamo.comptime import comptime as of_torch

import onegraph
from onegraph.base import events as ev
from onegraph.compile import EVENTS
from onegraph.tools.record import recording


def test_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x, scale):
        y = x.sin() * scale
        onegraph.comptime.print_graph()
        onegraph.comptime.print_locals()
        onegraph.comptime.print_guards()
        onegraph.comptime.print_bt()
        return y + onegraph.comptime.print_value_stack_and_return(y + 1)

    compiled = onegraph.compile(f, fullgraph=True)
    x = torch.ones(3)
    expected = f(x, 2.0)
    assert capsys.readouterr().out == ""
    torch.testing.assert_close(compiled(x, 2.0), expected)
    printed = capsys.readouterr().out
    assert "mul: f32[3] = sin.mul(2.0)\n" in printed and "return" not in printed.split("x: f32[3]\n")[0]
    assert "scale: float 2.0\ny: f32[3]\n" in printed
    assert "scale == 2.0\n" in printed
    assert "onegraph.comptime.print_bt()\n- f32[3]\n" in printed
    compiled(x, 2.0)
    assert capsys.readouterr().out == ""


def test_sizes_stay_symbols(capsys: pytest.CaptureFixture[str]) -> None:
    @onegraph.compile(fullgraph=True, dynamic=True)
    def f(x):
        onegraph.comptime.print(x)
        onegraph.comptime.print(x.shape[0])
        onegraph.comptime.print_locals()
        return x + 1

    f(torch.ones(3, 4))
    f(torch.ones(5, 6))
    assert capsys.readouterr().out == "f32[s0, s1]\nsymbol s0\nx: f32[s0, s1]\n"


def test_a_function_is_given_the_context() -> None:
    seen: list[Any] = []

    def inner(y):
        @onegraph.comptime
        def _(ctx):
            held = ctx.get_local("y")
            seen.append((held.size(0), held.python_type(), held.is_python_constant(), held.as_proxy().name))
            seen.append(ctx.parent().get_local("n").as_python_constant())
            seen.append(repr(y))
            seen.append([node.op for node in ctx.graph().nodes])

        return y * 2

    def f(x, n):
        return inner(x + n)

    torch.testing.assert_close(onegraph.compile(f, fullgraph=True)(torch.ones(3), 2), f(torch.ones(3), 2))
    assert seen == [(3, torch.Tensor, False, "add"), 2, "f32[3]", ["placeholder", "call_method"]]


def test_numbers_that_change() -> None:
    def f(x, n):
        onegraph.comptime.force_static(n)
        onegraph.comptime.assert_static(n)
        return x * n

    compiled = onegraph.compile(f, fullgraph=True)
    with recording(EVENTS, [ev.GraphCaptured]) as recorded:
        for n in (2, 3, 4, 3, 2):
            torch.testing.assert_close(compiled(torch.ones(2), n), torch.ones(2) * n)
    assert len(recorded) == 3

    @onegraph.compile
    def g(x, n):
        onegraph.comptime.assert_static(n)
        return x * n

    g(torch.ones(2), 2)
    with pytest.raises(onegraph.CompileError, match="expected a constant, got symbol"):
        g(torch.ones(2), 3)


def test_before_a_graph_break(capsys: pytest.CaptureFixture[str]) -> None:
    @onegraph.compile
    def f(x):
        y = x + 1
        onegraph.comptime.print(y)
        onegraph.comptime.graph_break()
        z = y * 2
        onegraph.comptime.print_locals()
        return z

    with recording(EVENTS, [ev.GraphBroken]) as recorded:
        assert f(torch.ones(2)).tolist() == [4, 4]
    assert [each.event.code for each in recorded] == ["forced-graph-break"]
    assert capsys.readouterr().out == "f32[2]\ny: not read yet\nz: f32[2]\n"


def test_an_error_ends_the_compilation() -> None:
    def f(x):
        onegraph.comptime(lambda ctx: ctx.get_local("nothing"))
        return x + 1

    assert f(torch.ones(2)).tolist() == [2, 2]
    with pytest.raises(onegraph.CompileError, match="stage 'comptime' failed .*test_comptime.py.*KeyError: 'nothing'"):
        onegraph.compile(f)(torch.ones(2))


def test_the_debugger(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[None] = []
    monkeypatch.setattr(builtins, "breakpoint", lambda: started.append(None))

    @onegraph.compile(fullgraph=True)
    def f(x):
        onegraph.comptime.breakpoint()
        return x + 1

    f(torch.ones(2))
    f(torch.ones(2))
    assert len(started) == 1


def test_in_eager(capsys: pytest.CaptureFixture[str]) -> None:
    onegraph.comptime(lambda ctx: print("compiling"), lambda: print("eager"))
    onegraph.comptime.print(3)
    onegraph.comptime.print_graph()
    assert onegraph.comptime.print_value_stack_and_return(4) == 4
    assert capsys.readouterr().out == "eager\n3\n"


def test_that_of_torch(capsys: pytest.CaptureFixture[str]) -> None:
    @onegraph.compile(fullgraph=True)
    def f(x):
        y = x + 1
        of_torch.print(y)
        of_torch.print_graph()

        @of_torch
        def _(ctx):
            ctx.print(ctx.get_local("y").size(0))

        return y

    f(torch.ones(3))
    assert capsys.readouterr().out == "f32[3]\ngraph(x: f32[3]):\n  add: f32[3] = x.add(1)\n3\n"
