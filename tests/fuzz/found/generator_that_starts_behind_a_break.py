# A variable that is not read again held a generator that had not started: it was dropped too early.
import marshal

import torch

LOG = []


class Oops(Exception):
    pass


def talking(t):
    try:
        while True:
            try:
                yield t
            except Oops:
                LOG.append("oops")
    finally:
        LOG.append("silent")


def breaking(x):
    marshal.dumps(3)


def f(x):
    talk = talking(x + 3)
    t = next(talk, breaking(x + 1))
    LOG.append("last")
    return t + x


def call_0():
    return (torch.rand(2),)
