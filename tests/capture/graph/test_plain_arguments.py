"""Texts and numbers of classes of the program are plain ones in graphs: what operators see of them."""

from __future__ import annotations

import enum
from collections import namedtuple
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import onegraph


class Age(int):
    def __repr__(self) -> str:
        return f"{int(self)} years"


class Weight(float):
    def __repr__(self) -> str:
        raise ValueError("has no text")


class Phase(complex):
    def __repr__(self) -> str:
        return "a phase"


class Name(str):
    def __repr__(self) -> str:
        return f"<{self}>"


class Mode(str, enum.Enum):  # noqa: UP042 - as programs have it
    TANH = "tanh"


class Level(enum.IntEnum):
    LOW = 2


Size = namedtuple("Size", "height width")
PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "integer": lambda x: x * Age(3) + torch.full((Age(4),), Age(2)),
    "sizes": lambda x: x.reshape(Age(2), Age(2)),
    "slice": lambda x: x[Age(1) : Age(3)],
    "float": lambda x: x * Weight(2.5),
    "complex": lambda x: x * Phase(2j),
    "text": lambda x: F.gelu(x, approximate=Name("tanh")),
    "member": lambda x: F.gelu(x, approximate=Mode.TANH) * Level.LOW,
    "record": lambda x: F.interpolate(x.reshape(1, 1, 2, 2), size=Size(Age(4), 4)),
}


#: Element types, given as Python's types of numbers.
ELEMENTS: dict[str, Callable[[Tensor], Tensor]] = {
    "conversion": lambda x: x.to(int) + x.to(dtype=bool),
    "made": lambda x: torch.zeros(4, dtype=int) + x + torch.ones(4, dtype=float),
    "of numbers": lambda x: torch.tensor(3, dtype=float) * torch.full((4,), 1, dtype=bool) + x,
    "like": lambda x: torch.zeros_like(x, dtype=int) + x.new_ones(4, dtype=bool),
    "range": lambda x: torch.arange(4, dtype=float) + x,
    "reduced": lambda x: x.sum(dtype=float) + x.softmax(0, dtype=float),
    "complex": lambda x: torch.ones(4, dtype=complex) * x,
    "memory": lambda x: x.double().view(dtype=int),
}


@pytest.mark.parametrize("program", ELEMENTS.values(), ids=ELEMENTS)
def test_element_types_given_as_types_of_python(program: Callable[[Tensor], Tensor]) -> None:
    x = torch.arange(4.0)
    torch.testing.assert_close(onegraph.compile(program, fullgraph=True)(x), program(x))


def test_the_element_type_of_a_number_that_changes_is_a_type_of_python() -> None:
    def program(x: Tensor, n: float) -> Tensor:
        return torch.tensor(n, dtype=float) + x

    compiled, x = onegraph.compile(program, fullgraph=True), torch.ones(1)
    for n in (1, 2, 3, 4.5):
        torch.testing.assert_close(compiled(x, n), program(x, n))


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_plain_arguments(program: Callable[[Tensor], Tensor]) -> None:
    x = torch.arange(4.0)
    torch.testing.assert_close(onegraph.compile(program, fullgraph=True)(x), program(x))


LOG: list[str] = []


class Second:
    def __index__(self) -> int:
        LOG.append("index")
        return 1


class Rows(list[int]):
    def __iter__(self):
        LOG.append("iterated")
        return iter([1, 0])


class Asked(list[int]):
    def __getitem__(self, index):
        LOG.append(f"item {index}")
        return super().__getitem__(index)


class Plain(list[int]):
    pass


def refused(x: Tensor, act: Callable[[], object]) -> Tensor:
    try:
        act()
    except TypeError as error:
        LOG.append(str(error))
    return x + 1


def written(x: Tensor, key: object, value: object) -> Tensor:
    made = x.clone()
    made[key] = value  # type: ignore[index]
    return made


INDICES: dict[str, Callable[[Tensor], Tensor]] = {
    "number": lambda x: x[Second()] + x[Second(),],
    "slice": lambda x: x[Second() :],
    "list": lambda x: x[Plain([1])],
    "iterated": lambda x: x[Rows([0, 1])],
    "made": lambda x: x + torch.tensor(Rows([0, 1])),
    "operand": lambda x: refused(x, lambda: x | Asked([0, 1])),  # type: ignore[operator]
    "compared": lambda x: refused(x, lambda: x < Asked([0, 1])),  # type: ignore[operator]
    "write": lambda x: written(x, Second(), 5.0),
    "write of rows": lambda x: written(x, Rows([0, 1]), 5.0),
    "write of a list": lambda x: written(x, Plain([1, 2]), torch.ones(2)),
}


@pytest.mark.parametrize("program", INDICES.values(), ids=INDICES)
def test_what_torch_asks_of_objects(program: Callable[[Tensor], Tensor]) -> None:
    """It is asked when the program runs, as often as it would be."""
    x = torch.arange(2.0) if program is INDICES["made"] else torch.arange(4.0)
    LOG.clear()
    expected, asked = program(x), list(LOG)
    LOG.clear()
    compiled = onegraph.compile(program, backend="eager", options={"check_unchanged": True})
    torch.testing.assert_close(compiled(x), expected)
    assert asked == LOG
