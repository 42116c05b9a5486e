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


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_plain_arguments(program: Callable[[Tensor], Tensor]) -> None:
    x = torch.arange(4.0)
    torch.testing.assert_close(onegraph.compile(program, fullgraph=True)(x), program(x))
