# To look at a frame's `f_locals` kept its variables alive.
import contextlib

import torch

LOG = []


class Oops(Exception):
    pass


def talking(t):
    try:
        while True:
            try:
                yield t
            except Oops:
                LOG.append("oops")
    finally:
        LOG.append("silent")


class Guard:
    def __enter__(self):
        LOG.append("enter")

    def __exit__(self, kind, value, trace):
        LOG.append("exit")
        return True


def breaking(x):
    x.sum().item()
    try:
        x.missing
    except Exception:
        pass
    return x


def f(x):
    for _ in x:
        try:
            talk = talking([])
            next(talk), talk.throw(Oops())
            raise RuntimeError
        except RuntimeError as error:
            with contextlib.ExitStack() as stack:
                stack.enter_context(Guard())
                stack.callback(LOG.append, breaking(x).numel())
                inner = talking([])
                next(inner)
                inner.close()
            x[[]] += breaking(x * 0.5).max()


def call_0():
    return (torch.rand(3),)
