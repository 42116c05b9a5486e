# What a function of the library closes over was not guarded, though the program had given it.
import contextlib

LOG = []


def f(x, n, table, text, stream):
    with contextlib.ExitStack() as m11:
        m11.callback(LOG.append, n)
        next(stream, None)


def call_0():
    x = []
    return (x, 2, [], "key", iter([]))


def call_1():
    x = []
    return (x, 3, [], "key", iter([]))
