"""The escape hatches: what a program says about how it is to be captured.

In a program that is not compiled each of them does nothing, or just calls the function that it is about. The same
functions in torch's own spelling (`torch.compiler.disable`, `torch._dynamo.graph_break` ...) mean the same inside of
compiled code; see `onegraph.capture.tracer.foreign`.
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, TypeVar, overload

import torch

from onegraph import _C
from onegraph.base.arguments import check_callable, check_switch, check_text
from onegraph.base.late import late_module
from onegraph.base.settings import Group, Patch, Settings
from onegraph.capture.directives import function_marks as marks
from onegraph.capture.directives.skipped_code import BESIDE
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.pyobject.native_members import FUNC_OF, wrapped_part

if TYPE_CHECKING:
    from onegraph.capture.directives import handlers as policy
else:
    policy = late_module("onegraph.capture.directives.handlers")

F = TypeVar("F", bound=Callable[..., Any])


# ---- graph breaks ----------------------------------------------------------------------------------------------------


def graph_break(msg: str = "") -> None:
    """Break the graph here: what was captured so far is run, and capture goes on behind the call.

    Args:
        msg: why; part of the message of the graph break.
    """


marks.mark(graph_break, policy.break_graph)


def skip_frame(msg: str = "") -> None:
    """Run the function that calls this eagerly, from its beginning. The functions that it calls are still compiled.

    Args:
        msg: why; part of the message of the graph break.
    """


marks.mark(skip_frame, policy.skip_caller)


class error_on_graph_break:  # noqa: N801 - a context manager in the spelling of a function
    """Whether a graph break in this region is an error (`GraphBreakError`), or compilation goes on behind it.

    A context manager and a decorator. It holds for all that the region calls; the innermost one decides. Where
    `fullgraph=True` it says nothing. It may stand over `onegraph.compile`, under it, and inside of compiled code.

    In torch it matters only when code is compiled. Here a function that was compiled with a graph break fails also when
    it is called later under `error_on_graph_break(True)`.

    Args:
        error: True or False.

    Raises:
        InvalidArgument: if it is anything else.
    """

    def __init__(self, error: bool) -> None:
        if not (error is True or error is False):
            check_switch("error", error)
        self.error = error
        self._outer: list[bool | None] = []

    def __enter__(self) -> None:
        self._outer.append(_C.exchange_setting("error_on_graph_break", self.error))

    def __exit__(self, *exception: object) -> None:
        _C.exchange_setting("error_on_graph_break", self._outer.pop())

    def __call__(self, function: F) -> F:
        decorated: F = under(error_on_graph_break, self.error, function)
        return decorated


class without_nested_graph_breaks:  # noqa: N801 - a context manager in the spelling of a function
    """What `disable_nested_graph_breaks()` gives: a region in which it holds, and a decorator."""

    def __init__(self) -> None:
        self._outer: list[bool | None] = []

    def __enter__(self) -> None:
        self._outer.append(_C.exchange_setting("nested_graph_breaks", False))

    def __exit__(self, *exception: object) -> None:
        _C.exchange_setting("nested_graph_breaks", self._outer.pop())

    def __call__(self, function: F) -> F:
        return disable_nested_graph_breaks(function)


@overload
def disable_nested_graph_breaks(function: F) -> F: ...
@overload
def disable_nested_graph_breaks(function: None = None) -> without_nested_graph_breaks: ...
def disable_nested_graph_breaks(function: Any = None) -> Any:
    """A graph break in a function that was inlined ends the graph at the call of the outermost one.

    The functions that are called are then compiled each on its own. A context manager (`with
    disable_nested_graph_breaks():`) and a decorator, with or without parentheses; it holds for all that it calls.

    Args:
        function: what it holds for; None returns the context manager.

    Raises:
        InvalidArgument: if it cannot be called.
    """
    if function is None:
        return without_nested_graph_breaks()
    check_callable("disable_nested_graph_breaks", function)
    return under(disable_nested_graph_breaks, None, function)


#: What a class makes of functions: hatches go inside.
DESCRIPTORS = (staticmethod, classmethod, property)


def within(descriptor: Any, mark: Callable[[Any], Any]) -> Any:
    """The same descriptor of marked functions."""
    if isinstance(descriptor, property):
        parts = (wrapped_part(descriptor, name) for name in ("fget", "fset", "fdel"))
        get, write, delete = (part and mark(part) for part in parts)
        return type(descriptor)(get, write, delete, descriptor.__doc__)
    return type(descriptor)(mark(wrapped_part(descriptor, "__func__")))


def under(manager: Any, setting: Any, function: Any) -> Any:
    """The function, called in a region of its own for each call."""
    if isinstance(function, DESCRIPTORS):
        return within(function, lambda inner: under(manager, setting, inner))
    if not callable(function):
        check_callable(manager.__name__, function)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with manager(setting):
            return function(*args, **kwargs)

    return wrapper


# ---- disable ---------------------------------------------------------------------------------------------------------


@overload
def disable(fn: F, recursive: bool = True, *, reason: str | None = None) -> F: ...
@overload
def disable(fn: None = None, recursive: bool = True, *, reason: str | None = None) -> Callable[[F], F]: ...
def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Run a function eagerly, wherever it is called from. Also a decorator, with or without arguments.

    Args:
        fn: a function, a method, a callable object or a module; of a class, `__init__` and `__call__` are disabled, in
            place. None returns a decorator with the other arguments.
        recursive: whether what the function calls runs eagerly too. With False only the frame of the function itself
            does, and what it calls is compiled.
        reason: why; part of the message of the graph break.

    Returns:
        A callable with the same signature; for a module, a module that shares its state; for a class, the class.

    Raises:
        InvalidArgument: for an argument that is not accepted.
    """
    check_switch("recursive", recursive)
    check_text("reason", reason)
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if isinstance(fn, type):
        return disable_class(fn, recursive, reason)
    if isinstance(fn, DESCRIPTORS):
        return within(fn, lambda inner: disable_function(inner, recursive, reason))
    check_callable("disable", fn)
    if isinstance(fn, torch.nn.Module):
        return disable_module(fn, recursive, reason)
    return disable_function(fn, recursive, reason)


