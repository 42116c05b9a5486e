# The iterator was put back in its place before the list had grown: a step ran twice.
import contextlib

import torch

LOG = []
ITEMS = []


@contextlib.contextmanager
def traced(name):
    try:
        yield name
    finally:
        LOG.append(True)


def h27(x):
    ITEMS.append([])
    for t28 in ITEMS:
        with traced(""):
            pass
        if x.argmax():
            pass


def f(x, box):
    h27(x)
    box.twice = 3


def call_0():
    return (torch.rand([]), [])
