"""Calls a functional graph so that its caller sees what eager execution shows: written inputs, true views, identity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, assert_never

import torch
from torch import Tensor

from onegraph.autograd.spec import (
    CallSpec,
    Computed,
    Detached,
    Gradient,
    Input,
    Literal,
    Mutation,
    Output,
    Part,
    Replayed,
    Strided,
    Tangent,
    Wrapped,
    base_of,
)
from onegraph.base.late import late_module
from onegraph.torchlib.private import foreach_copy_, increment_version

if TYPE_CHECKING:
    from onegraph.torchlib.primals import set_version
else:
    set_version = late_module("onegraph.torchlib.primals").set_version

Run = Callable[..., Sequence[Any]]
Numbers = Sequence[int | Computed]


def bind(spec: CallSpec, run: Run, records_writes: bool = True, records_views: bool = True) -> Run:
    """`run` as a function of the captured graph's inputs that returns the captured graph's outputs.

    Without `records_writes` autograd records none of the writes, whatever they are written to: a step that takes its
    gradients itself. Without `records_views` it records none of the views that the graph returns either: the step of an
    optimizer.
    """
    if spec.is_plain():
        return run
    plain = not spec.mutations and not spec.written and not spec.views
    if plain and all(isinstance(output, Computed) for output in spec.outputs):
        order = [output.index for output in spec.outputs if isinstance(output, Computed)]

        def call_in_order(*inputs: Any) -> tuple[Any, ...]:
            results = run(*inputs)
            return tuple([results[index] for index in order])

        return call_in_order

    def call(*inputs: Any) -> tuple[Any, ...]:
        results = run(*inputs)
        try:
            return finished(inputs, results)
        except BaseException:  # where an input may have its new value, nobody is to run the graph again
            for mutation in spec.mutations:
                if is_made_uncounted(mutation, inputs[mutation.input], results):
                    count_writes(inputs[mutation.input], 1)
            raise

    def finished(inputs: Sequence[Any], results: Sequence[Any]) -> tuple[Any, ...]:
        if records_writes:
            for mutation in spec.mutations:
                write(mutation, inputs[mutation.input], results)
        else:
            write_unrecorded(spec.mutations, inputs, results)
        if spec.views:
            results = list(results)
            add_views([view for _, view in spec.views], inputs, results)
        give = resolve if records_views else unrecorded_output
        outputs = [give(output, inputs, results) for output in spec.outputs]
        for position, count in spec.written:
            set_version(outputs[position], count)
        return tuple(outputs)

    return call


def add_views(views: Sequence[Output], inputs: Sequence[Any], results: list[Any]) -> None:
    """Let the results go on with these views, some of which are made of earlier ones."""
    for view in views:
        results.append(resolve(view, inputs, results))


def unrecorded_output(output: Output, inputs: Sequence[Any], results: Sequence[Any]) -> Any:
    """One output; if it is a view of what has gradients, the program made it where none are recorded."""
    base = base_of(output)
    if base is output or not (isinstance(base, Input) and inputs[base.index].requires_grad):
        return resolve(output, inputs, results)
    with torch.no_grad():
        return resolve(output, inputs, results)


def write_unrecorded(mutations: Sequence[Mutation], inputs: Sequence[Any], results: Sequence[Any]) -> None:
    """Give the inputs their new values, as `write` does: all of them at once, and autograd only counts."""
    targets, values, more = [], [], []
    for mutation in mutations:
        target, writes = inputs[mutation.input], mutation.writes
        value = target if mutation.value is None else results[mutation.value.index]
        if value is not target and writes:
            targets.append(target)
            values.append(value)
            writes -= 1
        elif value is not target:
            target.data.copy_(value)
        if writes and not target.is_inference():
            more += [target] * writes
    if targets:
        with torch.no_grad():
            foreach_copy_(targets, values)
    if more:
        increment_version(tuple(more))


def write(mutation: Mutation, target: Tensor, results: Sequence[Any]) -> None:
    """Give an input its new value, in so many writes."""
    more = mutation.writes
    if mutation.value is not None:
        seen = target if more else target.data
        seen.copy_(results[mutation.value.index])
        more -= 1
    count_writes(target, more)


def is_made_uncounted(mutation: Mutation, target: Tensor, results: Sequence[Any]) -> bool:
    """Whether the new value of an input may be there although autograd counts no write."""
    in_place = mutation.value is None or results[mutation.value.index] is target
    return in_place or not mutation.writes


def count_writes(tensor: Tensor, count: int) -> None:
    """Let autograd count writes that were not made one by one."""
    if count > 0 and not tensor.is_inference():
        increment_version((tensor,) * count)


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
            return laid_over(resolve(base, inputs, results), size, stride, offset, results)
        case Replayed(base, steps):
            tensor = resolve(base, inputs, results)
            for step in steps:
                made = step.op(tensor, *[argument(value, results) for value in step.args])
                tensor = made if step.index is None else made[step.index]
            return tensor
        case Detached(source, counted_together):
            tensor = resolve(source, inputs, results)
            return tensor.detach() if counted_together else tensor.data
        case _:
            assert_never(output)


def laid_over(tensor: Tensor, size: Numbers, stride: Numbers, offset: int | Computed, results: Sequence[Any]) -> Tensor:
    """A view of a tensor by its layout."""
    start = tensor.storage_offset() + number(offset, results)
    return torch.as_strided(tensor, [number(n, results) for n in size], [number(n, results) for n in stride], start)


def argument(value: Any, results: Sequence[Any]) -> Any:
    """An argument of a view operator, with its numbers."""
    if isinstance(value, list | tuple):
        return [argument(item, results) for item in value]
    return number(value, results)


def number(value: int | Computed, results: Sequence[Any]) -> int:
    return results[value.index] if isinstance(value, Computed) else value


def gradient(place: Gradient, results: Sequence[Any], laid: Sequence[Tensor], given: Sequence[Tensor]) -> Tensor | None:
    """One of the gradients that a node gives. Tangents are passed on as they were given, and views are of laid ones."""
    match place:
        case Computed(index):
            computed: Tensor = results[index]
            return computed
        case Tangent(position):
            return given[position]
        case Part(base, size, stride, offset):
            whole = gradient(base, results, laid, laid)
            assert whole is not None
            return laid_over(whole, size, stride, offset, results)
        case Wrapped(wrapping, parts):
            held = [gradient(part, results, laid, given) for part in parts]
            return wrapping.made([part for part in held if part is not None])
        case None:
            return None
        case _:
            assert_never(place)


def as_laid_out(tensor: Tensor, stride: tuple[int, ...]) -> Tensor:
    """The tensor with these strides; it is copied if it has others."""
    if tensor.stride() == stride:
        return tensor
    return torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype, device=tensor.device).copy_(tensor)
