"""What interrupts a compilation: signals, finalizers, forks, errors of onegraph itself, and its own functions.

Each test is a process of its own: what goes wrong here ends it, or makes it wait for ever.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch  # noqa: F401 - what is run in processes of their own needs it
from import_graph import ROOT

PATIENCE = 300  # seconds, after which a process hangs

START = """
import faulthandler, os, signal, sys, threading, time
faulthandler.dump_traceback_later(PATIENCE, exit=True)
import torch, onegraph
torch.set_num_threads(1)
x = torch.ones(4, 5)
""".replace("PATIENCE", str(PATIENCE))


def run(*arguments: str, folder: Path) -> str:
    """The output of a Python process with these arguments, which must end well."""
    paths = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    environment = {**os.environ, "PYTHONPATH": paths, "ONEGRAPH_CACHE_DIR": str(folder)}
    environment.pop("ONEGRAPH_RAISE_COMPILER_ERRORS", None)
    found = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert found.returncode == 0, f"{found.stdout}\n{found.stderr}"
    return found.stdout + found.stderr


def program(text: str, folder: Path) -> str:
    return run("-c", START + text, folder=folder)


def test_signals_at_random_moments(tmp_path: Path) -> None:
    assert "40 signals, 0 of them" in run("-m", "tests.faults", "--signals", "40", folder=tmp_path)


def test_forks_while_another_thread_compiles(tmp_path: Path) -> None:
    assert "12 forks, 0 of them" in run("-m", "tests.faults", "--forks", "12", folder=tmp_path)


@pytest.mark.parametrize("name", ["infer", "module", "broken"])
def test_functions_that_raise(name: str, tmp_path: Path) -> None:
    found = run("-m", "tests.faults", "--program", name, "--sample", "5", "--seed", "3", folder=tmp_path)
    assert "20 accidents, 0 of them" in found


def test_threads_that_compile_first_at_the_same_time(tmp_path: Path) -> None:
    text = """
sys.setswitchinterval(1e-6)
begin, equal = threading.Barrier(6), []
def first(number):
    f = onegraph.compile(lambda x: x * number + x.sin(), fullgraph=True, options={"raise_compiler_errors": True})
    begin.wait()
    torch.testing.assert_close(f(x), x * number + x.sin())
    equal.append(number)
threads = [threading.Thread(target=first, args=(number,)) for number in range(6)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(*sorted(equal))
"""
    assert program(text, tmp_path).split() == [*"012345"]


def test_a_timeout_while_a_graph_runs_is_not_taken_for_its_failure(tmp_path: Path) -> None:
    text = """
class Late(Exception): pass
def late(number, frame): raise Late
signal.signal(signal.SIGALRM, late)
def backend(module, examples):
    def call(*inputs):
        signal.raise_signal(signal.SIGALRM)
        return module(*inputs)
    return call
f = onegraph.compile(lambda x: x.sin() + 1, backend=backend)
for _ in range(3):
    try: f(x); print("lost")
    except Late: print("came")
"""
    assert program(text, tmp_path).split() == ["came"] * 3


def test_a_handler_that_compiles(tmp_path: Path) -> None:
    text = """
from onegraph.base.work import work
ran = []
def tick(number, frame):
    k = len(ran)
    ran.append(onegraph.compile(lambda x: x * k + .5)(x)[0, 0].item() == k + .5)
    signal.setitimer(signal.ITIMER_REAL, .02)  # not before: on a slow machine, handlers interrupt one another
signal.signal(signal.SIGALRM, tick)
signal.setitimer(signal.ITIMER_REAL, .02)
for k in range(12):
    found = onegraph.compile(lambda x: (x * k).sin() + x.exp() * k)(x)
    assert torch.allclose(found, (x * k).sin() + x.exp() * k, atol=1e-5)
signal.signal(signal.SIGALRM, signal.SIG_IGN)
print(len(ran) > 2 and all(ran))
"""
    assert program(text, tmp_path).split() == ["True"]


def test_a_finalizer_and_a_backend_that_compile(tmp_path: Path) -> None:
    text = """
found = []
class Last:
    def __del__(self):
        w = x.clone().requires_grad_()
        y = onegraph.compile(lambda x: (x * 3).sum())(w)
        y.backward()
        found.append((y.item(), w.grad.sum().item()))
def backend(module, examples):
    last = Last()
    del last
    found.append(onegraph.compile(lambda x: x * 2)(x).sum().item())
    return module
print(onegraph.compile(lambda x: x + 1, backend=backend)(x).sum().item(), found)
from onegraph.compiler.codegen import native
inner = native.missing_functions
def missing(code):
    last = Last()
    del last
    return inner(code)
native.missing_functions = missing
print(onegraph.compile(lambda x: x.sin() * 5 + 1, options={"cache": False})(x)[0, 0].item() > 5, len(found))
"""
    assert program(text, tmp_path).splitlines() == ["40.0 [(60.0, 60.0), 40.0]", "True 3"]


def test_a_module_whose_import_was_interrupted_is_imported_again(tmp_path: Path) -> None:
    text = """
import importlib, pkgutil
onegraph.compile(lambda x: (x + 1).sum())(x)
own = [m.name for m in pkgutil.walk_packages(onegraph.__path__, "onegraph.") if m.name in sys.modules]
own = [name for name in own if "." in name[len("onegraph."):] and not hasattr(sys.modules[name], "__path__")]
for name in own:
    package, _, last = name.rpartition(".")
    module, attribute = sys.modules.pop(name), getattr(sys.modules[package], last)
    importlib.import_module(name)
    sys.modules[name] = module
    setattr(sys.modules[package], last, attribute)
onegraph.reset()
print(len(own) > 200, onegraph.compile(lambda x: (x + 1).sum())(x).item())
"""
    assert program(text, tmp_path).split() == ["True", "40.0"]


def test_a_kernel_for_whose_code_there_is_no_memory(tmp_path: Path) -> None:
    text = """
import resource
f = onegraph.compile(lambda x, w: torch.softmax(torch.relu(x @ w) * 2, -1).sum(0), options={"cache": False})
w = torch.ones(5, 5)
f(x, w)
onegraph.reset()
used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
resource.setrlimit(resource.RLIMIT_AS, (used + (24 << 20), resource.getrlimit(resource.RLIMIT_AS)[1]))
print(f(x, w).sum().item())
"""
    found = program(text, tmp_path)
    assert found.count("there is no memory to compile <lambda>") == 1 and "4.0" in found and "defect" not in found


def test_public_functions_in_compiled_code(tmp_path: Path) -> None:
    assert run(str(ROOT / "tests" / "faults" / "public.py"), folder=tmp_path).split() == ["all", "as", "eager"]
