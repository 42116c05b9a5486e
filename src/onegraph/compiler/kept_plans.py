"""Plans on disk: a graph that was compiled before, in any process, is not lowered, scheduled and planned again.

An entry is found by the text of its graph (`graph_key`). It has the plan, and where the code of its kernels is kept;
of constants only what lowerings have made. Tensors of the program are never kept: they are taken from the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch.fx import GraphModule, Node

from onegraph.base.codec import Codec, Named
from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass
from onegraph.base.disk_cache import DiskCache, cache_of, key_of
from onegraph.base.events import DiskSearched
from onegraph.compiler.graph_key import Undescribed, attribute, graph_text
from onegraph.compiler.kept_check import check_read_plan
from onegraph.compiler.kept_parts import LARGEST_TABLE, PLAN_CLASSES, Table
from onegraph.compiler.library.recipe import Recipe
from onegraph.compiler.lower.left import Left
from onegraph.compiler.target import Code, Target
from onegraph.ir import plan
from onegraph.ir.types import DType, dtype_named

if TYPE_CHECKING:
    from onegraph.compiler.lower.graph import Lowered


@dataclass(frozen=True, slots=True)
class OfGraph:
    """The constant of the node of that number: the names of constants are not in the text of a graph."""

    node: int


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """`of` is the name that it is kept under. `objects` has for each kernel of the plan the name of the object on disk
    that holds its code. `constants` and `recipes` are those of the lowering, by name; a recipe is the target of the
    node of that number. `loops` and `kernels` count those of the program before and behind the scheduler; `left` are
    the calls left to libraries.
    """

    of: str
    plan: plan.ExecPlan
    objects: tuple[str, ...]
    constants: tuple[tuple[str, OfGraph | Table], ...]
    recipes: tuple[tuple[str, int], ...]
    loops: int
    kernels: int
    left: tuple[Left, ...]

    def parts_in(self, module: GraphModule, device: str) -> tuple[dict[str, torch.Tensor], dict[str, Recipe]]:
        """The constants and the recipes, by name, for a plan on the device.

        Raises:
            ValueError: if this cannot be an entry for the graph.
        """
        nodes = dict(enumerate(module.graph.nodes))
        try:
            constants = {name: _tensor(each, module, nodes, device) for name, each in self.constants}
            recipes = {name: nodes[number].target for name, number in self.recipes}
        except (KeyError, TypeError, AttributeError, RuntimeError) as error:
            raise ValueError("no such constants, or no such recipes") from error
        if len(self.objects) != len(self.plan.kernels) or not all(isinstance(r, Recipe) for r in recipes.values()):
            raise ValueError("no such kernels, or no such recipes")
        check_read_plan(self.plan, module, constants, recipes, device)
        return constants, recipes


_CODEC = Codec(
    KeptPlan, OfGraph, Table, Left, *PLAN_CLASSES,
    named={DType: Named(lambda dtype: dtype.name, dtype_named)},
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlanPlace:
    """Where the plan of one graph is kept."""

    disk: DiskCache
    key: str
    consumes: bool

    @contextmanager
    def find_or_make(self) -> Iterator[KeptPlan | None]:
        """The plan; where there is none that can be read, the block is to store one, and others wait for that."""
        with self.disk.find_or_make(self.key) as data:
            found = None if data is None else _read(data)
            yield found if found is not None and found.of == self.key else None

    def store(self, steps: plan.ExecPlan, code: Code, lowered: Lowered, kernels: int, module: GraphModule) -> None:
        """Keep the plan, unless the code of a kernel is not kept, or a constant is too large."""
        nodes = {id(node.target): number for number, node in enumerate(module.graph.nodes)}
        if not all(code.objects):
            return
        try:
            entry = KeptPlan(
                self.key,
                steps,
                code.objects,
                tuple((name, _kept(tensor, module)) for name, tensor in lowered.constants.items()),
                tuple((name, nodes[id(recipe)]) for name, recipe in lowered.recipes.items()),
                len(lowered.program.kernels),
                kernels,
                lowered.left,
            )
            self.disk.store(self.key, _CODEC.encode(entry))
        except (Undescribed, ValueError):
            return


def place_of(
    module: GraphModule, cx: Context, target: Target, given: Mapping[int, int] | None, consumes: bool
) -> PlanPlace | None:
    """Where the plan of a graph is kept; None if it is not to be, or all stages are to be seen, or it has no text."""
    config = cx.config
    runs_all = config.sanitize or config.verify or config.debug
    disk = None if target.kept is None or runs_all else cache_of(config, "plans")
    if disk is None or target.kept is None or not config.cache_plans:
        return None
    try:
        text = graph_text(module, target, given, consumes, config)
    except Undescribed as why:
        cx.emit(DiskSearched(cx.frame, "plan", False, str(why)))
        return None
    return PlanPlace(disk, key_of("plan", target.kept.identity(config), text), consumes)


def _read(data: bytes) -> KeptPlan | None:
    try:
        return plan_of(data)
    except ValueError:
        return None


def plan_of(data: bytes) -> KeptPlan:
    """The plan that an entry holds.

    Raises:
        ValueError: where it holds none.
    """
    found = _CODEC.decode(data)
    if not isinstance(found, KeptPlan):
        raise ValueError("this is no plan")
    return found


def _kept(tensor: torch.Tensor, module: GraphModule) -> OfGraph | Table:
    """What to write in the place of a constant."""
    for number, node in enumerate(module.graph.nodes):
        if node.op == "get_attr" and _is_same(attribute(module, str(node.target)), tensor):
            return OfGraph(number)
    if tensor.nbytes > LARGEST_TABLE or not tensor.is_contiguous():
        raise Undescribed("a table that is large, or not in the order of its elements")
    return Table.of(tensor)


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are the same elements in memory."""
    layouts = [(t.dtype, t.shape, t.stride(), t.data_ptr()) for t in (one, other)]
    return layouts[0] == layouts[1]


def _tensor(kept: OfGraph | Table, module: GraphModule, nodes: Mapping[int, Node], device: str) -> torch.Tensor:
    """The constant; one that a lowering has made is read by kernels, and lies where these run."""
    if isinstance(kept, OfGraph):
        return attribute(module, str(nodes[kept.node].target)).detach()
    if min(kept.shape, default=0) < 0:
        raise ValueError("a table has no such shape")
    return kept.tensor().to(device)
