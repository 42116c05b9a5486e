# Inputs that share memory had the version of inputs apart: an operator that refuses them did so behind the log's call.
import contextlib

import torch

LOG = []


def f(x, y):
    with contextlib.ExitStack() as stack:
        stack.callback(LOG.append, x.shape[0])
        x[[]] = 0.0
    y -= x[0]


def call_0():
    return torch.randn(4), torch.randn(4)


def call_1():
    x = torch.randn(3)
    return x, x.view(-1)


def call_2():
    x = torch.randn(5)
    return x, x[1:]
