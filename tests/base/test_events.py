from __future__ import annotations

import pickle

import pytest

from onegraph.base.context import Context
from onegraph.base.errors import GraphBreakError
from onegraph.base.events import Event, Events, GraphBroken, GraphCaptured, Location, channels, kinds, text_of


def test_subscribers_are_called_in_order_until_they_leave() -> None:
    events, seen = Events(), []
    first = events.subscribe(lambda event: seen.append("first"))
    events.subscribe(lambda event: seen.append("second"))
    events.emit(Event(None))
    first()
    first()
    events.emit(Event(None))
    assert seen == ["first", "second", "second"]


def test_one_subscriber_may_subscribe_twice() -> None:
    events, seen = Events(), []
    leave = events.subscribe(seen.append)
    events.subscribe(seen.append)
    leave()
    events.emit(Event(None))
    assert len(seen) == 1


def test_a_stream_is_true_while_somebody_listens() -> None:
    events = Events()
    assert not events
    leave = events.subscribe(lambda event: None)
    assert events
    leave()
    assert not events


def test_texts_are_made_when_they_are_read() -> None:
    made = []

    def text() -> str:
        made.append(1)
        return "graph"

    event = GraphCaptured(None, text=text)
    assert not made
    assert text_of(event.text) == "graph"
    assert text_of("given") == "given"


def test_every_event_has_a_channel() -> None:
    assert all(kind.channel for kind in kinds())
    assert "graph_breaks" in channels()


def test_a_context_stamps_a_frame() -> None:
    here = Location("f.py", 3, "f")
    assert Context().for_frame(here).frame == here


def test_a_location_prints_as_in_a_traceback() -> None:
    def here() -> None: ...

    code = here.__code__
    location = Location(code.co_filename, code.co_firstlineno, "here")
    assert location.traceback_lines()[0].endswith(f'test_events.py", line {code.co_firstlineno}, in here')
    assert location.traceback_lines()[1].strip() == "def here() -> None: ..."
    assert len(Location("<nowhere>", 1, "f").traceback_lines()) == 1


def test_a_graph_break_error_names_reason_line_and_hint() -> None:
    with pytest.raises(GraphBreakError) as caught:
        raise GraphBreakError(
            GraphBroken(None, "B01", "call of print", "print writes now", ("move it",), (Location("f.py", 3, "f"),))
        )
    lines = str(caught.value).splitlines()
    assert lines == [
        "call of print [B01]",
        "  from user code (most recent call last):",
        '    File "f.py", line 3, in f',
        "  Explanation: print writes now",
        "  Hint: move it",
        "  Page: onegraph explain-break B01",
    ]
    copied = pickle.loads(pickle.dumps(caught.value))
    assert type(copied) is GraphBreakError and str(copied) == str(caught.value)
