"""Programs that use the standard library, each as one graph, in two worlds: eager and compiled."""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
from types import ModuleType

import pytest

from tests.capture import twins

FILES = sorted(f"whole/{path.stem}" for path in (twins.PROGRAMS / "whole").glob("*.py"))
PROGRAMS = [(stem, name) for stem in FILES for name in twins.names(stem)]
#: One in so many runs by default.
QUICK = 4
SOURCES = "".join((twins.PROGRAMS / f"{stem}.py").read_text() for stem in FILES)
#: What is not for compiled code: coroutines, the process's streams and folder, placeholders of `functools`, and what
#: only changes the in-place operators of numbers into calls.
ELSEWHERE = frozenset(
    """asynccontextmanager aclosing AsyncContextDecorator AsyncExitStack AbstractAsyncContextManager redirect_stdout
    redirect_stderr chdir Placeholder imatmul""".split()
)


#: Up to Python 3.13 native iterators say what they are made of. Later ones break the graph where they are looked into.
TAKEN_APART = "__reduce__" in vars(itertools.cycle)
ITERATORS = ("whole/iterators",)
OF_ITERATORS = ("itertools_cycle", "itertools_repeat")


@pytest.mark.parametrize(
    ("stem", "name"),
    [pytest.param(*program, marks=[pytest.mark.slow] * bool(at % QUICK)) for at, program in enumerate(PROGRAMS)],
)
def test_program_is_one_graph(stem: str, name: str) -> None:
    twins.check(stem, name, "eager", fullgraph=TAKEN_APART or not (stem in ITERATORS or name in OF_ITERATORS))


@pytest.mark.parametrize("module", [functools, itertools, contextlib, operator], ids=lambda module: module.__name__)
def test_programs_use_all_of_the_module(module: ModuleType) -> None:
    names = getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")]
    prefix = "o." if module is operator else f"{module.__name__}."
    unused = {name for name in names if f"{prefix}{name}" not in SOURCES and f"operator.{name}" not in SOURCES}
    assert unused <= ELSEWHERE
