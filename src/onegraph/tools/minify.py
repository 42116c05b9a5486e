"""`onegraph.minify`: from a call that fails to a small program that fails alone.

A graph fails if its backend raises, or if what it has made raises or differs where eager mode does not. The first graph
of the call that does is shrunk as long as it fails in the same way, and written with its inputs to a program.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ParamSpec

import torch

from onegraph.backend_registry import Backend
from onegraph.base.dataclass import dataclass
from onegraph.base.errors import BackendError, InvalidArgument
from onegraph.base.events import Location
from onegraph.base.text import Printer, plural
from onegraph.capture.directives.hatches import beside
from onegraph.compile import compile
from onegraph.tools.shrink import Case, shrink
from onegraph.tools.verification.call import Call
from onegraph.tools.verification.graphs import GraphCall, captured
from onegraph.tools.verification.replay import Replay
from onegraph.tools.verification.request import Request
from onegraph.tools.verification.trial import Trial
from onegraph.torchlib.graph_text import graph_text

P = ParamSpec("P")
#: What is compiled is all of a graph, now, and its failures are raised.
WHOLE = {"share_versions": False, "smallest_recorded_graph": 0, "raise_compiler_errors": True}
DIFFERS = "differs from eager mode"
MOST = 5  # lines of the program that are shown


@dataclass(frozen=True, slots=True)
class Minified:
    """What became of a call: `failure` says how its graph `number` of `graphs` fails, and is empty if none does.

    `operators` counts those of the graph in the call, and `left` those of the small one, whose text is `code`; `lines`
    are those of the program that these are of. `file` is the program that fails; None where the graph holds what no
    program can name.
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
        _, calls = captured(Call.of(function, args, kwargs), keywords)
        for call in calls:
            case = Case(call.module, call.inputs)
            if failure := failure_of(case, call.gradients, keywords):
                return minified(name, failure, call, len(calls), keywords, request.file, tests)
        return Minified(name, len(calls))

    return run


def minified(
    name: str,
    failure: str,
    call: GraphCall,
    graphs: int,
    keywords: Mapping[str, Any],
    file: Path | None,
    tests: int,
) -> Minified:
    """The graph of a call that fails, made small."""
    kind = kind_of(failure)
    whole = Case(call.module, call.inputs)
    small = shrink(whole, lambda case: kind_of(failure_of(case, call.gradients, keywords)) == kind, tests)
    lines = [node.meta["location"] for node in small.operators if node.meta.get("location") is not None]
    small = captured_anew(small)
    replayed = {**keywords, "options": {**keywords["options"], **WHOLE}}
    return Minified(
        name,
        graphs,
        failure,
        call.number,
        call.frame,
        len(whole.operators),
        len(small.operators),
        graph_text(small.module),
        tuple(dict.fromkeys(lines)),
        Replay(file, replayed, small.module, small.inputs, call.gradients).write(),
    )


def captured_anew(case: Case) -> Case:
    """The case with a graph that knows the sizes of these inputs."""
    _, calls = captured(Call.of(giving_tuple(case.module.forward), case.inputs, {}), {"options": {}, "dynamic": False})
    return Case(calls[0].module, calls[0].inputs) if len(calls) == 1 else case


def failure_of(case: Case, gradients: bool, keywords: Mapping[str, Any]) -> str:
    """How a graph fails that eager mode runs; empty if it does not, or if eager mode refuses it."""
    with torch.set_grad_enabled(gradients):
        trial = Trial.of(Call.of(giving_tuple(case.module.forward), case.inputs, {}))
        if trial.eager.error is not None:
            return ""
        made = torch.fx.GraphModule(case.module, case.module.graph)
        options = {**keywords["options"], **WHOLE}
        compiled = compile(made.forward, backend=keywords["backend"], dynamic=keywords["dynamic"], options=options)
        outcome = trial.call.run(giving_tuple(compiled))
        if (error := outcome.error) is not None:
            own = error.__cause__ if isinstance(error, BackendError) and error.__cause__ is not None else error
            return f"raises {type(own).__name__}: {str(own).partition(chr(10))[0]}"
        found = trial.differences_of(outcome)
        return f"{DIFFERS}: {found[0]}" if found else ""


def giving_tuple(run: Callable[..., Any]) -> Callable[..., Any]:
    """The results of a graph as a tuple: backends may give a list."""
    return lambda *inputs: tuple(run(*inputs))


def kind_of(failure: str) -> str:
    """A failure without what depends on values: the type of the exception, or that there is a difference."""
    return failure.partition(":")[0]
