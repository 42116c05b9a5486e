# An iterator was made again over a dict before the writes to it were replayed.
import marshal

import torch

LOG = []
SEEN = {3}


def graph_break():
    marshal.dumps(0)


def f(x, table):
    for key in {**{"a": 0, "u": x}, "b": (x > 0).sum().item()}:
        x = x * 0.5
        graph_break()
        LOG.append(key)
    table["b"] = x
    SEEN.add(5)
    keys, numbers, waiting = iter(table), iter(SEEN), [iter(table.items())]
    LOG.append(next(keys))
    graph_break()
    LOG.extend([*keys, *numbers, len(list(waiting[0]))])
    late = iter(table)
    table["c"] = x
    graph_break()
    try:
        next(late)
    except RuntimeError as error:
        LOG.append(error)
    return x


def call_0():
    return torch.rand(3), {"a": 1}


def call_1():
    return torch.rand(3), {}


def call_2():
    return torch.rand(4), {"c": 2, "d": 1}
