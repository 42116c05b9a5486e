# What a function raised while its caller handled an exception had no context; native errors named the type of fakes.
import marshal

import torch

LOG = []
ITEMS = []


class Box:
    pass


def graph_break():
    marshal.dumps(0)


def fails(x):
    try:
        raise ValueError(1)
    except BaseException as error:
        LOG.append(repr(error.__context__))
    try:
        return Box() + x
    except TypeError as error:
        LOG.append(error)
    try:
        {}["key"]
    except KeyError as error:
        LOG.append(error.__context__ and error.__context__.args)
        return error


def f(x):
    try:
        ITEMS.append(sum(ITEMS, x))
        raise KeyError(2)
    except RuntimeError:
        return fails(x)
    finally:
        graph_break()
        LOG.append(fails(x))


def call_0():
    return (torch.rand(2),)


def call_1():
    return (torch.rand(3),)


def call_2():
    ITEMS.clear()
    return (torch.rand(3),)
