# A variable that had no value yet was deleted behind the graph: NameError.
import marshal


def f(x, flag):
    if flag:
        later = x

        def inner():
            return later

        return inner()
    try:
        later
    except NameError:
        marshal.dumps(0)
    if not flag:
        later = x + 1
    return (lambda: later)()


def call_0():
    return x_of(3), False


def call_1():
    return x_of(3), True


def x_of(n):
    import torch

    return torch.ones(n)
