"""Launches of the user's Triton kernels: one node of the graph each, which writes to its tensors.

Triton itself is not looked into. Its kernels are recognised by the module and qualified name of the function that
launches them, which `kernel[grid](...)` comes to. What a launch writes to is read out of what Triton makes of the
kernel; where that cannot be told, it is all of its tensors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from onegraph.base.dataclass import dataclass
from onegraph.base.late import late_module
from onegraph.capture.breaks import LOCAL_FUNCTION, TRITON_KERNEL, GraphBreak
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.directives.handlers import holds_values
from onegraph.capture.interp.rests import Rest
from onegraph.capture.pyobject.contents import ATOMS
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.torchlib.private import AutoDispatchBelowAutograd

if TYPE_CHECKING:
    from onegraph.capture.directives import triton_kernels
else:  # for who has such kernels
    triton_kernels = late_module("onegraph.capture.directives.triton_kernels")

#: (module, qualified name) of the functions that launch a kernel: `run(self, *args, grid, warmup, **kwargs)`.
LAUNCHERS = (
    ("triton.runtime.jit", "JITFunction.run"),
    ("triton.runtime.autotuner", "Autotuner.run"),
    ("triton.runtime.autotuner", "Heuristics.run"),
    ("triton.runtime.interpreter", "InterpretedFunction.run"),
)
CONSTANTS = (torch.dtype, torch.device, type, *ATOMS)
SOME = 2  #: a number of which all that matters is that it is none of a kernel's special cases

#: The names of a kernel's arguments, their defaults, and what each decorator around it leaves to choose from:
#: constants, and functions that compute others, by name.
KernelFacts = tuple[tuple[str, ...], Mapping[str, Any], tuple[tuple[tuple[Mapping[str, Any], Any], ...], ...]]

#: What the nodes of all graphs launch, by number.
LAUNCHES: list[Callable[[Sequence[torch.Tensor], Sequence[int]], None]] = []


def launch(tracer: Tracing, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`kernel[grid](*args, **kwargs)`"""
    kernel, *given = args
    name = getattr(kernel, "__name__", None) or type(kernel).__name__
    if not tracer.world.is_outside(kernel):
        raise GraphBreak(TRITON_KERNEL, name=name, what="it was made by the compiled function")
    grid = kwargs.get("grid")
    if type(grid) is FunctionType and holds_values(tracer, grid):
        return tracer.call(launch_on_sizes, (function, triton_kernels.known_of(kernel), kernel, *given), kwargs, rest)
    operands = Operands(tracer, name)
    names = [*getattr(kernel, "arg_names", ())][: len(given)]
    bound = dict(zip(names, given, strict=False)) | kwargs
    changing = (
        triton_kernels.numbers_of(kernel) if any(isinstance(value, torch.SymInt) for value in bound.values()) else ()
    )
    templates = {key: operands.template(value, key in changing or key == "grid") for key, value in bound.items()}
    others = [operands.template(value, False) for value in given[len(names) :]]
    if type(grid) is list:  # what launch_on_sizes gives
        templates["grid"] = GridSizes(triton_kernels.constants_of(kernel), tuple(templates["grid"]))
    arguments = (*(templates.pop(key) for key in names), *others)
    LAUNCHES.append(functools.partial(run_kernel, kernel, arguments, templates))
    tensors = operands.tensors
    written = written_tensors(kernel, dict(zip(names, arguments, strict=False)) | templates, tensors)
    tracer.recorder.record(call_launch, (len(LAUNCHES) - 1, operands.numbers, tensors, tuple(written)), {}, None)
    tracer.recorder.note_unseen_writes([tensors[number] for number in written])
    return None


def launch_on_sizes(run: Any, known: KernelFacts, kernel: Any, *args: Any, grid: Any, **kwargs: Any) -> Any:
    """Traced in the place of a launch whose grid is a function of tensors or sizes: it is called now.

    Where there are several configurations, the grid has sizes for each.
    """
    names, defaults, choices = known
    bound = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
    return run(kernel, *args, grid=sizes_on(grid, choices, bound), **kwargs)


def sizes_on(grid: Any, choices: Any, bound: Any) -> Any:
    if not choices:
        return [tuple(grid(bound))]
    sizes = []
    for constants, computed in choices[0]:
        chosen = {**bound, **constants}
        for name, function in computed:
            chosen[name] = function(chosen)
        sizes += sizes_on(grid, choices[1:], chosen)
    return sizes


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """Stands in the arguments of a launch for the tensor with this number among the node's."""

    number: int


@dataclass(frozen=True, slots=True)
class NumberPlace:
    """Stands for the number with this number among the node's."""

    number: int


