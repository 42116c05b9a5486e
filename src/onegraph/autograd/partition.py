"""Cut a joint graph in two: which values the forward graph keeps for the backward graph, and what is computed again.

    joint(x, tangent0):                    forward(x):                  backward(sin, tangent0):
      sin = sin(x)                           sin = sin(x)                 exp = exp(sin)
      exp = exp(sin)                         exp = exp(sin)               mul = tangent0 * exp
      mul = tangent0 * exp            ->     return exp, sin              return mul
      return exp, mul

What the backward graph uses of the forward one is found by a minimum cut: every value costs its bytes, if it is kept.
Pointwise operators, views and creations may be computed again; library calls, reductions and whatever draws random
numbers or has an effect may not. Parameters cost nothing, for they live anyway. Of an input that eager's autograd would
not look at, a copy is kept: the caller may write to it before the backward pass. With a budget below 1, others are
computed again too, those that free the most bytes for their work first, until so much of what they would keep is left.
"""

from __future__ import annotations

import itertools
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from onegraph.autograd.costs import (
    PRODUCTS,
    ask_checkpoints,
    bytes_of,
    can_repeat,
    cost_of,
    is_cheap,
    is_checkpointed,
    is_end_of_checkpoint,
    is_work,
    work_per_byte,
)
from onegraph.autograd.joint import IS_FORWARD
from onegraph.autograd.results import is_number, owner_of
from onegraph.autograd.spec import Computed, GradSpec, Half, Input
from onegraph.base.dataclass import dataclass
from onegraph.base.errors import CompileError
from onegraph.ir.index import Index, Symbol
from onegraph.torchlib.aten import has_effect, is_mutable, is_random, opened
from onegraph.torchlib.data_sizes import BORN
from onegraph.torchlib.graph import LazyGraphModule

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class BackwardGraph:
    """A backward graph. `saved` says where its first inputs are found; the tangents that it takes follow them.

    `takers` says for each saved value which tangents, by position, come together in each operator that takes it.
    """

    module: GraphModule
    saved: tuple[Input | Computed, ...]
    takers: tuple[frozenset[frozenset[int]], ...]

    def names(self) -> list[str]:
        """What the saved values are called in all joint graphs of the program; empty for those of the backward pass."""
        nodes = [node for node in self.module.graph.nodes if node.op == "placeholder"][: len(self.saved)]
        return [node.name if IS_FORWARD in node.meta else "" for node in nodes]


@dataclass(frozen=True, slots=True)
class Partition:
    """The graphs. The forward graph returns its results and then the values that only the backward graphs want.

    There is one backward graph for each half of the `GradSpec`. `recomputed` are the names of what they compute again.
    `kept` are the bytes that live only for them.
    """

    forward: GraphModule
    backwards: tuple[BackwardGraph, ...]
    recomputed: tuple[str, ...]
    kept: int

    def text(self) -> str:
        """What is kept and what is computed again, each with its size and the line that it is from."""
        nodes = {node.name: node for backward in self.backwards for node in backward.module.graph.nodes}
        saved = dict.fromkeys(
            node.name
            for backward in self.backwards
            for node in list(backward.module.graph.nodes)[: len(backward.saved)]
        )
        groups = (("keep", saved), ("again", self.recomputed))
        return "\n".join(f"{word} {_described(nodes[name])}" for word, names in groups for name in names)


