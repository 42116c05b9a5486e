"""Calls that were read: an index that is none of their graphs' is refused, and what was written is accepted."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from capture.kept.children import in_child
from capture.kept.hostile_captures import opened
from capture.kept.test_processes import PROGRAMS, outcome
from compiler.hostile_entries import places

from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.base.disk_cache import DIGEST, KEY, MAGIC
from onegraph.reloading import reloaded


@pytest.mark.parametrize(
    "name", ["training", "AdamW", "inference", "norms of batches", "a break in a function that is called"]
)
def test_numbers_of_calls_are_looked_at(name: str, tmp_path: Path) -> None:
    in_child(outcome, PROGRAMS[name], tmp_path)
    cx, tried = Context(Config(cache_dir=tmp_path)), 0
    for entry in (tmp_path / "captures").iterdir():
        parts = opened(entry.read_bytes()[len(MAGIC) + DIGEST :]) if KEY.fullmatch(entry.name) else {}
        if parts.get("made") is None:
            continue
        whole = json.loads(base64.b64decode(parts["made"]))
        outputs = parts["rows"][parts["fallback"][-1]][1]

        def read(outputs: int = outputs, whole: object = whole) -> object:
            return reloaded(json.dumps(whole).encode(), cx, outputs, lambda: None)

        assert read() is not None
        with pytest.raises(ValueError, match="outputs"):
            read(outputs + 1)
        for half in [container for container, index in places(whole) if index == "Half"]:
            half["Half"][4] = {"set": []}  # what is freed are labels
        for container, index in places(whole):
            was = container[index]
            if type(was) is not int:
                continue
            for number in (-1, 1 << 40):
                container[index] = number
                with pytest.raises(ValueError, match="no call of these graphs"):
                    read()
            container[index] = was
            tried += 1
        assert read() is not None
    assert tried or name == "inference"
