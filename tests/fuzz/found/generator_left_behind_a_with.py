# A break inside of a generator-based context manager, in an inlined function: a suspended generator that is dropped behind it.
import contextlib
import marshal

import torch

LOG = []


@contextlib.contextmanager
def traced():
    try:
        yield 1
    finally:
        LOG.append("fine")


def talking(t):
    try:
        yield t
    finally:
        LOG.append("silent")


def helper(x):
    with traced():
        marshal.dumps(0)
        x = x + 1
    talk = talking(x)
    next(talk)


def f(x, y):
    helper(x)
    LOG.append("between")
    helper(y)
    LOG.append("end")
    return x * 2


def call_0():
    return torch.rand(4), torch.rand(4)


def call_1():
    return torch.rand(4), torch.rand(4)
