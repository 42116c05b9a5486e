"""Torch functions that tracing must know more about than their operations."""

from __future__ import annotations

import math
from functools import partial
from inspect import signature
from types import FunctionType
from typing import Any

import torch
from torch.autograd.profiler import record_function

from onegraph.capture import breaks as b
from onegraph.capture.breaks import GraphBreak
from onegraph.capture.calls.registry import Breaking, breaks, native, policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.heap.subclass_tensors import is_handle
from onegraph.capture.heap.tensor_texts import MARK
from onegraph.capture.interp.functions import row_for
from onegraph.capture.pyobject.exact_types import defines
from onegraph.torchlib import recurrent
from onegraph.torchlib.fake import FakeTensor
from onegraph.torchlib.parameters import parameter
from onegraph.torchlib.private import (
    ASSERTIONS,
    check_tensor_all,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
    is_compiling,
    is_scripting,
    is_torch_function_enabled,
    is_tracing,
    make_subclass,
    make_wrapper_subclass,
    native_multi_head_attention,
    to_dlpack,
    typed_storage,
)
from onegraph.torchlib.recurrent import is_lstm_of_symbols, is_of_layers
from onegraph.torchlib.recurrent_layer import LAYERS
from onegraph.torchlib.resizing import interpolation_of_symbols, linspace_of_symbols
from onegraph.torchlib.state import function_modes
from onegraph.torchlib.wrappers import is_wrapper

breaks(b.ANOMALY_MODE, torch.autograd.set_detect_anomaly)
breaks(b.FUNCTION_TRANSFORM, torch.autograd.functional.jacobian, torch.autograd.functional.hessian)
breaks(b.FUNCTION_TRANSFORM, torch.autograd.functional.vjp, torch.autograd.functional.jvp)
row_for(torch.autograd.graph.register_multi_grad_hook).refuse = Breaking(
    b.TENSOR_HOOK, "torch.autograd.graph.register_multi_grad_hook", "which waits for the gradients of several tensors"
)
breaks(b.SAVED_TENSOR_HOOKS, torch.autograd.graph.saved_tensors_hooks, torch.autograd.graph.save_on_cpu)
breaks(b.SAVED_TENSOR_HOOKS, torch.autograd.graph.saved_tensors_hooks.__enter__)
breaks(b.SAVED_TENSOR_HOOKS, torch.autograd.graph.saved_tensors_hooks.__exit__)
breaks(b.SAVED_TENSOR_HOOKS, torch.autograd.graph.allow_mutation_on_saved_tensors)
breaks(b.TENSOR_MEMORY, to_dlpack, typed_storage, torch.Tensor.storage_type)
breaks(b.TENSOR_MEMORY, torch.Tensor.__reduce_ex__, torch.nn.Parameter.__reduce_ex__, torch.Tensor.__setstate__)
breaks(b.TENSOR_MEMORY, *(f for f in vars(torch.storage.TypedStorage).values() if type(f) is FunctionType))
breaks(b.SUBCLASS_MADE, make_wrapper_subclass)
native("deep", torch.broadcast_shapes, torch.is_floating_point, torch.finfo, torch.iinfo)


