"""Optimizers of torch: their steps are Python code like any other, and are interpreted.

What they count in tensors (`state["step"]`) they compute with as Python computes: the numbers are taken out of the
tensors where the graph runs, and their learning rates and powers are computed there, in double precision.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch.amp import GradScaler
from torch.optim import LBFGS, Adafactor, SparseAdam, asgd, optimizer, radam

from onegraph.capture.breaks import OPTIMIZER
from onegraph.capture.calls.registry import breaks, policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.torchlib import private

#: What these call is not public.
_ZERO_GRAD = inspect.unwrap(optimizer.Optimizer.zero_grad)
ADAFACTOR, SPARSE_ADAM = (cls.__init__.__globals__ for cls in (Adafactor, SparseAdam))
breaks(OPTIMIZER, radam.radam, asgd.asgd, ADAFACTOR["adafactor"], SPARSE_ADAM["F"].sparse_adam, LBFGS.step)
breaks(OPTIMIZER, GradScaler.step, GradScaler.unscale_, GradScaler.update)


@policy(optimizer.Optimizer.zero_grad)
def zero_grad(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """torch's own compiler is kept out of it by a wrapper."""
    return tracer.interpret(_ZERO_GRAD, args, kwargs)


def runs_optimizer(tracer: Tracing) -> bool:
    """Whether the code that runs now is that of an optimizer of torch."""
    return (tracer.frames[-1].globals.get("__name__") or "").startswith("torch.optim.")


@policy(private.number_of_optimizer)
def value_of(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The number in a tensor: where it is compiled, torch itself goes on with the tensor, in single precision."""
    return args[0].item() if isinstance(args[0], torch.Tensor) else args[0]


@policy(private.numbers_of_optimizer)
def values_of(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0]
