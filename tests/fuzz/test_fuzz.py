"""A short run of the fuzzer: `python -m tests.fuzz` is the long one."""

from __future__ import annotations

import warnings

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings

from tests.fuzz.programs import programs
from tests.fuzz.shrink import shrink
from tests.fuzz.twin import Unfit, Way, compare


@settings(
    max_examples=150, derandomize=True, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(programs())
def test_programs(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not difference_of(text, Way()), shrink(text, lambda candidate: difference_of(candidate, Way()) != "")


CHAOTIC = """
import torch
def f(x):
    for _ in range(40):
        x = (50 * torch.exp(-x)).sin()
    return x
call_0 = lambda: (torch.rand(9),)
"""


def test_programs_that_depend_on_rounding_are_unfit() -> None:
    with pytest.raises(Unfit, match="round"):
        compare(CHAOTIC, Way("native"))


def difference_of(text: str, way: Way) -> str:
    """How a program differs from eager; nothing for one that is unfit."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found = compare(text, way)
    except Unfit:
        return ""
    finally:
        torch.set_num_threads(before)
    return "" if found is None else found.text