def partition(
    module: GraphModule,
    spec: GradSpec,
    written: Collection[int],
    parameters: Collection[int],
    budget: float | None = 1.0,
) -> Partition:
    """Cut the joint graph. `written` and `parameters` are positions of inputs; `budget` is the share of the bytes that
    would be kept if only cheap operators were computed again. With None, nothing is computed again.

    Parameters are kept as they are even if eager would keep a cast of them: only optimizers write to them.
    """
    parts = sides(module, spec)
    graph, primals = module.graph, parts.primals
    ask_checkpoints(graph)
    free = {primals[index] for index in parameters if index not in written}
    # Sizes are given by name: any may be in the shape of a tensor.
    numbers = {node for node in primals if is_number(node)}
    looked_at = [
        {primals[i]: passes for i, passes in half.inputs().items() if i not in written} for half in spec.halves
    ]
    copied = set(primals).difference(free, *looked_at)
    cut = parts.needed if budget is None else cut_within(budget, parts.needed, free, copied)
    named = unnamed_sizes(graph, parts, cut | numbers)
    saved = sorted_as(graph, cut | numbers | named)
    halves = []
    for half, gradients, passes in zip(spec.halves, parts.gradients, looked_at, strict=True):
        used = ancestors(gradients, stop=saved)
        own = [node for node in saved if node in used or is_number(node)]
        made = backward_graph(module, parts, half, gradients, own, can_repeat)
        takers = takers_of(made, len(own))
        lent = {n for n, by in zip(own, takers, strict=True) if n in passes and all(group <= passes[n] for group in by)}
        halves.append((made, own, takers, lent | free | numbers))
    ours = {node for _, own, _, lent in halves for node in own if node not in lent}
    extra = returned_with(graph, parts.results, sorted_as(graph, ours))
    effects = [node for node in graph.nodes if node not in parts.backward and has_effect(node.target)]
    results = [*parts.results, *extra.values()]
    forward = extract(module, primals, results, ancestors([*results, *effects]))
    places = {node: Computed(index) for index, node in enumerate([*parts.results, *extra])}
    inputs = {node: Input(index) for index, node in enumerate(primals)}
    backwards = [
        BackwardGraph(made, tuple(inputs[n] if n in lent else places[n] for n in own), takers)
        for made, own, takers, lent in halves
    ]
    kept = sum(bytes_of(node) for node in saved if node not in free and node not in parts.results)
    again = ancestors(parts.all_gradients, stop=saved).difference(parts.backward, parts.tangents, saved)
    recomputed = tuple(node.name for node in sorted_as(graph, again) if is_work(node))
    return Partition(forward, tuple(backwards), recomputed, kept)


def unnamed_sizes(graph: Graph, parts: Sides, saved: Collection[Node]) -> set[Node]:
    """The symbols that backward passes need, and that are no size of a tensor which they are given: as new nodes."""
    wanted: set[Symbol] = set()
    if not any(BORN in node.meta or any(True for _ in numbers_of(node)) for node in graph.nodes if is_source(node)):
        return set()
    for gradients in parts.gradients:
        used = ancestors(gradients, stop=saved)
        given = used.intersection({*saved, *parts.tangents}) | {node for node in saved if is_number(node)}
        known = {number.symbol for node in given for number in numbers_of(node)}
        wanted |= {symbol for node in used for number in numbers_of(node) for symbol in number.symbols} - known
    found = {node for node in graph.nodes if is_size_of_data(node) and node.meta["val"].node.index.symbol in wanted}
    wanted -= {node.meta["val"].node.index.symbol for node in found}
    first = next(node for node in graph.nodes if node.op != "placeholder")
    with graph.inserting_before(first):
        for primal in parts.primals:
            for dim, size in enumerate(primal.meta["val"].shape if not is_number(primal) else ()):
                symbol = Index.of(size if isinstance(size, int) else size.node.index).symbol
                if symbol in wanted:
                    wanted.discard(symbol)
                    node = graph.call_function(aten.sym_size.int, (primal, dim))
                    node.meta.update({"val": size, IS_FORWARD: True})
                    found.add(node)
    return found


def is_source(node: Node) -> bool:
    """Whether symbols come from here: an input, or an operator that makes sizes which only the data say."""
    return node.op == "placeholder" or BORN in node.meta


def is_size_of_data(node: Node) -> bool:
    """Whether the node is a number of the forward pass that comes from data."""
    if IS_FORWARD not in node.meta or not isinstance(node.meta.get("val"), torch.SymInt):
        return False
    return BORN in node.meta or node.target is aten.sym_size.int and BORN in call_of(node.all_input_nodes[0]).meta


def call_of(node: Node) -> Node:
    """The call of which the node is a result."""
    return node.all_input_nodes[0] if node.target is operator.getitem else node


