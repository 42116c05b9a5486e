# Python has a text of its own for what an iteration in `in` raises.
import torch

LOG = []


class Box:
    def __iter__(self):
        return len(5)


class Breaking:
    def __iter__(self):
        torch._dynamo.graph_break()
        return 5


def f(x):
    for kind in (Box, Breaking):
        try:
            LOG.append([] in kind())
        except TypeError as error:
            LOG.append((str(error), error.__context__))
        x = x * 2
    return x


def call_0():
    return (torch.rand(4),)
