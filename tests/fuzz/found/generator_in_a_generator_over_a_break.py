# A suspended generator in one that waits behind a break: nothing reads the variable of that again.
import torch

LOG = []


def talking(t):
    try:
        yield t
    finally:
        LOG.append("silent")


def f(x):
    def holding():
        talk = talking(x)
        next(talk)
        x.sum().item()
        yield x + 1

    waiting = holding()
    waiting.send(None)
    LOG.append("end")
    return x * 2


def call_0():
    return (torch.rand(4),)


def call_1():
    return (torch.rand(4),)
