"""Inference mode inside of compiled code: values, and which of them are inference tensors, are eager's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base.events import OperatorFellBack
from onegraph.compile import EVENTS
from onegraph.tools.record import recording


def nested(x: torch.Tensor, w: torch.Tensor) -> Any:
    with torch.inference_mode():
        y = x.cos()
        with torch.inference_mode(False):
            z, recorded = x.sin() + w, torch.is_grad_enabled()
        with torch.enable_grad():
            u = x * w
    return y, z, recorded, u, torch.is_grad_enabled(), torch.is_inference_mode_enabled()


def left(x: torch.Tensor, w: torch.Tensor) -> Any:
    with torch.inference_mode(False):
        y, inside = (x * w).sum(), torch.is_inference_mode_enabled()
    return y, inside, x + 1


@torch.inference_mode()
def decorated(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


def calling(x: torch.Tensor, w: torch.Tensor) -> Any:
    return decorated(x) + 0, w * 2, decorated(w)


def under_no_grad(x: torch.Tensor, w: torch.Tensor) -> Any:
    with torch.no_grad():
        with torch.inference_mode(False):
            u = w * 2
        v = w * 3
    return u, v


def raising(x: torch.Tensor, w: torch.Tensor) -> Any:
    try:
        with torch.inference_mode():
            y = x * 2
            raise ValueError
    except ValueError:
        pass
    return y, w * 3


def writing(x: torch.Tensor, w: torch.Tensor) -> Any:
    with torch.inference_mode():
        x.add_(1)
    return x * 2


def viewing(x: torch.Tensor, w: torch.Tensor) -> Any:
    with torch.inference_mode():
        y, z = w.view(-1), w[0]
    with torch.inference_mode():
        u = y + 1
    return y, z, u


def transformed(x: torch.Tensor, w: torch.Tensor) -> Any:
    def of_row(row: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            return row.sin()

    return torch.func.vmap(of_row)(x)


def whole(x: torch.Tensor, w: torch.Tensor) -> Any:
    with torch.inference_mode():
        return (x * w).sin() + w


def broken(x: torch.Tensor, w: torch.Tensor) -> Any:
    with torch.inference_mode():
        y = x * w
        onegraph.graph_break()
        z = y + 1
        with torch.inference_mode(False):
            u = w * 2
            onegraph.graph_break()
            v = w * 3
        with torch.enable_grad():
            onegraph.graph_break()
            recorded = torch.is_grad_enabled()
    return y, z, u, v, recorded


def refused(x: torch.Tensor, w: torch.Tensor) -> Any:
    with torch.inference_mode():
        y = w * 2
    return y * w


def failing(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = x + 1
    try:
        with torch.inference_mode():
            z = torch.arange(3.0)[x.long() + 7]
    except IndexError:
        z = y * w
    return z, torch.is_inference_mode_enabled()


WHOLE = [nested, left, calling, under_no_grad, raising, writing, viewing, transformed, whole]


def described(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(described, value))
    if isinstance(value, torch.Tensor):
        return value.tolist(), value.is_inference(), value.requires_grad
    return value


@pytest.mark.parametrize("outside", [contextlib.nullcontext, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("program", [*WHOLE, broken, refused, failing], ids=lambda program: program.__name__)
def test_results_are_eagers(program: Callable[..., Any], backend: str, outside: Any) -> None:
    compiled = onegraph.compile(program, backend=backend, fullgraph=program in WHOLE)
    found = []
    for function in (program, compiled, compiled):
        x, w = torch.arange(4.0), torch.ones(4).requires_grad_()
        with outside():
            try:
                result = described(function(x, w))
            except RuntimeError as error:  # inference tensors are not recorded
                result = type(error), str(error)[:60]
        found.append((result, x.tolist(), torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
    assert found[0] == found[1] == found[2]


def test_a_graph_that_is_in_inference_mode_as_a_whole_is_native() -> None:
    layer = torch.nn.Linear(4, 4)

    @torch.inference_mode()
    def program(x: torch.Tensor) -> torch.Tensor:
        return layer(x).relu() * 2

    compiled = onegraph.compile(program, fullgraph=True)
    with recording(EVENTS, (OperatorFellBack,)) as events:
        result = compiled(torch.randn(2, 4))
    assert result.is_inference() and not [each for each in events if "whole graph" in each.event.reason]