def beside(function: F) -> F:
    """Of a function about the compiler itself: it is not traced, and in compiled code it runs as it is written."""
    assert isinstance(function, FunctionType)
    marks.mark(function, policy.run_beside)
    BESIDE.add(function.__code__)
    return function


for _kind, _names in (
    (Settings, ("__getattr__", "__setattr__", "__delattr__", "patch", "meaning")),
    (Group, ("__getattr__", "__setattr__", "__delattr__")),
    (Patch, ("__enter__", "__exit__")),
):
    for _name in _names:
        beside(vars(_kind)[_name])


@overload
def skip(fn: F) -> F: ...
@overload
def skip(fn: None = None) -> Callable[[F], F]: ...
def skip(fn: Any = None) -> Any:
    """The old name of `disable(fn, recursive=False)`. Deprecated."""
    warnings.warn(
        "onegraph.skip is deprecated: use onegraph.disable(recursive=False)", DeprecationWarning, stacklevel=2
    )
    return disable(fn, recursive=False)


marks.mark(disable, policy.disable_while_tracing)
marks.mark(skip, policy.disable_while_tracing)


def rebuild_disabled(rebuild: Any, value: Any) -> str:
    """A function that the trace has disabled is disabled again."""
    parts = (rebuild.value(value.__wrapped__), repr(value.code is None), repr(value.reason))
    variable: str = rebuild.assign(f"{rebuild.const(disable_function)}({', '.join(parts)})")
    return variable


def disable_function(function: Any, recursive: bool, reason: str | None) -> Any:
    """The function behind a wrapper that takes its frames from the hook."""
    if isinstance(function, _C.disabled) and (function.code is None or not recursive):
        return function
    function = getattr(function, "__wrapped__", function) if isinstance(function, _C.Region) else function
    made: Any = _C.disabled(function, None if recursive else code_of(function), policy.refuse_to_trace)
    functools.update_wrapper(made, function, updated=())
    made.reason = reason
    return made


def code_of(function: Any) -> CodeType | None:
    """The code that runs first when the object is called, if that is Python code."""
    while isinstance(function, functools.partial):
        function = FUNC_OF(function)
    if isinstance(function, MethodType):
        function = function.__func__
    if not isinstance(function, FunctionType):
        function = next(
            (kind.__dict__["__call__"] for kind in type(function).__mro__ if "__call__" in kind.__dict__), None
        )
    return function.__code__ if isinstance(function, FunctionType) else None


def disable_class(cls: type, recursive: bool, reason: str | None) -> type:
    for name in ("__init__", "__call__"):
        method = next((kind.__dict__[name] for kind in cls.__mro__ if name in kind.__dict__), None)
        if isinstance(method, FunctionType):
            setattr(cls, name, disable_function(method, recursive, reason))
    return cls


def disable_module(original: torch.nn.Module, recursive: bool, reason: str | None) -> Any:
    call = disable_function(original, recursive, reason)
    return module_with_call(
        original, call, ModuleWithCall, {"onegraph_made_by": (disable_module, (original, recursive, reason))}
    )


class ModuleWithCall:
    """Mixed in over the class of a module whose calls mean something else; it shares the original's `__dict__`."""

    onegraph_made_by: tuple[Any, tuple[Any, ...]]

    def __reduce__(self) -> Any:
        return type(self).onegraph_made_by

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def __copy__(self) -> Any:
        make, (original, *others) = type(self).onegraph_made_by
        return make(copy.copy(original), *others)


def module_with_call(original: torch.nn.Module, call: Any, mixin: type, facts: dict[str, Any]) -> torch.nn.Module:
    """A module of the same class, with the methods of the mixin, that shares the original's state; called as `call`."""
    cls = type(original)
    if issubclass(cls, mixin):  # once more: what is mixed in last comes first
        mixin = type(mixin.__name__, (), {name: value for name, value in vars(mixin).items() if callable(value)})
    members = {"__module__": cls.__module__, "__doc__": cls.__doc__, "__call__": staticmethod(call), **facts}
    made: torch.nn.Module = object.__new__(type(cls.__name__, (mixin, cls), members))
    object.__setattr__(made, "__dict__", original.__dict__)
    return made
