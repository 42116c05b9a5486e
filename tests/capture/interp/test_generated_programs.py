"""Random small programs do under the interpreter what they do natively."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable

import pytest
from capture.interp.generated import PRELUDE, programs
from capture.interp.outcome import Outcome, observe
from hypothesis import HealthCheck, given, reject, settings

from onegraph.capture.interp.machine import Machine

UNHURRIED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def compare(source: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            code = compile(PRELUDE + source, "<program>", "exec")
        except SyntaxError:  # an assignment expression in the wrong place
            reject()
    native = outcome(code, lambda f: f())
    mine = outcome(code, lambda f: Machine().call(f, (), {}))
    assert mine == native, source


def outcome(code: object, run: Callable[[Callable[[], object]], object]) -> Outcome:
    namespace: dict[str, object] = {"__name__": "program"}
    exec(code, namespace)  # type: ignore[arg-type]
    function = namespace["f"]
    function.__defaults__ = copy.deepcopy(function.__defaults__)
    return observe(lambda: run(function))


@settings(max_examples=150, suppress_health_check=UNHURRIED)
@given(programs)
def test_some_programs(source: str) -> None:
    compare(source)


@pytest.mark.slow
@settings(max_examples=3000, suppress_health_check=UNHURRIED)
@given(programs)
def test_many_programs(source: str) -> None:
    compare(source)
