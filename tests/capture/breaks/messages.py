"""Programs whose messages are held in golden files: one for each kind of place that a break may be at."""

from __future__ import annotations

import hashlib
import itertools

import torch


def toy_example(a, b):
    x = a / (torch.abs(a) + 1)
    print("woo")
    if b.sum() < 0:
        b = b * -1
    return x * b


def deepest(größe, factor):
    return größe * (2 if (größe.sum() >
                          factor) else 3)  # fmt: skip


def middle(x):
    return tuple(deepest(part, 4) for part in x.split(2))


def nested(x):
    return torch.cat(middle(x + 1))


class Block(torch.nn.Module):
    def forward(self, x):
        return x / x.max().item()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 4), Block())

    def forward(self, x):
        return self.layers(x)


def keyed(x, *, seed):
    y = x.double()
    return y * hashlib.md5(seed, usedforsecurity=False).digest()[0]


def iterators(x, given):
    return x * hash_of(given, map(abs, given), zip(given, given, strict=True))


def items(x):
    for value in x:
        yield value * 2


def escapes(x):
    pairs = itertools.pairwise("abc")
    return x + 1, pairs


@torch.compiler.disable
def hash_of(*values):
    return hash(values)


PROGRAMS = {
    "print": lambda graph: graph(toy_example)(torch.ones(10), torch.ones(10)),
    "nested": lambda graph: graph(nested)(torch.ones(4)),
    "module": lambda graph: graph(Model().eval())(torch.ones(2, 4)),
    "native": lambda graph: graph(keyed)(torch.ones(2, 2), seed=b"seed"),
    "iterators": lambda graph: graph(iterators)(torch.ones(3), iter([1, 2])),
    "escapes": lambda graph: graph(escapes)(torch.ones(3)),
}
