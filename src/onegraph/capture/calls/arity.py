"""Calls with too many or too few arguments: native functions refuse them before they do anything else."""

from __future__ import annotations

import inspect
import types
from functools import cache
from typing import Any

from onegraph.base.dataclass import dataclass
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.pyobject.exact_types import isinstance

#: What native functions say of their arguments where `inspect` knows nothing: the least and most, and the names.
UNKNOWN: dict[Any, tuple[int, int | None, frozenset[str] | None]] = {
    getattr: (2, 3, frozenset()),
    next: (1, 2, frozenset()),
    iter: (1, 2, frozenset()),
    min: (1, None, frozenset({"key", "default"})),
    max: (1, None, frozenset({"key", "default"})),
    dict.pop: (2, 3, frozenset()),
    dict.__getitem__: (2, 2, frozenset()),
    set.pop: (1, 1, frozenset()),
    bool: (0, 1, frozenset()),
    super: (0, 2, frozenset()),
    type: (1, 3, None),
}
_NATIVE = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)


@dataclass(frozen=True, slots=True)
class Arity:
    """How many positional arguments a function takes, and which names; None where there is no limit."""

    least: int
    most: int | None
    names: frozenset[str] | None

    def admits(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        enough = len(args) + len(kwargs) >= self.least and (self.most is None or len(args) <= self.most)
        return enough and (self.names is None or self.names.issuperset(kwargs))


def refusing(function: Any, handler: Any) -> Any:
    """The handler, for calls that the function would not refuse for the number or the names of their arguments."""
    if not isinstance(function, _NATIVE) and not (isinstance(function, type) and function in UNKNOWN):
        return handler

    def handle(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any], *rest: Any) -> Any:
        arity = arity_of(function)
        if arity is not None and not arity.admits(args, kwargs):
            function(*args, **kwargs)  # raises what it says of them
        return handler(tracer, args, kwargs, *rest)

    return handle


@cache
def arity_of(function: Any) -> Arity | None:
    """What is known of the arguments of a native function."""
    if function in UNKNOWN:
        return Arity(*UNKNOWN[function])
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return None
    kinds = [parameter.kind for parameter in parameters]
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    named = frozenset(p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD))
    return Arity(
        sum(p.default is p.empty for p in positional),
        None if inspect.Parameter.VAR_POSITIONAL in kinds else len(positional),
        None if inspect.Parameter.VAR_KEYWORD in kinds else named,
    )
