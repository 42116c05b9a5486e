# The loop breaks with another number each time, until it runs as it was written: what a variable is bound anew from dies at once.
import contextlib

import torch

LOG = []


class Guard:
    def __enter__(self):
        pass

    def __exit__(self, kind, value, trace):
        LOG.append("exit")


def identity(t):
    t.sum().item()


def talking(t, name):
    try:
        yield t
    finally:
        LOG.append(name)


def helper(x, k):
    with Guard(), contextlib.suppress(KeyError):
        for name in range(12):
            talk = talking(x, name)
            next(talk)
            k += 1
            first, *_ = (identity(v) for v in [x])
    (lambda: x)()


def f(x):
    helper(helper(x, 2) or x + 1, 0)
    LOG.append("end")
    return x * 2


def call_0():
    return (torch.rand(4),)


def call_1():
    return (torch.rand(4),)
