"""Compiles a Python function of tensors to native code, without capture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from autograd.programs import functional

from onegraph.autograd.runtime import bind
from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.compiler import compile_graph
from onegraph.compiler.cpu import CPU


def compiled(function: Callable[..., Any], *examples: torch.Tensor) -> Callable[..., Any]:
    """The function (which returns a tuple) for inputs like these; `.fallbacks` names the library calls in it."""
    graph = functional(function, *examples)
    native = compile_graph(graph.module, Context(Config(cache_plans=False)), CPU)
    run = bind(graph.spec, native)

    def call(*inputs: torch.Tensor) -> Any:
        with torch.no_grad():
            return run(*inputs)

    call.fallbacks = native.fallbacks  # type: ignore[attr-defined]
    return call


def check(function: Callable[..., Any], *inputs: torch.Tensor, rtol: float = 0.0, atol: float = 0.0) -> None:
    """The compiled function gives eager's results: with these tolerances, also NaN, infinities and signs of zero."""

    def as_tuple(*tensors: torch.Tensor) -> tuple[Any, ...]:
        result = function(*tensors)
        return result if isinstance(result, tuple) else (result,)

    run = compiled(as_tuple, *inputs)
    if all(x.numel() for x in inputs):
        assert run.fallbacks == (), run.fallbacks  # type: ignore[attr-defined]
    with torch.no_grad():
        expected = as_tuple(*inputs)
    for ours, theirs in zip(run(*inputs), expected, strict=True):
        assert facts(ours) == facts(theirs)
        torch.testing.assert_close(ours, theirs, rtol=rtol, atol=atol, equal_nan=True)
        if theirs.dtype in (torch.float32, torch.float64):
            zeros = (theirs == 0) & (ours == 0)
            assert torch.equal(ours.signbit() & zeros, theirs.signbit() & zeros), "the sign of a zero"


def facts(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Type, sizes, and those strides that mean something."""
    strides = [s for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n > 1 and tensor.numel()]
    return tensor.dtype, tuple(tensor.shape), strides
