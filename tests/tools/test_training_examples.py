"""The examples of training: what is compiled learns what eager learns, from data that packages bring along."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from import_graph import ROOT


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    yield __import__("train")
    for name in ("train", "lessons"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("key", ["digits", "letters", "libraries"])
def test_losses_are_those_of_eager(examples: Any, key: str) -> None:
    report = examples.train(examples.LESSONS[key](), steps=3)
    torch.testing.assert_close(*map(torch.tensor, report.losses), rtol=1e-4, atol=1e-4)
    assert report.results[0] == pytest.approx(report.results[1], abs=0.05)


def test_what_is_learnt_is_drawn(examples: Any, tmp_path: Any) -> None:
    report = examples.train(examples.LESSONS["digits"](), steps=2)
    assert examples.draw(report, tmp_path).stat().st_size > 10_000
    assert [column.header for column in examples.table([report]).columns][:2] == ["model", "steps"]


def test_an_unknown_lesson_is_named(
    examples: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, said in (
        (["chess"], "unknown lesson 'chess'; accepted: digits, letters, libraries"),
        (["digits", "--steps", "0"], "--steps takes a whole number above 0, got 0"),
    ):
        monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
        with pytest.raises(SystemExit):
            examples.main()
        assert said in capsys.readouterr().err
