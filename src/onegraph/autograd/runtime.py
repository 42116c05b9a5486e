"""Calls a functional graph so that its caller sees what eager execution shows: written inputs, true views, identity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, assert_never

import torch
from torch import Tensor

from onegraph.autograd.spec import CallSpec, Computed, Detached, Input, Literal, Output, Replayed, Strided

Run = Callable[..., Sequence[Any]]


def bind(spec: CallSpec, run: Run, captured: Run) -> Run:
    """`run` as a function of the captured graph's inputs that returns the captured graph's outputs.

    A call whose written inputs share memory with others is left to `captured`, the captured graph itself: in the
    functional graph, a write to one input changes no other.
    """
    if spec.is_plain():
        return run
    if not spec.mutations and all(isinstance(output, Computed) for output in spec.outputs):
        order = [output.index for output in spec.outputs if isinstance(output, Computed)]

        def call_in_order(*inputs: Any) -> tuple[Any, ...]:
            results = run(*inputs)
            return tuple([results[index] for index in order])

        return call_in_order

    written = frozenset(index for index, _ in spec.mutations)

    def call(*inputs: Any) -> tuple[Any, ...]:
        if written and shares_memory(inputs, written):
            return tuple(captured(*inputs))
        results = run(*inputs)
        for index, value in spec.mutations:
            inputs[index].copy_(results[value.index])
        return tuple([resolve(output, inputs, results) for output in spec.outputs])

    return call


def resolve(output: Output, inputs: Sequence[Any], results: Sequence[Any]) -> Any:
    """One output of the captured graph."""
    match output:
        case Computed(index):
            return results[index]
        case Input(index):
            return inputs[index]
        case Literal(value):
            return value
        case Strided(base, size, stride, offset):
            tensor = resolve(base, inputs, results)
            start = tensor.storage_offset() + number(offset, results)
            return torch.as_strided(
                tensor, [number(n, results) for n in size], [number(n, results) for n in stride], start
            )
        case Replayed(base, steps):
            tensor = resolve(base, inputs, results)
            for op, args in steps:
                tensor = op(tensor, *args)
            return tensor
        case Detached(source):
            return resolve(source, inputs, results).detach()
        case _:
            assert_never(output)


def shares_memory(inputs: Sequence[Any], written: frozenset[int]) -> bool:
    """Whether a written input uses the storage of another input."""
    owners: dict[int, int] = {}
    for index, tensor in enumerate(inputs):
        if not isinstance(tensor, Tensor) or not tensor.numel():
            continue
        owner = owners.setdefault(tensor.untyped_storage().data_ptr(), index)
        if owner != index and (owner in written or index in written):
            return True
    return False


def number(value: int | Computed, results: Sequence[Any]) -> int:
    return results[value.index] if isinstance(value, Computed) else value
