"""A plan run step by step in Python: the reference for the native launcher, and what runs where that is missing."""

from __future__ import annotations

import builtins
import ctypes
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch

from onegraph import _C
from onegraph.base.late import late_module
from onegraph.ir.loop import EXPECTED, Named
from onegraph.ir.plan import (
    INTEGER_OPS,
    Alloc,
    Compute,
    ExecPlan,
    ExternCall,
    Free,
    Int,
    Launch,
    Register,
    Return,
    Slot,
    ViewOf,
)
from onegraph.ir.types import DType
from onegraph.torchlib.aten import gives_lists, opened, operator_named

if TYPE_CHECKING:
    from onegraph.compiler.runtime.sanitizer import Watch
    from onegraph.torchlib.data_sizes import is_expected
else:
    Watch = late_module("onegraph.compiler.runtime.sanitizer").Watch
    is_expected = late_module("onegraph.torchlib.data_sizes").is_expected

NO_RECIPES: Mapping[str, Callable[..., Any]] = MappingProxyType({})
_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


def find_operator(name: str) -> Callable[..., Any]:
    """The callable behind `aten.addmm.default`. Lists among several results are opened."""
    if name == EXPECTED:
        return is_expected
    found = operator_named(name)
    call: Callable[..., Any] = found._op
    return (lambda *args, **kwargs: opened(call(*args, **kwargs))) if gives_lists(found) else call


def torch_dtype(dtype: DType) -> torch.dtype:
    found: torch.dtype = getattr(torch, dtype.torch_name)
    return found


