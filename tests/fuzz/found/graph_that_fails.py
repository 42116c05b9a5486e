# An operator fails on what its inputs hold: what came before was lost, and no handler saw the error.
import torch

LOG = []


def f(x, index, *rest, k=3, **named):
    LOG.append("before")
    calls = 0

    def count():
        nonlocal calls
        calls += 1
        return calls

    try:
        y = torch.gather(x, 0, index)
        print("taken", count())
    except RuntimeError as error:
        LOG.append((str(error), error.__context__, count()))
        y = x
    finally:
        LOG.append("finally")
    return y, count(), rest, k, named


def call_0():
    return torch.rand(4), torch.tensor([1]), 5


def call_1():
    return torch.rand(4), torch.tensor([7]), 5


def call_2():
    return torch.rand(4), torch.tensor([2]), 5
