# Fake tensors took what the real operators refuse: the graph failed, and what the program had done before was lost.
import torch

LOG = []


def f(x, way):
    LOG.append(way)
    match way:
        case 0:
            x -= True
        case 1:
            x -= x[0]
        case 2:
            x.expand(3, -1).add_(1)
        case 3:
            x[:3].copy_(x[1:4])
    return x


def call_0():
    return torch.rand(4), 0


def call_1():
    return torch.rand(5), 1


def call_2():
    return torch.rand(5), 2


def call_3():
    return torch.rand(5), 3
