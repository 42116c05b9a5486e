# A list on the stack, half built when the graph broke, became a tuple before its items were read.
import marshal

import torch


def opaque(n):
    return marshal.loads(marshal.dumps(n))


def show(*items, **named):
    return len(items), sorted(named), [item.shape for item in (*items, *named.values())]


def f(x):
    (y, n), z = (x, *(opaque(3), 2))[:2], x
    a = show(x, *[x + 1], opaque(x.shape[0]) * x, *[y])
    b = show(**{"a": x}, b=x * opaque(2), **{"c": y})
    c = {"a": x, "b": opaque(1), **{"c": x}}
    d = {x.shape, *[(opaque(1),)], (2,)}
    e = [*[x], opaque(2), *[y.shape]]
    return y.shape, n, z, a, b, {k: type(v) for k, v in c.items()}, d, f"{n}{opaque(2)}{e[0].shape}", c, e


def call_0():
    return (torch.randn(4),)


def call_1():
    return (torch.randn(5),)
