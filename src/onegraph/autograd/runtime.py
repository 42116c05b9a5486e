"""Calls a functional graph so that its caller sees what eager execution shows: written inputs, true views, identity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, assert_never

import torch
from torch import Tensor

from onegraph.autograd.spec import CallSpec, Computed, Input, Literal, Output, Replayed, SharedBase, Strided

Run = Callable[..., Sequence[Any]]


def bind(spec: CallSpec, run: Run) -> Run:
    """`run` as a function of the captured graph's inputs that returns the captured graph's outputs."""
    if spec.is_plain():
        return run
    if not spec.mutations and all(isinstance(output, Computed) for output in spec.outputs):
        order = [output.index for output in spec.outputs if isinstance(output, Computed)]

        def call_in_order(*inputs: Any) -> tuple[Any, ...]:
            results = run(*inputs)
            return tuple([results[index] for index in order])

        return call_in_order

    def call(*inputs: Any) -> tuple[Any, ...]:
        if spec.bases:
            inputs = (*inputs, *(whole_storage(inputs[base.inputs[0]], base) for base in spec.bases))
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
        case _:
            assert_never(output)


def number(value: int | Computed, results: Sequence[Any]) -> int:
    return results[value.index] if isinstance(value, Computed) else value


def whole_storage(tensor: Tensor, base: SharedBase) -> Tensor:
    """All the elements in the storage of `tensor`."""
    count = tensor.untyped_storage().nbytes() // tensor.dtype.itemsize
    return torch.as_strided(tensor, (count,), (1,), 0)
