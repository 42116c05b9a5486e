"""What native functions make of the results of special methods, and of plain numbers, in one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch

import onegraph
from tests.capture.test_small_programs import tree_equal


class Gives:
    def __init__(self, result: Any) -> None:
        self.result = result

    def __len__(self):
        return self.result

    def __hash__(self):
        return self.result

    def __float__(self):
        return self.result

    def __int__(self):
        return self.result

    def __complex__(self):
        return self.result

    def __iter__(self):
        return self.result


class Text(str):
    def __complex__(self):
        return 5j


class Four:
    def __index__(self):
        return 4


PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "length": lambda x: (len(Gives(3)), x + 1),
    "length_of_a_text": lambda x: (len(Gives("a")), x + 1),
    "negative_length": lambda x: (len(Gives(-1)), x + 1),
    "length_by_index": lambda x: (len(Gives(Four())), x + 1),
    "length_of_a_float": lambda x: (len(Gives(2.0)), x + 1),
    "length_of_a_bool": lambda x: (len(Gives(True)), x + 1),
    "length_beyond_all": lambda x: (len(Gives(1 << 70)), x + 1),
    "truth_of_a_negative_length": lambda x: x if Gives(-1) else x + 1,
    "truth_of_no_length": lambda x: x if Gives(0) else x + 1,
    "length_that_is_a_size": lambda x: x * len(Gives(x.shape[0])),
    "hash": lambda x: (x + 1, hash(Gives(5))),
    "hash_of_a_text": lambda x: (x + 1, hash(Gives("a"))),
    "hash_beyond_all": lambda x: (x + 1, hash(Gives(1 << 80))),
    "hash_of_a_bool": lambda x: (x + 1, hash(Gives(True))),
    "no_hash": lambda x: (x + 1, hash(Gives(-1))),
    "float": lambda x: x * float(Gives(1.5)),
    "float_of_an_integer": lambda x: x * float(Gives(1)),
    "integer": lambda x: x * int(Gives(3)),
    "integer_of_a_float": lambda x: x * int(Gives(3.5)),
    "complex": lambda x: (x + 1, complex(Gives(3j))),
    "complex_of_an_integer": lambda x: (x + 1, complex(Gives(3))),
    "complex_of_a_text": lambda x: (x + 1, complex(Text("2j"))),
    "numpy_product": lambda x: x + numpy.prod(x.shape),
    "numpy_extremes": lambda x: x + numpy.max([1, 2, 3]) - numpy.min((4, 5)),
    "numpy_mean": lambda x: x * numpy.mean([1.0, 2.0]) + int(numpy.round(2.6)),
    "numpy_number": lambda x: (x + 1, numpy.sum((1, 2))),
}


def outcome(program: Callable[[torch.Tensor], Any]) -> Any:
    try:
        return program(torch.ones(3))
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_and_errors_are_those_of_eager_mode(name: str) -> None:
    program = PROGRAMS[name]
    onegraph.reset()
    compiled = onegraph.compile(program, backend="eager", fullgraph=True)
    assert tree_equal(outcome(compiled), outcome(program))
    assert tree_equal(outcome(compiled), outcome(program))


def test_numbers_of_arrays_are_numbers_beside_tensors() -> None:
    onegraph.reset()
    array = numpy.arange(4.0)
    compiled = onegraph.compile(lambda x: x * numpy.mean(array), fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 1.5))
