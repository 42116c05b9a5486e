# What was written to the attribute dict of a tensor was written to that of its fake.
import torch


def f(x, name):
    y = x + 1
    y.__dict__[name] = 2
    vars(x)["seen"] = y
    return y * 2, y, x.seen


def call_0():
    return torch.rand(3), "label"


def call_1():
    return torch.rand(3), "other"
