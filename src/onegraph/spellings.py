"""Names of torch's that are another way to say something here, or that there is nothing to say.

@onegraph.optimize("native", nopython=True)         @onegraph.compile(backend="native", fullgraph=True)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from onegraph.backend_registry import Backend, find_backend
from onegraph.base.arguments import check_callable
from onegraph.base.late import late_module
from onegraph.base.settings import Patch, config
from onegraph.capture.directives import function_marks as marks
from onegraph.compile import compile, compile_fx, is_compiling, reset

if TYPE_CHECKING:
    from onegraph.capture.directives import handlers as policy
else:
    policy = late_module("onegraph.capture.directives.handlers")

F = TypeVar("F", bound=Callable[..., Any])


def optimize(
    backend: str | Backend | None = None, *, nopython: bool = False, dynamic: bool | None = None, disable: bool = False
) -> Callable[[F], F]:
    """The old spelling of `compile`, as a decorator.

    Args:
        backend: as for `compile`.
        nopython: the same as `fullgraph` of `compile`.
        dynamic: as for `compile`.
        disable: as for `compile`.

    Raises:
        InvalidArgument: as `compile` does.
    """
    return compile(backend=backend, fullgraph=nopython, dynamic=dynamic, disable=disable)


def optimize_assert(backend: str | Backend | None = None, *, dynamic: bool | None = None) -> Callable[[F], F]:
    """The same as `optimize(backend, nopython=True)`."""
    return optimize(backend, nopython=True, dynamic=dynamic)


def lookup_backend(backend: str | Backend) -> Backend:
    """A backend as a function `(graph_module, example_inputs) -> callable`.

    Args:
        backend: one of `list_backends()`. A function comes back as it is.

    Raises:
        InvalidArgument: for what is no backend.
    """
    find_backend(backend)
    if not isinstance(backend, str):
        return backend

    return lambda graph, examples: compile_fx(graph, backend=backend)


def patch_dynamo_config(*changes: Any, **named: Any) -> Patch:
    """The same as `onegraph.config.patch`."""
    return config.patch(*changes, **named)


def dont_skip_tracing(function: F) -> F:
    """The function: no code is left out for the file that it stands in.

    Raises:
        InvalidArgument: for what cannot be called.
    """
    check_callable("dont_skip_tracing", function)
    return function


def set_default_backend(backend: str | Backend | None) -> None:
    """Say which backend `compile` takes where it is told none: `onegraph.config.backend`. None is the default again.

    Raises:
        InvalidArgument: for what is no backend.
    """
    if backend is None:
        del config.backend
        return
    find_backend(backend)
    config.backend = backend


def get_default_backend() -> str | Backend:
    """Which backend `compile` takes where it is told none."""
    found: str | Backend = config.backend
    return found


def reset_code_caches() -> None:
    """The same as `reset`."""
    reset()


@overload
def nested_compile_region(function: F, **options: Any) -> F: ...
@overload
def nested_compile_region(function: None = None, **options: Any) -> Callable[[F], F]: ...
def nested_compile_region(function: Any = None, **options: Any) -> Any:
    """A function whose body is a region of the graph around it. Here it is a part of that graph, as without it.

    Kernels of equal regions are compiled once in any case.

    Args:
        function: what is marked; None returns a decorator.
        options: accepted for torch's sake.

    Raises:
        InvalidArgument: for what cannot be called.
    """
    if function is None:
        return functools.partial(nested_compile_region, **options)
    check_callable("nested_compile_region", function)
    return function


def is_dynamo_compiling() -> bool:
    """The same as `is_compiling`."""
    return is_compiling()


marks.mark(is_dynamo_compiling, policy.say_compiling)


def cudagraph_mark_step_begin() -> None:
    """Say that a step begins. Results are copies, which later steps leave as they are, so nothing comes of it."""


def cudagraph_mark_warmup_incomplete() -> None:
    """Say that a step was one to warm up. Nothing is recorded between steps, so nothing comes of it."""


for _function in (cudagraph_mark_step_begin, cudagraph_mark_warmup_incomplete):
    marks.mark(_function, policy.say_nothing)
