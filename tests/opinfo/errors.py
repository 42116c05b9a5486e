"""What eager refuses, and what it warns of, compiled: the same exception and the same warnings.

The calls are those that torch's operator database knows to be errors, and its samples with something wrong: a number
that may be a dimension is out of range, an index is too large or negative, a tensor is empty or has one element.
Every call is made twice, as what raises or warns while it is compiled may not when compiled code runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

import onegraph
from tests.opinfo.harness import SEED, copies, dtype_for, on_tensors, samples

#: Beyond the rank of all samples, from both ends.
OUT_OF_RANGE = (9, -10)
#: Behind it, some errors tell which frames of C++ there were.
WHERE = "Exception raised from"
LARGE = 1000  # as an index, and small enough for a size


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended: its exception if it raised one, and its warnings."""

    error: str
    warnings: tuple[str, ...]


def wrong_calls(op: Any, limit: int | None) -> Iterator[tuple[str, Any]]:
    """Calls that may be errors, with what is wrong with them: those of the database, then changed samples."""
    if op.error_inputs_func is not None:
        for number, error in enumerate(op.error_inputs("cpu")):
            sample = error.sample_input
            yield f"error input {number}", (sample.input, tuple(sample.args), dict(sample.kwargs))
    for number, sample in enumerate(samples(op, dtype_for(op), limit)):
        arguments = (sample.input, tuple(sample.args), dict(sample.kwargs))
        leaves, spec = tree_flatten(arguments)
        yield f"sample {number}", arguments
        for position, leaf in enumerate(leaves):
            for what, wrong in wrong_leaves(leaf):
                yield (
                    f"sample {number} with {what} at {position}",
                    tree_unflatten([*leaves[:position], wrong, *leaves[position + 1 :]], spec),
                )


def wrong_leaves(leaf: Any) -> Iterator[tuple[str, Any]]:
    """What may be wrong in the place of an argument."""
    if type(leaf) is int:
        for number in OUT_OF_RANGE:
            yield str(number), number
    if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided:
        return
    if leaf.dtype in (torch.int64, torch.int32) and leaf.numel():
        for number in (LARGE, -LARGE):
            wrong = leaf.clone(memory_format=torch.contiguous_format)
            wrong.view(-1)[-1] = number
            yield f"the index {number}", wrong
    if leaf.dim() and leaf.numel():
        yield "nothing", leaf[:0]
        yield "one row", leaf[:1]
        yield "nothing inside", leaf[..., :0]


def outcome(function: Callable[..., Any], inputs: list[torch.Tensor]) -> Outcome:
    torch.manual_seed(SEED)
    error = ""
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        try:
            function(*inputs)
        except Exception as raised:
            error = f"{type(raised).__name__}: {str(raised).partition(WHERE)[0]}"
    return Outcome(error, tuple(f"{each.category.__name__}: {each.message}" for each in caught))


def differences(op: Any, limit: int | None) -> tuple[int, list[str]]:
    """How many wrong calls of the operator eager refuses or warns of, and those that are not so when compiled."""
    count, found = 0, []
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        for what, arguments in wrong_calls(op, limit):
            function, inputs = on_tensors(op.op, arguments)
            expected = outcome(function, copies(inputs))
            if expected == Outcome("", ()) and not what.startswith("sample"):
                continue
            count += 1
            compiled = onegraph.compile(function, options={"raise_compiler_errors": True})
            for call in ("first", "second"):
                actual = outcome(compiled, copies(inputs))
                if actual != expected:
                    found.append(f"{op.formatted_name}, {what}, {call} call: {actual} instead of {expected}")
                    break
            onegraph.reset()
    finally:
        torch.set_warn_always(before)
    return count, found
