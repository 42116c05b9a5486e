import contextlib
import gc
import marshal
import weakref

import torch

gc.disable()
LOG = []


class Oops(Exception):
    pass


class Token:
    pass


class Loud:
    def __del__(self):
        LOG.append("loud")


@torch.compiler.disable
def __loud__():
    return Loud()


def watched(name):
    token = Token()
    weakref.finalize(token, LOG.append, ("dead", name)).atexit = False
    return token


def talking(t):
    try:
        yield t
    finally:
        LOG.append("silent")


def breaking(x):
    marshal.dumps(0)
    return x


def at_its_end(x):
    token = watched(1)
    other = talking(x)
    last = __loud__()
    return next(other)


def bound_again(x):
    token = watched(2)
    x = breaking(x) + 1
    token = None
    LOG.append("bound")
    token = watched(3)
    return x


def handed_on(x, token):
    x = x * 2
    del token
    LOG.append("handed on")
    return x


def with_others(x, token):
    x = x + 1
    token = [token]
    LOG.append("in a list")
    return x


def failing(x):
    token = __loud__()
    raise Oops


def f(x):
    x = at_its_end(x)
    LOG.append("behind")
    x = bound_again(x) * 2
    LOG.append("behind")
    x = handed_on(x, watched(4))
    x = with_others(x, __loud__())
    LOG.append("behind")
    with contextlib.suppress(Oops):
        token = watched(5)
        failing(x)
    LOG.append("behind")
    return x.sin()


def call_0():
    return (torch.rand(3),)


def call_1():
    return (torch.rand(3),)


def call_2():
    return (torch.rand(4),)
