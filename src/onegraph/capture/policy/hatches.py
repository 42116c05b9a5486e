"""What the tracer does at calls of marked functions: the handlers behind `onegraph.capture.hatches`."""

from __future__ import annotations

from types import MethodType
from typing import Any

from onegraph import _C
from onegraph.capture.breaks import DISABLED, FORCED, SKIPPED, GraphBreak
from onegraph.capture.policy.registry import policy


def name_of(function: Any) -> str:
    """A function's name as the user knows it."""
    return getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or repr(function)


def break_graph(tracer: Any, plain: bool, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`graph_break(msg)`"""
    message = args[0] if args else kwargs.get("msg", "")
    raise GraphBreak(FORCED, why=f": {message}" if isinstance(message, str) and message else "")


def skip_caller(tracer: Any, plain: bool, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`skip_frame(msg)`"""
    message = args[0] if args else kwargs.get("msg", "")
    raise GraphBreak(SKIPPED, why=f": {message}" if isinstance(message, str) and message else "")


def run_eagerly(tracer: Any, plain: bool, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function that was disabled."""
    why = getattr(function, "reason", None) or getattr(function, "_torchdynamo_disable_msg", None)
    raise GraphBreak(DISABLED, name=name_of(function), why=f": {why}" if isinstance(why, str) else "")


def exchange_setting(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | None:
    """While tracing, the settings of the thread are those of the tracer; the compiled program sets them at its end."""
    name, *value = args
    previous = tracer.settings[name]
    if value:
        tracer.settings[name] = value[0]
    return previous


policy(_C.exchange_setting)(exchange_setting)


def find_disabled(found: Any) -> Any:
    """The disabled function that a class attribute is, or None."""
    function = getattr(found, "__func__", found) if isinstance(found, staticmethod | MethodType) else found
    return function if isinstance(function, _C.disabled) else None
