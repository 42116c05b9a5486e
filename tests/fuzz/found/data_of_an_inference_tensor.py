# The data of a tensor of inference mode may be written to, the tensor itself may not.
import torch


def f(x):
    with torch.inference_mode():
        x = 1 + x
    x.data.mul_(2)
    return x


def call_0():
    return (torch.rand(4),)
