"""Launches of the user's Triton kernels: one node of the graph each, which writes to its tensors.

Triton itself is not looked into. Its kernels are recognised by the module and qualified name of the function that
launches them, which `kernel[grid](...)` comes to. All tensors of a launch count as written.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onegraph.capture.breaks import LOCAL_FUNCTION, TRITON_KERNEL, GraphBreak
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.directives.handlers import holds_values
from onegraph.capture.interp.rests import Rest
from onegraph.capture.pyobject.contents import ATOMS
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.torchlib.private import AutoDispatchBelowAutograd

#: (module, qualified name) of the functions that launch a kernel: `run(self, *args, grid, warmup, **kwargs)`.
LAUNCHERS = (
    ("triton.runtime.jit", "JITFunction.run"),
    ("triton.runtime.autotuner", "Autotuner.run"),
    ("triton.runtime.autotuner", "Heuristics.run"),
    ("triton.runtime.interpreter", "InterpretedFunction.run"),
)
CONSTANTS = (torch.dtype, torch.device, type, *ATOMS)

#: What the nodes of all graphs launch, by number.
LAUNCHES: list[Callable[[Sequence[torch.Tensor]], None]] = []


def launch(tracer: Tracing, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """`kernel[grid](*args, **kwargs)`"""
    kernel, *given = args
    name = getattr(kernel, "__name__", None) or type(kernel).__name__
    if not tracer.world.is_outside(kernel):
        raise GraphBreak(TRITON_KERNEL, name=name, what="it was made by the compiled function")
    tensors: list[torch.Tensor] = []
    made_of = functools.partial(template, tracer, name, tensors)
    arguments, named = tuple(map(made_of, given)), {key: made_of(value) for key, value in kwargs.items()}
    LAUNCHES.append(functools.partial(run_kernel, kernel, arguments, named))
    node_arguments = (len(LAUNCHES) - 1, tensors)
    tracer.recorder.record(call_launch, node_arguments, {}, None)
    tracer.recorder.note_unseen_writes(tensors)


class Place(int):
    """The number of a tensor among those of a launch."""


def template(tracer: Tracing, name: str, tensors: list[torch.Tensor], value: Any) -> Any:
    """An argument with the tensors in it numbered. What is no tensor is a constant."""
    value = tracer.numbers.concrete(value, f"launch of {name}")
    match value:
        case torch.Tensor():
            known = next((index for index, tensor in enumerate(tensors) if tensor is value), len(tensors))
            if known == len(tensors):
                tensors.append(value)
            return Place(known)
        case tuple() | list() if type(value) in (tuple, list):
            tracer.world.realize(value)
            return type(value)(template(tracer, name, tensors, item) for item in value)
        case _ if callable(value) and hasattr(value, "__closure__"):
            if holds_values(tracer, value):
                raise GraphBreak(LOCAL_FUNCTION, name=name, function=getattr(value, "__qualname__", repr(value)))
            return value
        case _ if isinstance(value, CONSTANTS):
            return value
    raise GraphBreak(TRITON_KERNEL, name=name, what=f"an argument is a {type(value).__qualname__}")


def run_kernel(kernel: Any, args: Any, kwargs: Any, tensors: Sequence[torch.Tensor]) -> None:
    kernel.run(*filled(args, tensors), **filled(kwargs, tensors))


def filled(value: Any, tensors: Sequence[torch.Tensor]) -> Any:
    match value:
        case Place():
            return tensors[value]
        case tuple() | list():
            return type(value)(filled(item, tensors) for item in value)
        case dict():
            return {key: filled(item, tensors) for key, item in value.items()}
    return value


def call_launch(number: int, tensors: list[torch.Tensor]) -> None:
    """The target of the nodes. Autograd knows nothing of kernels, as in eager code."""
    with AutoDispatchBelowAutograd():
        launch_operator(len(tensors))(number, *tensors)


@functools.cache
def launch_operator(count: int) -> Any:
    """The operator that launches kernels on so many tensors, made when it is needed first."""
    names = [f"t{index}" for index in range(count)]
    parameters = "".join(f", Tensor(a{index}!) {name}" for index, name in enumerate(names))

    def launch_kernel(number: int, *tensors: torch.Tensor) -> None:
        LAUNCHES[number](tensors)

    made = torch.library.custom_op(
        f"onegraph::launch_kernel_{count}", launch_kernel, mutates_args=names, schema=f"(int number{parameters}) -> ()"
    )
    made.register_fake(lambda number, *tensors: None)
    return made