class Executor:
    """Callable with the inputs of a plan; gives its results. `addresses` are those of the plan's kernels.

    Profilers are told nothing of it: the last arguments are the native launcher's alone.
    """

    def __init__(
        self,
        plan: ExecPlan,
        addresses: Sequence[int],
        constants: Mapping[str, torch.Tensor],
        threads: int = 0,
        code: object = None,
        recipes: Mapping[str, Callable[..., Any]] = NO_RECIPES,
        name: str = "",
        times: object = None,
    ) -> None:
        self.plan = plan
        self.code = code  # keeps the memory of the functions
        self.addresses = addresses
        self.kernels = [_KERNEL(address) for address in addresses]
        self.constants = [(slot, constants[name]) for slot, name in plan.constants]
        self.operators = {
            s.operator: recipes.get(s.operator) or find_operator(s.operator)
            for s in plan.steps
            if isinstance(s, ExternCall)
        }
        self.threads = threads
        self.trial: Any = None

    def on_trial(self, trial: object) -> None:
        self.trial = trial

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        return self.consume([*args])

    def consume(self, args: list[Any]) -> tuple[Any, ...]:
        """As a call with the inputs of a list, which are taken out of it: each lives as long as it is needed."""
        trial, plan = self.trial, self.plan
        if trial is not None:
            trial.begin(args)
            try:
                self.trial = None
                return self.consume(args)
            except Exception:
                trial.failed()
                raise
        slots: list[Any] = [None] * plan.slots
        registers = [0] * plan.registers
        if len(args) != len(plan.inputs):
            raise TypeError(f"the graph takes {len(plan.inputs)} inputs, got {len(args)}")
        for place, value in zip(plan.inputs, args, strict=True):
            match place:
                case Slot(number):
                    slots[number] = value
                case Register(number):
                    registers[number] = int(value)
        value = None
        args.clear()
        for number, tensor in self.constants:
            slots[number] = tensor
        for step in plan.steps:
            match step:
                case Launch():
                    self._launch(step, slots, registers)
                case Alloc(target, dtype, shape, strides, device):
                    layout = _values(shape, registers), _values(strides, registers)
                    slots[target] = torch.empty_strided(*layout, dtype=torch_dtype(dtype), device=device)
                case ViewOf(target, base, shape, strides, offset):
                    start = slots[base].storage_offset() + _value(offset, registers)
                    layout = _values(shape, registers), _values(strides, registers)
                    slots[target] = slots[base].as_strided(*layout, start)
                case ExternCall():
                    self._extern(step, slots, registers)
                case Free(numbers):
                    for number in numbers:
                        slots[number] = None
                case Compute(target, "size", a, b):
                    registers[target] = slots[_value(a, registers)].size(_value(b, registers))
                case Compute(target, op, a, b):
                    registers[target] = INTEGER_OPS[op](_value(a, registers), _value(b, registers))
                case Return(values):
                    return tuple(_result(value, slots, registers) for value in values)
        raise AssertionError("the plan has no return")

    def _launch(self, step: Launch, slots: list[Any], registers: list[int]) -> None:
        pointers = [slots[p.slot].data_ptr() + p.offset for p in step.operands]
        sizes = [_value(size, registers) for size in step.sizes]
        if step.grid:
            grid = tuple(_values(step.grid, registers))
            _C.launch_cuda_kernel(self.addresses[step.kernel], grid, tuple(pointers), tuple(sizes))
            return
        threads = (self.threads or torch.get_num_threads()) if step.parallel else 1
        spans = [_value(watched.span, registers) for watched in step.watched]
        given = (ctypes.c_int64 * (len(pointers) + len(spans) + 1))(*pointers, *spans)
        code = self.kernels[step.kernel](given, (ctypes.c_int64 * len(sizes))(*sizes), threads)
        if code < 0:
            Watch(step, self.plan.kernels[step.kernel]).outside(-1 - code, given[2 * len(spans)], spans)
        if code:
            error, message = self.plan.kernels[step.kernel].errors[code - 1]
            raise getattr(builtins, error)(message)

    def _extern(self, step: ExternCall, slots: list[Any], registers: list[int]) -> None:
        args = [_argument(value, slots, registers) for value in step.args]
        kwargs = {name: _argument(value, slots, registers) for name, value in step.kwargs}
        with torch.set_grad_enabled(torch.is_grad_enabled() and not step.inference):
            result = self.operators[step.operator](*args, **kwargs)
        results = result if step.several else (result,)
        for target, expected, value in zip(step.outputs, step.expected, results, strict=True):
            match target:
                case Register(number):
                    registers[number] = int(value)
                case Slot(number):
                    slots[number] = _with_layout(value, expected, registers)


def _with_layout(tensor: torch.Tensor, expected: Any, registers: list[int]) -> torch.Tensor:
    """The tensor with the strides that the plan was made for; it is copied if the operator chose others."""
    if expected is None:
        return tensor
    shape, strides = _values(expected[0], registers), _values(expected[1], registers)
    if tensor.layout is not torch.strided or not strides_differ(tensor, strides):
        return tensor
    return torch.empty_strided(shape, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def strides_differ(tensor: torch.Tensor, strides: Sequence[int]) -> bool:
    """Whether the strides differ where it matters: in dimensions with more than one element."""
    return tensor.numel() > 0 and any(
        size > 1 and have != want for size, have, want in zip(tensor.shape, tensor.stride(), strides, strict=True)
    )


def _value(value: Int, registers: list[int]) -> int:
    return registers[value.number] if isinstance(value, Register) else value


def _values(values: Sequence[Int], registers: list[int]) -> list[int]:
    return [_value(value, registers) for value in values]


def _result(value: Any, slots: list[Any], registers: list[int]) -> Any:
    return slots[value.number] if isinstance(value, Slot) else None if value is None else _value(value, registers)


def _argument(value: Any, slots: list[Any], registers: list[int]) -> Any:
    match value:
        case Slot(number):
            return slots[number]
        case Register(number):
            return registers[number]
        case Named("device", name):
            return torch.device(name)
        case Named(_, name):
            return getattr(torch, name)
        case tuple():
            return [_argument(item, slots, registers) for item in value]
    return value
