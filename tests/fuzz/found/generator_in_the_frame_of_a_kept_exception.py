# The traceback of an exception that the program keeps holds the variables of its frames, a waiting generator too.
import torch

LOG = []


def talking(t):
    try:
        yield t
    finally:
        LOG.append("silent")


def keeping(x):
    try:
        x = [][0]
    except LookupError as error:
        LOG.append(error)
    talk = talking(x)
    next(talk)


def f(x):
    keeping(x)
    LOG.append("kept")
    return x + 1


def call_0():
    return (torch.rand(4),)
