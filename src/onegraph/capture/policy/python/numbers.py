"""numpy's scalars and functions of arrays: immutable, so they are used as they are."""

from __future__ import annotations

from typing import Any

import numpy
import torch

from onegraph.capture.breaks import NUMPY, GraphBreak
from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.heap.type_rules import Rebuilding, rule_for
from onegraph.capture.heap.types.constants import Identities, Values
from onegraph.capture.pyobject.exact_types import isinstance

rule_for(numpy.ufunc)(Identities)


@rule_for(*{kind for kind in numpy.sctypeDict.values() if issubclass(kind, numpy.number | numpy.bool_)})
class Numbers(Values):
    def rebuild(self, rebuild: Rebuilding, value: Any) -> str:
        """One that the trace has computed: another object at each call, as it would be."""
        return rebuild.assign(f"{rebuild.const(type(value))}({rebuild.const(value)})")


def _over_numbers(function: Any) -> None:
    @policy(function)
    def compute(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Of plain numbers, which may be in a tuple or list: computed while tracing."""
        values = [tracer.world.realize(value) for value in (*args, *kwargs.values())]
        values = tracer.numbers.concrete_deep(tuple(values), "value")
        if not all(type(item) in PLAIN for value in values for item in (value if type(value) in MANY else (value,))):
            raise GraphBreak(NUMPY, name=f"numpy.{function.__name__}", what=f"call of numpy.{function.__name__}")
        given, named = values[: len(args)], dict(zip(kwargs, values[len(args) :], strict=True))
        result = function(*given, **named)
        if isinstance(result, numpy.number | numpy.bool_):
            return result
        raise GraphBreak(NUMPY, name=f"numpy.{function.__name__}", what=f"call of numpy.{function.__name__}")


MANY = (tuple, list, torch.Size)
PLAIN = (int, float, bool, type(None))
for _function in (
    numpy.prod, numpy.sum, numpy.max, numpy.min, numpy.mean, numpy.median, numpy.std, numpy.var, numpy.any, numpy.all,
    numpy.argmax, numpy.argmin, numpy.round,
):  # fmt: skip
    _over_numbers(_function)
