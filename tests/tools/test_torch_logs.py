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
from onegraph.tools.torch_log_names import ROUTES, SILENT

PROGRAM = """
import os, sys, torch, onegraph

def f(x):
    y = x + 1
    print("here")
    return y * 2

compiled = onegraph.compile(f, backend=os.environ.get("BACKEND", "eager"), options={"cache": False})
compiled(torch.ones(2))
compiled(torch.ones(2, 2))
for size in map(int, os.environ.get("SIZES", "2").split(",")):
    compiled(torch.ones(size))
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


def test_every_channel_has_a_logger_of_torch() -> None:
    assert set(ROUTES) == set(channels())


def test_every_artifact_of_torch_is_said_or_silent() -> None:
    said = {artifact for route in ROUTES.values() for artifact in route.artifacts}
    assert not said & SILENT.keys()
    known = torch._logging._internal.log_registry.artifact_names
    assert {name for name in known if name not in said | SILENT.keys()} == set()


def test_levels_of_stages() -> None:
    text = logged(TORCH_LOGS="dynamo")
    assert "[frames] f (" in text and "[graph_breaks] f (" in text and "[graph_code]" not in text
    text = logged(TORCH_LOGS="+dynamo")
    assert "[frames] f (" in text and "[graph_code] f (" in text and "[residual] f (" in text
    assert logged(TORCH_LOGS="-dynamo") == ""
    aten = logged(TORCH_LOGS="+aot", BACKEND="native")
    assert "[aten] f (" in aten and "[output_code]" not in aten and "[frames]" not in aten
    kernels = logged(TORCH_LOGS="+inductor", BACKEND="native")
    assert "[output_code] f (" in kernels and "[memory] f (" in kernels and "[aten]" not in kernels


@pytest.mark.parametrize(
    ("name", "channel"), [("recompiles_verbose", "recompiles"), ("verbose_guards", "guards"), ("graph", "graph_code")]
)
def test_names_that_mean_the_same(name: str, channel: str) -> None:
    assert f"[__{name}] [{channel}] f (" in logged(TORCH_LOGS=name)


def test_symbolic_sizes() -> None:
    text = logged(TORCH_LOGS="dynamic", SIZES="3,4")
    assert "[dynamic] f (" in text and "s0 is x.size(0), now 3" in text and "[frames]" not in text


def test_what_has_nothing_to_say() -> None:
    text = logged(TORCH_LOGS="cudagraph_static_inputs,perf_hints")
    assert text.count("TORCH_LOGS names cudagraph_static_inputs, under which onegraph says nothing: parameters") == 1
    assert "perf_hints, under" not in text


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
