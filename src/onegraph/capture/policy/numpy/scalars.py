"""NumPy's scalars, types and universal functions: immutable, so they are used as they are."""

from __future__ import annotations

from types import WrapperDescriptorType
from typing import Any

import numpy as np

from onegraph.capture.breaks import NUMPY
from onegraph.capture.calls.registry import Breaking, policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.heap.type_rules import Rebuilding, rule_for
from onegraph.capture.heap.types.constants import Constants, Identities, Values
from onegraph.capture.interp.functions import row_for, row_of
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.torchlib.arrays.array import Array
from onegraph.torchlib.arrays.ufuncs import BINARY, COMPARISONS

KINDS = {kind for kind in np.sctypeDict.values() if issubclass(kind, np.number | np.bool_)}

rule_for(np.ufunc)(Identities)
for _function in (np.errstate.__enter__, np.seterr, np.seterrcall):
    _name = _function.__qualname__.partition(".")[0]
    row_for(_function).refuse = Breaking(NUMPY, f"numpy.{_name}", "it sets how NumPy reports errors of arithmetic")
rule_for(*{type(np.dtype(kind)) for kind in KINDS})(Constants)


@rule_for(*KINDS)
class Numbers(Values):
    def rebuild(self, rebuild: Rebuilding, value: Any) -> str:
        """One that the trace has computed: another object at each call, as it would be."""
        return rebuild.assign(f"{rebuild.const(type(value))}({rebuild.const(value)})")


def _operator(function: Any) -> None:
    @policy(function)
    def operate(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Arrays answer for themselves what a scalar on their left is asked."""
        return NotImplemented if isinstance(args[-1], Array) else tracer.run_native(function, args, kwargs)


OPERATORS = (*(f"__{name}__" for name in BINARY | COMPARISONS), *(f"__r{name}__" for name in BINARY))
BASES = {base for kind in KINDS for base in kind.__mro__ if base is complex or base.__module__ == "numpy"}
for _function in {vars(base)[name] for base in BASES for name in OPERATORS if name in vars(base)}:
    if type(_function) is WrapperDescriptorType and row_of(_function).handler is None:
        _operator(_function)
