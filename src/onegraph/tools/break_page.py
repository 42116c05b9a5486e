"""docs/graph_breaks.md and the pages behind it, made from the catalogue of graph breaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from onegraph.capture.breaks import Reason

_HEAD = """# Graph breaks

Every kind of graph break, made from the catalogue in `capture/breaks`. With `fullgraph=True` a break is an error that
shows its code, the user's lines, the values and the hints; without it, the program is compiled in pieces, which
`onegraph explain` lists. Each code has a page with a program that breaks and, for each hint, one that follows it and is
captured whole: the tests run them all."""
_NOTE = "`graph(f)` is `onegraph.compile(f, fullgraph=True)`."


def index(catalogue: Mapping[str, Reason]) -> str:
    """The list of all entries by theme; `{...}` in a summary stands for what the program names."""
    parts = [_HEAD]
    ordered = sorted(catalogue.values(), key=lambda reason: reason.theme)
    for theme, reasons in groupby(ordered, key=lambda reason: reason.theme):
        parts.append(f"## {theme}")
        parts.append("\n".join(f"- [{r.code}](graph_breaks/{r.code}.md): {r.summary}" for r in reasons))
    return "\n\n".join(parts) + "\n"


def page(
    reason: Reason, broken: str, mended: Sequence[tuple[str, str]], options: Mapping[str, object] | None = None
) -> str:
    """The page of one entry: a program that breaks (compiled with `options`), and one for each hint that does not."""
    parts = [f"# {reason.code}", f"*{reason.summary}*", reason.explanation, _block(broken)]
    if options:
        parts.append(f"(Here with `options={options}`.)")
    for hint, source in mended:
        parts += [f"**{hint[0].upper()}{hint[1:]}**", _block(source)]
    if any("graph(" in source for _, source in mended):
        parts.append(_NOTE)
    return "\n\n".join([*parts, "[All graph breaks](../graph_breaks.md)"]) + "\n"


def _block(source: str) -> str:
    return f"```python\n{source.rstrip()}\n```"
