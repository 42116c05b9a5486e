# Where the program could go on was asked when the frames that an exception had left were cleared.
import torch


class Box:
    def __bool__(self):
        raise ValueError


def f(x):
    for t in x:
        if bool(Box()):
            x = x + t
    return x


def call_0():
    return (torch.rand(4),)
