"""What users see of the package once torch is loaded."""

from __future__ import annotations

import os
import subprocess
import sys

import torch

import onegraph

STOCK = ("torch._dynamo", "torch._inductor")


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, timeout=120
    )


def test_every_public_name_exists() -> None:
    assert all(getattr(onegraph, name) is not None for name in onegraph.__all__)
    assert torch.is_tensor(onegraph.compile(torch.nn.ReLU())(torch.ones(2)))


def test_compile_stays_the_function_when_the_driver_is_imported() -> None:
    done = run("import onegraph.compile, onegraph; print(type(onegraph.compile).__name__)")
    assert done.stdout.strip() == "function", done.stderr


def test_the_stock_compiler_is_never_loaded() -> None:
    done = run(
        "import sys, torch, onegraph\n"
        "model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU()).eval()\n"
        "with torch.no_grad(): onegraph.compile(model)(torch.randn(2, 4))\n"
        f"print([name for name in {STOCK} if name in sys.modules])"
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_logs_are_chosen_by_the_environment() -> None:
    code = "import torch, onegraph; onegraph.compile(lambda x: x + 1, backend='eager')(torch.ones(2))"
    done = run(code, ONEGRAPH_LOGS="graph_code")
    assert done.stderr.startswith("[graph_code] <lambda> (<string>:1): captured a graph of 1 operation and 1 input\n")
    assert run(code).stderr == ""


def test_an_unknown_channel_is_an_error_at_once() -> None:
    done = run("import onegraph; onegraph.compile", ONEGRAPH_LOGS="gards")
    assert "unknown log channel 'gards' (did you mean 'guards'?); accepted: all, frames" in done.stderr