def numbers_of(node: Node) -> Iterator[Index]:
    """The symbolic numbers among a node's results and their sizes and strides."""
    for value in opened([node.meta.get("val")]):
        if isinstance(value, Tensor):
            numbers = (*value.shape, *value.stride()) if value._has_symbolic_sizes_strides else ()
        else:
            numbers = (value,)
        for number in numbers:
            if isinstance(number, torch.SymInt) and number.node.is_known:
                yield number.node.index


def backward_from(
    module: GraphModule,
    spec: GradSpec,
    number: int,
    saved: Sequence[str],
    written: Collection[int],
    repeated: Collection[str] = (),
) -> tuple[GraphModule, tuple[int | Input, ...]]:
    """One backward graph of a joint graph whose forward graph keeps the values of these names for it.

    Also returns what it takes: of what is kept, and of the inputs, as far as they are not written to. `repeated` are
    the names of what the other backward graphs compute again.
    """
    known = {node.name: node for node in module.graph.nodes if IS_FORWARD in node.meta}
    parts = sides(module, spec)
    places: dict[Node, int | Input] = {n: Input(i) for i, n in enumerate(parts.primals) if i not in written}
    places |= {known[name]: index for index, name in enumerate(saved) if name in known}
    used = ancestors(parts.gradients[number], stop=places)
    own = [node for node in places if node in used]

    def again(node: Node) -> bool:
        return is_cheap(node) or node.name in repeated and IS_FORWARD in node.meta

    graph = backward_graph(module, parts, spec.halves[number], parts.gradients[number], own, again)
    return graph, tuple(places[node] for node in own)


@dataclass(frozen=True, slots=True)
class Sides:
    """The nodes of a joint graph. `gradients` are what each half returns. `backward` are computed from tangents, which
    need `needed` of the others."""

    primals: list[Node]
    tangents: list[Node]
    results: list[Node]
    gradients: list[list[Node]]
    backward: set[Node]
    needed: set[Node]

    @property
    def all_gradients(self) -> list[Node]:
        return [node for own in self.gradients for node in own]


def sides(module: GraphModule, spec: GradSpec) -> Sides:
    graph = module.graph
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    count = len(inputs) - len(spec.followed)
    primals, tangents = inputs[:count], inputs[count:]
    returned = list(next(iter(reversed(graph.nodes))).args[0])
    results, remaining = returned[: spec.results], iter(returned[spec.results :])
    inner = dependents(graph, tangents)
    backward = inner.difference(tangents)
    gradients = []
    for half in spec.halves:
        own = list(itertools.islice(remaining, half.computed))
        # Autograd may keep a gradient: it is nobody else's.
        gradients.append([n if is_number(n) or owner_of(n)[0] in backward else copied(graph, n) for n in own])
    every = [node for own in gradients for node in own]
    wanted = ancestors(every)
    # Checks of sizes are none of them: the compiler makes those that a backward graph needs.
    calls = [node for node in backward if has_effect(node.target) and node.target is not aten._assert_scalar.default]
    behind = [ancestors(own) for own in gradients]
    # A call of which nothing is known runs as in eager: once in a backward pass.
    once = all(sum(node in found for found in behind) == 1 for node in calls)
    drawn = any(is_random(node.target) or is_mutable(node.target) for node in calls)
    if not once or drawn or any(node in backward for node in results):
        raise CompileError("partition", "the backward pass draws random numbers, or has an effect")
    needed = {node for user in wanted & backward for node in user.all_input_nodes if node not in inner}
    needed |= {node for node in every if node not in inner}
    return Sides(primals, tangents, results, gradients, backward, needed)


def backward_graph(
    module: GraphModule,
    parts: Sides,
    half: Half,
    gradients: Sequence[Node],
    saved: Sequence[Node],
    again: Callable[[Node], bool],
) -> GraphModule:
    """The graph that computes gradients from what is saved and from tangents; `again` tells what it may compute too."""
    computed = ancestors(gradients, stop=saved)
    for node in computed.difference(parts.backward, parts.tangents, saved):
        if node.op == "placeholder" or node.op == "call_function" and not again(node):
            raise CompileError("partition", f"the backward pass needs {node.name}, which is not kept")
    tangents = [parts.tangents[number] for number in half.tangents]
    return extract(module, [*saved, *tangents], gradients, computed & parts.backward)


