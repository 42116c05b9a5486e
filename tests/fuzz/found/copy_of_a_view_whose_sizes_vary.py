# A tensor from outside, a part of its memory, whose sizes vary: a copy has all of the memory.
import copy

import torch

ITEMS = []


def f(x, n):
    for part in reversed([*x.split(2)[:1], x]):
        ITEMS.extend([x.cumsum(0), part])
        ITEMS.reverse()
    return copy.deepcopy(ITEMS[x.shape[0] + 1 if n else 2])


def call_0():
    return torch.zeros(4), 0


def call_1():
    return torch.randn(4), 1


def call_2():
    return torch.rand(6)[3:], 1
