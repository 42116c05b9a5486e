"""The public functions where onegraph cannot run (`onegraph.support`): programs run as they are written."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any, NoReturn

from onegraph.base.comptime import comptime as comptime
from onegraph.base.dim import Dim as Dim
from onegraph.base.errors import OnegraphError
from onegraph.base.guard_filters import keep_portable_guards_unsafe as keep_portable_guards_unsafe
from onegraph.base.guard_filters import keep_tensor_guards_unsafe as keep_tensor_guards_unsafe
from onegraph.base.guard_filters import skip_all_guards_unsafe as skip_all_guards_unsafe
from onegraph.base.guard_filters import skip_guard_on_all_nn_modules_unsafe as skip_guard_on_all_nn_modules_unsafe
from onegraph.base.guard_filters import skip_guard_on_globals_unsafe as skip_guard_on_globals_unsafe
from onegraph.base.guard_filters import (
    skip_guard_on_inbuilt_nn_modules_unsafe as skip_guard_on_inbuilt_nn_modules_unsafe,
)
from onegraph.support import problem


def unchanged(target: Any = None, *settings: Any, **options: Any) -> Any:
    """What is compiled or marked, as it is; without a target, a decorator."""
    return (lambda target: target) if target is None else target


compile = disable = skip = run = nested_compile_region = unchanged
allow_in_graph = disallow_in_graph = forbid_in_graph = nonstrict_trace = assume_constant_result = unchanged
register_backend = lookup_backend = dont_skip_tracing = unchanged


def substitute_in_graph(original: Any, **options: Any) -> Callable[[Any], Any]:
    decorator: Callable[[Any], Any] = unchanged()
    return decorator


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The program has imported what its tensors and arrays are of; here, where nothing may work, nobody does."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        numpy, torch = sys.modules["numpy"], sys.modules["torch"]

        def array(value: Any) -> Any:
            return value.numpy() if isinstance(value, torch.Tensor) else value

        def tensor(value: Any) -> Any:
            is_array = isinstance(value, numpy.ndarray | numpy.generic)
            return torch.from_numpy(numpy.asarray(value)) if is_array else value

        return mapped(tensor, fn(*mapped(array, args), **mapped(array, kwargs)))

    return wrapper


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """The same tuples, lists and dicts with `function(leaf)` in the place of each leaf."""
    match value:
        case tuple() | list():
            return type(value)([mapped(function, item) for item in value])
        case dict():
            return {key: mapped(function, item) for key, item in value.items()}
    return function(value)


class error_on_graph_break(ContextDecorator):  # noqa: N801 - a context manager in the spelling of a function
    """A setting that says nothing where no graph is made."""

    def __init__(self, *settings: Any, **options: Any) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


set_stance = install = patch_dynamo_config = reporting = error_on_graph_break


def disable_nested_graph_breaks(function: Any = None) -> Any:
    return error_on_graph_break() if function is None else function


def nothing(*args: Any, **kwargs: Any) -> None:
    """There is no graph to break, and nothing to forget."""


graph_break = skip_frame = reset = reset_code_caches = uninstall = nothing
cudagraph_mark_step_begin = cudagraph_mark_warmup_incomplete = set_default_backend = nothing
save_cache_artifacts = load_cache_artifacts = save = nothing
mark_dynamic = mark_static = mark_static_address = mark_unbacked = maybe_mark_dynamic = nothing


def load(path: Any, target: Any) -> Any:
    """What was saved is nothing to run here: the target, as it is."""
    return target


def is_compiling() -> bool:
    return False


is_dynamo_compiling = is_exporting = is_compiling


def optimize(*settings: Any, **options: Any) -> Callable[[Any], Any]:
    return unchanged


optimize_assert = optimize


def get_default_backend() -> str:
    return "eager"


def list_backends() -> list[str]:
    return ["eager"]


def kept_bytes() -> int:
    return 0


def explain(*args: Any, **kwargs: Any) -> NoReturn:
    """There is nothing to tell of a compilation.

    Raises:
        OnegraphError: always; its message says why nothing is compiled.
    """
    raise OnegraphError(problem())


compile_times = CompileProfiler = export = ExportedProgram = verify = minify = explain
counters: dict[str, Counter[str]] = defaultdict(Counter)
