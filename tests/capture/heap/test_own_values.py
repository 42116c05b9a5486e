"""Numbers and texts of classes in Python are known by their values; dicts keep the order in which they are written."""

from __future__ import annotations

import array
import collections
import decimal
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import pytest
import torch

import onegraph


class Whole(int):
    pass


class Real(float):
    pass


class Text(str):
    pass


class Slotted(str):
    __slots__ = ("a",)


class Small(int):
    __slots__ = ()


class Ending(int):
    def __del__(self) -> None:
        pass


class Bytes(bytes):
    pass


class Odd(int):
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 5

    def __add__(self, other: Any) -> Any:
        return f"sum {other}"

    def __str__(self) -> str:
        return "odd"

    def __bool__(self) -> bool:
        return False


def noted(value: Any, note: int) -> Any:
    value.a = note
    return value


def values() -> Iterator[Any]:
    yield from (Whole(0), Whole(1), Whole(2), noted(Whole(2), 1), noted(Whole(2), 2), Real(0), Real(2.5), Text("b"))
    yield from (Text(""), noted(Text("q"), 1), noted(Text("q"), 2), noted(Slotted("w"), 1), noted(Slotted("w"), 2))
    yield from (Bytes(b"x"), Bytes(b"y"), Odd(1), Odd(2), array.array("i", [1]), array.array("i", [2]), 1, 2.5, "b")
    yield from (Small(1), Small(2), Ending(1), Ending(2), decimal.Decimal(1), decimal.Decimal(2), True, None)


QUESTIONS = """
str(o), repr(o), f'{o}', f'{o!r:>5}', '%s' % o
str([o]), str({1: o})
o in (1, 2), o in [array.array('i', [1])]
[o] == [1], (o,) == (1,)
o in {1: 2}, {1: 'a', 2: 'b'}.get(o), len({o, 1})
[1, 2, 3][:o], [1, 2, 3][o:]
[5, 6, 7][o], 'abc'[o]
x[o:].shape
x[o]
x + o
o + 1
o == 1, bool(o), not o
''.join([o]), o.join(['1', '2'])
hash(o) == hash(o)
max(o, 1), sum([o, o])
o.a
vars(o), getattr(o, 'a', 5)
setattr(o, 'z', 1), o.z
onegraph.graph_break() or (o, o.a)
torch.full((1,), o)
""".strip().splitlines()


def told(function: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    try:
        result = function(*args)[0]
    except (TypeError, AttributeError, IndexError, ValueError) as error:
        return type(error), str(error)
    return type(result), str(result), vars(args[-1]) if hasattr(args[-1], "__dict__") else None


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_is_asked_of_numbers_and_texts(question: str) -> None:
    scope: dict[str, Any] = {"torch": torch, "onegraph": onegraph, "array": array}
    exec(f"def f(x, o): return ({question}), x + 1", scope)
    for turn in (1, -1):
        compiled = onegraph.compile(scope["f"], backend="eager", options={"recompile_limit": 200})
        for ours, theirs in list(zip(values(), values(), strict=True))[::turn]:
            assert told(compiled, torch.ones(2), ours) == told(scope["f"], torch.ones(2), theirs), repr(theirs)


def test_numbers_that_vary_have_no_attributes() -> None:
    compiled = onegraph.compile(lambda x, n: (setattr(n, "q", 1), x + n), backend="eager", dynamic=True)
    for number in (2, 3, 4, 2.5, 3.5):
        with pytest.raises(AttributeError, match=f"'{type(number).__name__}' object has no attribute 'q'"):
            compiled(torch.ones(2), number)


class Holder:
    pass


WRITES = """
d['u'] = 1; d['a'] = 2
d['b'] = 1; d['a'] = 2
d.update(u=1, a=2)
d['a'] = 1; d['u'] = 2; del d['a']; d['a'] = 4
d['u'] = d.pop('a', 5); d['a'] = 1
d['z'] = 1; d['y'] = 2; d['a'] = 3; d['b'] = 1
d.clear(); d['a'] = 1
o.q = 1; o.a = 2
o.b = 3; o.a = 4
o.a = 1; o.q = 2; del o.a
o.__dict__['z'] = 1; o.a = 5
""".strip().splitlines()


@pytest.mark.parametrize("writes", WRITES)
def test_dicts_keep_the_order_of_the_program(writes: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def f(x, d, o):\n    {writes}\n    return x + 1", scope)
    for order in permutations(["a", "b", "u"]):
        for kind in (dict, collections.OrderedDict):
            compiled = onegraph.compile(scope["f"], backend="eager")
            for count in range(4):
                outcomes = []
                for function in (scope["f"], compiled):
                    given, holder = kind((key, key) for key in order[:count]), Holder()
                    vars(holder).update(given)
                    function(torch.ones(1), given, holder)
                    outcomes.append((list(given.items()), list(vars(holder).items())))
                assert outcomes[0] == outcomes[1], (order[:count], kind)


def test_a_dict_is_made_of_lists_from_outside() -> None:
    def f(x: torch.Tensor, pairs: Any) -> Any:
        made = dict(pairs)
        made.update(pairs)
        return x + 1, made

    compiled = onegraph.compile(f, backend="eager", fullgraph=True)
    for pairs in ([["a", 1], ["b", 2]], [["c", 3], ["d", 4]], [("e", 5)]):
        assert compiled(torch.ones(1), pairs)[1] == dict(pairs)
