"""Every public name of onegraph, used in compiled code: it gives what it gives in eager, or says why it does not."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import onegraph

X = torch.ones(3)


def double(x: Tensor) -> Tensor:
    return x * 2


def marked(x: Tensor) -> Tensor:
    return x + 5


def substitute() -> str:
    """Once for each function."""
    names: dict[str, Any] = {}
    exec("def original(x): return x\ndef other(x): return x", names)
    return onegraph.substitute_in_graph(names["original"])(names["other"]).__name__


def backend(module: Any, examples: list[Any]) -> Any:
    return module


MODULE = torch.nn.ReLU()
USES: dict[str, Callable[[], Any]] = {
    "BackendError": lambda: str(onegraph.BackendError("why")),
    "CompileError": lambda: str(onegraph.CompileError("stage", "why")),
    "CompileProfiler": lambda: onegraph.CompileProfiler().graph_count,
    "Config": lambda: onegraph.Config().recompile_limit,
    "ConstraintViolationError": lambda: str(onegraph.ConstraintViolationError("why")),
    "Dim": lambda: onegraph.Dim("batch").name,
    "ExportedProgram": lambda: onegraph.ExportedProgram.__name__,
    "FailOnRecompileError": lambda: str(onegraph.FailOnRecompileError("why")),
    "ForbiddenCallError": lambda: onegraph.ForbiddenCallError.__name__,
    "GraphBreakError": lambda: onegraph.GraphBreakError.__name__,
    "InvalidArgument": lambda: str(onegraph.InvalidArgument("why")),
    "LoadError": lambda: str(onegraph.LoadError("why")),
    "OnegraphError": lambda: str(onegraph.OnegraphError("why")),
    "RecompileLimitError": lambda: str(onegraph.RecompileLimitError("why")),
    "SaveError": lambda: str(onegraph.SaveError("why")),
    "allow_in_graph": lambda: onegraph.allow_in_graph(marked)(X),
    "assume_constant_result": lambda: onegraph.assume_constant_result(len)([1, 2]),
    "compile": lambda: onegraph.compile(double)(X) + onegraph.compile(MODULE)(X),
    "compile_times": lambda: len(onegraph.compile_times("csv")),
    "comptime": lambda: onegraph.comptime(lambda context: None),
    "config": lambda: onegraph.config.recompile_limit,
    "counters": lambda: onegraph.counters["nothing"]["at all"],
    "cudagraph_mark_step_begin": lambda: onegraph.cudagraph_mark_step_begin(),
    "cudagraph_mark_warmup_incomplete": lambda: onegraph.cudagraph_mark_warmup_incomplete(),
    "disable": lambda: onegraph.disable(double)(X),
    "disable_nested_graph_breaks": lambda: onegraph.disable_nested_graph_breaks(double)(X),
    "disallow_in_graph": lambda: onegraph.disallow_in_graph(torch.sub)(X, 1),
    "dont_skip_tracing": lambda: onegraph.dont_skip_tracing(double)(X),
    "error_on_graph_break": lambda: onegraph.error_on_graph_break(True)(double)(X),
    "export": lambda: onegraph.export(double)(X).conditions,
    "explain": lambda: onegraph.explain(double)(X).graph_count,
    "forbid_in_graph": lambda: onegraph.forbid_in_graph(marked).__name__,
    "get_default_backend": lambda: onegraph.get_default_backend(),
    "graph_break": lambda: onegraph.graph_break("why"),
    "install": lambda: type(onegraph.install()).__name__,
    "is_compiling": lambda: onegraph.is_compiling() in (True, False),
    "is_dynamo_compiling": lambda: onegraph.is_dynamo_compiling() in (True, False),
    "is_exporting": lambda: onegraph.is_exporting(),
    "keep_portable_guards_unsafe": lambda: onegraph.keep_portable_guards_unsafe([]),
    "keep_tensor_guards_unsafe": lambda: onegraph.keep_tensor_guards_unsafe([]),
    "kept_bytes": lambda: onegraph.kept_bytes() >= 0,
    "list_backends": lambda: "native" in onegraph.list_backends(),
    "load": lambda: onegraph.load("nowhere", double),
    "save": lambda: onegraph.save(double, "nowhere"),
    "load_cache_artifacts": lambda: onegraph.load_cache_artifacts(b""),
    "lookup_backend": lambda: onegraph.lookup_backend(backend).__name__,
    "mark_dynamic": lambda: onegraph.mark_dynamic(X, 0),
    "mark_static": lambda: onegraph.mark_static(X),
    "mark_static_address": lambda: onegraph.mark_static_address(X),
    "mark_unbacked": lambda: onegraph.mark_unbacked(X, 0),
    "maybe_mark_dynamic": lambda: onegraph.maybe_mark_dynamic(X, 0),
    "nested_compile_region": lambda: onegraph.nested_compile_region(double)(X),
    "minify": lambda: bool(onegraph.minify(double)(X)),
    "nonstrict_trace": lambda: onegraph.nonstrict_trace(double)(X),
    "optimize": lambda: onegraph.optimize("eager")(double)(X),
    "optimize_assert": lambda: onegraph.optimize_assert()(double)(X),
    "patch_dynamo_config": lambda: type(onegraph.patch_dynamo_config(cache_size_limit=3)).__name__,
    "register_backend": lambda: onegraph.register_backend(backend, "of the test").__name__,
    "reporting": lambda: type(onegraph.reporting()).__name__,
    "reset": lambda: onegraph.reset(),
    "reset_code_caches": lambda: onegraph.reset_code_caches(),
    "run": lambda: onegraph.run(double)(X),
    "save_cache_artifacts": lambda: onegraph.save_cache_artifacts() is not False,
    "set_default_backend": lambda: onegraph.set_default_backend("native"),
    "set_stance": lambda: onegraph.set_stance("default"),
    "skip": lambda: onegraph.skip(double)(X),
    "verify": lambda: onegraph.verify(double)(X).ok,
    "wrap_numpy": lambda: onegraph.wrap_numpy(double)(X),
    "skip_all_guards_unsafe": lambda: onegraph.skip_all_guards_unsafe([]),
    "skip_guard_on_all_nn_modules_unsafe": lambda: onegraph.skip_guard_on_all_nn_modules_unsafe([]),
    "skip_guard_on_globals_unsafe": lambda: onegraph.skip_guard_on_globals_unsafe([]),
    "skip_guard_on_inbuilt_nn_modules_unsafe": lambda: onegraph.skip_guard_on_inbuilt_nn_modules_unsafe([]),
    "skip_frame": lambda: onegraph.skip_frame("why"),
    "substitute_in_graph": substitute,
    "uninstall": lambda: onegraph.uninstall(),
}
MARKS = {"mark_dynamic", "mark_static", "mark_static_address", "mark_unbacked", "maybe_mark_dynamic"}
REFUSED = {"set_stance"} | MARKS  # say so


def outcome(function: Callable[..., Any]) -> str:
    try:
        return str(function(X))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def main() -> None:
    assert set(USES) == set(onegraph.__all__)
    wrong = []
    for name, use in USES.items():

        def program(x: Tensor, use: Callable[[], Any] = use) -> Any:
            y = x + 1
            return y * 2, use()

        expected, compiled = outcome(program), onegraph.compile(program)
        for _ in range(3):
            found = outcome(compiled)
            if name in REFUSED:
                right = found.startswith("ForbiddenCallError: call of") and "forbidden-function" in found
            else:
                right = found == expected
            if not right:
                wrong.append(f"{name}: {found}, not {expected}")
    print("\n".join(wrong) or "all as eager")


if __name__ == "__main__":
    logging.getLogger("onegraph").setLevel(logging.ERROR)  # artifacts that are none are refused in a line of the log
    warnings.simplefilter("ignore")
    main()
