# The size of a tensor that came in late was that of a symbol decided before: the error was taken for the program's.
import contextlib

import torch


class Oops(Exception):
    pass


@contextlib.contextmanager
def traced(name):
    yield name


def f(x, items, nums, table, box, y, text):
    try:
        t8 = x.sum(0).requires_grad_()
    except RuntimeError as e11:
        pass
    else:
        with traced(f"{x.shape}"), contextlib.suppress(Oops, KeyError):
            try:
                pass
            finally:
                y += True


def call_0():
    x = torch.rand(2 * 2).requires_grad_()
    return (x, [], x, [], [], torch.rand(2), "key")


def call_1():
    x = torch.zeros(5)
    return (x, [], x, [], [], x[:], "key")
