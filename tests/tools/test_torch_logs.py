"""torch's own switches for logs: `TORCH_LOGS`, and `torch._logging.set_logs` at run time."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

import onegraph
from onegraph.base.events import channels
from onegraph.tools.logs import ARTIFACTS

PROGRAM = """
import sys, torch, onegraph

def f(x):
    y = x + 1
    print("here")
    return y * 2

compiled = onegraph.compile(f, backend="eager")
compiled(torch.ones(2))
compiled(torch.ones(2, 2))
assert not any(name.startswith(("torch._dynamo", "torch._inductor")) for name in sys.modules)
"""


def logged(**environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_chosen_by_the_environment() -> None:
    text = logged(TORCH_LOGS="graph_breaks,recompiles")
    assert text.count("[__graph_breaks] [graph_breaks] f (") >= 2
    assert "Hint: print in front of or behind the compiled function" in text
    assert "[__recompiles] [recompiles] f (" in text and "[graph_code]" not in text


def test_nothing_is_logged_unasked() -> None:
    assert logged() == ""


def test_every_matching_channel_exists() -> None:
    assert set(ARTIFACTS) <= set(channels())


class Kept(logging.Handler):
    """Keeps what torch's loggers would print."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage().splitlines()[0])


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler = Kept()
    torch._logging.set_logs()
    logging.getLogger("torch._dynamo").addHandler(handler)
    yield handler
    logging.getLogger("torch._dynamo").removeHandler(handler)
    torch._logging.set_logs()


def test_switched_on_and_off_at_run_time(kept: Kept) -> None:
    def f(x):
        print("here")
        return x + 1

    def run() -> None:
        onegraph.compile(f, backend="eager")(torch.ones(2))

    run()
    assert kept.lines == []
    torch._logging.set_logs(graph_breaks=True, graph_code=True)
    logging.getLogger("torch._dynamo").addHandler(kept)  # set_logs puts its own handlers there
    run()
    assert [line.partition(" ")[0] for line in kept.lines] == ["[graph_breaks]", "[graph_code]"]
    torch._logging.set_logs(graph_breaks=False)
    kept.lines.clear()
    run()
    assert kept.lines == []