@dataclass(frozen=True, slots=True)
class GridSizes:
    """The sizes of a grid for each of a kernel's configurations, of which a launch has one."""

    constants: Sequence[Mapping[str, Any]]
    sizes: tuple[Any, ...]

    def __call__(self, given: Mapping[str, Any]) -> Any:
        for constants, size in zip(self.constants, self.sizes, strict=True):
            if all(given[name] == value for name, value in constants.items() if name in given):
                return size
        raise ValueError(f"the kernel runs with constants that none of its configurations has: {dict(given)}")


class Operands:
    """What a node hands to its launch: tensors, and numbers that may be others in each call."""

    def __init__(self, tracer: Tracing, name: str) -> None:
        self.tracer = tracer
        self.name = name
        self.tensors: list[torch.Tensor] = []
        self.numbers: list[torch.SymInt] = []

    def template(self, value: Any, may_change: bool) -> Any:
        """An argument in which operands stand for themselves. The rest of it is constant."""
        if may_change and isinstance(value, torch.SymInt):
            self.numbers.append(value)
            return NumberPlace(len(self.numbers) - 1)
        value = self.tracer.numbers.concrete(value, f"launch of {self.name}")
        match value:
            case torch.Tensor():
                known = next((n for n, tensor in enumerate(self.tensors) if tensor is value), len(self.tensors))
                if known == len(self.tensors):
                    self.tensors.append(value)
                return TensorPlace(known)
            case tuple() | list() if type(value) in (tuple, list):
                self.tracer.world.realize(value)
                return type(value)(self.template(item, may_change) for item in value)
            case _ if callable(value) and hasattr(value, "__closure__"):
                if holds_values(self.tracer, value):
                    called = getattr(value, "__qualname__", repr(value))
                    raise GraphBreak(LOCAL_FUNCTION, name=self.name, function=called)
                return value
            case _ if isinstance(value, CONSTANTS):
                return value
        raise GraphBreak(TRITON_KERNEL, name=self.name, what=f"an argument is a {type(value).__qualname__}")


def written_tensors(kernel: Any, bound: Mapping[str, Any], tensors: Sequence[torch.Tensor]) -> list[int]:
    """The numbers of the tensors that a launch may write to: not those which are seen to be read alone."""
    places = {name: value.number for name, value in bound.items() if isinstance(value, TensorPlace)}
    everything = range(len(tensors))
    known = {name: SOME if isinstance(value, NumberPlace) else value for name, value in bound.items()}
    try:
        names = triton_kernels.written_arguments(
            kernel, known | {name: tensors[place] for name, place in places.items()}
        )
    except Exception:  # of Triton's, too: the launch will say what is wrong
        return [*everything]
    read = set(places.values()) - {places[name] for name in names if name in places}
    return sorted({*everything} - read) or [*everything]  # one that writes to nothing may do something else, as print


def run_kernel(kernel: Any, args: Any, kwargs: Any, tensors: Sequence[torch.Tensor], numbers: Sequence[int]) -> None:
    kernel.run(*filled(args, tensors, numbers), **filled(kwargs, tensors, numbers))


def filled(value: Any, tensors: Sequence[torch.Tensor], numbers: Sequence[int]) -> Any:
    match value:
        case TensorPlace():
            return tensors[value.number]
        case NumberPlace():
            return numbers[value.number]
        case GridSizes():
            return GridSizes(value.constants, filled(value.sizes, tensors, numbers))
        case tuple() | list():
            return type(value)(filled(item, tensors, numbers) for item in value)
        case dict():
            return {key: filled(item, tensors, numbers) for key, item in value.items()}
    return value


def call_launch(
    launch: int, numbers: list[torch.SymInt], tensors: list[torch.Tensor], written: tuple[int, ...]
) -> None:
    """The target of the nodes. Autograd knows nothing of kernels, as in eager code."""
    with AutoDispatchBelowAutograd():
        launch_operator(len(tensors), written)(launch, numbers, *tensors)


@functools.cache
def launch_operator(count: int, written: tuple[int, ...]) -> Any:
    """The operator that launches kernels on so many tensors, of which these are written to, made when it is needed."""
    names = [f"t{index}" for index in range(count)]
    kinds = [f"Tensor(a{index}!)" if index in written else "Tensor" for index in range(count)]
    parameters = "".join(f", {kind} {name}" for kind, name in zip(kinds, names, strict=True))

    def launch_kernel(launch: int, numbers: Sequence[int], *tensors: torch.Tensor) -> None:
        LAUNCHES[launch](tensors, numbers)

    made = torch.library.custom_op(
        f"onegraph::launch_kernel_{''.join('w' if index in written else 'r' for index in range(count))}",
        launch_kernel,
        mutates_args=[names[index] for index in written],
        schema=f"(int launch, SymInt[] numbers{parameters}) -> ()",
    )
    made.register_fake(lambda launch, numbers, *tensors: None)
    return made
