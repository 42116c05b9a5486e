# A reversed list at its end became an iterator of another type.
def f(x):
    stream = reversed([x, x + 1])
    first, *rest = stream
    done = iter([])
    next(done, None)
    return first, rest, stream, done


def call_0():
    return (1,)
