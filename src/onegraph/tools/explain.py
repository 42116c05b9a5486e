"""`onegraph.explain`: is this program one graph, and if not, which line prevents it, why, and what would help?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, overload

from onegraph.base.arguments import check_suspending, check_target
from onegraph.capture.directives.hatches import beside
from onegraph.compile import EVENTS, compile, told, written
from onegraph.tools.html_report.collect import Collector
from onegraph.tools.html_report.findings import findings
from onegraph.tools.record import recording
from onegraph.tools.report import Explanation, summarize

P = ParamSpec("P")


@overload
def explain(function: Callable[P, Any]) -> Callable[P, Explanation]: ...
@overload
def explain(function: Callable[P, Any], *args: P.args, **kwargs: P.kwargs) -> Explanation: ...
@beside
def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Compile the function anew, call it once with these arguments, and report what capture made of it.

    Both spellings of torch are accepted: `explain(f)(x, y)` and `explain(f, x, y)`. The graphs are run as they are
    captured (backend 'lowered'), and looked through for what the native compiler would leave to libraries. Of what is
    compiled already, the options count here, too.

    Args:
        function: a function, method or module.
        args: what it is called with; without any, the result is a function that takes them.
        kwargs: the same, by name.

    Returns:
        An `Explanation`. It prints; has `graph_count`, `graph_break_count`, `op_count`, `break_reasons`, `graphs`,
        `ops_per_graph`, `library_calls`, `quantized`, `one_by_one`, `out_guards`, `compile_times` and `findings`, the
        dearest first; and unpacks to `explanation, out_guards, graphs, ops_per_graph`, of which the first is its text.

    Raises:
        InvalidArgument: for what cannot be compiled.
    """
    check_target(function)
    check_suspending(function)
    given = told(function) if written(function) is not function else {}
    options, mode = {**(given.get("options") or {}), "share_versions": False}, given.get("mode")

    @beside
    def run(*args: Any, **kwargs: Any) -> Explanation:
        collector = Collector()
        unsubscribe = EVENTS.subscribe(collector.note)
        try:
            with recording(EVENTS) as recorded:
                compile(function, backend="lowered", options=options, mode=mode)(*args, **kwargs)
        finally:
            unsubscribe()
        return summarize(recorded, findings(collector.report()))

    return run(*args, **kwargs) if args or kwargs else run
