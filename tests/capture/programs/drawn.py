"""Iterators and deques from outside, and graph breaks between their uses."""

from __future__ import annotations

import collections
import copy
import io
import types

import torch

import onegraph
from tests.capture.twins import Cases

case = Cases()
HISTORY = collections.deque([0], maxlen=3)


def numbers():
    return torch.rand(2), iter([1, 2, 3, 4, 5, 6, 7, 8, 9])


def queue():
    return torch.rand(2), collections.deque([1, 2, 3], 4)


def queue_twice():
    given = collections.deque([1, 2, 3])
    return torch.rand(2), given, given


@case(numbers)
def drawn_on_both_sides(x, it):
    y = next(it)
    onegraph.graph_break()
    return x + y + next(it), it


@case(numbers)
def drawn_by_a_loop_that_breaks(x, it):
    for v in it:
        x = x + v
        if v == 2:
            onegraph.graph_break()
    return x, it


@case(numbers)
def drawn_by_a_handler(x, it):
    try:
        y = next(it)
        onegraph.graph_break()
        raise ValueError(y)
    except ValueError:
        return x + next(it, 5), it


@case(numbers)
def drawn_through_another(x, it):
    e = enumerate(it)
    next(e)
    onegraph.graph_break()
    return x, next(e), next(it), it


@case(queue)
def queue_across_a_break(x, q):
    q.append(x + 1)
    onegraph.graph_break()
    q.append(2)
    return len(q), q


@case(queue)
def queue_that_is_filled(x, q):
    q.appendleft(1)
    q.extend([3, x])
    return x + 1


@case(queue)
def queue_that_is_looked_at_later(x, q):
    q.append(7)
    q.popleft()
    q.append(8)
    return x, q[-1]


@case(queue)
def queue_in_a_loop(x, q):
    for v in q:
        onegraph.graph_break()
        x = x + v
    return x


@case(queue_twice)
def one_queue_under_two_names(x, q, r):
    q.append(5)
    return x, len(r), q is r


@case
def history(x):
    HISTORY.append(x.sum())
    return x * 2


@case(lambda: (torch.rand(2), types.SimpleNamespace(a=1)))
def namespace_across_a_break(x, ns):
    ns.a += 1
    onegraph.graph_break()
    ns.b = x
    return vars(ns), ns


@case
def buffer_across_a_break(x):
    out = io.StringIO()
    out.write("a")
    onegraph.graph_break()
    print("q", file=out)
    return out.getvalue(), x


@case(lambda: (torch.rand(2), torch.nn.Linear(2, 2)))
def module_copied_in_the_middle(x, module):
    return copy.deepcopy(module)(x + 1)
