"""The checker of plans that were read: each step uses what there is, in the memory that it has, for the graph at hand.

What a plan computes is the business of who has made it (`memory/check.py`); the folder that it is read from is trusted.
Besides what `plan_bounds` looks at, results are as the graph has them, and operators are those of the graph.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from onegraph.compiler.lower.arguments import literal_argument
from onegraph.compiler.memory.plan import OUT_VARIANTS
from onegraph.compiler.plan_bounds import PAGE, UNKNOWN, Known, PlanChecker, dtype_text, span_of
from onegraph.ir.loop import ADDRESS, EXPECTED, PHILOX_STATE, Named
from onegraph.ir.plan import ExecPlan, ExternCall, Register, Return, Slot

#: Library calls that a lowering makes besides those of the graph.
OWN_CALLS = frozenset(
    {
        "aten.empty_strided.default", "aten._local_scalar_dense.default", "aten.alias.default",
        "aten._neg_view.default", "aten.fill.Tensor", "aten.view.default", EXPECTED, PHILOX_STATE, ADDRESS,
    }
)  # fmt: skip


def check_read_plan(
    plan: ExecPlan,
    module: GraphModule,
    constants: Mapping[str, torch.Tensor],
    recipes: Collection[str],
    device: str = "cpu",
) -> None:
    """Raise ValueError unless the plan can be one of this graph on the device, with these constants and recipes."""
    nodes = list(module.graph.nodes)
    calls: dict[str, set[str | None]] = {name: {None} for name in (*OWN_CALLS, *recipes)}
    asked = {step.operator for step in plan.steps if isinstance(step, ExternCall)} - calls.keys()
    for node in nodes:
        name = str(node.target)
        for operator in {name, OUT_VARIANTS.get(name)} & asked:
            calls.setdefault(str(operator), set()).add(literals((node.args, tuple(node.kwargs.items()))))
    (output,) = (node for node in nodes if node.op == "output")
    results = [getattr(item, "meta", {}).get("val", item) for item in output.args[0]]
    inputs = [node.meta.get("val") for node in nodes if node.op == "placeholder"]
    largest = max((known_of(node.meta.get("val")).bytes or 0 for node in nodes), default=0)
    known = {name: known_of(value) for name, value in constants.items()}
    _Checker(plan, known, calls, largest, device).check(inputs, results)


def known_of(value: Any) -> Known:
    """What the graph says of a tensor; sizes that are symbols say nothing."""
    if not isinstance(value, torch.Tensor):
        return UNKNOWN
    dtype = dtype_text(value)
    if value.layout is not torch.strided or not all(type(n) is int for n in (*value.shape, *value.stride())):
        return Known(dtype)
    return Known(dtype, tuple(value.shape), span_of(value.shape, value.stride()) * value.element_size())


def literals(values: Any) -> str | None:
    """The arguments of a call, of a plan or of a node, as text, with a mark for each tensor. None with symbols."""
    if isinstance(values, Slot) or isinstance(values, Node) and isinstance(values.meta.get("val"), torch.Tensor):
        return "tensor"
    if isinstance(values, Register | Node | torch.SymInt | torch.SymFloat | torch.SymBool):
        return None
    if isinstance(values, tuple | list):
        items = [literals(value) for value in values]
        return None if None in items else f"({', '.join(map(str, items))})"
    return repr(literal_argument(values)) if not isinstance(values, Named) else repr(values)


class _Checker(PlanChecker):
    """Compares with the graph, too. `calls` has the arguments of each operator, of tensors a mark; None for any."""

    def __init__(
        self,
        plan: ExecPlan,
        constants: Mapping[str, Known],
        calls: Mapping[str, Collection[str | None]],
        largest: int,
        device: str,
    ) -> None:
        super().__init__(plan, constants, largest, device)
        self.calls = calls

    def check(self, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        for place, value in zip(self.plan.inputs, inputs, strict=False):
            self.require(isinstance(place, Slot) == isinstance(value, torch.Tensor), "inputs")
        self.results(self.run([known_of(value) for value in inputs]), results)

    def call(self, step: ExternCall) -> None:
        self.require(step.operator in self.calls, "an operator")
        named = tuple(item for item in step.kwargs if item[0] != "out" or not step.operator.endswith(".out"))
        accepted = self.calls[step.operator]
        if step.operator.startswith("recipe."):
            tensors = all(value is None or isinstance(value, Slot) for value in step.args)
            self.require(tensors and not step.kwargs, "arguments")
        self.require(None in accepted or literals((step.args, named)) in accepted, "arguments")
        super().call(step)

    def results(self, step: Return, wanted: Sequence[Any]) -> None:
        self.require(len(step.values) == len(wanted), "results")
        for value, want in zip(step.values, wanted, strict=True):
            self.require(isinstance(value, Slot) == isinstance(want, torch.Tensor), "results")
            if isinstance(value, Slot):
                have, known = self.share(value.number), known_of(want)
                for one, other in ((have.dtype, known.dtype), (have.shape, known.shape)):
                    self.require(None in (one, other) or one == other, "results")
                if have.dtype is not None and have.bytes is not None and known.bytes is not None:
                    self.require(have.bytes <= known.bytes + PAGE, "results")
            elif value is not None:
                self.numbers((value,))
