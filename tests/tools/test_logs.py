from __future__ import annotations

import io

import pytest

import onegraph
from onegraph.base import events as ev
from onegraph.base.errors import InvalidArgument
from onegraph.base.events import Events, Location
from onegraph.tools import logs

HERE = Location("f.py", 3, "f")


def test_only_the_chosen_channels_are_printed() -> None:
    events, stream = Events(), io.StringIO()
    leave = logs.attach(events, ["guards", "aten"], stream)
    events.emit(ev.GuardsBuilt(HERE, count=2, text=lambda: "x: Tensor\ny: int == 3"))
    events.emit(ev.GraphCaptured(HERE, operations=1))
    events.emit(ev.FunctionalGraphBuilt(HERE, operations=1, text="add"))
    leave()
    events.emit(ev.GuardsBuilt(HERE, count=2))
    assert stream.getvalue() == (
        "[guards] f (f.py:3): 2 guards\n  x: Tensor\n  y: int == 3\n"
        "[aten] f (f.py:3): functional graph of 1 operation\n  add\n"
    )


def test_all_names_every_channel() -> None:
    events, stream = Events(), io.StringIO()
    logs.attach(events, ["all"], stream)
    for kind in ev.kinds():
        events.emit(kind(None))
    assert all(f"[{channel}]" in stream.getvalue() for channel in ev.channels())


def test_an_unknown_channel_is_named() -> None:
    with pytest.raises(InvalidArgument, match="unknown log channel 'gards' .did you mean 'guards'..; accepted: all, f"):
        logs.attach(Events(), ["gards"])
    with pytest.raises(InvalidArgument, match="'verbose_guards' .torch's 'verbose_guards' is the channel 'guards'"):
        logs.attach(Events(), ["verbose_guards"])


def test_texts_of_other_channels_are_never_made() -> None:
    events = Events()
    logs.attach(events, ["aten"], io.StringIO())

    def fail() -> str:
        raise AssertionError

    events.emit(ev.GuardsBuilt(None, text=fail))


def test_a_graph_break_is_explained() -> None:
    event = ev.GraphBroken(HERE, "B01", "call of print", "it writes now", ("move it",), (HERE,))
    assert logs.render(event).splitlines() == [
        "[graph_breaks] f (f.py:3): graph break: call of print [B01]",
        "  from user code (most recent call last):",
        '    File "f.py", line 3, in f',
        "  Explanation: it writes now",
        "  Hint: move it",
        "  Page: onegraph explain-break B01",
    ]


def test_every_event_has_a_headline() -> None:
    for kind in ev.kinds():
        assert logs.describe(kind(HERE)) != kind.__name__


def test_channels_are_chosen_while_the_process_runs() -> None:
    stream = io.StringIO()
    events = Events()
    logs.attach(events, ["aten"], stream)
    with onegraph.config.patch(logs=("frames",)):
        events.emit(ev.FrameStarted(HERE, 0))
    events.emit(ev.FrameStarted(HERE, 1))
    assert stream.getvalue().count("compiling, version") == 1
    with pytest.raises(onegraph.InvalidArgument, match="'logs' expects a tuple of names: all, frames"):
        onegraph.config.logs = ("gards",)
    with pytest.raises(onegraph.InvalidArgument, match="'logs' is for the whole process"):
        onegraph.compile(len, options={"logs": ("frames",)})
