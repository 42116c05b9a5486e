"""Under `verify_correctness`: the first call of a compiled graph is compared with the graph as it was captured."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onegraph.base.context import Context
from onegraph.base.errors import BackendError
from onegraph.torchlib.private import DisableTorchFunction

TOLERANCE = 1e-4  # relative and absolute, for types whose own is less: kernels add in another order
#: What `torch.testing.assert_close` allows for types that are rounded more.
ROUNDED = {torch.float16: 1e-3, torch.bfloat16: 1.6e-2}


def verified(module: torch.fx.GraphModule, compiled: Callable[..., Any], cx: Context) -> Callable[..., Any]:
    """The compiled graph, which at its first call is compared with the captured one: its results, what it writes.

    Gradients are not compared. Random numbers are those of eager mode in both.

    Raises:
        BackendError: from the call, where a result is another one.
    """
    checked = False

    def run(*inputs: Any) -> Any:
        nonlocal checked
        if checked:
            return compiled(*inputs)
        checked = True
        copies = copies_of(inputs)
        random = torch.get_rng_state()
        with torch.no_grad():
            expected = module.forward(*copies)
        torch.set_rng_state(random)
        results = compiled(*inputs)
        with DisableTorchFunction(), torch.no_grad():
            compare("result", results, expected, cx)
            compare("input, after the call,", inputs, copies, cx)
        return results

    return run


def copies_of(inputs: Sequence[Any]) -> list[Any]:
    """Copies of the inputs, of which those share memory that do so now."""
    with DisableTorchFunction(), torch.no_grad():
        detached = [each.detach() if isinstance(each, torch.Tensor) else each for each in inputs]
        copied: list[Any] = copy.deepcopy(detached)
        for each, given in zip(copied, inputs, strict=True):
            if isinstance(each, torch.Tensor):
                each.requires_grad_(given.requires_grad)
    return copied


def compare(what: str, found: Sequence[Any], expected: Sequence[Any], cx: Context) -> None:
    for number, (left, right) in enumerate(zip(found, expected, strict=True)):
        if not isinstance(right, torch.Tensor):
            continue
        inexact = right.dtype.is_floating_point or right.dtype.is_complex
        tolerance = max(ROUNDED.get(right.dtype, 0.0), TOLERANCE) if inexact else 0.0
        try:
            torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance, equal_nan=True)
        except AssertionError as error:
            reason = f"{what} {number} is not what it is in eager: {error}"
            raise BackendError(f"verify_correctness is set, and of the graph of {cx.frame} {reason}") from None
