"""Symbolic sizes: one compilation serves many lengths."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2Model

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch
from tests.capture.test_small_programs import tree_equal


@pytest.fixture(autouse=True)
def no_grad():
    onegraph.reset()
    with torch.no_grad():
        yield


def gpt2() -> tuple[Callable[..., Any], Callable[[int], Any]]:
    torch.manual_seed(0)
    model = GPT2Model(GPT2Config(n_layer=4, n_embd=64, n_head=4, vocab_size=100)).eval()
    return (lambda ids: model(ids, use_cache=False).last_hidden_state), lambda n: torch.randint(0, 100, (1, n))


def mlp() -> tuple[Callable[..., Any], Callable[[int], Any]]:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
    return model, lambda n: torch.rand(n, 8)


def softmax() -> tuple[Callable[..., Any], Callable[[int], Any]]:
    return (lambda x: torch.softmax(x * 2 + x.shape[0], -1)), lambda n: torch.rand(n, n + 3)


def reshapes() -> tuple[Callable[..., Any], Callable[[int], Any]]:
    def f(x):
        n, m = x.shape
        y = x.view(n // 2, 2, m).transpose(0, 1).reshape(-1, m)
        return torch.cat([y, x.new_zeros(1, m)])[: n - 1], [n, m * 2], y.numel()

    return f, lambda n: torch.rand(2 * n, 3)


@pytest.mark.parametrize("case", [gpt2, mlp, softmax, reshapes], ids=lambda c: c.__name__)
@pytest.mark.parametrize("backend", ["eager", "native"])
def test_one_compilation(case: Callable[[], Any], backend: str) -> None:
    function, inputs = case()
    compiled = onegraph.compile(function, dynamic=True, backend=backend, fullgraph=True)
    with Watch() as watch:
        for length in (5, 16, 7, 33, 64):
            x = inputs(length)
            assert tree_equal(function(x), compiled(x)), length
    assert len(watch.of(ev.FrameStarted)) == 1


def test_sizes_become_symbolic_when_they_change() -> None:
    def f(x):
        return (x * 2).sum(-1)

    compiled = onegraph.compile(f)
    with Watch() as watch:
        for length in (3, 4, 5, 6, 1, 0, 9):
            x = torch.rand(length, 2)
            assert tree_equal(f(x), compiled(x))
    assert len(watch.of(ev.FrameStarted)) <= 4


def test_a_branch_on_a_size_is_guarded() -> None:
    def f(x):
        return x + 1 if x.shape[0] > 10 else x - 1

    compiled = onegraph.compile(f, dynamic=True)
    with Watch() as watch:
        for length in (5, 20, 9, 11, 10):
            x = torch.rand(length)
            assert tree_equal(f(x), compiled(x))
    assert len(watch.of(ev.FrameStarted)) == 2


def test_symbolic_sizes_as_python_values() -> None:
    def f(x, table):
        n = x.shape[0]
        name = f"{n}|{n * 2:>5}|{str(n)}"
        return x * n + table[n], name, {n: 1}, n == len(x), isinstance(n, int), float(n), [0] * n, list(range(n))

    table = {n: n * 10 for n in range(20)}
    compiled = onegraph.compile(f, dynamic=True)
    for length in (5, 7, 5):
        x = torch.rand(length)
        assert tree_equal(f(x, table), compiled(x, table))


def test_equal_sizes_that_come_apart() -> None:
    def f(x, y):
        return x.sum() + y.sum()

    compiled = onegraph.compile(f, dynamic=True)
    for a, b in ((4, 4), (5, 5), (4, 6), (7, 8)):
        x, y = torch.rand(a), torch.rand(b)
        assert tree_equal(f(x, y), compiled(x, y))


def test_changed_strides() -> None:
    def f(x):
        return x.reshape(-1) * 2

    compiled = onegraph.compile(f, dynamic=True)
    for x in (torch.rand(4, 6), torch.rand(6, 4).t(), torch.rand(5, 7), torch.rand(5, 14)[:, ::2]):
        assert tree_equal(f(x), compiled(x))


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_padding_to_a_multiple(layout: torch.memory_format, backend: str) -> None:
    """Also where nothing is left to pad: no question is asked of the sizes."""

    def f(x: torch.Tensor) -> torch.Tensor:
        height, width = x.shape[2:]
        padded = torch.nn.functional.pad(x, (0, -width % 8, 0, math.ceil(height / 4) * 4 - height))
        return torch.nn.functional.pad(padded, (1, -1), value=2.0) * 2

    compiled = onegraph.compile(f, backend=backend)
    with Watch() as watch:
        for length in (16, 24, 21, 20, 33, 17):
            x = torch.rand(2, 3, length, length + 3).to(memory_format=layout)
            expected, result = f(x), compiled(x)
            assert tree_equal(expected, result) and expected.stride() == result.stride()
    assert len(watch.of(ev.FrameStarted)) == 2


def test_what_is_asked_of_a_number_decides_the_order_of_a_list() -> None:
    def f(x, n):
        items = [1, 3, 2]
        with torch.enable_grad():
            items.sort(reverse=(x > 0).sum().item() > n)
        return items

    compiled = onegraph.compile(f)
    for x, n in ((torch.ones([]), 3), (torch.ones(5), 2), (torch.ones(5), 7)):
        assert compiled(x, n) == f(x, n)
    onegraph.reset()
