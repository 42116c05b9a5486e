"""Runs CPython's own tests natively and in another way, and prints the tests whose outcome differs.

    python cpython_suite.py encoded|interpreted|compiled MODULE[:PART OF A TEST'S NAME]...

`encoded`: the test module is compiled, decoded, encoded and run. `interpreted`: each test case, with the machinery of
unittest around it, is interpreted. `compiled`: each test function is compiled by onegraph, backend "eager" (on Pythons
that have torch). A process of its own, so that these tests find the world that they expect.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import subprocess
import sys
import types
import unittest
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from onegraph.capture.bytecode import decode, encode
from onegraph.capture.interp.machine import Machine

#: Where modules are found before any test has changed it.
PATH = tuple(sys.path)

# These change what our interpreter itself stands on, and leave it so when they fail.
NOT_INTERPRETED = ("lru_reentrancy_with_len",)


def available(names: tuple[str, ...]) -> list[str]:
    """Those of CPython's test modules that are installed: some distributions leave them out."""
    if importlib.util.find_spec("test") is None:
        return []
    return [name for name in names if importlib.util.find_spec(f"test.{name}")]


def start(mode: str, name: str, timeout: int = 200) -> tuple[int, dict[str, str]]:
    """Run a test module in a process of its own: how many tests ran, and those that pass natively only."""
    path = os.pathsep.join(p for p in PATH if p)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(Path(__file__)), mode, name],
        env={**os.environ, "PYTHONPATH": path, "ONEGRAPH_RAISE_COMPILER_ERRORS": "1"},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr
    count, differing = json.loads(done.stdout)[name]
    return count, differing


def deeply_encoded(code: types.CodeType) -> types.CodeType:
    """A code object and all within it, decoded and encoded."""
    constants = tuple(deeply_encoded(c) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    return encode(decode(code.replace(co_consts=constants)))


def encoded_module(name: str) -> types.ModuleType:
    """A fresh module from encoded code, not registered in `sys.modules`."""
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None
    with warnings.catch_warnings(), open(spec.origin, "rb") as source:
        warnings.simplefilter("ignore")
        code = compile(source.read(), spec.origin, "exec", dont_inherit=True)
    module = importlib.util.module_from_spec(spec)
    exec(deeply_encoded(code), module.__dict__)
    return module


def cases(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from cases(test)
        else:
            yield test


Run = Callable[[unittest.TestCase, unittest.TestResult], None]


def failures(module: types.ModuleType, run: Run, part: str = "") -> dict[str, str]:
    """The tests of a module that do not pass, and why; only those with `part` in their name."""
    failed: dict[str, str] = {}
    classes: dict[type, bool] = {}
    for test in cases(unittest.defaultTestLoader.loadTestsFromModule(module)):
        if type(test) not in classes:
            try:
                test.setUpClass()
                classes[type(test)] = True
            except unittest.SkipTest:
                classes[type(test)] = False
        if not classes[type(test)] or part not in test.id():
            continue
        if run is interpreted and any(name in test.id() for name in NOT_INTERPRETED):
            continue
        result = unittest.TestResult()
        try:
            run(test, result)
        except BaseException as error:  # whatever gets out of a test is its failure
            failed[test.id()] = repr(error)
        for _, text in result.failures + result.errors:
            failed[test.id()] = text
        failed.setdefault("tests", "0")
        failed["tests"] = str(int(failed["tests"]) + 1)
    return failed


def natively(test: unittest.TestCase, result: unittest.TestResult) -> None:
    test.run(result)


def interpreted(test: unittest.TestCase, result: unittest.TestResult) -> None:
    Machine().call(test.run, (result,), {})


def compiled(test: unittest.TestCase, result: unittest.TestResult) -> None:
    onegraph = importlib.import_module("onegraph")
    onegraph.reset()
    name = test._testMethodName
    setattr(test, name, onegraph.compile(getattr(test, name), backend="eager"))
    test.run(result)


def differences(mode: str, name: str) -> tuple[int, dict[str, str]]:
    """How many tests ran, and those that pass natively only."""
    name, _, part = name.partition(":")
    module = importlib.import_module(f"test.{name}")
    native = failures(module, natively, part)
    if mode == "encoded":
        module = encoded_module(f"test.{name}")
        sys.modules[f"test.{name}"] = module
        other = failures(module, natively, part)
    else:
        other = failures(module, {"interpreted": interpreted, "compiled": compiled}[mode], part)
    return int(other.pop("tests", "0")), {test: why for test, why in other.items() if test not in native}


def main(mode: str, *names: str) -> None:
    report = {}
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            report[name] = differences(mode, name)
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
