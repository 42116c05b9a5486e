"""Iterators from outside that are not followed: the graph breaks where one is used, and results are eager's."""

from __future__ import annotations

import pytest

from onegraph.base import events as ev
from tests.capture import twins
from tests.capture.resume.test_breaks import Watch

STEM = "refused_iterators"


@pytest.mark.parametrize("name", twins.names(STEM))
def test_its_use_breaks_the_graph(name: str) -> None:
    with Watch() as watch:
        twins.check(STEM, name, "eager")
    assert {event.code for event in watch.of(ev.GraphBroken)} == {"outside-iterator"}
