"""`onegraph.minify`: from a call that fails to a small program that fails alone.

A graph fails if its backend raises, or if what it has made raises or differs where eager mode does not. The first graph
of the call that does is shrunk as long as it fails in the same way, and written with its inputs to a program.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ParamSpec

from onegraph.backend_registry import Backend
from onegraph.base.dataclass import dataclass
from onegraph.base.errors import InvalidArgument
from onegraph.base.events import Location
from onegraph.base.text import Printer, plural
from onegraph.capture.directives.hatches import beside
from onegraph.tools.verification.call import Call
from onegraph.tools.verification.failing import WHOLE
from onegraph.tools.verification.graphs import captured
from onegraph.tools.verification.narrow import Narrowed, first_narrowed, step_of
from onegraph.tools.verification.request import Request
from onegraph.tools.verification.stages import Step
from onegraph.tools.verification.trial import Trial

P = ParamSpec("P")
MOST = 5  # lines of the program that are shown


@dataclass(frozen=True, slots=True)
class Minified:
    """What became of a call: `failure` says how its graph `number` of `graphs` fails, and is empty if none does.

    `operators` counts those of the graph in the call, and `left` those of the small one, whose text is `code`; `lines`
    are those of the program that these are of. `step` is the stage that makes it fail. `file` is the program that
    fails; None where the graph holds what no program can name.
    """

    name: str
    graphs: int
    failure: str = ""
    number: int = 0
    frame: Location | None = None
    operators: int = 0
    left: int = 0
    code: str = ""
    lines: tuple[Location, ...] = ()
    step: Step = Step()
    file: Path | None = None

    def __bool__(self) -> bool:
        """Whether a graph fails."""
        return bool(self.failure)

    def __str__(self) -> str:
        out = Printer()
        if not self.failure:
            out.line(f"{self.name}: of {plural(self.graphs, 'graph')}, none fails alone.")
            return out.text()
        at = f", of {self.frame}" if self.frame else ""
        out.line(f"{self.name}: graph {self.number} of {self.graphs}{at} {self.failure}.")
        out.line(f"Its {plural(self.operators, 'operator')} shrink to {self.left}:")
        with out.indented():
            out.lines(self.code.rstrip().splitlines())
        if self.lines:
            out.line("User code:")
            out.lines(line for location in self.lines[:MOST] for line in location.traceback_lines())
        if self.step.stage:
            out.line(f"Stage: {self.step}")
        if self.step.avoiding:
            out.line(f"Avoided by: options={dict(self.step.avoiding)}")
        if self.file is not None:
            out.line(f"Program: python {self.file}")
        return out.text()


@beside
def minify(
    target: Callable[P, Any],
    *,
    backend: str | Backend | None = None,
    options: Mapping[str, Any] | None = None,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    file: str | os.PathLike[str] | None = None,
    tests: int = 1000,
) -> Callable[P, Minified]:
    """Find the first graph of a call on which a backend fails, and shrink it.

    The call runs once, in eager mode; graphs of it run many times, on copies of their inputs.

    Args:
        target: a function, method or module; what is compiled already is compiled anew.
        backend: as for `compile`.
        options: as for `compile`.
        dynamic: as for `compile`.
        fullgraph: as for `compile`.
        file: where the small program is written, with its tensors beside it; in a new folder for temporary files if it
            is None.
        tests: how many smaller graphs are tried at most.

    Returns:
        A function with the parameters of the target, which gives a `Minified`: it is true if a graph fails, and prints.

    Raises:
        InvalidArgument: for what cannot be compiled, and settings that are not accepted.
    """
    request = Request.checked(target, backend, options, dynamic, fullgraph, file)
    if type(tests) is not int or tests < 1:
        raise InvalidArgument(f"'tests' expects a positive integer, got {tests!r}")
    function, keywords = request.function, request.keywords
    name = getattr(function, "__qualname__", type(function).__qualname__)

    @beside
    def run(*args: P.args, **kwargs: P.kwargs) -> Minified:
        trial = Trial.of(Call.of(function, args, kwargs))
        outcome, calls = captured(trial.call, {**keywords, "options": {**keywords["options"], **WHOLE}})
        found = first_narrowed(trial, outcome, calls, keywords, bool, tests)
        return Minified(name, len(calls)) if found is None else minified(name, found, request)

    return run


def minified(name: str, found: Narrowed, request: Request) -> Minified:
    """What became of a graph that fails."""
    step = step_of(found, request.keywords, request.config.replace(**WHOLE))
    lines = [node.meta["location"] for node in found.nodes if node.meta.get("location") is not None]
    return Minified(
        name,
        found.graphs,
        found.failure.text,
        found.call.number,
        found.call.frame,
        found.operators,
        len(found.nodes),
        found.code(),
        tuple(dict.fromkeys(lines)),
        step,
        found.replay(request.file, request.keywords),
    )
