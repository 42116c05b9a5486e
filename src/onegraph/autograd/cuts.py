"""Where a backward graph is cut in pieces, each of which gives the gradients of one bucket of parameters: see `pieces`.

Each piece has what the gradients of its bucket need, and no earlier one has computed. Buckets are filled as torch's
reducer fills them (Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", 2020, section
3.2.3): in the order in which gradients can be there first, until one is full.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from onegraph.autograd.results import is_number
from onegraph.autograd.spec import Half, Piece, Pieces, results_of
from onegraph.base.dataclass import dataclass
from onegraph.torchlib.aten import has_effect
from onegraph.torchlib.graph import LazyGraphModule


@dataclass(frozen=True, slots=True)
class Cut:
    """A backward graph as several, and how they are called."""

    modules: tuple[GraphModule, ...]
    pieces: Pieces


def cut_at_buckets(module: GraphModule, half: Half, sizes: Mapping[int, int], limits: Sequence[int]) -> Cut | None:
    """The pieces of a backward graph; None if one bucket takes all, or it must run as a whole.

    Args:
        half: what the graph gives.
        sizes: the inputs whose gradients travel, with their bytes.
        limits: the bytes at which a bucket is full: of the first one and so on, the last of all that follow.
    """
    nodes = list(module.graph.nodes)
    (results,) = nodes[-1].args
    if half.cut is not None or any(node.op == "call_function" and has_effect(node.target) for node in nodes):
        return None
    work = work_before(nodes)
    needed = {index: [results[n] for n in results_of(place)] for index, place in enumerate(half.gradients)}
    ready = {index: max(work[node] for node in needed[index]) for index in sizes if needed.get(index)}
    order = sorted(ready, key=lambda index: (ready[index], sizes[index]))  # a bias is not left for the next bucket
    buckets = list(filled(order, sizes, limits))
    reached = [index for index, place in enumerate(half.gradients) if place is not None]
    *first, last = buckets or [[]]
    travelling = {index for bucket in first for index in bucket}
    groups = [*first, [index for index in reached if index not in travelling]]
    if len(groups) < 2:
        return None
    return taken_apart(nodes, results, groups, needed)


def work_before(nodes: Sequence[Node]) -> dict[Node, int]:
    """How many operations each node needs, itself among them. (The graph has them in another order: by its results.)"""
    masks: dict[Node, int] = {}
    for number, node in enumerate(nodes):
        mask = int(node.op == "call_function") << number
        for each in node.all_input_nodes:
            mask |= masks[each]
        masks[node] = mask
    return {node: mask.bit_count() for node, mask in masks.items()}


def filled(indices: Iterable[int], sizes: Mapping[int, int], limits: Sequence[int]) -> Iterator[list[int]]:
    """Put what comes into buckets: the next one is begun where one has reached its limit."""
    bucket: list[int] = []
    number = held = 0
    for index in indices:
        bucket.append(index)
        held += sizes[index]
        if held >= limits[min(number, len(limits) - 1)]:
            yield bucket
            bucket, held, number = [], 0, number + 1
    if bucket:
        yield bucket


def taken_apart(
    nodes: Sequence[Node], results: Sequence[Any], groups: Sequence[Sequence[int]], needed: Mapping[int, Sequence[Node]]
) -> Cut:
    """A graph for each group of gradients, of what no earlier one computes.

    Sizes go to each of them: any may be in the shape of a tensor.
    """
    inputs = [node for node in nodes if node.op == "placeholder"]
    numbers = [node for node in inputs if is_number(node)]
    home: dict[Node, int] = dict.fromkeys(inputs, -1)
    for number, group in enumerate(groups):
        waiting = [node for index in group for node in needed[index]]
        while waiting:
            node = waiting.pop()
            if node not in home:
                home[node] = number
                waiting += node.all_input_nodes
    for node in nodes:
        if node.target is operator.getitem and node in home:  # a tuple is not handed on
            home[node] = home[node.all_input_nodes[0]]
    table = {node: position for position, node in enumerate(inputs)}
    modules, pieces = [], []
    given: set[int] = set()
    for number, group in enumerate(groups):
        own = [node for node in nodes if home.get(node) == number and node.op != "placeholder"]
        gives = sorted({n for index in group for n, node in enumerate(results) if node in needed[index]} - given)
        given.update(gives)
        taken = {node for each in own for node in each.all_input_nodes if home[node] != number}
        taken |= {results[n] for n in gives if home[results[n]] != number}
        taken |= set(numbers)
        takes = sorted(taken, key=table.__getitem__)
        later = {node for each in nodes if home.get(each, -1) > number for node in each.all_input_nodes}
        later |= {node for group in groups[number + 1 :] for index in group for node in needed[index]}
        handed = [node for node in own if node in later]
        pieces.append(Piece(tuple(table[node] for node in takes), tuple(gives), len(handed)))
        modules.append(graph_of(takes, own, [*(results[n] for n in gives), *handed]))
        table |= {node: len(table) + n for n, node in enumerate(handed)}
    return Cut(tuple(modules), Pieces(tuple(map(tuple, groups)), tuple(pieces), len(results)))


def graph_of(takes: Sequence[Node], own: Sequence[Node], outputs: Sequence[Node]) -> GraphModule:
    graph = Graph()
    copied: dict[Node, Node] = {}
    for node in takes:
        copied[node] = graph.placeholder(node.name)
        copied[node].meta = dict(node.meta)
    for node in own:
        copied[node] = graph.node_copy(node, copied.__getitem__)
    graph.output(tuple(copied[node] for node in outputs))
    return LazyGraphModule(torch.nn.Module(), graph)
