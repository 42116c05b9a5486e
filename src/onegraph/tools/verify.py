"""`onegraph.verify`: does a compiled call do what the eager one does, and if not, which stage and operator differ?"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec

from onegraph.backend_registry import Backend
from onegraph.base.events import GraphCaptured, GraphFailed
from onegraph.capture.directives.hatches import beside
from onegraph.compile import EVENTS, compile
from onegraph.tools.record import recording
from onegraph.tools.verification.call import Call
from onegraph.tools.verification.compare import THE_CALL, Difference
from onegraph.tools.verification.failing import DIFFERS, WHOLE, error_of_graph
from onegraph.tools.verification.narrow import Search
from onegraph.tools.verification.report import Fault, Verification
from onegraph.tools.verification.request import Request
from onegraph.tools.verification.trial import Trial

P = ParamSpec("P")
ANEW = {"share_versions": False}  # what is compared is compiled now
LOGGER = logging.getLogger("onegraph")
NOT_NARROWED = "onegraph.verify could not find where the difference comes from: %s: %s"


@beside
def verify(
    target: Callable[P, Any],
    *,
    backend: str | Backend | None = None,
    options: Mapping[str, Any] | None = None,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    file: str | os.PathLike[str] | None = None,
) -> Callable[P, Verification]:
    """Run a call in eager mode and compiled, from the same state, and compare all that they leave behind.

    Compared are results, what is written to arguments, modules, closures, globals that the program's functions name and
    its classes, gradients of a fixed projection of the results, states of generators of random numbers, and the type of
    the exception. Values that differ by more than rounding of one operator are judged in double precision: the compiled
    ones are at fault only if their error is several times eager's. A difference is narrowed to a stage and an operator.

    The call runs a few times, and its state is put back after each run, so that the program goes on as if it had not
    been called. What it does outside of its own objects (output, files) happens each time.

    Args:
        target: a function, method or module; what is compiled already is compiled anew.
        backend: as for `compile`.
        options: as for `compile`.
        dynamic: as for `compile`.
        fullgraph: as for `compile`.
        file: where the program that shows a difference is written, with its tensors beside it; in a new folder for
            temporary files if it is None.

    Returns:
        A function with the parameters of the target, which gives a `Verification`: it is true if there is no
        difference, prints, and has `differences`, `stage`, `operator`, `location` and `file`.

    Raises:
        InvalidArgument: for what cannot be compiled, and settings that are not accepted; from the call, for arguments
            that are iterators, and for parameters of lazy modules that were not called yet.
    """
    request = Request.checked(target, backend, options, dynamic, fullgraph, file)

    @beside
    def run(*args: P.args, **kwargs: P.kwargs) -> Verification:
        return verified(request, args, kwargs)

    return run


def verified(request: Request, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Verification:
    function, keywords = request.function, request.keywords
    trial = Trial.of(Call.of(function, args, kwargs))
    with recording(EVENTS, (GraphCaptured, GraphFailed)) as recorded:
        found = trial.differences(compile(function, **{**keywords, "options": {**keywords["options"], **ANEW}}))
    graphs = [each for each in recorded if isinstance(each.event, GraphCaptured)]
    if not found and trial.eager.error is None and (raised := error_of_graph(recorded)):
        found = (Difference(THE_CALL, f"its graph raises {raised}; the call runs as it is written"),)
    name = getattr(function, "__name__", type(function).__name__)
    if not found:
        error = trial.eager.error
        raised = "" if error is None else f"{type(error).__name__}: {error}"
        return Verification(name, len(trial.eager.rows), len(graphs), (), raised=raised)
    whole = request.config.replace(**WHOLE)
    raises = any(each.place == THE_CALL for each in found)
    try:
        search = Search(trial, keywords, whole, request.file)
        fault: Fault | None = search.fault(lambda failure: raises or failure.kind == DIFFERS)
    except Exception as error:  # what was found stands without it
        LOGGER.warning(NOT_NARROWED, type(error).__name__, error)
        fault = None
    return Verification(name, len(trial.eager.rows), len(graphs), found, fault)
