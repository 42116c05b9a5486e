# Methods that native iterators call ran for real while the program was traced.
LOG = []


class Box:
    def __init__(self, t, n=1):
        self.t, self.n, self.items = (t, n, 1)

    def __getitem__(self, k):
        return Box([], 3)

    def __setattr__(self, name, value):
        LOG.append(name)


class Tail(Box):
    def __getitem__(self, k):
        self.t = k
        return [] if k == 2 else k

    def __eq__(self, other):
        LOG.append("equal")
        return False


def f(x):
    LOG.append([] in Tail(x) and 5 in [Tail(x), 5])
    return sum(Box(x), x)


def call_0():
    return ([],)
