# Autograd refuses to write to a view that was made under no_grad: the program catches it.
import torch

LOG = []


def f(x):
    try:
        with torch.no_grad():
            y = x.view(4)
        with torch.autograd.graph.save_on_cpu():
            y[:2] += True
    except RuntimeError as error:
        LOG.append(type(error))
    return x * 2


def call_0():
    return (torch.rand(4).requires_grad_(),)


def call_1():
    return (torch.rand(4).requires_grad_() * 2,)
