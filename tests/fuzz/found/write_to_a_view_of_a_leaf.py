# Autograd refuses the write: what the program has done before it stays done.
import torch

LOG = []


class Box:
    pass


BOX = Box()
BOX.t = torch.ones(1)


def f(x, y):
    BOX.t.mul_(0.5)
    BOX.extra = x + 0
    LOG.append("before")
    y += 1
    LOG.append("after")
    return y * 2


def call_0():
    x = torch.randn(5).requires_grad_()
    return x, torch.rand(5)


def call_1():
    x = torch.rand(10)[5:].requires_grad_()
    return x, x.view(-1)


def call_2():
    x = torch.rand(10).requires_grad_() * 2
    return x, x[:5]


def call_3():
    x = torch.rand(10).requires_grad_()
    return torch.rand(5), x[:5]
