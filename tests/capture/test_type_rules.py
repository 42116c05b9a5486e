"""A type is one rule: byte arrays from outside are read, compared, written and made again as their rule says."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import onegraph
from onegraph.capture.heap.type_rules import RULES, rule_of


class Buffer(bytearray):
    """With attributes of its own."""

    used = 0


def append(x: torch.Tensor, data: bytearray) -> Any:
    data.append(len(data))
    return x + data[-1]


def slices(x: torch.Tensor, data: bytearray) -> Any:
    data[1:2] = b"abc"
    del data[0]
    return x * sum(data), data


def reads(x: torch.Tensor, data: bytearray) -> Any:
    return x + len(data), bytes(data), 2 in data, data.hex(), [*data]


def makes(x: torch.Tensor, data: bytearray) -> Any:
    made = data + b"more"
    made.reverse()
    return x, made, data


PROGRAMS = (append, slices, reads, makes)


def called(program: Any, data: bytearray) -> Any:
    data = copy.deepcopy(data)
    results = [copy.deepcopy(program(torch.ones(2), data)) for _ in range(2)]
    return [str(results), bytes(data), vars(data) if isinstance(data, Buffer) else {}]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("data", [bytearray(b"\1\2\3"), Buffer(b"\1\2")], ids=["plain", "subclass"])
def test_byte_arrays_from_outside(program: Any, data: bytearray) -> None:
    compiled = onegraph.compile(program, backend="eager", fullgraph=True)
    assert called(compiled, data) == called(program, data)
    other = data + b"\7"
    assert called(compiled, other) == called(program, other)


def test_a_subclass_has_the_rule_of_its_nearest_base() -> None:
    assert rule_of(Buffer) is RULES[bytearray] and rule_of(type("Other", (Buffer, object), {})) is RULES[bytearray]
    assert rule_of(type("Plain", (), {})) is RULES[object]


def test_an_ellipsis_is_a_result() -> None:
    assert onegraph.compile(lambda x: (x, ...), backend="eager", fullgraph=True)(torch.ones(1))[1] is ...