@policy(torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling, is_compiling)
def compiling(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """The program is told so. Layers of torch, which choose by it among results, give what they give eagerly."""
    return not is_layer_of_torch(tracer.frames[-1].globals.get("__name__"))


def is_layer_of_torch(module: Any) -> bool:
    return isinstance(module, str) and module.startswith("torch.nn.modules.")


@policy(make_subclass)
def make_parameter(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`Parameter(data, requires_grad)` is an operation of the graph."""
    cls, data, *others = args
    if cls is not torch.nn.Parameter or len(others) != 1 or kwargs or type(others[0]) is not bool:
        raise GraphBreak(b.PARAMETER_MADE, name="Tensor._make_subclass")
    return tracer.run_native(parameter, (data, *others), {})


@policy(torch.is_tensor)
def is_tensor(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """What has a `__torch_function__` is not asked for it."""
    (value,) = (*args, *kwargs.values())
    return isinstance(value, torch.Tensor)


@policy(torch.Tensor.tolist, FakeTensor.tolist)
def numbers_in(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A few numbers are taken out one by one, as by `item()`."""
    (tensor,) = args
    shape = list(tensor.shape)
    known = all(type(size) is int for size in shape) and tensor.dtype not in NO_NUMBERS and not is_wrapper(tensor)
    if not known or math.prod(shape) > FEW:
        raise GraphBreak(b.TENSOR_TO_LIST)

    def listed(part: torch.Tensor) -> Any:
        if not part.dim():
            return tracer.call_native(torch.Tensor.item, (part,), {})
        return [listed(tracer.call_native(torch.select, (part, 0, n), {})) for n in range(part.shape[0])]

    return listed(tensor)


#: How many numbers of a tensor a graph takes out one by one.
FEW = 32
#: The types of elements of which `item()` gives what no graph can go on with.
NO_NUMBERS = frozenset({torch.bool, torch.complex32, torch.complex64, torch.complex128})


@policy(has_torch_function)
def any_torch_function(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    (values,) = args
    return has_own_function(tracer, tuple(tracer.world.realize(values)), kwargs)


@policy(has_torch_function_unary, has_torch_function_variadic)
def has_own_function(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """The recorder is no mode of the program, and the traced tensors are of no class of it, but for handles."""
    if tracer.recorder.modes or any(mode is not tracer.recorder for mode in function_modes()):
        return bool(args)
    return is_torch_function_enabled() and any(overrides(value) for value in args)


def overrides(value: Any) -> bool:
    """Whether torch would ask the class of a value."""
    if isinstance(value, torch.Tensor):
        return is_handle(value) and type(value).__torch_function__ is not NO_FUNCTION
    return defines(value if isinstance(value, type) else type(value), "__torch_function__")


#: What a class has that does not want to be asked.
NO_FUNCTION = torch.nn.Parameter.__torch_function__


@policy(is_scripting, is_tracing)
def scripting(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return False


@policy(native_multi_head_attention)
def self_attention(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Without weights the operator gives None in their place, and an empty tensor on fakes."""
    result, weights = tracer.run_native(native_multi_head_attention, args, kwargs)
    needed = kwargs.get("need_weights", args[10] if len(args) > 10 else True)
    return result, weights if needed else None


@policy(torch.lstm)
def lstm(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The operator asks how many elements there are: where that is a symbol, its layers are called one by one."""
    given = tracer.world.realize_deep(args)
    function = recurrent.lstm if is_lstm_of_symbols(*given) and not kwargs else torch.lstm
    return tracer.run_native(function, given, kwargs)


def _network(kind: str, function: Any) -> None:
    @policy(function)
    def network(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operator runs step by step: a graph of few steps is fast, and one of many takes long to compile."""
        given = tracer.world.realize_deep(args)
        if kwargs or not is_of_layers(*given):
            return tracer.run_native(function, given, kwargs)
        return tracer.run_native(partial(recurrent.of_layers, kind), given, kwargs)


for _kind, _function in LAYERS.items():
    _network(_kind, _function)


@policy(torch.nn.functional.interpolate)
def interpolate(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return to_symbolic_sizes(tracer, torch.nn.functional.interpolate, interpolation_of_symbols, args, kwargs)


@policy(torch.linspace)
def linspace(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return to_symbolic_sizes(tracer, torch.linspace, linspace_of_symbols, args, kwargs)


@policy(torch.nn.functional.one_hot)
def one_hot(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Without a number of classes, as many as the largest of them says."""
    (x, *others) = args
    is_open = isinstance(x, torch.Tensor) and [*others, *kwargs.values()] in ([], [-1]) and x.dtype is torch.int64
    if not (is_open and tracer.recorder.fake.sizes.data.are_wanted()):
        return tracer.run_native(torch.nn.functional.one_hot, args, kwargs)
    largest = tracer.call(torch.Tensor.item, (tracer.call(torch.Tensor.max, (x,), {}),), {})
    zeros = tracer.call(torch.Tensor.new_zeros, (x, (*x.shape, tracer.binary("+", largest, 1))), {})
    return tracer.call(torch.Tensor.scatter, (zeros, -1, tracer.call(torch.Tensor.unsqueeze, (x, -1), {}), 1), {})


def to_symbolic_sizes(
    tracer: Tracing, function: Any, of_symbols: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What the function gives; where it would ask for the numbers that are symbols, by another way to it."""
    call = of_symbols(tracer.world.realize_deep(args), tracer.world.realize_deep(kwargs))
    return tracer.run_native(function, args, kwargs) if call is None else call()


@policy(check_tensor_all)
def check_all(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The check is made when the graph runs. Its message may print tensors, which the graph cannot."""
    message = kwargs.get("message", args[1] if len(args) > 1 else None)
    text = "Expected cond to be True" if message is None else tracer.convert(tracer.call(message, (), {}), "str")
    ASSERTIONS.assert_async(args[0].all(), MARK.sub("<a tensor>", text))


@policy(record_function.__init__)
def label(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """A label for what runs in a `with`. It is left out, also where the graph breaks: a graph runs as a whole.

    Its attributes are asked of a label that is made for real, as each torch has others.
    """
    made = signature(record_function.__init__).bind(*args, **kwargs).arguments
    it = made.pop("self")
    values = {**vars(record_function("")), **made, "run_callbacks_on_exit": False}
    for name, value in values.items():
        tracer.setattr(it, name, value)


@policy(record_function.__enter__)
def begin_label(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if tracer.getattr(args[0], "run_callbacks_on_exit"):  # made by the program outside of the compiled function
        raise GraphBreak(b.PROFILER, name="record_function")
    return args[0]


@policy(record_function.__exit__)
def end_label(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if tracer.getattr(args[0], "run_callbacks_on_exit"):
        raise GraphBreak(b.PROFILER, name="record_function")
