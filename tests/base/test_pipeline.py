from __future__ import annotations

import pytest

from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.base.events import Event, PassRun, text_of
from onegraph.base.pipeline import Pass, run_passes

DOUBLE = Pass("double", lambda program, cx: program * 2, "first, so that increments are not doubled")
INCREMENT = Pass("increment", lambda program, cx: program + 1, "last")


def test_passes_run_in_order_and_tell(cx: Context, emitted: list[Event]) -> None:
    assert run_passes(3, [DOUBLE, INCREMENT], cx, dump=str, stage="sums") == 7
    assert [(event.stage, event.name, text_of(event.text)) for event in emitted if isinstance(event, PassRun)] == [
        ("sums", "double", "6"),
        ("sums", "increment", "7"),
    ]


def test_the_check_runs_before_and_after_each_pass_when_verifying(cx: Context) -> None:
    checked: list[int] = []
    run_passes(3, [DOUBLE, INCREMENT], cx, check=checked.append)
    assert checked == [3, 6, 7]
    run_passes(3, [DOUBLE, INCREMENT], Context(Config(verify=False)), check=checked.append)
    assert checked == [3, 6, 7]


def test_an_error_names_its_pass(cx: Context) -> None:
    def refuse(program: int) -> None:
        if program == 6:
            raise ValueError("even")

    with pytest.raises(ValueError, match="even") as caught:
        run_passes(3, [DOUBLE, INCREMENT], cx, check=refuse, stage="sums")
    assert caught.value.__notes__ == ["in pass 'double' of the stage 'sums'"]
