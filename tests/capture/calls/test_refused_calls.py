"""Calls that builtin functions refuse are refused in compiled code, in the same words."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

import onegraph


class Endless:
    """Its iterator is none."""

    def __iter__(self) -> Any:
        return 3


class Unmeasured(list[int]):
    def __len__(self) -> int:
        raise ValueError("no length")


CALLS = """
hash(1, 2, 3)
getattr()
getattr(x)
getattr(x, default=None)
getattr(x, 3)
hasattr(x)
hasattr(x, 3)
setattr(x, 3, 4)
setattr()
delattr(items)
items.__setattr__(3)
items.__setattr__([1], 2)
items.__delattr__("a", 3)
items.__getattribute__([1])
items.count()
{"a": 1}.get(1, reverse=True)
{"a": 1}.pop()
{"a": 1}.__getitem__()
{1, 2}.pop(1)
any()
any("abc", base=2)
any("abc", "d")
all(1, 2)
sorted(set(), a=1)
sorted(1, 2, 3)
sorted(Unmeasured())
",".join(3)
",".join(Endless())
functools.reduce(abs, 3)
functools.reduce(abs, [])
sum("", abs, 3)
sum([], "")
sum([0.1] * 10)
sum([1, 0.1, 2.5, True])
sum([0.5, x, 0.5]).tolist()
min()
max(a=1)
min(3, 4, a=1)
len()
len(1, 2)
isinstance(1)
isinstance(1, start=2)
bool(1, 2)
bool({}, strict=True)
type(1, a=2)
super(1, base=2)
next()
iter()
int("3", 10, 2)
int(3, 2)
""".strip().splitlines()
FUNCTION = """
def f(x, items):
    try:
        return {}
    except Exception as error:
        return type(error).__name__, str(error)
"""


@pytest.mark.parametrize("call", CALLS)
def test_refused_call(call: str) -> None:
    names: dict[str, Any] = {"functools": functools, "Endless": Endless, "Unmeasured": Unmeasured}
    exec(FUNCTION.format(call), names)
    f, x = names["f"], torch.ones(2)
    assert repr(onegraph.compile(f, backend="eager")(x, [1])) == repr(f(x, [1]))
