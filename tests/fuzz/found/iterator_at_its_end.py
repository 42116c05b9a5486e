# A reversed list at its end became an iterator of another type.
def f(x):
    stream = reversed([x, x + 1])
    first, *rest = stream
    return first, rest, stream


def call_0():
    return (1,)
