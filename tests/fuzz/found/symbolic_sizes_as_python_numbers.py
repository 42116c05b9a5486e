# The text of a symbolic size was that of its symbol; `&` and `is True` misjudged symbolic numbers.
import torch

LOG = []


def f(x):
    LOG.append((f"{x.shape}", str(x.shape[0]), "%s" % x.shape[0], repr([x.shape[0]]), len(str(x.shape[0] * 10))))
    LOG.append((x.shape[0] & 3, x.shape[0] | 8, (x.shape[0] > 3) is True, (x.shape[0] > 3) == True))
    try:
        raise ValueError(x.shape[0], x.shape)
    except ValueError as error:
        LOG.append(str(error))
    return x * 2 if str(x.shape[0]) == "5" else x


def call_0():
    return (torch.rand(4),)


def call_1():
    return (torch.rand(5),)


def call_2():
    return (torch.rand(10),)
