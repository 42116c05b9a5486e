# A variable of the function that an inner one closes over raised the error of an outer function's variable.
import marshal

import torch

LOG = []


def graph_break():
    marshal.dumps(0)


def f(x, n):
    def inner():
        return later, outer()

    def outer():
        return n

    if n > 3:
        later = x
    graph_break()
    for turn in range(2):
        try:
            LOG.append(later.dim())
        except NameError as error:
            LOG.append((type(error).__name__, str(error)))
            graph_break()
        try:
            inner()
        except NameError as error:
            LOG.append((type(error).__name__, str(error)))
        if turn:
            try:
                del later
            except NameError as error:
                LOG.append((type(error).__name__, str(error)))
        graph_break()
        n += 1
    later = x + n
    graph_break()
    return inner(), later, Box(x).step(2)


class Box:
    def __init__(self, x):
        graph_break()
        self.x = x
        super().__init__()

    def step(self, n):
        graph_break()
        return [self.x for _ in range(n)], (lambda: self)()


def call_0():
    return torch.ones(2), 1


def call_1():
    return torch.ones(2), 5


def call_2():
    return torch.ones(3), 2
