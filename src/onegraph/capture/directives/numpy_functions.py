"""Functions of NumPy's arrays as functions of tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from onegraph.base.arguments import check_callable
from onegraph.capture.breaks import NUMPY_ARRAY, GraphBreak
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.directives.function_marks import mark
from onegraph.capture.directives.handlers import keep_identity
from onegraph.capture.interp.rests import Rest
from onegraph.torchlib.arrays.array import Array
from onegraph.torchlib.arrays.elements import Unsupported
from onegraph.torchlib.pytree import map_leaves_of


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of tensors of a function of NumPy arrays, which compiled code differentiates as it does torch.

    Args:
        fn: a function of arrays, which may be in tuples, lists and dicts; what it is given besides is handed on.

    Returns:
        A function with the same arguments, that takes tensors where `fn` takes arrays, and gives tensors where `fn`
        gives arrays and scalars. In compiled code gradients go through it. Called eagerly it runs NumPy, which
        has none: tensors that require gradients are refused by `Tensor.numpy`.

    Raises:
        InvalidArgument: if it cannot be called.
    """
    check_callable("wrap_numpy", fn)

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = map_leaves_of(array_of_tensor, (args, kwargs))
        return map_leaves_of(tensor_of_array, fn(*args, **kwargs))

    mark(wrapper, call_of_tensors)
    return wrapper


def array_of_tensor(value: Any) -> Any:
    return value.numpy() if isinstance(value, torch.Tensor) else value


def tensor_of_array(value: Any) -> Any:
    return torch.from_numpy(np.asarray(value)) if isinstance(value, np.ndarray | np.generic) else value


def call_of_tensors(
    tracer: Tracing, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The arrays are the tensors themselves, with their histories."""
    keep_identity(tracer, function)
    given, named = map_leaves_of(traced_array, tracer.world.realize_deep((args, kwargs), opaque=True))
    return map_leaves_of(traced_tensor, tracer.call(function.__wrapped__, given, named))


def traced_array(value: Any) -> Any:
    try:
        return Array(value) if isinstance(value, torch.Tensor) else value
    except Unsupported as why:
        raise GraphBreak(NUMPY_ARRAY, why=str(why)) from None


def traced_tensor(value: Any) -> Any:
    if isinstance(value, np.generic):
        return torch.tensor(value.item(), dtype=Array(torch.from_numpy(np.asarray(value))).tensor.dtype)
    return value.read() if isinstance(value, Array) else value
