"""What is said of a function in the table of calls stands in one place."""

from __future__ import annotations

import subprocess
import sys

from onegraph.capture.calls import registry

PROGRAM = """
import collections
import importlib
import sys

registry = importlib.import_module(sys.argv[1])
said = collections.defaultdict(list)
originals = registry.policy, registry.native, registry.breaks

def policy(*functions, **options):
    note("handler", functions)
    return originals[0](*functions, **options)

def native(depth, *functions):
    note("depth", functions)
    return originals[1](depth, *functions)

def breaks(reason, *functions):
    note("break", functions)
    return originals[2](reason, *functions)

def note(what, functions):
    for function in functions:
        said[id(function), registry.public_name(function)].append(what)

registry.policy, registry.native, registry.breaks = policy, native, breaks
import onegraph.capture.translate  # which brings all of them

for (_, name), what in said.items():
    if len(set(what)) < len(what) or "break" in what and len(what) > 1:
        print(name, *what)
print(len(said))
"""


def test_functions_are_declared_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, registry.__name__], capture_output=True, text=True, check=True
    )
    *twice, count = done.stdout.splitlines()
    assert twice == []
    assert int(count) > 500
