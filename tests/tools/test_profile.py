"""Stages are counted without those inside of them."""

from __future__ import annotations

from onegraph.base.events import PassRun, StageTimed
from onegraph.tools.profile import Profile


def test_a_stage_is_counted_without_what_is_inside_of_it() -> None:
    now = [0.0]
    profile = Profile(lambda: now[0])
    for end, stage, seconds in ((2, "functionalize", 1), (7, "compile", 4), (8, "translate", 7), (12, "translate", 1)):
        if stage == "compile":
            now[0] = 5
            profile.note(PassRun(None, "schedule", "fuse", 1.5, ""))
        now[0] = end
        profile.note(StageTimed(None, stage, seconds))
    now[0] = 13
    profile.end()
    assert profile.rows() == [
        ("run", 1, 5.0),
        ("capture", 2, 3.0),
        ("compile: link", 1, 2.5),
        ("schedule: fuse", 1, 1.5),
        ("functionalize: trace", 1, 1.0),
    ]
    assert str(profile).startswith("13.000 s of the processor in 5 stages; the slowest is 'capture'.")
