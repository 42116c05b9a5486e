# A detached tensor was a view of the one it was made from.
import torch


def f(x):
    t = x.data.requires_grad_()
    try:
        t.add_(1)
    except RuntimeError as error:
        return t, str(error)


def call_0():
    return (torch.rand(2),)
