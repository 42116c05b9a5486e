"""What a new process imports: a call that fits what is on disk needs no stage that captures or compiles."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import torch  # noqa: F401  without which there is nothing to look at

#: The stages: nothing of them is imported before a frame is captured.
STAGES = (
    "onegraph.autograd", "onegraph.backends", "onegraph.compiler", "onegraph.export", "onegraph.ir",
    "onegraph.capture.breaks", "onegraph.capture.bytecode", "onegraph.capture.calls", "onegraph.capture.capture_frame",
    "onegraph.capture.directives.handlers", "onegraph.capture.heap", "onegraph.capture.interp.machine",
    "onegraph.capture.policy", "onegraph.capture.symbolic.shapes", "onegraph.capture.tracer",
    "onegraph.capture.translate", "onegraph.torchlib.fake", "onegraph.torchlib.layouts", "llvmlite",
)  # fmt: skip
PROGRAM = """
import json, sys
import torch
def new():
    return sorted(sys.modules.keys() - before)
before = set(sys.modules)
import onegraph
report = [new()]
f = onegraph.compile(lambda x: x + 1)
onegraph.compile(torch.nn.Linear(2, 2))
report.append(new())
f(torch.ones(4))
report.append(new())
print(json.dumps(report))
"""


#: What makes captures, beside the stages that have no part in what is found.
MAKING = (
    "onegraph.backends", "onegraph.capture.breaks", "onegraph.capture.bytecode", "onegraph.capture.capture_frame",
    "onegraph.capture.heap.world", "onegraph.capture.interp.machine", "onegraph.capture.policy",
    "onegraph.capture.symbolic.shapes", "onegraph.capture.tracer", "onegraph.capture.translate",
    "onegraph.compiler.codegen.native", "onegraph.compiler.lower.lowerer", "onegraph.compiler.pipeline",
    "onegraph.compiler.schedule",
    "onegraph.torchlib.fake", "onegraph.torchlib.layouts", "llvmlite",
)  # fmt: skip
FOUND = """
import json, sys
import torch
import onegraph
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
    def forward(self, x):
        sys.getrecursionlimit()
        return self.layer(x).relu() if isinstance(x, torch.Tensor) else x
f = onegraph.compile(Model())
with torch.no_grad():
    f(torch.ones(3, 4))
print(json.dumps(sorted(sys.modules)))
"""


@cache
def report() -> list[list[str]]:
    """The modules beside those of torch: behind the import, behind `compile`, behind the first call."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=os.environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found: list[list[str]] = json.loads(done.stdout)
    return found


def test_the_import_brings_nothing_else() -> None:
    assert {*report()[0]} <= {"onegraph"}  # which torch has imported, where the package is installed


def test_what_is_compiled_brings_no_stage() -> None:
    modules = report()[1]
    assert not [name for name in modules if any(name == stage or name.startswith(f"{stage}.") for stage in STAGES)]
    assert len(modules) < 110


def test_the_first_call_brings_what_it_needs() -> None:
    assert not [name for name in report()[2] if name.startswith(("torch._dynamo", "torch._inductor", "torch._decomp"))]
    assert "onegraph.capture.translate" in report()[2]
    assert len(report()[2]) < 570


def test_a_call_that_is_found_on_disk_brings_nothing_that_makes_captures(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(FOUND)
    env = {**os.environ, "ONEGRAPH_VERIFY": "0", "ONEGRAPH_CACHE_DIR": str(tmp_path / "cache")}
    for found in (False, True):
        done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        modules: list[str] = json.loads(done.stdout)
        made = [name for name in modules if any(name == each or name.startswith(f"{each}.") for each in MAKING)]
        assert bool(made) is not found, made
