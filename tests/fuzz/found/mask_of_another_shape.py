# A mask that does not fit was noticed when the graph ran, behind a write to an input.
import torch

LOG = []


def f(x, mask):
    LOG.append("before")
    x.add_(1)
    LOG.append("written")
    try:
        x[mask > 0] = 0.0
    except IndexError as error:
        LOG.append(str(error))
    return x[mask > 0]


def call_0():
    return torch.rand(3), torch.rand(3)


def call_1():
    return torch.rand(3), torch.rand(1)


def call_2():
    return torch.rand(2, 3), torch.rand(2)


def call_3():
    return torch.rand(2, 3), torch.rand(3, 3)
