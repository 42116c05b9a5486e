"""Memory is flat: a thousand functions, modules and versions, compiled, called, dropped and reset, leave nothing.

Run as a program (`python -m tests.capture.test_flat_memory module-grad --count 1000`) it shows what is left, by type.
"""

from __future__ import annotations

import argparse
import gc
import resource
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import onegraph

X = torch.ones(3)
SOURCE = "def f(x, n=1):\n    return (x + n) * 2\n"


def function(backend: str) -> None:
    namespace: dict[str, Any] = {}
    exec(SOURCE, namespace)
    onegraph.compile(namespace["f"], backend=backend)(X)


def module(backend: str) -> None:
    with torch.no_grad():
        onegraph.compile(torch.nn.Linear(3, 3), backend=backend)(X)


def module_with_gradients(backend: str) -> None:
    onegraph.compile(torch.nn.Linear(3, 3), backend=backend)(X).sum().backward()


def recompilation(backend: str) -> None:
    namespace: dict[str, Any] = {}
    exec(SOURCE, namespace)
    compiled = onegraph.compile(namespace["f"], backend=backend)
    for n in (1, 1.5, True):
        compiled(X, n)
    compiled(X[:2])


MAKERS: dict[str, Callable[[str], None]] = {
    "function": function,
    "module": module,
    "module-grad": module_with_gradients,
    "recompilation": recompilation,
}


def objects() -> Counter[str]:
    """How many objects of each type there are when all has been reset."""
    for _ in range(2):  # what is garbage now may be the last that holds what is forgotten next
        onegraph.reset()
        gc.collect()
    return Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())


def resident() -> int:
    """The kilobytes of memory that the process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 1024


def measured(maker: Callable[[str], None], backend: str, count: int) -> list[tuple[Counter[str], int]]:
    """The objects, and the kilobytes of memory, after each fifth of so many."""
    found = []
    for _ in range(5):
        for _ in range(count // 5):
            maker(backend)
        found.append((objects(), resident()))
    return found


def check_flat(name: str, backend: str, count: int, kilobytes: float) -> None:
    """Between the second and the last fifth nothing grows by an object for five, or by so much memory for each."""
    found = measured(MAKERS[name], backend, count)
    (before, small), (after, large) = found[1], found[-1]
    made = count * 3 // 5
    assert sum(after.values()) - sum(before.values()) < made // 5, (after - before).most_common(9)
    assert large - small < made * kilobytes, [memory for _, memory in found]


@pytest.mark.parametrize("name", MAKERS)
def test_a_hundred_leave_nothing(name: str) -> None:
    check_flat(name, "eager", 100, kilobytes=20)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", MAKERS)
def test_a_thousand_leave_nothing(name: str, backend: str) -> None:
    check_flat(name, backend, 1000, kilobytes=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=MAKERS)
    parser.add_argument("--backend", default="native")
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    last: Counter[str] = Counter()
    for counts, memory in measured(MAKERS[options.name], options.backend, options.count):
        print(f"{sum(counts.values())} objects, {memory} KB; more: {(counts - last).most_common(6) if last else ''}")
        last = counts


if __name__ == "__main__":
    main()
