# Torch refused the symbolic truth of a comparison, and the program swallowed the error.
import torch

LOG = []


class Guard:
    def __init__(self, name, swallow=False):
        pass

    def __enter__(self):
        pass

    def __exit__(self, kind, value, trace):
        LOG.append(("exit", [], kind and []))
        return True


def f(x, n, table, y):
    i8 = x.shape[0]
    with Guard("swallow", True) as m10:
        with torch.set_grad_enabled(i8 <= 3):
            pass


def call_0():
    x = torch.randn(3)
    return (x, True, [], [])


def call_1():
    x = torch.rand(2)
    return (x, 2, [], [])
