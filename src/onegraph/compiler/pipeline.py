"""The compiler: the list of its passes, and the way from a graph to a callable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import thread_time
from typing import Any

from torch.fx import GraphModule

from onegraph import _C
from onegraph.base.context import Context
from onegraph.base.events import FusionDone, KernelsCompiled, LoweringDone, MemoryPlanned
from onegraph.base.pipeline import Pass, run_passes, timed
from onegraph.compiler.codegen.kernels import compile_kernels
from onegraph.compiler.codegen.target import assembly
from onegraph.compiler.library.choose import choose_calls
from onegraph.compiler.library.recipe import check_of, keeping
from onegraph.compiler.lower.graph import lower_graph
from onegraph.compiler.memory.plan import plan
from onegraph.compiler.runtime.executor import Executor
from onegraph.compiler.runtime.launcher import launcher
from onegraph.compiler.schedule.absorb_views import absorb_views
from onegraph.compiler.schedule.axes import merge_axes, split_axes
from onegraph.compiler.schedule.dead_code import remove_dead_code
from onegraph.compiler.schedule.drop_roundings import drop_roundings
from onegraph.compiler.schedule.flatten import flatten
from onegraph.compiler.schedule.fuse import fuse
from onegraph.compiler.schedule.inline import inline
from onegraph.compiler.schedule.split_reductions import split_reductions
from onegraph.compiler.schedule.unroll_and_jam import unroll_and_jam
from onegraph.compiler.schedule.vectorize import vectorize
from onegraph.ir.loop import Program
from onegraph.ir.loop_check import check_program
from onegraph.ir.loop_text import format_program
from onegraph.ir.plan import ExecPlan
from onegraph.ir.plan_text import format_plan, plan_bytes

SCHEDULE: tuple[Pass[Program], ...] = (
    Pass("inline", inline, "first: chains of operators shrink to their ends, which leaves the choices that matter"),
    Pass("split_reductions", split_reductions, "before fuse, which would tie what surrounds them to few threads"),
    Pass("fuse", fuse, "on coordinates: axes of different kernels are compared through the buffers they index"),
    Pass("drop_roundings", drop_roundings, "after fusing, which brings operators into one kernel; it leaves dead code"),
    Pass("remove_dead_code", remove_dead_code, "after fusing, which folds values; dead loads would weigh in below"),
    Pass("unroll_and_jam", unroll_and_jam, "on coordinates, when kernels are whole: what they read then shows"),
    Pass("flatten", flatten, "strides become part of the index expressions, which the passes below reason about"),
    Pass("absorb_views", absorb_views, "after flatten, when kernels no longer depend on the shapes of buffers"),
    Pass("split_axes", split_axes, "after flatten, where reshapes have left divisions that did not cancel"),
    Pass("merge_axes", merge_axes, "after splitting, which makes short axes that may continue others"),
    Pass("vectorize", vectorize, "last: it needs the final axes and body of each kernel"),
)


@dataclass(frozen=True, slots=True)
class NativeGraph:
    """A compiled graph: call it with the graph's inputs, it returns the tuple of its outputs.

    `plan` is what a call does, `addresses` are those of the plan's kernels. `kernels` counts the kernels that run,
    `fallbacks` names the operators that were left to the library. `text(stage)` prints the program: "aten", "loops",
    "fused", "memory", "llvm" or "asm".
    """

    run: _C.Plan | Executor
    plan: ExecPlan
    addresses: tuple[int, ...]
    kernels: int
    fallbacks: tuple[str, ...]
    _texts: Mapping[str, Callable[[], str]]

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        return self.run(*args)

    def text(self, stage: str) -> str:
        """The program after a stage."""
        if stage not in self._texts:
            raise ValueError(f"unknown stage {stage!r}; accepted: {', '.join(self._texts)}")
        return self._texts[stage]()


def compile_graph(
    module: GraphModule,
    cx: Context,
    parameters: frozenset[int] = frozenset(),
    given: Mapping[int, int] | None = None,
    consumes: bool = False,
) -> NativeGraph:
    """Compile a functional aten graph whose nodes carry fake results in `meta["val"]`.

    `parameters` are the positions of the inputs that are parameters: they are expected to change rarely. `given` are
    the positions of results that the caller copies to inputs: such a result may be the input itself, written in place.
    A graph that `consumes` its inputs is given them in a list, by `run.consume`, which lets go of each when it can.
    """
    with timed(cx, "compile: choose library calls"):
        module = choose_calls(module, parameters, cx.config)
    with timed(cx, "compile: lower"):
        lowered = lower_graph(module, cx)
    loops = lowered.program
    cx.emit(LoweringDone(cx.frame, len(loops.kernels), lambda: format_program(loops)))
    fused = run_passes(loops, SCHEDULE, cx, check_program, format_program, "schedule")
    cx.emit(FusionDone(cx.frame, len(fused.kernels), lambda: format_program(fused)))
    start = thread_time()
    code = compile_kernels(fused, cx)
    cx.emit(KernelsCompiled(cx.frame, len(code.kernels), thread_time() - start, code.cached, code.text))
    with timed(cx, "compile: plan memory"):
        steps = plan(fused, code.functions, code.kernels, given, consumes)
    cx.emit(MemoryPlanned(cx.frame, *plan_bytes(steps), lambda: format_plan(steps)))
    check = check_of(cx.config)
    recipes = {name: keeping(recipe, check) for name, recipe in lowered.recipes.items()}
    run = launcher(steps, code.addresses, lowered.constants, cx.config.threads, code.keep, recipes)
    texts = {
        "aten": lambda: str(module.graph),
        "loops": lambda: format_program(loops),
        "fused": lambda: format_program(fused),
        "memory": lambda: format_plan(steps),
        "llvm": code.text,
        "asm": lambda: assembly(code.text(), cx.config.target_cpu),
    }
    return NativeGraph(run, steps, code.addresses, len(fused.kernels), lowered.fallbacks, texts)
