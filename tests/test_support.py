"""Where onegraph cannot run, one sentence says why, and programs run as they are written."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch  # noqa: F401 - what is run in processes of their own needs it

import onegraph
from onegraph import eagerly

PROGRAM = """
import torch, onegraph

@onegraph.compile
def f(x):
    onegraph.graph_break()
    return x + 1

model = onegraph.compile(torch.nn.Linear(2, 2), fullgraph=True, dynamic=True)
with onegraph.set_stance("force_eager"), onegraph.error_on_graph_break(False):
    print(f(torch.ones(2)).tolist(), tuple(model(torch.ones(1, 2)).shape), onegraph.is_compiling())
"""

#: What is done before the program begins, and how the reason reads.
SITUATIONS = {
    "PyPy": (
        "import platform; platform.python_implementation = lambda: 'PyPy'",
        f"needs CPython 3.11 to 3.14, and this is PyPy {sys.version_info[0]}.{sys.version_info[1]}",
    ),
    "older Python": (
        "import platform; platform.python_version_tuple = lambda: ('3', '10', '4')",
        "needs CPython 3.11 to 3.14, and this is CPython 3.10",
    ),
    "free-threaded": (
        "import sysconfig; sysconfig.get_config_vars()['Py_GIL_DISABLED'] = 1",
        "needs a Python with the global interpreter lock, and this one is free-threaded",
    ),
    "no extension": (
        "import sys; sys.modules['onegraph._C'] = None",
        "was installed without its C extension, which needs a C compiler (gcc or clang) where onegraph is built",
    ),
    "older torch": (
        "import torch; torch.__version__ = torch.torch_version.TorchVersion('2.10.1')",
        "needs torch 2.11 to 2.15, and this is torch 2.10.1",
    ),
    "a name is gone": (
        "import torch; torch.__version__ = torch.torch_version.TorchVersion('2.99.0')\n"
        "del torch._C._len_torch_dispatch_stack",
        "does not know torch 2.99.0 (it knows torch 2.11 to 2.15; module 'torch._C' has no attribute",
    ),
    "no llvmlite": (
        "import sys; sys.modules['llvmlite'] = None",
        "needs llvmlite, which `pip install llvmlite` installs",
    ),
}


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], env=os.environ, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_one_sentence_says_why_calls_run_eagerly(situation: str) -> None:
    before, reason = SITUATIONS[situation]
    done = run(before + "\n" + PROGRAM)
    assert done.stdout == "[2.0, 2.0] (1, 2) False\n", done.stderr
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith(f"onegraph {reason}")
    assert sentence.endswith("what is given to onegraph.compile runs eagerly, as it is written")


def test_a_subinterpreter_is_told() -> None:
    names = ("_interpreters", "_xxsubinterpreters", "interpreters")
    body = "import onegraph; assert onegraph.compile(abs) is abs"
    code = f"""
import importlib
for name in {names}:
    try:
        interpreters = importlib.import_module(name)
        break
    except ImportError:
        pass
import sys
assert interpreters.run_string(interpreters.create(), {f"import sys; sys.path[:] = {sys.path!r}; " + body!r}) is None
"""
    done = run(code)
    assert done.returncode == 0, done.stderr
    assert "onegraph runs in the main interpreter of a process, and this is a subinterpreter" in done.stderr


def test_a_newer_torch_is_named_once_and_runs() -> None:
    done = run(
        "import torch; torch.__version__ = torch.torch_version.TorchVersion('2.16.0')\n"
        + PROGRAM
        + "onegraph.reset(); print(onegraph.list_backends())"
    )
    assert done.stdout.startswith("[2.0, 2.0] (1, 2) False\n"), done.stderr
    assert "native" in done.stdout
    assert done.stderr.count("torch 2.16.0 is newer than what this release of onegraph was tested with") == 1


def test_every_public_name_is_there_without_support() -> None:
    for name in onegraph.__all__:
        assert hasattr(eagerly, name) or onegraph._HOME[name].startswith("onegraph.base.")
