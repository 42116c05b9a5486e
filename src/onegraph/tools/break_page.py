"""docs/graph_breaks.md, made from the catalogue of graph breaks."""

from __future__ import annotations

from collections.abc import Mapping

from onegraph.capture.breaks import Reason

_HEAD = """# Graph breaks

Every kind of graph break, made from the catalogue in `capture/breaks.py`. With `fullgraph=True` a break is an error
that shows its code, the user line and these hints; without it, the program is compiled in pieces, which
`onegraph explain` lists."""


def page(catalogue: Mapping[str, Reason]) -> str:
    """The whole page; `{...}` in a summary stands for what the program names."""
    parts = [_HEAD]
    for reason in catalogue.values():
        parts += [f"## {reason.code}", f"*{reason.summary}*", reason.explanation]
        if reason.hints:
            parts.append("\n".join(f"- {hint}" for hint in reason.hints))
    return "\n\n".join(parts) + "\n"
