"""onegraph: an independent torch.compile. The whole program as one graph, compiled to native code.

    import onegraph

    @onegraph.compile
    def f(x):
        return (x + 1).relu()

Names are loaded on first use, so that importing a part of the package that needs no torch does not import it.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onegraph.ahead_of_time import load as load
    from onegraph.ahead_of_time import save as save
    from onegraph.backend_registry import list_backends as list_backends
    from onegraph.backend_registry import register_backend as register_backend
    from onegraph.base.comptime import comptime as comptime
    from onegraph.base.config import Config as Config
    from onegraph.base.dim import Dim as Dim
    from onegraph.base.errors import BackendError as BackendError
    from onegraph.base.errors import CompileError as CompileError
    from onegraph.base.errors import ConstraintViolationError as ConstraintViolationError
    from onegraph.base.errors import FailOnRecompileError as FailOnRecompileError
    from onegraph.base.errors import ForbiddenCallError as ForbiddenCallError
    from onegraph.base.errors import GraphBreakError as GraphBreakError
    from onegraph.base.errors import InvalidArgument as InvalidArgument
    from onegraph.base.errors import LoadError as LoadError
    from onegraph.base.errors import OnegraphError as OnegraphError
    from onegraph.base.errors import RecompileLimitError as RecompileLimitError
    from onegraph.base.errors import SaveError as SaveError
    from onegraph.base.guard_filters import keep_portable_guards_unsafe as keep_portable_guards_unsafe
    from onegraph.base.guard_filters import keep_tensor_guards_unsafe as keep_tensor_guards_unsafe
    from onegraph.base.guard_filters import skip_all_guards_unsafe as skip_all_guards_unsafe
    from onegraph.base.guard_filters import skip_guard_on_all_nn_modules_unsafe as skip_guard_on_all_nn_modules_unsafe
    from onegraph.base.guard_filters import skip_guard_on_globals_unsafe as skip_guard_on_globals_unsafe
    from onegraph.base.guard_filters import (
        skip_guard_on_inbuilt_nn_modules_unsafe as skip_guard_on_inbuilt_nn_modules_unsafe,
    )
    from onegraph.base.settings import config as config
    from onegraph.capture.directives.hatches import disable as disable
    from onegraph.capture.directives.hatches import disable_nested_graph_breaks as disable_nested_graph_breaks
    from onegraph.capture.directives.hatches import error_on_graph_break as error_on_graph_break
    from onegraph.capture.directives.hatches import graph_break as graph_break
    from onegraph.capture.directives.hatches import skip as skip
    from onegraph.capture.directives.hatches import skip_frame as skip_frame
    from onegraph.capture.directives.numpy_functions import wrap_numpy as wrap_numpy
    from onegraph.capture.directives.stance import run as run
    from onegraph.capture.directives.stance import set_stance as set_stance
    from onegraph.capture.directives.treatment import allow_in_graph as allow_in_graph
    from onegraph.capture.directives.treatment import assume_constant_result as assume_constant_result
    from onegraph.capture.directives.treatment import disallow_in_graph as disallow_in_graph
    from onegraph.capture.directives.treatment import forbid_in_graph as forbid_in_graph
    from onegraph.capture.directives.treatment import nonstrict_trace as nonstrict_trace
    from onegraph.capture.directives.treatment import substitute_in_graph as substitute_in_graph
    from onegraph.capture.symbolic.size_marks import mark_dynamic as mark_dynamic
    from onegraph.capture.symbolic.size_marks import mark_static as mark_static
    from onegraph.capture.symbolic.size_marks import mark_static_address as mark_static_address
    from onegraph.capture.symbolic.size_marks import mark_unbacked as mark_unbacked
    from onegraph.capture.symbolic.size_marks import maybe_mark_dynamic as maybe_mark_dynamic
    from onegraph.compile import compile as compile
    from onegraph.compile import is_compiling as is_compiling
    from onegraph.compile import reset as reset
    from onegraph.compiler.library.recipe import kept_bytes as kept_bytes
    from onegraph.export import ExportedProgram as ExportedProgram
    from onegraph.export import export as export
    from onegraph.export import is_exporting as is_exporting
    from onegraph.install import install as install
    from onegraph.install import uninstall as uninstall
    from onegraph.spellings import cudagraph_mark_step_begin as cudagraph_mark_step_begin
    from onegraph.spellings import cudagraph_mark_warmup_incomplete as cudagraph_mark_warmup_incomplete
    from onegraph.spellings import dont_skip_tracing as dont_skip_tracing
    from onegraph.spellings import get_default_backend as get_default_backend
    from onegraph.spellings import is_dynamo_compiling as is_dynamo_compiling
    from onegraph.spellings import lookup_backend as lookup_backend
    from onegraph.spellings import nested_compile_region as nested_compile_region
    from onegraph.spellings import optimize as optimize
    from onegraph.spellings import optimize_assert as optimize_assert
    from onegraph.spellings import patch_dynamo_config as patch_dynamo_config
    from onegraph.spellings import reset_code_caches as reset_code_caches
    from onegraph.spellings import set_default_backend as set_default_backend
    from onegraph.tools.cache.artifacts import load_cache_artifacts as load_cache_artifacts
    from onegraph.tools.cache.artifacts import save_cache_artifacts as save_cache_artifacts
    from onegraph.tools.counters import counters as counters
    from onegraph.tools.explain import explain as explain
    from onegraph.tools.html_report.reporting import reporting as reporting
    from onegraph.tools.minify import minify as minify
    from onegraph.tools.profiler import CompileProfiler as CompileProfiler
    from onegraph.tools.times import compile_times as compile_times
    from onegraph.tools.verify import verify as verify

    __version__: str

_HOME = {
    "compile": "onegraph.compile",
    "load": "onegraph.ahead_of_time",
    "save": "onegraph.ahead_of_time",
    "LoadError": "onegraph.base.errors",
    "SaveError": "onegraph.base.errors",
    "kept_bytes": "onegraph.compiler.library.recipe",
    "is_compiling": "onegraph.compile",
    "list_backends": "onegraph.backend_registry",
    "register_backend": "onegraph.backend_registry",
    "reset": "onegraph.compile",
    "disable": "onegraph.capture.directives.hatches",
    "disable_nested_graph_breaks": "onegraph.capture.directives.hatches",
    "error_on_graph_break": "onegraph.capture.directives.hatches",
    "graph_break": "onegraph.capture.directives.hatches",
    "skip_frame": "onegraph.capture.directives.hatches",
    "allow_in_graph": "onegraph.capture.directives.treatment",
    "assume_constant_result": "onegraph.capture.directives.treatment",
    "disallow_in_graph": "onegraph.capture.directives.treatment",
    "forbid_in_graph": "onegraph.capture.directives.treatment",
    "nonstrict_trace": "onegraph.capture.directives.treatment",
    "substitute_in_graph": "onegraph.capture.directives.treatment",
    "wrap_numpy": "onegraph.capture.directives.numpy_functions",
    "run": "onegraph.capture.directives.stance",
    "set_stance": "onegraph.capture.directives.stance",
    "skip": "onegraph.capture.directives.hatches",
    "comptime": "onegraph.base.comptime",
    "is_dynamo_compiling": "onegraph.spellings",
    "mark_dynamic": "onegraph.capture.symbolic.size_marks",
    "mark_static": "onegraph.capture.symbolic.size_marks",
    "mark_static_address": "onegraph.capture.symbolic.size_marks",
    "mark_unbacked": "onegraph.capture.symbolic.size_marks",
    "maybe_mark_dynamic": "onegraph.capture.symbolic.size_marks",
    "ConstraintViolationError": "onegraph.base.errors",
    "FailOnRecompileError": "onegraph.base.errors",
    "ForbiddenCallError": "onegraph.base.errors",
    "install": "onegraph.install",
    "uninstall": "onegraph.install",
    "dont_skip_tracing": "onegraph.spellings",
    "lookup_backend": "onegraph.spellings",
    "patch_dynamo_config": "onegraph.spellings",
    "optimize": "onegraph.spellings",
    "optimize_assert": "onegraph.spellings",
    "set_default_backend": "onegraph.spellings",
    "get_default_backend": "onegraph.spellings",
    "reset_code_caches": "onegraph.spellings",
    "nested_compile_region": "onegraph.spellings",
    "is_exporting": "onegraph.export",
    "cudagraph_mark_step_begin": "onegraph.spellings",
    "cudagraph_mark_warmup_incomplete": "onegraph.spellings",
    "Dim": "onegraph.base.dim",
    "export": "onegraph.export",
    "ExportedProgram": "onegraph.export",
    "keep_portable_guards_unsafe": "onegraph.base.guard_filters",
    "keep_tensor_guards_unsafe": "onegraph.base.guard_filters",
    "skip_all_guards_unsafe": "onegraph.base.guard_filters",
    "skip_guard_on_all_nn_modules_unsafe": "onegraph.base.guard_filters",
    "skip_guard_on_globals_unsafe": "onegraph.base.guard_filters",
    "skip_guard_on_inbuilt_nn_modules_unsafe": "onegraph.base.guard_filters",
    "explain": "onegraph.tools.explain",
    "minify": "onegraph.tools.minify",
    "verify": "onegraph.tools.verify",
    "load_cache_artifacts": "onegraph.tools.cache.artifacts",
    "save_cache_artifacts": "onegraph.tools.cache.artifacts",
    "compile_times": "onegraph.tools.times",
    "counters": "onegraph.tools.counters",
    "CompileProfiler": "onegraph.tools.profiler",
    "reporting": "onegraph.tools.html_report.reporting",
    "Config": "onegraph.base.config",
    "config": "onegraph.base.settings",
    "BackendError": "onegraph.base.errors",
    "CompileError": "onegraph.base.errors",
    "GraphBreakError": "onegraph.base.errors",
    "InvalidArgument": "onegraph.base.errors",
    "OnegraphError": "onegraph.base.errors",
    "RecompileLimitError": "onegraph.base.errors",
}

__all__ = sorted(_HOME)


def _load(name: str) -> object:
    if name == "__version__":
        globals()[name] = _installed_version()
        return globals()[name]
    if name not in _HOME:
        instead = import_module("onegraph.base.torch_names").ELSEWHERE.get(name)
        raise AttributeError(f"module 'onegraph' has no attribute {name!r}" + (f": {instead}" if instead else ""))
    home = _HOME[name]
    if home.startswith("onegraph.base."):
        value = getattr(import_module(home), name)
    else:
        try:
            work = import_module("onegraph.base.work").work
        except ImportError:  # there is no extension, which is said now
            value = _loaded(home, name)
        else:
            resting = import_module("onegraph.base.garbage_collector").COLLECTOR.resting
            with work(), resting():  # a handler of a signal would find what is half imported
                value = _loaded(home, name)
    globals()[name] = value
    return value


if not TYPE_CHECKING:  # for type checkers, what is not listed above does not exist
    __getattr__ = _load


def _installed_version() -> str:
    """What was built and installed, by its metadata; "0.0.0" for source that is only on the path."""
    metadata = import_module("importlib.metadata")
    try:
        return str(metadata.version("onegraph"))
    except metadata.PackageNotFoundError:
        return "0.0.0"


def _loaded(home: str, name: str) -> object:
    if import_module("onegraph.support").problem():
        home = "onegraph.eagerly"
    else:
        _start_logs()
    return getattr(import_module(home), name)


@cache
def _start_logs() -> None:
    """The driver emits events and knows no tools: here they meet, once in a process."""
    names = import_module("onegraph.base.config").Config.from_environment().logs
    logs, events = import_module("onegraph.tools.logs"), import_module("onegraph.compile").EVENTS
    logs.attach(events, names)
    import_module("onegraph.tools.torch_logs").attach_torch(events)
    import_module("onegraph.tools.debugging.attach").attach_files(events)
    import_module("onegraph.tools.compile_progress").attach_progress(events)
    events.subscribe(import_module("onegraph.tools.times").TIMES.note)
    events.subscribe(import_module("onegraph.tools.counters").counters.note)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, "__version__"})


class _Package(ModuleType):
    """Keeps `onegraph.compile` the function: importing the driver module of that name would set the attribute to it."""

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _HOME or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
