# The frame of an exception that the program keeps has its callers, what runs in their place behind a graph break too.
import torch

LOG = []


class Box:
    count = 0


def talking(t, name):
    told = t
    try:
        yield told
    finally:
        LOG.append(name)


def keeping(x):
    try:
        raise IndexError
    except IndexError as error:
        LOG.append(error)
    inner = talking(x, "inner")
    next(inner)
    Box.count += 1
    return x + 1


def f(x):
    talk = talking(x, "talk")
    y = next(talk) + keeping(x)
    later = talking(y, "later")
    return next(later)


def call_0():
    return (torch.zeros(4),)


def call_1():
    LOG.append("clearing")
    LOG.clear()
    LOG.append("cleared")
    return (torch.ones(4),)
