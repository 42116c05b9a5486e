"""Which stage brings a fault in: everything that can be switched off is, and is switched on again in its order.

The first switch with which there is the fault names it. What has none is told apart otherwise: the code of a kernel by
evaluating its loops in Python, a lowering by calling its operator as in eager mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from torch.fx import GraphModule

from onegraph import backends
from onegraph.autograd.decompose import DECOMPOSITIONS
from onegraph.backend_registry import OURS
from onegraph.backends import GraphCompiler, aot_eager, evaluated, native
from onegraph.base.config import PASSES, Config
from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass
from onegraph.tools.verification.call import Call
from onegraph.tools.verification.graphs import captured
from onegraph.torchlib.fake import DispatchMode
from onegraph.torchlib.private import OpOverload

#: Elements of inputs beyond which loops are not evaluated in Python.
SMALL = 4096
#: The stages of switches that are not passes over loops.
STAGE_OF = dict.fromkeys(PASSES[: PASSES.index("recompute")], "graph passes")
STAGE_OF |= {"recompute": "partition", "choose_calls": "library calls", "reuse_memory": "memory plan"}

Backend = Callable[[GraphModule, list[Any]], Callable[..., Any]]
#: Whether there is the fault with a backend, and with gradients or without.
Fails = Callable[[Backend, bool], bool]


@dataclass(frozen=True, slots=True)
class Step:
    """What brings a fault in: a stage, and in it a pass or an operator by name. `avoiding` are options without it."""

    stage: str = ""
    name: str = ""
    avoiding: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.stage} ({self.name})" if self.name else self.stage


@dataclass(frozen=True, slots=True)
class Switched:
    """A backend with all but the first of the passes switched off."""

    compile_graph: GraphCompiler
    config: Config
    stage: str
    passes: int

    @property
    def name(self) -> str:
        """The pass that was switched on last; none for the first backend of its kind."""
        return PASSES[self.passes - 1] if self.stage not in ("differentiation", "lowering") else ""

    def without(self, **options: Any) -> Backend:
        off = {*self.config.skipped_passes, *PASSES[self.passes :]}
        config = self.config.replace(skipped_passes=off, **options)
        return lambda module, examples: self.compile_graph(module, examples, Context(config))


def steps_to(backend: object, config: Config) -> list[Switched]:
    """From differentiation alone to the whole backend, with one more switched on each time."""
    known = getattr(backends, OURS[backend]) if isinstance(backend, str) and backend in OURS else None
    if known not in (aot_eager, native):
        return []
    behind = PASSES.index("recompute") + 1
    found = [Switched(aot_eager, config, "differentiation", 0)]
    found += [Switched(aot_eager, config, STAGE_OF[PASSES[n - 1]], n) for n in range(1, behind + 1)]
    if known is native:
        found.append(Switched(native, config, "lowering", behind))
        names = PASSES[behind:]
        found += [
            Switched(native, config, STAGE_OF.get(name, "passes"), behind + n) for n, name in enumerate(names, start=1)
        ]
    return found


def as_captured(module: GraphModule, examples: list[Any]) -> Callable[..., Any]:
    return module.forward


def first_step(fails: Fails, backend: object, config: Config, gradients: bool, call: Call, small: bool) -> Step:
    """What brings the fault in.

    Args:
        fails: whether there is the fault.
        backend: the one with which there is.
        config: the options that it is used with.
        gradients: whether they are recorded.
        call: what is compiled: it tells which operators there are.
        small: whether loops can be evaluated in Python.
    """
    if fails(as_captured, gradients):
        return Step("capture")
    steps = steps_to(backend, config)
    if not steps:
        return Step("backend")
    if not fails(steps[-1].without(), gradients):
        return Step()
    low, high = -1, len(steps) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(steps[middle].without(), gradients) else (middle, high)
    return exact(steps[high], fails, gradients, call, small)


def exact(found: Switched, fails: Fails, gradients: bool, call: Call, small: bool) -> Step:
    if found.stage == "differentiation":
        if gradients and not fails(found.without(), False):
            return Step("differentiation")
        replaced = [each for each in operators_of(call) if each in DECOMPOSITIONS]
        return Step("decomposition", str(replaced[-1])) if replaced else Step("functionalization")
    stage = found.stage
    if small and stage in ("lowering", "passes"):
        in_python = replace(found, compile_graph=evaluated)
        stage = stage if fails(in_python.without(), gradients) else "code"
    if found.name:
        return Step(stage, found.name, {"skipped_passes": (found.name,)})
    return lowering(found, stage, fails, gradients, call)


def lowering(found: Switched, stage: str, fails: Fails, gradients: bool, call: Call) -> Step:
    """Which lowering is at fault: without it, there is no fault."""
    _, graphs = captured(call, {"options": {}, "dynamic": None}, after="aot")
    targets = dict.fromkeys(node.target for graph in graphs for node in graph.module.graph.nodes)
    for each in (target for target in targets if isinstance(target, OpOverload)):
        options = {"skipped_lowerings": (str(each),)}
        if not fails(found.without(**options), gradients):
            return Step(stage, str(each), options)
    return Step(stage)


class Listening(DispatchMode):
    """Remembers which operators are called while it is entered."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: dict[Any, None] = {}

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        self.found[func] = None
        return func(*args, **(kwargs or {}))


def operators_of(call: Call) -> list[Any]:
    """The aten operators of a call, in the order in which they are first called."""
    listening = Listening()

    def run(*args: Any, **kwargs: Any) -> Any:
        with listening:
            return call.target(*args, **kwargs)

    call.run(run)
    return list(listening.found)
