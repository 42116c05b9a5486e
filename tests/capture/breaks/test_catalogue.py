"""Every entry of the catalogue is raised by a program, and every hint removes it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from onegraph.capture.breaks import CATALOGUE
from tests.capture.breaks.catalogue import CASES
from tests.capture.breaks.table import Case, Fix
from tests.capture.resume.test_breaks import Watch
from tests.capture.test_small_programs import tree_equal

FIXES = [(case, fix) for case in CASES for fix in case.fixes]


def name(value: Any) -> str | None:
    match value:
        case Case():
            return f"{value.reason.code}-{value.function.__name__}"
        case Fix():
            return value.function.__name__
    return None


def test_the_table_covers_the_catalogue() -> None:
    assert {case.reason.code for case in CASES} == set(CATALOGUE)
    assert len(CATALOGUE) >= 60


def test_the_table_covers_every_hint() -> None:
    followed = {(case.reason.code, fix.hint) for case, fix in FIXES}
    given = {(reason.code, hint) for reason in CATALOGUE.values() for hint in reason.hints}
    assert followed == given and all(reason.hints for reason in CATALOGUE.values())


@pytest.mark.parametrize("case", [case for case in CASES if case.strict], ids=name)
def test_program_breaks(case: Case) -> None:
    with pytest.raises(onegraph.GraphBreakError) as caught:
        onegraph.compile(case.function, fullgraph=True, backend="eager", options=case.options)(*case.inputs())
    assert case.later or caught.value.code == case.reason.code
    assert caught.value.user_stack[0].function == case.function.__name__


@pytest.mark.parametrize("case", [case for case in CASES if case.runs], ids=name)
def test_program_runs_in_pieces(case: Case) -> None:
    with Watch() as watch:
        found = onegraph.compile(case.function, backend="eager", options=case.options)(*case.inputs())
    assert case.reason.code in {event.code for event in watch.of(ev.GraphBroken)}
    if case.same:
        assert tree_equal(case.function(*case.inputs()), found)


@pytest.mark.parametrize(("case", "fix"), FIXES, ids=name)
def test_hint_removes_the_break(case: Case, fix: Fix) -> None:
    graph = partial(onegraph.compile, fullgraph=True, backend="eager")
    function = graph(fix.function) if fix.is_whole else partial(fix.function, graph)
    with Watch() as watch:
        found = function(*case.inputs())
    assert not watch.of(ev.GraphBroken) and not watch.of(ev.FrameSkipped)
    assert watch.graphs
    if case.same and case.runs:
        torch.manual_seed(0)
        assert tree_equal(case.function(*case.inputs()), found)
