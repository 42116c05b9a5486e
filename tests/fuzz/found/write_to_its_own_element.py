# The operator refuses to read what it writes to: what the program has done before it stays done.
import torch

LOG = []


class Guard:
    def __enter__(self):
        pass

    def __exit__(self, kind, value, trace):
        return True


def f(x):
    first = x[0]
    if x.sum().item():
        x.add_(True)
        LOG.append("added")
        with Guard():
            x -= first
        LOG.append("behind")
    return x * 2


def call_0():
    return (torch.rand(4) + 1,)


def call_1():
    return (torch.rand(5) + 1,)
