"""Processes that make very many functions: what resumes them is known however many there are."""

from __future__ import annotations

import itertools
import sys

import pytest
import torch

import onegraph
from onegraph.capture.bytecode import decode
from onegraph.capture.resume import resume_function
from onegraph.capture.resume.resume_function import Shape, resume_code
from onegraph.capture.resume.resumed import Jump, resumed_by


def test_resume_functions_are_known_behind_thousands_of_others() -> None:
    def function(a, b, c, d, e, f, g):
        return a, b, c, d, e, f, g

    bytecode = decode(function.__code__)
    names = function.__code__.co_varnames
    ways = [Jump(at) for at in range(2)]
    orders = itertools.permutations(names)  # 5,040
    codes = [resume_code(bytecode, Shape((), 0, order, (), way, None)) for order in orders for way in ways]
    assert len(set(map(id, codes))) == 10_080
    for code in codes[:: len(codes) // 50]:
        resumed = resumed_by(code)
        assert resumed is not None and resumed.bytecode is bytecode and decode(code) is resumed.made


def inner(x, log):
    for turn in range(3):
        try:
            with torch.no_grad():
                y = x * turn
                onegraph.graph_break()
                log.append(turn)
        finally:
            onegraph.graph_break()
    return y + 1


def middle(x, log):
    doubled = [inner(x * 2, log) for _ in range(2)]
    onegraph.graph_break()
    return doubled


def outer(x):
    log = []
    return [each + len(log) for each in middle(x, log)], log


def test_full_tables_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resume_function, "FUNCTIONS", 1)
    monkeypatch.setattr(sys.modules["onegraph.capture.bytecode.decode"], "_CACHE_LIMIT", 1)
    x = torch.arange(3.0)
    expected = outer(x)
    compiled = onegraph.compile(outer, options={"recompile_limit": 64})
    for _ in range(3):
        results, log = compiled(x)
        assert log == expected[1] and all(map(torch.equal, results, expected[0]))
    assert all(map(torch.equal, compiled(x[1:])[0], [each[1:] for each in expected[0]]))
