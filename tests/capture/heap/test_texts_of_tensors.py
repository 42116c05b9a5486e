"""Texts that hold tensors are known when the graph has run: what a program does with them is what eager mode does."""

from __future__ import annotations

import collections
import json
import operator
import string
import textwrap
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import onegraph

OF_ONE = r"""
str(deque([t]))
repr({t})[:10]
str({'a': t})
str([t])
str((t,))
str(SimpleNamespace(a=t))
repr(SimpleNamespace(a=str(t)))
str({'a': t}.items())
f'{(t,)}'
f'{[str(t)]}'
repr(str(t))
ascii(t)
ascii(str(t))
f'{str(t)!r}'
f'{str(t):>60}'
f'{t!s:>60}'
f'{t} {t!r}'
'%60s' % t
'%-60s|' % t
'%.3s' % t
'%s %r' % (t, t)
'%5d %s' % (1, t)
'%r' % str(t)
'%60s' % str(t)
'%(a)s %(a)60s' % {'a': t}
'%*s' % (60, t)
'%60s'.__mod__((str(t),))
str.__mod__('%60s', t)
operator.mod('%60s', t)
'{} {:>60}'.format(t, str(t))
'{!r}'.format(str(t))
'{0!s:>60} {0}'.format(t)
'{a} {a!r:>60}'.format(a=t)
'{:{w}}'.format(str(t), w=60)
'{0[0]} {0[0].shape}'.format([t])
format(str(t), '>60')
str(t)[:3] + str(t)[8]
str(t) * 2 + 'a'
str(t).upper().split()
{str(t): 1}
str([str(t)])
max(str(t), 'a')
sorted([str(t), 'a'])
str(Exception(t))
str(Exception(str(t)))
f'{Exception(str(t))}'
repr(Exception(str(t)))
str(KeyError(str(t)))
str(ValueError([t]))
'\n'.join(map(str, [t, t]))
textwrap.fill(str(t))
string.Template('$a').substitute(a=t)
json.dumps([str(t)])
json.dumps(obj={'k': str(t)})
len({str(t), str(t + 0)})
'{0.a} {0.a!s:>60}'.format(SimpleNamespace(a=t))
'{a} {a!s:>60}'.format_map({'a': t})
'{} {}'.format(t)
'{0} {}'.format(t)
'{0.b}'.format(t)
'%-90s|' % {'a': t}
'%s %60s|' % (Own(t), 'a')
'%60s|' % Own(t)
'%a' % Own(t)
'{:>60} {!r}'.format(f'{Own(t)}', Own(t))
ascii(Own(t))
""".strip().splitlines()

OF_SEVERAL = """
sorted(map(str, o))
sorted([str(v) for v in o])
sorted(o, key=str)
max(map(str, o)), min(*map(str, o))
len(set(map(str, o)))
collections.Counter(map(str, o))
repr(list(map(str, o)))
f'{list(map(str, o))}'
list(map(len, map(str, o)))
'a' in map(str, o)
"""


class Own:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Own({self.value})"


def compiled(expression: str, argument: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    scope: dict[str, Any] = {
        "collections": collections, "deque": collections.deque, "json": json, "operator": operator, "string": string,
        "textwrap": textwrap, "SimpleNamespace": SimpleNamespace, "Own": Own,
    }  # fmt: skip
    exec(f"def f(x, {argument}): return ({expression}), x + 1", scope)
    return scope["f"], onegraph.compile(scope["f"], backend="eager", options={"raise_compiler_errors": True})


@pytest.mark.parametrize("expression", OF_ONE)
def test_the_text_of_a_tensor(expression: str) -> None:
    plain, function = compiled(expression, "t")
    for t in (torch.tensor([1.5, 2.0]), torch.tensor([0.25, 2.0])):
        assert answer(function, t) == answer(plain, t)


def answer(function: Callable[..., Any], given: Any) -> Any:
    try:
        return function(torch.ones(1), given)[0]
    except (AttributeError, IndexError, ValueError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize("spec", [">6", "d", ".2f", "x", "zz", "s"])
def test_a_specification_is_refused_where_it_stands(spec: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    def shown(x: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, str]:
        try:
            return x + 1, format(t, spec)
        except (TypeError, ValueError) as error:
            return x + 1, str(error)

    x, t = torch.ones(1), torch.ones(shape, dtype=dtype)
    assert onegraph.compile(shown, backend="eager")(x, t)[1] == shown(x, t)[1]


@pytest.mark.parametrize("expression", ["'%(a)s %(a)60s' % o", "'{0[a]!s:>60}'.format(o)", "'{a!s:>60}'.format_map(o)"])
def test_the_text_of_a_tensor_in_a_dict_from_outside(expression: str) -> None:
    plain, function = compiled(expression, "o")
    for given in ({"a": torch.ones(2)}, {"a": torch.zeros(2)}):
        assert answer(function, given) == answer(plain, given)


@pytest.mark.parametrize("expression", OF_SEVERAL.strip().splitlines())
def test_the_texts_of_several_tensors(expression: str) -> None:
    plain, function = compiled(expression, "o")
    one, zero = torch.ones(2), torch.zeros(2)
    for given in ([one, zero], [zero, one], [zero, zero.clone()]):
        expected, found = plain(torch.ones(1), given)[0], function(torch.ones(1), given)[0]
        assert str(found) == str(expected)


def test_the_text_of_a_deque_from_outside() -> None:
    plain, function = compiled("str(o), repr([o])", "o")
    for given in (collections.deque([1]), collections.deque([2, collections.deque([3])], maxlen=4)):
        assert function(torch.ones(1), given)[0] == plain(torch.ones(1), given)[0]
