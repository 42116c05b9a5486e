"""Delta debugging of captured graphs: from one that fails to a small one that fails, with the inputs that it needs.

    graph(x, w):                           graph(gelu, bias):
      ... 60 operators ...        ──►        add = gelu + bias        the two operators between which it goes wrong
      return out                             return add

Operators that are left out are inputs, with the values that they had. First, the graph is ended as early as it fails.
Then, which are left out is searched by halves, as in
A. Zeller and R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE TSE 28(2), 2002 ("ddmin").
Sizes are halved behind that, where the graph still runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Interpreter, Node

from onegraph.base.dataclass import dataclass
from onegraph.capture.verified import copies_of
from onegraph.torchlib.graph_text import operator_name


@dataclass(frozen=True, slots=True)
class Case:
    """A graph and what it is called with."""

    module: GraphModule
    inputs: tuple[Any, ...]

    @property
    def operators(self) -> list[Node]:
        """The nodes that compute."""
        return [node for node in self.module.graph.nodes if node.op not in ("placeholder", "output")]


Fails = Callable[[Case], bool]
#: The names of operators that make tensors without elements.
UNWRITTEN = re.compile(r"(^|\.)(new_)?empty(_|$)")


def shrink(case: Case, fails: Fails, tests: int = 1000) -> Case:
    """A small case that fails, which the given one must do.

    `fails` is asked at most `tests` times. It must not change the inputs of a case, and answers False for what it
    cannot judge: a case that eager mode itself refuses, for one.
    """
    budget = Budget(fails, tests)
    values = Values(case)

    def remains(nodes: Sequence[Node]) -> bool:
        return budget.fails(values.case(nodes))

    kept = smallest(shortest(case.operators, remains), remains)
    return with_short_sides(values.case(kept), budget.fails)


def without_numbers(case: Case) -> Case:
    """The case with the numbers that it takes out of tensors as inputs: capture would break its graph there."""
    taken = torch.ops.aten._local_scalar_dense.default
    kept = [node for node in case.operators if node.target is not taken]
    return case if len(kept) == len(case.operators) else Values(case).case(kept)


@dataclass(slots=True)
class Budget:
    """Asks whether a case fails, so many times at most; then none does."""

    ask: Fails
    left: int

    def fails(self, case: Case | None) -> bool:
        if case is None or self.left <= 0:
            return False
        self.left -= 1
        return self.ask(case)


def shortest(items: Sequence[Node], fails: Callable[[Sequence[Node]], bool]) -> Sequence[Node]:
    """The first of the items that fail together, where they do not without the last of them."""
    low, high = 0, len(items)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(items[:middle]) else (middle, high)
    return items[:high]


def smallest(items: Sequence[Node], fails: Callable[[Sequence[Node]], bool]) -> Sequence[Node]:
    """A subset of the items that fails, of which no part can be left out: "ddmin"."""
    parts = 2
    while len(items) > 1:
        size = -(-len(items) // parts)
        pieces = [items[start : start + size] for start in range(0, len(items), size)]
        rests = [[item for item in items if item not in piece] for piece in pieces] if parts > 2 else []
        found = next((each for each in (*pieces, *rests) if fails(each)), None)
        if found is not None:
            parts = 2 if found in pieces else max(parts - 1, 2)
            items = found
        elif size == 1:
            break
        else:
            parts = min(2 * parts, len(items))
    return items


class Values:
    """What every operator of a case gives, as it was given: later writes to it are not in it."""

    def __init__(self, case: Case) -> None:
        self.case_of_all = case
        self.of: dict[Node, Any] = {}
        recorder = _Recorder(case.module, self.of)
        with torch.random.fork_rng(devices=[]):
            recorder.run(*copies_of(case.inputs))

    def case(self, kept: Sequence[Node]) -> Case:
        """The case of these operators alone: it gives what the others, or the whole graph, take of them."""
        nodes, graph = frozenset(kept), Graph()
        copied: dict[Node, Node] = {}
        inputs: list[Any] = []
        for node in self.case_of_all.module.graph.nodes:
            if node in nodes:
                for source in node.all_input_nodes:
                    if source not in copied:
                        copied[source] = self._input(graph, source, inputs)
                copied[node] = graph.node_copy(node, copied.__getitem__)
        results = [node for node in kept if self.is_result(node) and not frozenset(node.users) <= nodes]
        graph.output(tuple(copied[node] for node in results))
        return Case(GraphModule(self.case_of_all.module, graph), tuple(inputs))

    def is_result(self, node: Node) -> bool:
        """Whether a graph can give what an operator does: a tensor, whose elements were written."""
        return is_tensor(self.of.get(node)) and not UNWRITTEN.search(operator_name(node))

    def _input(self, graph: Graph, source: Node, inputs: list[Any]) -> Node:
        """A placeholder in front of all operators for what another operator has given."""
        places = [node for node in graph.nodes if node.op == "placeholder"]
        first = next(iter(graph.nodes), None)
        with graph.inserting_after(places[-1]) if places else graph.inserting_before(first):
            made = graph.placeholder(source.name)
        made.meta = dict(source.meta)
        inputs.append(self.of[source])
        return made


class _Recorder(Interpreter):
    def __init__(self, module: GraphModule, values: dict[Node, Any]) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.values = values

    def run_node(self, node: Node) -> Any:
        result = super().run_node(node)
        if node.op != "output":
            self.values[node] = copies_of([result])[0] if is_tensor(result) else result
        return result


def is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)


def with_short_sides(case: Case, fails: Fails) -> Case:
    """The case with the sizes of its inputs halved as often as it fails: equal sizes together, large ones first."""
    tried: set[int] = set()
    while size := max(sizes_of(case.inputs) - tried, default=0):
        tried.add(size)
        for shorter in halves(size):
            candidate = Case(case.module, tuple(shortened(value, size, shorter) for value in case.inputs))
            if fails(candidate):
                case = candidate
                break
    return case


def halves(size: int) -> Iterator[int]:
    """Smaller sizes, the smallest first."""
    found = [size]
    while found[-1] > 1:
        found.append(-(-found[-1] // 2))
    yield from reversed(found[1:])


def sizes_of(values: Collection[Any]) -> set[int]:
    return {size for value in values if isinstance(value, torch.Tensor) for size in value.shape if size > 1}


def shortened(value: Any, size: int, shorter: int) -> Any:
    """A tensor with its dimensions of this size cut short, in the order of memory that it had; others as they are."""
    if not isinstance(value, torch.Tensor) or size not in value.shape:
        return value
    part = value.detach()[tuple(slice(shorter) if n == size else slice(None) for n in value.shape)]
    made = part.clone().requires_grad_(value.requires_grad)
    return torch.nn.Parameter(made, value.requires_grad) if isinstance(value, torch.nn.Parameter) else made
