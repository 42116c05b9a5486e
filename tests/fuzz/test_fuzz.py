"""A short run of the fuzzer: `python -m tests.fuzz` is the long one."""

from __future__ import annotations

import contextlib
import gc
import warnings
from random import Random

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings

from onegraph import _C
from tests.fuzz.methods import draw_methods
from tests.fuzz.programs import programs
from tests.fuzz.shrink import shrink
from tests.fuzz.twin import Timeout, Unfit, Way, World, compare, depends_on_rounding, judged, limited


@settings(
    max_examples=150, derandomize=True, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(programs())
def test_programs(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not difference_of(text, Way()), shrink(text, lambda candidate: difference_of(candidate, Way()) != "")


@pytest.mark.parametrize("seed", range(25))
def test_special_methods(seed: int) -> None:
    text = draw_methods(Random(seed))
    assert not difference_of(text, Way()), text


CHAOTIC = """
import torch
def f(x):
    for _ in range(40):
        x = (50 * torch.exp(-x)).sin()
    return x
call_0 = lambda: (torch.rand(9),)
"""


#: Here it is the differences between the elements that count: to change all alike does little.
CANCELLING = """
import torch
def f(x):
    y = x + len(x)
    y -= y.sum()
    x += y
    return x.cos(), x.sin()
def call_0():
    return (torch.rand(4000).view(500, 8)[:, 4:],)
"""


@pytest.mark.parametrize("program", [CHAOTIC, CANCELLING])
def test_programs_that_depend_on_rounding_are_unfit(program: str) -> None:
    with pytest.raises(Unfit, match="round"):
        compare(program, Way("native"))


@pytest.mark.parametrize("wrong", [1.01, 1.001])
def test_wrong_results_are_not_taken_for_rounding(wrong: float) -> None:
    code = compile(CANCELLING.replace("4000", "16").replace("500", "2"), "<program>", "exec")
    eager = World(code, lambda function: function)
    other = World(code, lambda function: lambda x: tuple(wrong * result for result in function(x)))
    for world in (eager, other):
        world.run()
    assert judged(eager, other) is not None and not depends_on_rounding(eager, other, code)


def test_a_program_that_catches_its_end_is_given_up() -> None:
    given_up: list[bool] = []
    with pytest.raises(Timeout), limited(0.05, lambda: given_up.append(True)):
        while not given_up:
            with contextlib.suppress(BaseException):
                while True:
                    pass
    assert given_up


def test_a_program_that_catches_its_end_deep_in_a_recursion_is_given_up() -> None:
    given_up: list[bool] = []

    def down(left: int) -> None:
        if left:
            return down(left - 1)
        while not given_up:
            try:
                while True:  # a jump back with a condition is not in the `try` on Python 3.13
                    pass
            except BaseException:
                pass
        return None

    gc.collect()  # down there is no room for finalizers of what other tests have left
    with pytest.raises(Timeout), limited(0.05, lambda: given_up.append(True)):
        down(_C.frames_left() - 8)
    assert given_up


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