def takers_of(module: GraphModule, saved: int) -> tuple[frozenset[frozenset[int]], ...]:
    """For each of the first inputs, the sets of the others that operators know which take it, or what is made of it."""
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    behind: dict[Node, frozenset[int]] = {node: frozenset([n]) for n, node in enumerate(inputs[saved:])}
    for node in module.graph.nodes:
        behind.setdefault(node, frozenset().union(*(behind[source] for source in node.all_input_nodes)))
    takers: dict[Node, frozenset[frozenset[int]]] = {}
    for node in reversed(module.graph.nodes):
        takers[node] = frozenset().union(*({behind[user]} if behind[user] else takers[user] for user in node.users))
    return tuple(takers[node] for node in inputs[:saved])


def _described(node: Node) -> str:
    location = node.meta.get("location")
    return f"{node.name}: {bytes_of(node)} bytes" + (f", {location}" if location is not None else "")


# --- the cut ---------------------------------------------------------------------------------------------------------


def cut_within(budget: float, needed: Collection[Node], free: Collection[Node], copied: Collection[Node]) -> set[Node]:
    """What to keep, so that it is a share of what a cut with cheap operators alone keeps, as far as it can be.

    The fewest operators are computed again that are not cheap, those with the most bytes for their work first.
    """

    def cut(count: int) -> set[Node]:
        return minimum_cut(needed, free, copied, frozenset(others[:count]))

    def size(kept: set[Node]) -> int:
        return sum(bytes_of(node) for node in kept if node not in free)

    others: list[Node] = []
    best = cut(0)
    limit = budget * size(best)
    if size(best) <= limit:
        return best
    others = sorted(filter(can_repeat, ancestors(needed)), key=work_per_byte)
    low, high = 0, len(others)
    best = cut(high)
    while low < high:
        middle = (low + high) // 2
        found = cut(middle)
        if size(found) <= limit:
            high, best = middle, found
        else:
            low = middle + 1
    return best


def minimum_cut(
    needed: Collection[Node], free: Collection[Node], copied: Collection[Node], again: Collection[Node] = ()
) -> set[Node]:
    """The cheapest values of which everything needed can be computed: those of `free`, and of `copied` a copy.

    Cheap operators may be computed again, and those of `again`.
    """
    import networkx  # takes as long as a small compilation

    region = ancestors(needed)
    calls = {node for node in region if node.op == "call_function" and not is_cheap(node)}
    costs = {node: 0 if node in free else cost_of(node) for node in region}
    inside = {node for node in region if is_checkpointed(node)}
    ends = {n if costs[n] is not None else owner_of(n)[0] for n in inside if is_end_of_checkpoint(n)}
    ends = {node for node in ends & inside if costs[node] is not None}
    costs |= {node: cost * CHECKPOINTED for node in inside - ends if (cost := costs[node])}
    roots = {node for node in region if node.op == "placeholder"} | calls.difference(again, inside) | ends
    lasting = outlasting(region)
    kept = roots & set(needed)  # there is no choice about these, nor about what only they lead to
    flow: Any = networkx.DiGraph()
    flow.add_node(SOURCE)
    flow.add_node(SINK)
    reached, pending = set(roots - kept), list(roots - kept)
    while pending:
        node = pending.pop()
        start = SOURCE if node in roots else (node, "in")
        end = SINK if node in needed else (node, "out")
        cost = costs[node]
        weight = STORED - 1 if node in lasting else STORED if node in roots and node not in copied else STORED + 1
        flow.add_edge(start, end, **({} if cost is None else {"capacity": cost * weight}))
        for user in () if node in needed else node.users:
            if user in region and user not in roots:
                flow.add_edge(end, (user, "in"))
                if user not in reached:
                    reached.add(user)
                    pending.append(user)
    try:
        _, (near, _) = networkx.minimum_cut(flow, SOURCE, SINK, flow_func=networkx.algorithms.flow.boykov_kolmogorov)
    except networkx.NetworkXUnbounded:
        raise CompileError("partition", "the backward pass needs a value that cannot be kept") from None
    if any(costs[node] is None for node in kept):
        raise CompileError("partition", "the backward pass needs a value that cannot be kept")
    near_in = {node for node in reached if node in roots or (node, "in") in near}
    return kept | {node for node in near_in if node in needed or (node, "out") not in near}


