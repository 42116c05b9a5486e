"""Syntax that only newer versions know, as text: `sources` gives what the running version can compile."""

from __future__ import annotations

TYPE_PARAMETERS = """
def f():
    type Pair[T] = tuple[T, T]
    def first[T](xs: list[T]) -> T:
        return xs[0]
    class Box[T: int, *Ts, **P](dict):
        value: T
        def get[K](self, k: K) -> K:
            return k
    def bounded[T: (int, str), U: int](x: T) -> U: return x
    return (first([1, 2]), Pair.__value__, Box.__type_params__, Box().get(3), first.__type_params__, Box.__mro__[1:],
            [p.__constraints__ for p in bounded.__type_params__], bounded.__type_params__[1].__bound__)
"""

NESTED_F_STRINGS = """
def f():
    x = {"a": [1, 2]}
    return f"{x["a"][0]!r:>{"5"}}{f"{f"{1}"}"}"
"""

CLASS_COMPREHENSION = """
def f():
    class C:
        a = 3
        squares = [i * i for i in range(a)]
        names = [(lambda: i)() for i in range(2)]
        def m(self): return [x for x in [super().__repr__]][0]().startswith("<")
    return C.squares, C.names, C().m()
"""

TYPE_PARAMETER_DEFAULTS = """
def f():
    class Box[T = int, **P = [str]]: pass
    return [p.__default__ for p in Box.__type_params__], Box[str]
"""


def sources() -> list[str]:
    """The programs that the running version can compile."""
    known = []
    for source in (TYPE_PARAMETERS, NESTED_F_STRINGS, CLASS_COMPREHENSION, TYPE_PARAMETER_DEFAULTS):
        try:
            compile(source, "<program>", "exec")
        except SyntaxError:
            continue
        known.append(source)
    return known
