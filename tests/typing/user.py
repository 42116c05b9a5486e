"""Every public name of onegraph as a user's program has it, with the types that come of it. Checked, never run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, assert_type

import numpy as np
import torch
from torch import Tensor, nn

import onegraph
from onegraph.tools.minify import Minified
from onegraph.tools.report import Explanation
from onegraph.tools.verification.report import Verification

Function = Callable[[Tensor, int], Tensor]


def scale(x: Tensor, by: int) -> Tensor:
    return x * by


class Model(nn.Module):
    size = 3

    def forward(self, x: Tensor) -> Tensor:
        return x + self.size

    @onegraph.compile(fullgraph=True)
    def halve(self, x: Tensor) -> Tensor:
        return x / 2


class Parts:
    @staticmethod
    @onegraph.disable
    def one(x: Tensor) -> Tensor:
        return x


def eager(graph: torch.fx.GraphModule, examples: list[Tensor]) -> Callable[..., Any]:
    return graph.forward


# ---- compile ---------------------------------------------------------------------------------------------------------


@onegraph.compile
def plain(x: Tensor, by: int) -> Tensor:
    return x * by


@onegraph.compile(dynamic=True, backend=eager, mode="default", options={"threads": 2}, recompile_limit=3, name="named")
def told(x: Tensor, *, by: int = 2) -> tuple[Tensor, int]:
    return x * by, by


@onegraph.optimize("native", nopython=True)
def optimized(x: Tensor) -> Tensor:
    return x


@onegraph.optimize_assert(eager)
def asserted(x: Tensor) -> Tensor:
    return x


def compiled(x: Tensor, model: Model) -> None:
    function: Function = plain
    assert_type(plain(x, 2), Tensor)
    assert_type(told(x, by=3), tuple[Tensor, int])
    assert_type(onegraph.compile(scale)(x, 3), Tensor)
    assert_type(onegraph.compile(model), Model)
    assert_type(onegraph.compile(model).size, int)
    assert_type(onegraph.compile(model.halve)(x), Tensor)
    assert_type(model.halve(x), Tensor)
    assert_type(onegraph.compile()(model), Model)
    assert_type(onegraph.compile(scale, disable=True)(x, by=3), Tensor)
    assert_type(optimized(x), Tensor)
    assert_type(asserted(x), Tensor)
    assert_type(function(x, 3), Tensor)
    assert_type(onegraph.kept_bytes(), int)
    saved = onegraph.save_cache_artifacts()
    if saved is not None:
        data, info = saved
        assert_type(data, bytes)
        assert_type(info.artifacts, Mapping[str, tuple[str, ...]])
        onegraph.load_cache_artifacts(data)
    onegraph.save(onegraph.compile(scale), "scale.og", strict=False)
    assert_type(onegraph.load("scale.og", scale)(x, 3), Tensor)
    onegraph.reset()
    onegraph.reset_code_caches()


# ---- how it is captured ----------------------------------------------------------------------------------------------


@onegraph.disable
def disabled(x: Tensor) -> Tensor:
    return x


@onegraph.disable(recursive=False, reason="it prints")
def disabled_alone(x: Tensor) -> Tensor:
    return x


@onegraph.disable
class Disabled:
    size: int = 3


@onegraph.disable_nested_graph_breaks
def outermost(x: Tensor) -> Tensor:
    return x


@onegraph.disable_nested_graph_breaks()
def outermost_too(x: Tensor) -> Tensor:
    return x


@onegraph.error_on_graph_break(True)
def whole(x: Tensor) -> Tensor:
    return x


@onegraph.nonstrict_trace
def traced(x: Tensor) -> Tensor:
    return x


@onegraph.wrap_numpy
def of_arrays(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return x + 1


@onegraph.allow_in_graph
def opaque(x: Tensor) -> Tensor:
    return x


@onegraph.forbid_in_graph
def forbidden(x: Tensor) -> Tensor:
    return x


@onegraph.assume_constant_result
def constant() -> int:
    return 3


@onegraph.dont_skip_tracing
def looked_at(x: Tensor) -> Tensor:
    return x


@onegraph.nested_compile_region
def region(x: Tensor) -> Tensor:
    return x


@onegraph.nested_compile_region()
def region_too(x: Tensor) -> Tensor:
    return x


@onegraph.substitute_in_graph(len, skip_signature_check=True)
def length(values: list[int], /) -> int:
    return sum(1 for _ in values)


def captured(x: Tensor, model: Model) -> None:
    for function in (disabled, disabled_alone, outermost, outermost_too, whole, traced, opaque, forbidden, looked_at):
        assert_type(function(x), Tensor)
    assert_type(region(x), Tensor)
    assert_type(region_too(x), Tensor)
    assert_type(constant(), int)
    assert_type(length([1]), int)
    assert_type(Disabled.size, int)
    assert_type(Parts.one(x), Tensor)
    assert_type(onegraph.disable(model), Model)
    assert_type(onegraph.skip(disabled)(x), Tensor)
    assert_type(onegraph.disallow_in_graph(scale)(x, 2), Tensor)
    assert_type(onegraph.disallow_in_graph([scale])[0](x, 2), Tensor)
    assert_type(onegraph.run(scale)(x, 2), Tensor)
    assert_type(onegraph.run(model), Model)
    with onegraph.run():
        onegraph.graph_break("why")
    with onegraph.error_on_graph_break(False), onegraph.disable_nested_graph_breaks():
        onegraph.skip_frame()
    with onegraph.set_stance("force_eager"):
        scale(x, 2)
    assert_type(onegraph.set_stance("default")(scale)(x, 2), Tensor)
    onegraph.mark_dynamic(x, 0, min=2, max=8)
    onegraph.maybe_mark_dynamic(x, (0, 1))
    onegraph.mark_unbacked(x, [0])
    onegraph.mark_static(x)
    onegraph.mark_static_address(x, guard=True)
    onegraph.cudagraph_mark_step_begin()
    onegraph.cudagraph_mark_warmup_incomplete()
    assert_type(onegraph.is_compiling(), bool)
    assert_type(onegraph.is_dynamo_compiling(), bool)
    assert_type(onegraph.is_exporting(), bool)


# ---- settings and backends -------------------------------------------------------------------------------------------


@onegraph.config.patch(recompile_limit=1)
def patched(x: Tensor) -> Tensor:
    return x


@onegraph.register_backend
def mine(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
    return graph.forward


def settings(x: Tensor) -> None:
    onegraph.config.recompile_limit = 3
    limit: int = onegraph.config.recompile_limit
    del onegraph.config.recompile_limit
    assert_type(patched(x), Tensor)
    assert_type(onegraph.config.meaning("threads"), str)
    with onegraph.config.patch("threads", limit), onegraph.patch_dynamo_config({"cache_size_limit": 3}):
        pass
    assert_type(onegraph.Config().threads, int)
    assert_type(onegraph.list_backends(), list[str])
    onegraph.register_backend(eager, "eager too")
    onegraph.set_default_backend(mine)
    onegraph.set_default_backend(None)
    default = onegraph.get_default_backend()
    if isinstance(default, str):
        onegraph.compile(scale, backend=onegraph.lookup_backend(default))
    with onegraph.install():
        patched(x)
    onegraph.install()
    onegraph.uninstall()


def filtered_and_exported(x: Tensor) -> None:
    for keep in (
        onegraph.keep_portable_guards_unsafe,
        onegraph.keep_tensor_guards_unsafe,
        onegraph.skip_all_guards_unsafe,
        onegraph.skip_guard_on_all_nn_modules_unsafe,
        onegraph.skip_guard_on_globals_unsafe,
        onegraph.skip_guard_on_inbuilt_nn_modules_unsafe,
    ):
        onegraph.compile(scale, options={"guard_filter_fn": keep})
    rows = onegraph.Dim("rows", min=2, max=8)
    assert_type(onegraph.export(scale, (x, 2), dynamic_shapes={"x": {0: rows}}), onegraph.ExportedProgram)
    assert_type(onegraph.export(scale)(x, by=2), onegraph.ExportedProgram)
    onegraph.comptime.print_graph()


# ---- what has happened -----------------------------------------------------------------------------------------------


def told_of(x: Tensor, model: Model) -> str:
    assert_type(onegraph.explain(scale)(x, 2), Explanation)
    assert_type(onegraph.explain(scale, x, by=2), Explanation)
    assert_type(onegraph.explain(model)(x).graph_count, int)
    assert_type(onegraph.verify(scale)(x, by=2), Verification)
    assert_type(onegraph.verify(model, dynamic=True)(x).ok, bool)
    assert_type(onegraph.minify(scale, tests=20)(x, by=2), Minified)
    assert_type(onegraph.counters["stats"], Counter[str])
    assert_type(onegraph.compile_times("csv"), tuple[list[str], list[str]])
    with onegraph.CompileProfiler() as profiler:
        onegraph.compile(scale, backend=profiler)(x, 2)
    assert_type(profiler.report(), str)
    with onegraph.reporting("report.html") as report:
        plain(x, 2)
    assert_type(report.written, bool)
    return onegraph.compile_times()


def failed(x: Tensor) -> tuple[str, ...]:
    try:
        plain(x, 2)
    except onegraph.ForbiddenCallError as error:
        return (error.code,)
    except onegraph.GraphBreakError as error:
        return (error.reason, *error.hints)
    except (onegraph.BackendError, onegraph.CompileError, onegraph.InvalidArgument) as error:
        return (str(error),)
    except (onegraph.LoadError, onegraph.SaveError) as error:
        return (str(error),)
    except (onegraph.RecompileLimitError, onegraph.FailOnRecompileError, onegraph.ConstraintViolationError) as error:
        return (str(error),)
    except onegraph.OnegraphError as error:
        return (str(error),)
    return ()
