"""The kinds of graph breaks of the matrix, each an expression that stands in the place of BREAK."""

from __future__ import annotations

KINDS: dict[str, str] = {
    "graph_break": "onegraph.graph_break()",
    "print": "print('break')",
    "branch": "(None if x.sum() > 1 else None)",
    "item": "log_number(round(x.sum().item(), 2))",
    "native": "gc.get_threshold() and None",
    "disabled": "eagerly(x)",
}
