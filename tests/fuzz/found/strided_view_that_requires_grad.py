# The fake of an input that is no leaf had other strides: the guards did not hold for the call that made them.
import torch


def f(x, y, text):
    pass


def call_0():
    x = []
    return (x, torch.randn(3), "")


def call_1():
    pass


def call_2():
    x = torch.rand(2 * 5)[::2].requires_grad_()
    return (x, x.view(-1), "key")
