# To look at a frame's `f_locals` kept its variables alive.
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


def breaking(x):
    x.sum().item()
    try:
        x.missing
    except Exception:
        pass
    return x


def f(x):
    for _ in range(3):
        try:
            talk = talking([])
            next(talk), talk.throw(Oops())
            raise RuntimeError
        except RuntimeError as error:
            LOG.append(breaking(x).numel())
            inner = talking([])
            next(inner)
            inner.close()
        x = x + breaking(x * 0.5).max()
    return x


def call_0():
    return (torch.rand(3),)