SOURCE, SINK = "source", "sink"
#: What a byte costs that is in memory anyway: one of cheap work is written for the backward pass alone, unless it is
#: used behind a product of matrices once more. That one is preferred, since nothing is left to compute again.
STORED = 64
#: What a byte inside of a checkpoint costs more: it is kept only if nothing else is possible.
CHECKPOINTED = 1 << 20


def outlasting(region: Collection[Node]) -> set[Node]:
    """The results of cheap operators that are used behind a product of matrices that comes later."""
    graph = next(iter(region)).graph if region else Graph()
    order = {node: place for place, node in enumerate(graph.nodes)}
    products = sorted(order[node] for node in region if node.target in PRODUCTS)

    def last_use(node: Node) -> int:
        return max((order[user] for user in node.users if user in region), default=0)

    cheap = (node for node in region if node.op == "call_function" and is_cheap(node))
    return {n for n in cheap if bisect_right(products, order[n]) < bisect_left(products, last_use(n))}


# --- sets of nodes ---------------------------------------------------------------------------------------------------


def dependents(graph: Graph, roots: Iterable[Node]) -> set[Node]:
    """The roots and all that is computed from them."""
    found = set(roots)
    for node in graph.nodes:
        if node.op == "call_function" and any(source in found for source in node.all_input_nodes):
            found.add(node)
    return found


def ancestors(nodes: Iterable[Node], stop: Collection[Node] = ()) -> set[Node]:
    """The nodes and all that they are computed from, no further than `stop`."""
    found: set[Node] = set()
    remaining = list(nodes)
    ends = frozenset(stop)
    while remaining:
        node = remaining.pop()
        if node not in found:
            found.add(node)
            if node not in ends:
                remaining.extend(node.all_input_nodes)
    return found


def sorted_as(graph: Graph, nodes: Collection[Node]) -> list[Node]:
    return [node for node in graph.nodes if node in nodes]


# --- the two graphs --------------------------------------------------------------------------------------------------


def returned_with(graph: Graph, results: Sequence[Node], saved: Sequence[Node]) -> dict[Node, Node]:
    """What the forward graph returns for each saved value that is no result: a copy of inputs and of what results view.

    The caller may write to them, and autograd would not see it in the other value.
    """
    owners = {owner_of(node) for node in results}
    extra = {}
    for node in saved:
        if node not in results:
            extra[node] = copied(graph, node) if node.op == "placeholder" or owner_of(node) in owners else node
    return extra


def copied(graph: Graph, node: Node) -> Node:
    with graph.inserting_before(next(iter(reversed(graph.nodes)))):
        copy = graph.call_function(aten.clone.default, (node,))
    copy.meta = dict(node.meta)
    return copy


def extract(
    module: GraphModule, inputs: Sequence[Node], results: Sequence[Node], computed: Collection[Node]
) -> GraphModule:
    """The graph that computes the results from the inputs. What is computed again stands before its first use."""
    graph = Graph()
    known: dict[Node, Node] = {}
    for node in inputs:
        known[node] = graph.placeholder(node.name)
        known[node].meta = dict(node.meta)

    def add(last: Node) -> None:
        pending = [last]
        while pending:
            node = pending[-1]
            missing = [source for source in node.all_input_nodes if source not in known and node not in known]
            pending.extend(reversed(missing))
            if not missing:
                pending.pop()
                if node not in known:
                    known[node] = graph.node_copy(node, known.__getitem__)

    for node in module.graph.nodes:
        if node in computed and node.op == "call_function" and not is_cheap(node):
            add(node)
    for node in results:
        add(node)
    graph.output(tuple([known[node] for node in results]))
    holder = torch.nn.Module()
    for node in graph.nodes:
        if node.op == "get_attr":
            holder.register_buffer(node.target, getattr(module, node.target), persistent=False)
    return LazyGraphModule(holder, graph)
