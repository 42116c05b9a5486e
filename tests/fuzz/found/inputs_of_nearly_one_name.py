# The parameter of one graph input hid the variable of another one.
import torch


class Box:
    def __init__(self, t):
        self.t = t


BOX = Box(torch.ones(1))


def f(x, box):
    BOX.t.mul_(0.5)
    box.t.mul_(0.25)
    return x * 2


def call_0():
    return torch.rand(3), BOX


def call_1():
    return torch.rand(3), Box(torch.ones(1))


def call_2():
    return torch.rand(3), Box(torch.ones(2))
