"""The compiler: the way from a graph to a callable, over the stages that its target names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import cache, partial
from time import thread_time
from typing import Any

import torch
from torch.fx import GraphModule

from onegraph import _C
from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass
from onegraph.base.events import BoundsChecked, DiskSearched, FusionDone, KernelsCompiled, LoweringDone, MemoryPlanned
from onegraph.base.pipeline import run_passes, timed
from onegraph.compiler.kept_check import check_read_plan
from onegraph.compiler.kept_graphs import KeptGraph, kept_graph
from onegraph.compiler.kept_plans import KeptPlan, PlanPlace, place_of
from onegraph.compiler.launched import graph_name, launched
from onegraph.compiler.lower.graph import Lowered, lower_graph
from onegraph.compiler.lower.left import Left, announce
from onegraph.compiler.lower.size_facts import size_facts
from onegraph.compiler.memory.check import check_plan
from onegraph.compiler.memory.plan import plan
from onegraph.compiler.runtime.executor import Executor
from onegraph.compiler.runtime.launcher import no_times
from onegraph.compiler.target import Compile, Target
from onegraph.ir.index import Index
from onegraph.ir.loop import Program
from onegraph.ir.loop_bounds import check_bounds
from onegraph.ir.loop_check import check_program
from onegraph.ir.loop_text import format_program
from onegraph.ir.plan import ExecPlan
from onegraph.ir.plan_text import format_plan, plan_bytes

_INTEGERS = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})


@dataclass(frozen=True, slots=True)
class NativeGraph:
    """A compiled graph: call it with the graph's inputs, it returns the tuple of its outputs.

    `plan` is what a call does, `addresses` are those of the plan's kernels. `kernels` counts the kernels that run,
    `fallbacks` names the operators that were left to the library. `kept` is the graph as data, if it can be kept.
    `text(stage)` prints the program: "aten", "loops", "fused", "memory", or a stage of the target: "llvm" and "asm" for
    the CPU.
    """

    run: _C.Plan | Executor
    plan: ExecPlan
    addresses: tuple[int, ...]
    kernels: int
    fallbacks: tuple[str, ...]
    kept: KeptGraph | None
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
    target: Target,
    parameters: frozenset[int] = frozenset(),
    given: Mapping[int, int] | None = None,
    consumes: bool = False,
) -> NativeGraph:
    """Compile a functional aten graph whose nodes carry fake results in `meta["val"]`, for the target.

    `parameters` are the positions of the inputs that are parameters: they are expected to change rarely. `given` are
    the positions of results that the caller copies to inputs: such a result may be the input itself, written in place.
    A graph that `consumes` its inputs is given them in a list, by `run.consume`, which lets go of each when it can.
    What was compiled before, here or in another process, is found on disk.
    """
    compile_alone = alone(cx, target)  # until the graph is compiled: it has some of the kernels that were timed
    if "choose_calls" not in cx.config.skipped_passes:
        with timed(cx, "compile: choose library calls"):
            module = target.library(module, parameters, cx.config, compile_alone)
    with ExitStack() as made:
        with timed(cx, "compile: find plan"):
            place = place_of(module, cx, target, given, consumes)
            entry = None if place is None else made.enter_context(place.find_or_make())
            found = None if entry is None else reloaded(entry, module, cx, target, consumes)
        if place is not None:
            cx.emit(DiskSearched(cx.frame, "plan", found is not None))
        return found if found is not None else compiled(module, cx, target, given, consumes, place)


def compiled(
    module: GraphModule,
    cx: Context,
    target: Target,
    given: Mapping[int, int] | None,
    consumes: bool,
    place: PlanPlace | None,
) -> NativeGraph:
    """Compile the graph, whose library calls are chosen, and keep its plan at this place."""
    lowered, fused = scheduled(module, cx, target)
    facts = size_facts(module) if cx.config.verify else ()
    if cx.config.verify:
        _check_bounds((lowered.program, fused), facts, lowered.constants, cx)
    start = thread_time()
    code = target.build(fused, cx)
    seconds, assembly = thread_time() - start, code.texts.get("asm", "")
    cx.emit(KernelsCompiled(cx.frame, len(code.kernels), seconds, code.cached, code.text, assembly))
    with timed(cx, "compile: plan memory"):
        origins = lowered.origins if cx.config.sanitize else None
        reuses = "reuse_memory" not in cx.config.skipped_passes
        where = code.begins, reuses, code.grids
        steps = plan(fused, code.functions, code.kernels, target.device, given, consumes, origins, *where)
    if cx.config.verify:
        check_plan(fused, steps, code.functions, given, facts, code.begins, code.grids)
        if target.kept is not None and not cx.config.sanitize:
            check_read_plan(steps, module, lowered.constants, lowered.recipes, target.device)
    times = no_times(steps) if cx.config.measure else None
    cx.emit(MemoryPlanned(cx.frame, *plan_bytes(steps), lambda: format_plan(steps), steps, times))
    if place is not None:
        with timed(cx, "compile: keep plan"):
            place.store(steps, code, lowered, len(fused.kernels), module)
    constants, recipes, name = lowered.constants, lowered.recipes, graph_name(cx, consumes)
    run = launched(steps, code, constants, recipes, cx, target.launch, name, times)
    texts = {
        "aten": lambda: str(module.graph),
        "loops": lambda: format_program(lowered.program),
        "fused": lambda: format_program(fused),
        "memory": lambda: format_plan(steps),
        **code.texts,
    }
    fallbacks = operators_of(lowered.left)
    made_of = lowered.constants, lowered.recipes, len(fused.kernels)
    kept = kept_graph(steps, target, cx.config, code.objects, *made_of, fallbacks)
    return NativeGraph(run, steps, code.addresses, len(fused.kernels), fallbacks, kept, texts)


def alone(cx: Context, target: Target) -> Compile:
    """Compiles a graph as it is, whose kernels are to be timed: nobody is told of it. It keeps what it has made."""
    quiet = Context(cx.config.replace(verify=False, measure=False))
    made: list[NativeGraph] = []

    def compile_alone(module: GraphModule) -> NativeGraph:
        made.append(compiled(module, quiet, target, None, False, None))
        return made[-1]

    return compile_alone


def scheduled(module: GraphModule, cx: Context, target: Target) -> tuple[Lowered, Program]:
    """The loops of the graph, and those that code is made of."""
    with timed(cx, "compile: lower"):
        lowered = lower_graph(module, cx, target.device, target.machine)
    loops = lowered.program
    cx.emit(LoweringDone(cx.frame, len(loops.kernels), lambda: format_program(loops)))
    fused = run_passes(loops, target.passes, cx, check_program, format_program, "schedule")
    cx.emit(FusionDone(cx.frame, len(fused.kernels), lambda: format_program(fused)))
    return lowered, fused


def reloaded(entry: KeptPlan, module: GraphModule, cx: Context, target: Target, consumes: bool) -> NativeGraph | None:
    """The graph by its plan on disk, if the code of its kernels is there, too. Texts of stages are made anew."""
    if target.kept is None:
        return None
    try:
        constants, recipes = entry.parts_in(module, target.device)
    except ValueError:  # nobody has written such an entry for this graph
        return None
    start = thread_time()
    code = target.kept.load(entry.plan.kernels, entry.objects, cx)
    if code is None:
        return None
    steps, quiet = entry.plan, Context(cx.config)
    again = cache(lambda: scheduled(module, quiet, target))
    built = cache(lambda: target.build(again()[1], quiet))
    texts: dict[str, Callable[[], str]] = {
        "aten": lambda: str(module.graph),
        "loops": lambda: format_program(again()[0].program),
        "fused": lambda: format_program(again()[1]),
        "memory": lambda: format_plan(steps),
        **{stage: partial(lambda stage: built().texts[stage](), stage) for stage in target.kept.stages},
    }
    try:
        times = no_times(steps) if cx.config.measure else None
        run = launched(steps, code, constants, recipes, cx, target.launch, graph_name(cx, consumes), times)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
        return None
    announce(entry.left, cx)
    cx.emit(LoweringDone(cx.frame, entry.loops, texts["loops"]))
    cx.emit(FusionDone(cx.frame, entry.kernels, texts["fused"]))
    seconds, assembly = thread_time() - start, texts.get("asm", "")
    cx.emit(KernelsCompiled(cx.frame, len(steps.kernels), seconds, True, lambda: built().text(), assembly))
    cx.emit(MemoryPlanned(cx.frame, *plan_bytes(steps), texts["memory"], steps, times))
    fallbacks = operators_of(entry.left)
    kept = kept_graph(steps, target, cx.config, entry.objects, constants, recipes, entry.kernels, fallbacks)
    return NativeGraph(run, steps, code.addresses, entry.kernels, fallbacks, kept, texts)


def operators_of(left: Iterable[Left]) -> tuple[str, ...]:
    return tuple(each.operator for each in left)


def _check_bounds(
    programs: tuple[Program, ...], facts: tuple[Index, ...], constants: Mapping[str, torch.Tensor], cx: Context
) -> None:
    """Prove that the kernels stay within their buffers, as they were lowered and as they are compiled."""
    numbers = {name: x for name, x in constants.items() if x.dtype in _INTEGERS and x.numel()}
    held = {name: (int(x.min()), int(x.max())) for name, x in numbers.items()}
    with timed(cx, "compile: check bounds"):
        unproven = [each for program in programs for each in check_bounds(program, facts, held)]
    kernels = sum(len(program.kernels) for program in programs)
    cx.emit(BoundsChecked(cx.frame, kernels, tuple(f"{each.access}: {each.reach.value}" for each in unproven)))
