"""Records of native code that hold more than the items of their tuple: another call may hold other fields."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch


@pytest.mark.parametrize(
    "record",
    [
        os.stat_result((33188, 1, 2, 1, 0, 0, 5, 6, 7, 8, 6.5, 7.5, 8.5, 1, 2, 3)),
        time.struct_time((2024, 1, 2, 3, 4, 5, 6, 7, 0, "UTC", 0)),
    ],
)
def test_the_use_of_one_breaks_the_graph(record: Any) -> None:
    def f(x: torch.Tensor, record: Any) -> Any:
        return x * record[3], repr(record), record

    x = torch.rand(2)
    with Watch() as watch:
        product, text, same = onegraph.compile(f, backend="eager")(x, record)
    assert torch.equal(product, x * record[3]) and text == repr(record) and same is record
    assert {event.code for event in watch.of(ev.GraphBroken)} == {"outside-native-object"}
