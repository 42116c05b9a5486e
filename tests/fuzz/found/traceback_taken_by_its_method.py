# `with_traceback` writes to an exception that a trace has from outside: here behind a graph break in its handler.
import marshal

import torch

LOG = []
KEPT = []


def f(x):
    try:
        x.missing
    except AttributeError as error:
        marshal.dumps(0)
        KEPT.append(error.with_traceback(None))
    return x + 1


def call_0():
    return (torch.rand(3),)


def call_1():
    LOG.append(KEPT[-1].__traceback__ is None)
    return (torch.rand(3),)
