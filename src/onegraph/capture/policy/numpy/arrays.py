"""Arrays: one from outside is the tensor in its memory, and NumPy's functions of arrays are operators of torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import torch

from onegraph.capture.breaks import NUMPY, NUMPY_ARRAY, TENSOR_TO_NUMPY, GraphBreak
from onegraph.capture.calls.registry import native, policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.guards.source import Source, Through
from onegraph.capture.heap.type_rules import Rebuilding, TypeRule, admit_opaque, rule_for
from onegraph.capture.interp.functions import row_of
from onegraph.capture.policy.numpy.scalars import KINDS
from onegraph.capture.pyobject.contents import ATOMS
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.torchlib.arrays.array import ATTRIBUTES, FUNCTIONS, METHODS, Array, holds_arrays
from onegraph.torchlib.arrays.elements import Unsupported, as_array, as_scalar, as_tensor
from onegraph.torchlib.arrays.functions import OF_NUMBERS, call
from onegraph.torchlib.state import untraced
from onegraph.torchlib.wrappers import is_wrapper

#: What functions of arrays take as it is.
PLAIN = (Array, np.generic, np.dtype, np.ufunc, type, slice, type(...), torch.SymInt, torch.SymFloat)


#: Those that make an array of a tensor, in its memory. Other functions hand results back as tensors.
TAKING_TENSORS = (np.array, np.asarray, np.asanyarray)


@rule_for(np.ndarray)
class OutsideArrays(TypeRule):
    def admit(self, world: Any, real: Any, source: Source, guarded: bool) -> Any:
        """The tensor in its memory is an input of the graph, if there is one."""
        with untraced():
            tensor = as_tensor(real) if world.captures_arrays else None
        if tensor is None:
            return admit_opaque(world, real, source, guarded)
        made = Array(world.admit(tensor, Through(source, as_tensor), guarded))
        world.adopt(real, made, source)
        return made


@rule_for(Array)
class MadeArrays(TypeRule):
    def rebuild(self, rebuild: Rebuilding, value: Any) -> str:
        """The array in the memory of the tensor that the graph gives."""
        if value.is_scalar:
            return rebuild.assign(f"{rebuild.const(as_scalar)}({rebuild.value(value.tensor)})")
        name = rebuild.assign(f"{rebuild.const(as_array)}({rebuild.value(value.tensor)})")
        if value.flipped:
            index = ", ".join("::-1" if dim in value.flipped else ":" for dim in range(value.tensor.dim()))
            name = rebuild.assign(f"{name}[{index}]")
        if not value.is_writeable:
            rebuild.lines.append(f"{name}.flags.writeable = False")
        return name


# ---- calls -----------------------------------------------------------------------------------------------------------


def given(tracer: Tracing, value: Any, name: str) -> Any:
    """An argument of a function of arrays, with all that it holds.

    Raises:
        GraphBreak: it is something that NumPy would ask for its elements.
    """
    if type(value) in ATOMS or isinstance(value, PLAIN):
        return value
    if type(value) in (list, tuple, torch.Size):
        items = [given(tracer, item, name) for item in tracer.world.realize_items(value)]
        return items if type(value) is list else tuple(items)
    if tracer.world.is_outside(value):
        tracer.world.refuse_opaque(value)
    if isinstance(value, torch.Tensor):
        raise GraphBreak(TENSOR_TO_NUMPY, what=name)
    raise GraphBreak(NUMPY_ARRAY, why=f"a {tracer.type_of(value).__name__} is in the place of an array")


def compute(function: Any, meaning: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The handler of a function of arrays: what it gives for plain numbers alone, NumPy computes while tracing."""

    def handle(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if function in TAKING_TENSORS and args and isinstance(args[0], torch.Tensor):
            args = (numpy_of_tensor(tracer, args[:1], {}), *args[1:])
        args = tuple(given(tracer, value, name) for value in args)
        kwargs = {key: given(tracer, value, name) for key, value in kwargs.items()}
        if function in OF_NUMBERS and not holds_arrays((args, tuple(kwargs.values()))):
            return of_numbers(function, args, kwargs, name)
        if not tracer.world.captures_arrays:
            raise GraphBreak(NUMPY, name=name, what=f"call of {name}", why="the setting trace_numpy is off")
        try:
            with tracer.recorder.alone():
                return call(meaning, args, kwargs)
        except Unsupported as why:
            raise GraphBreak(NUMPY, name=name, what=f"call of {name}", why=str(why)) from None

    return handle


#: The types of NumPy's functions.
FUNCTIONS_OF_ARRAYS = (np.ufunc, type(np.sum))


def call_unknown(tracer: Tracing, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function of NumPy that is not in the table: it runs for plain numbers that give one."""
    name = name_of(function)
    args = tuple(given(tracer, value, name) for value in args)
    kwargs = {key: given(tracer, value, name) for key, value in kwargs.items()}
    if holds_arrays((args, tuple(kwargs.values()))):
        raise GraphBreak(NUMPY, name=name, what=f"call of {name}", why="it is not known")
    return of_numbers(function, args, kwargs, name)


def name_of(function: Any) -> str:
    """The name of a function as a program writes it."""
    home = (getattr(function, "__module__", None) or "numpy").replace("numpy._core", "numpy").split("._")[0]
    return f"{home.replace('numpy.lib', 'numpy').partition('.multiarray')[0]}.{function.__name__}"


def of_numbers(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Any:
    made = function(*args, **kwargs)
    if isinstance(made, np.number | np.bool_):
        return made
    raise GraphBreak(NUMPY, name=name, what=f"call of {name}", why="it makes an array of plain numbers")


def array_attribute(array: Array, name: str) -> Any:
    """An attribute of an array or of a scalar."""
    if name in METHODS or name in OPERATORS:
        return MethodType(getattr(array.kind, name), array)
    if name in ATTRIBUTES:
        try:
            return ATTRIBUTES[name](array)
        except Unsupported as why:
            raise GraphBreak(NUMPY_ARRAY, why=str(why)) from None
    if name == "__class__":
        return array.kind
    if not hasattr(array.kind, name):
        shown = "numpy.ndarray" if array.kind is np.ndarray else f"numpy.{array.kind.__name__}"
        raise AttributeError(f"'{shown}' object has no attribute '{name}'")
    raise GraphBreak(NUMPY_ARRAY, why=f"its attribute {name} is asked for")


def methods(name: str) -> Iterator[Any]:
    """The methods of this name that arrays and scalars have."""
    owners = {owner for kind in (np.ndarray, *KINDS) for owner in kind.__mro__ if name in vars(owner)}
    found = (vars(owner)[name] for owner in owners if owner.__module__ == "numpy")
    return (method for method in found if method is not None)  # arrays have None for __hash__


#: The special methods of arrays.
OPERATORS = {
    name: method
    for name, method in vars(Array).items()
    if isinstance(method, FunctionType) and name not in ("__init__", "read", "view", "write")
}
for _function, _meaning in list(FUNCTIONS.items()):
    policy(_function)(compute(_function, _meaning, name_of(_function)))
for _name, _meaning in METHODS.items():
    policy(*methods(_name))(compute(None, _meaning, f"ndarray.{_name}"))
for _name, _meaning in OPERATORS.items():
    policy(_meaning)(compute(None, _meaning, f"ndarray.{_name}"))
    policy(*(method for method in methods(_name) if row_of(method).handler is None))(
        compute(None, _meaning, f"ndarray.{_name}")
    )
native("deep", np.result_type, np.promote_types, np.can_cast, np.min_scalar_type, np.common_type)


# ---- tensors and arrays ----------------------------------------------------------------------------------------------


@policy(torch.Tensor.numpy)
def numpy_of_tensor(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The array in the memory of a tensor."""
    if not tracer.world.captures_arrays or is_wrapper(args[0]) or args[0].device.type != "cpu":
        raise GraphBreak(TENSOR_TO_NUMPY, what="Tensor.numpy")
    tensor, force = args[0], kwargs.get("force", False)
    if len(args) > 1 or kwargs.keys() - {"force"} or type(force) is not bool:
        raise GraphBreak(NUMPY_ARRAY, why="Tensor.numpy is called with other arguments")
    if tensor.requires_grad and not force:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    if force:
        tensor = tensor.detach().resolve_conj().resolve_neg()
    try:
        return Array(tensor)
    except Unsupported as why:
        raise GraphBreak(NUMPY_ARRAY, why=str(why)) from None


@policy(torch.from_numpy)
def tensor_of_array(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A tensor in the memory of an array."""
    (array,) = args
    if not isinstance(array, Array) or array.flipped or not array.is_writeable or array.is_scalar:
        tracer.world.refuse_opaque(array)
        raise GraphBreak(NUMPY_ARRAY, why="torch.from_numpy refuses it, or warns of it")
    with tracer.recorder.alone():
        return array.tensor.detach()
