# The value that a handler returned was taken for an exception while the rest of the function broke the graph.
import marshal

import torch


def graph_break():
    marshal.dumps(0)


def fails(x):
    try:
        {}["key"]
    except KeyError as error:
        return error


def f(x):
    try:
        raise RuntimeError(1)
    except RuntimeError:
        return fails(x)
    finally:
        graph_break()


def call_0():
    return (torch.rand(2),)
