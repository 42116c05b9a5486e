"""`sys.settrace`: a trace function that is set in compiled code sees the lines of what runs from there on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
import torch

import onegraph
from onegraph import _C


def stepped(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    if y.dim() == 1:
        y = y * 2
    return y


def lines_of(function: Callable[..., Any], *args: Any) -> list[int]:
    """The lines that run in a function, as a debugger or a measurement of coverage sees them."""
    lines: list[int] = []

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line" and frame.f_code is function.__code__:  # type: ignore[attr-defined]
            lines.append(frame.f_lineno - function.__code__.co_firstlineno)  # type: ignore[attr-defined]
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function(*args)
    finally:
        sys.settrace(before)
    return lines


def test_lines_are_seen_where_compiled_code_sets_a_trace_function() -> None:
    def f(x: torch.Tensor) -> Any:
        return x + 1, lines_of(stepped, x), stepped(x)

    x = torch.ones(2)
    expected = f(x)
    compiled = onegraph.compile(f, backend="eager")
    for _ in range(2):
        assert repr(compiled(x)) == repr(expected)


@pytest.mark.parametrize("count", [1, 2])
def test_code_is_compiled_where_a_trace_function_was_set_before(count: int) -> None:
    seen: list[str] = []

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        seen.append(frame.f_code.co_name)
        return None

    compiled = onegraph.compile(stepped, backend="eager", fullgraph=True)
    x = torch.ones(2)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        found = [compiled(x) for _ in range(count)]
    finally:
        sys.settrace(before)
    assert repr(found) == repr([stepped(x)] * count)
    assert _C.entries(stepped.__code__)
    assert "stepped" in seen


WATCHED = """
import subprocess
import sys
import torch
import onegraph
from onegraph import _C

heard = []

def listen(event, args):
    if event == "onegraph.test":
        heard.append(note(args))

def note(args):
    return len(args)

def break_here():
    sys.audit("onegraph.test", 1)

onegraph.disallow_in_graph(break_here)

def f(x):
    sys.audit("onegraph.test", 1, 2)
    break_here()
    return x + 1

sys.addaudithook(listen)
compiled = onegraph.compile(f, backend="eager")
for size in (2, 2, 3):
    assert torch.equal(compiled(torch.ones(size)), torch.ones(size) + 1)
print(heard, [len(_C.entries(function.__code__)) for function in (listen, note)], len(_C.entries(f.__code__)))
"""


def test_audit_hooks_are_not_part_of_the_program() -> None:
    """A hook cannot be removed again: it gets a process of its own."""
    done = subprocess.run([sys.executable, "-c", WATCHED], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[2, 1, 2, 1, 2, 1] [0, 0] "), done.stdout
