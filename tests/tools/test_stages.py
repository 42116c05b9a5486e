from __future__ import annotations

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from onegraph.base.errors import InvalidArgument
from onegraph.base.events import Events, Location
from onegraph.compile import EVENTS
from onegraph.tools.record import recording
from onegraph.tools.stages import STAGES, check_stages, sections, show, source_section

HERE = Location("f.py", 3, "f")


def double(x: int) -> int:
    return x * 2


def test_stages_are_shown_in_the_order_in_which_they_happened() -> None:
    events = Events()
    with recording(events) as recorded:
        events.emit(ev.GraphCaptured(HERE, operations=1, inputs=1, text="graph text\n"))
        events.emit(ev.PassRun(HERE, "clean-up", "cse", 0.1, "not a stage"))
        events.emit(ev.GuardsBuilt(HERE, count=1, text="guard text"))
    found = [source_section(double), *sections(recorded)]
    assert show(found).splitlines() == [
        "==== source ==== double",
        "def double(x: int) -> int:",
        "    return x * 2",
        "",
        "==== graph ==== f (f.py:3): captured a graph of 1 operation and 1 input",
        "graph text",
        "",
        "==== guards ==== f (f.py:3): 1 guard",
        "guard text",
    ]
    assert show(found, {"guards"}) == "==== guards ==== f (f.py:3): 1 guard\nguard text"


def test_an_unknown_stage_is_named() -> None:
    with pytest.raises(InvalidArgument, match="unknown stage 'gards'; accepted: source, bytecode"):
        check_stages(["gards"])


def test_what_is_kept_for_gradients_is_a_stage() -> None:
    x = torch.randn(8, requires_grad=True)
    with recording(EVENTS, STAGES.values()) as recorded:
        onegraph.compile(lambda x: x.sin().sin())(x)
    (section,) = [item for item in sections(recorded) if item.stage == "gradients"]
    assert "keeps 32 bytes for gradients in 1 value, computes 3 again" in section.headline
    assert [line.partition(":")[0] for line in section.text.splitlines()] == [
        "keep x",
        "again sin_default",
        "again cos_default",
        "again cos_default_1",
    ]
    assert "32 bytes" in section.text.splitlines()[1] and "test_stages.py" in section.text.splitlines()[1]
