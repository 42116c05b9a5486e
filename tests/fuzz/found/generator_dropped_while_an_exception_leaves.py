# A cycle through the frames of the trace kept the generator until the collector ran.
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


def raising(x):
    try:
        raise ValueError
    finally:
        talk = talking(x)
        next(talk), talk.throw(Oops())


def f(x):
    try:
        talk = talking(x)
        (next(talk), raising(x))
    except ValueError:
        LOG.append("caught")
    return x + 1


def call_0():
    return (torch.rand(2),)


def call_1():
    return (torch.rand(3),)
