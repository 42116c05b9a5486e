"""Functions of floating-point numbers that change from one call to the next: computed where the program runs."""

from __future__ import annotations

import math
from typing import Any

import torch

from onegraph.capture.policy.registry import policy
from onegraph.torchlib.given import Within

#: Their results are numbers.
COMPUTED = (
    math.sqrt, math.exp, math.log, math.log2, math.log10, math.log1p, math.expm1, math.pow, math.sin,
    math.cos, math.tan, math.asin, math.acos, math.atan, math.atan2, math.sinh, math.cosh, math.tanh, math.fabs,
    math.erf, math.erfc, math.degrees, math.radians, math.hypot, math.copysign, math.fmod,
)  # fmt: skip
#: Their results are True or False.
ASKED = (math.isnan, math.isinf, math.isfinite)


def _computed(function: Any, kinds: Any) -> None:
    @policy(function)
    def compute(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if kwargs or not tracer.is_symbolic(*args, kinds=kinds):
            return tracer.call_native(function, args, kwargs)
        return tracer.computed(function, *args)


def _asked(function: Any) -> None:
    @policy(function)
    def ask(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if kwargs or not tracer.is_symbolic(*args):
            return tracer.call_native(function, args, kwargs)
        return tracer.asked(function, *args)


for _function in COMPUTED:
    _computed(_function, torch.SymFloat | torch.SymInt)
for _function in (abs, pow):  # which give integers for integers
    _computed(_function, torch.SymFloat)
for _function in ASKED:
    _asked(_function)


@policy(torch.tensor)
def tensor(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A tensor of one number, which other tensors are computed with."""
    dtype = kwargs.get("dtype") or torch.get_default_dtype()
    if len(args) == 1 and tracer.is_symbolic(*args) and dtype.is_floating_point:
        if tracer.asked(Within(torch.finfo(dtype).max), *args):
            return tracer.call_native(torch.scalar_tensor, args, {**kwargs, "dtype": dtype})
    return tracer.call_native(torch.tensor, args, kwargs)
