"""A compiled graph as data that needs no graph to be run again: for captures that are kept on disk.

Of tensors it has small constants only. Parameters and inputs are given to each call, and are never in it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from onegraph.base.codec import Codec, Named
from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass
from onegraph.base.late import late_module
from onegraph.compiler.cpu_code import KEPT
from onegraph.compiler.kept_parts import LARGEST_TABLE, PLAN_CLASSES, Table
from onegraph.compiler.launched import graph_name, launched
from onegraph.compiler.library.recipe import Recipe
from onegraph.compiler.library.window import Window
from onegraph.compiler.plan_bounds import check_plan
from onegraph.compiler.runtime.launcher import launcher
from onegraph.compiler.target import Role, Target
from onegraph.compiler.trial import Trial
from onegraph.ir.plan import ExecPlan, Return
from onegraph.ir.types import DType, dtype_named

if TYPE_CHECKING:
    from onegraph.compiler.targets import target_here
else:  # for other devices than the processor
    target_here = late_module("onegraph.compiler.targets").target_here

LIBRARY = "onegraph.compiler.library."


@dataclass(frozen=True, slots=True)
class KeptRecipe:
    """A recipe by the module of the library and the name in it of its function."""

    module: str
    function: str
    settings: tuple[Any, ...]
    itemsizes: tuple[int, ...]

    def made(self) -> Recipe:
        """Raises ValueError where the library has no such function of its own."""
        home = LIBRARY + self.module
        function = vars(importlib.import_module(home)).get(self.function)
        if not isinstance(function, FunctionType) or function.__module__ != home:
            raise ValueError(f"{home} has no function {self.function}")
        return Recipe(function, self.settings, self.itemsizes)


@dataclass(frozen=True, slots=True)
class KeptGraph:
    """`objects` has for each kernel of the plan the name of the object on disk with its code. Constants and recipes are
    by the names that the plan has for them; `fallbacks` names the operators that are left to the library. `device` is
    where kernels run, and `made_for` what they were compiled for there; for a processor it is in the key on disk."""

    plan: ExecPlan
    objects: tuple[str, ...]
    constants: tuple[tuple[str, Table], ...]
    recipes: tuple[tuple[str, KeptRecipe], ...]
    kernels: int
    fallbacks: tuple[str, ...]
    device: str = "cpu"
    made_for: str = ""

    def ends(self) -> tuple[int, int]:
        """How many inputs and how many results it has.

        Raises:
            ValueError: it has no end.
        """
        match self.plan.steps:
            case (*_, Return(values)):
                return len(self.plan.inputs), len(values)
        raise ValueError("the plan has no end")


CODEC = Codec(
    KeptGraph, KeptRecipe, Window, Table, *PLAN_CLASSES,
    named={
        DType: Named(lambda dtype: dtype.name, dtype_named),
        torch.dtype: Named(lambda dtype: str(dtype).removeprefix("torch."), lambda name: _of_torch(torch.dtype, name)),
    },
)  # fmt: skip


def kept_graph(
    plan: ExecPlan,
    target: Target,
    config: Config,
    objects: tuple[str, ...],
    constants: Mapping[str, torch.Tensor],
    recipes: Mapping[str, Recipe],
    kernels: int,
    fallbacks: Iterable[str],
) -> KeptGraph | None:
    """The compiled graph as data; None if the code of a kernel is not kept, or a constant is too large."""
    if target.kept is None or not all(objects) or plan.sanitize:
        return None
    if any(not is_kept(tensor, target.device) for tensor in constants.values()):
        return None
    made = []
    for name, recipe in recipes.items():
        module = recipe.function.__module__
        if not module.startswith(LIBRARY):
            return None
        function = KeptRecipe(module[len(LIBRARY) :], recipe.function.__name__, recipe.settings, recipe.itemsizes)
        made.append((name, function))
    tables = tuple((name, Table.of(tensor)) for name, tensor in constants.items())
    made_for = "" if target.device == "cpu" else target.kept.identity(config)
    return KeptGraph(plan, objects, tables, tuple(made), kernels, tuple(fallbacks), target.device, made_for)


def is_kept(tensor: torch.Tensor, device: str) -> bool:
    plain = tensor.layout is torch.strided and str(tensor.device) == device and not tensor.is_quantized
    return plain and tensor.nbytes <= LARGEST_TABLE and tensor.is_contiguous() and not (
        tensor.is_conj() or tensor.is_neg()
    )  # fmt: skip


def relaunched(kept: KeptGraph, cx: Context, consumes: bool, refused: Callable[[str], object], role: Role) -> Any:
    """What runs the graph, in its role; None if the code of a kernel is gone, or was made for another device than this
    process has. `refused` is told where its first call does not fit.

    Raises:
        ValueError: nobody has made such a plan.
    """
    loads, launch, captured = KEPT, launcher, None
    if kept.device != "cpu":
        target = target_here(kept.device)
        if target is None or target.kept is None or target.kept.identity(cx.config) != kept.made_for:
            return None
        loads, launch, captured = target.kept, target.launch, target.captured
    code = loads.load(kept.plan.kernels, kept.objects, cx)
    if code is None:
        return None
    constants = {name: table.tensor().to(kept.device) for name, table in kept.constants}
    check_plan(kept.plan, constants, kept.device)
    recipes = {name: recipe.made() for name, recipe in kept.recipes}
    run = launched(kept.plan, code, constants, recipes, cx, launch, graph_name(cx, consumes), None)
    run.on_trial(Trial(kept.plan, constants, refused, kept.device))
    return captured(run, kept.plan, role, cx) if captured is not None and cx.config.cuda_graphs else run


def _of_torch(kind: type, name: str) -> object:
    found = getattr(torch, name)
    if not isinstance(found, kind):
        raise ValueError(f"torch.{name} is no {kind.__name__}")
    return found
