"""A type is one rule: dates and times are known by what they hold, whichever object it is, and may be results."""

from __future__ import annotations

import datetime
import io
import struct
from datetime import timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import torch

import onegraph
from onegraph.capture.heap.type_rules import RULES, rule_of
from tests.capture.resume.test_breaks import Watch

EARLY, LATE = timezone(timedelta(hours=1)), timezone(timedelta(hours=2))


def moment(hour: int, **settings: Any) -> datetime.datetime:
    return datetime.datetime(2024, 10, 27, hour, **settings)


PROGRAMS: dict[str, tuple[Any, Any, Any]] = {
    "date": (lambda x, d: (x + d.day, d + timedelta(days=1)), datetime.date(2024, 2, 28), datetime.date(2024, 2, 29)),
    "span": (lambda x, d: (x * d.total_seconds(), d * 2), timedelta(seconds=3), timedelta(seconds=4)),
    "time": (lambda x, d: (x + d.minute, d.replace(hour=5)), datetime.time(2, 30), datetime.time(2, 31)),
    "moment": (lambda x, d: (x + d.hour, d - timedelta(hours=3), d.isoformat()), moment(2), moment(3)),
    "fold": (lambda x, d: (x + d.fold, d), moment(2), moment(2, fold=1)),
    "zone": (lambda x, d: (x + d.hour, d, d.utcoffset()), moment(2, tzinfo=EARLY), moment(3, tzinfo=LATE)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_dates_and_times(name: str) -> None:
    program, first, second = PROGRAMS[name]
    x = torch.ones(2)
    onegraph.reset()
    with Watch() as watch:
        compiled = onegraph.compile(program, backend="eager", fullgraph=True)
        for given in (first, first.replace() if hasattr(first, "replace") else first * 1, second, first):
            assert repr(compiled(x, given)) == repr(program(x, given))
    assert len(watch.graphs) == 2


class Moving(datetime.tzinfo):
    """A zone of the program, which says what its attribute says."""

    hours = 1

    def utcoffset(self, moment: datetime.datetime | None) -> timedelta:
        return timedelta(hours=self.hours)

    def dst(self, moment: datetime.datetime | None) -> timedelta:
        return timedelta(0)


ZONE = Moving()


@pytest.mark.parametrize(
    "program",
    [
        lambda x, d: x + d.utcoffset().total_seconds(),
        lambda x, d: (x + d.tzinfo.hours, d.astimezone(datetime.UTC).hour),
        lambda x, d: x + moment(2, tzinfo=ZONE).utcoffset().total_seconds(),
    ],
    ids=["native", "attribute", "made"],
)
def test_a_zone_of_the_program_may_move(program: Any) -> None:
    compiled, given = onegraph.compile(program, backend="eager"), moment(2, tzinfo=ZONE)
    for ZONE.hours in (1, 2, 3):
        assert str(compiled(torch.ones(1), given)) == str(program(torch.ones(1), given))


def zone(seconds: int) -> ZoneInfo:
    """One of the library, with a table of its own (RFC 8536, version 1: one type, no transition)."""
    counts = struct.pack(">4s16x6l", b"TZif", 0, 0, 0, 0, 1, 4)
    return ZoneInfo.from_file(io.BytesIO(counts + struct.pack(">lBB4s", seconds, 0, 0, b"Own\0")))


def test_zones_of_the_library_are_told_apart() -> None:
    compiled = onegraph.compile(lambda x, d: x + d.utcoffset().total_seconds(), backend="eager", fullgraph=True)
    for seconds in (3600, 7200, 3600):
        assert compiled(torch.zeros(1), moment(2, tzinfo=zone(seconds))).item() == seconds


def test_a_class_has_the_rule_of_its_nearest_base() -> None:
    named = type("Named", (tuple,), {})
    assert rule_of(named) is RULES[tuple] and rule_of(type("Other", (named, object), {})) is RULES[tuple]
    assert rule_of(type("Plain", (), {})) is RULES[object]


def test_an_ellipsis_is_a_result() -> None:
    assert onegraph.compile(lambda x: (x, ...), backend="eager", fullgraph=True)(torch.ones(1))[1] is ...
