"""Writes to memory that the operator reads in another place do, or raise, what they do in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

Write = Callable[[torch.Tensor], Any]

REFUSED: dict[str, Write] = {
    "row": lambda x: x.sub_(x[0]),
    "transposed": lambda x: x.mul_(x.t()),
    "shifted": lambda x: x[1:].copy_(x[:-1]),
    "out": lambda x: torch.add(x[0:2], 1, out=x[1:3]),
    "index": lambda x: x.index_put_((torch.tensor([0]),), x[1]),
    "item": lambda x: x.__setitem__(slice(1, 3), x[0:2]),
    "expanded": lambda x: (x + 1)[0].expand(4, 4).add_(1),
    "lists": lambda x: torch._foreach_add_([x[1:]], [x[:-1]]),
}
ALLOWED: dict[str, Write] = {
    "columns": lambda x: x[:, 1:].add_(x[:, :-1]),
    "windows": lambda x: x.view(-1).unfold(0, 2, 1).mul_(2),
    "member_by_member": lambda x: torch._foreach_add_([x[0], x[1]], [x[2], x[0]]),
}
APART: dict[str, Write] = {
    "itself": lambda x: x.mul_(x),
    "halves": lambda x: x[:, :2].add_(x[:, 2:]),
    "every_other": lambda x: x[..., ::2].sub_(x[..., 1::2]),
    "filled": lambda x: x[0].expand(4, 4).fill_(2),
    "rows": lambda x: x[0].copy_(x[1]),
    "lists_of_rows": lambda x: torch._foreach_add_([x[0], x[1]], [x[2], x[3]]),
}
BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
DYNAMIC = pytest.mark.parametrize("dynamic", [False, True])


class Swallow:
    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, value: Any, trace: Any) -> bool:
        return kind is RuntimeError


def outcome(function: Write) -> tuple[Any, list[list[float]]]:
    x = torch.arange(16.0).reshape(4, 4)
    try:
        function(x)
    except RuntimeError as error:
        return str(error), x.tolist()
    return None, x.tolist()


@BACKENDS
@DYNAMIC
@pytest.mark.parametrize("name", [*REFUSED, *ALLOWED])
def test_a_write_to_what_is_read_is_as_in_eager_mode(name: str, backend: str, dynamic: bool) -> None:
    function = (REFUSED | ALLOWED)[name]
    expected = outcome(function)
    assert (expected[0] is not None) == (name in REFUSED)
    with Watch() as watch:
        assert outcome(onegraph.compile(function, backend=backend, dynamic=dynamic)) == expected
    assert "overlapping-write" in {event.code for event in watch.of(ev.GraphBroken)}


@BACKENDS
@DYNAMIC
@pytest.mark.parametrize("name", APART)
def test_a_write_beside_what_is_read_is_captured(name: str, backend: str, dynamic: bool) -> None:
    compiled = onegraph.compile(APART[name], backend=backend, dynamic=dynamic, fullgraph=True)
    assert outcome(compiled) == outcome(APART[name])


@BACKENDS
@DYNAMIC
@pytest.mark.parametrize("row", [0, 1])
def test_what_came_before_it_is_done_once(backend: str, dynamic: bool, row: int) -> None:
    def f(x, other):
        x.add_(1)
        with Swallow():
            x.sub_(other)
        return x * 2

    def call(function: Callable[..., Any]) -> Any:
        x = torch.arange(16.0).reshape(4, 4)
        return function(x, x[row]), x

    compiled = onegraph.compile(f, backend=backend, dynamic=dynamic)
    for _ in range(2):
        torch.testing.assert_close(call(compiled), call(f))


def set_a_row(v: torch.Tensor) -> Any:
    v[0] = 2
    return v * 0.5


def write_rows(v: torch.Tensor) -> Any:
    v[0].mul_(2)
    v[1].add_(1)
    return v.sum()


#: Views of which several elements are at one place.
REPEATING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "expanded": lambda x: x.expand(2, -1),
    "transposed": lambda x: x.view(-1, 1).expand(-1, 3).t(),
    "strided": lambda x: x.as_strided((3, 2), (1, 1)),
    "windows": lambda x: x.unfold(0, 3, 1),
}


@BACKENDS
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("view", REPEATING)
@pytest.mark.parametrize("write", [set_a_row, write_rows])
def test_a_write_to_an_element_is_seen_at_its_other_places(write: Write, view: str, inside: bool, backend: str) -> None:
    def viewed(x: torch.Tensor) -> Any:
        return write(REPEATING[view](x))

    def call(compile_: Callable[..., Any]) -> Any:
        x = torch.arange(1.0, 7.0)
        result = compile_(viewed)(x) if inside else compile_(write)(REPEATING[view](x))
        return result, x

    expected = call(lambda function: function)
    torch.testing.assert_close(call(lambda function: onegraph.compile(function, backend=backend)), expected)
