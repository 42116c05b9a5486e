"""Timelines as an SVG picture: for each number of ranks and each way a row of computation, and one of what travels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

from onegraph.tools.simulation.model import COMPUTE, Span, Timeline

WIDTH, LEFT, RIGHT = 960, 110, 150
TOP, HEAD, BAR, GAP, AXIS = 70, 30, 11, 9, 34
#: What is drawn in which class of the style, by what a span is called; all other computation is of the backward pass.
SHOWN = {"forward": "forward", "bucket": "backward", "update": "update"}
LEGEND = ("forward", "backward", "update", "all-reduce")
STYLE = """
svg { font-family: system-ui, sans-serif; font-size: 12px; }
.page { fill: #ffffff; } text { fill: #333a42; } .quiet { fill: #68727d; } .axis { stroke: #aab3bd; }
.forward { fill: #2f6fb0; } .backward { fill: #57935a; } .update { fill: #8a6fb3; } .all-reduce { fill: #e08e45; }
@media (prefers-color-scheme: dark) {
  .page { fill: #14171b; } text { fill: #e4e8ee; } .quiet { fill: #9aa5b3; } .axis { stroke: #4a535e; }
  .forward { fill: #5b9ae0; } .backward { fill: #74b877; } .update { fill: #a98fd6; } .all-reduce { fill: #f0a35c; }
}
"""


def picture(title: str, about: str, timelines: Sequence[Mapping[str, Timeline]]) -> str:
    """The text of an SVG file.

    Args:
        title: what it shows.
        about: a line below the title.
        timelines: of each number of ranks, by way.
    """
    length = max(each.seconds for ways in timelines for each in ways.values())
    panel = HEAD + max(map(len, timelines)) * (2 * BAR + GAP)
    height = TOP + panel * len(timelines) + AXIS
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{height}" rx="6"/>',
        text(16, 26, title, "font-size:15px;font-weight:bold"),
        text(16, 46, about, kind="quiet"),
    ]
    for number, name in enumerate(LEGEND):
        x = WIDTH - 90 * (len(LEGEND) - number)
        parts += [f'<rect class="{name}" x="{x}" y="16" width="{BAR}" height="{BAR}"/>', text(x + 16, 26, name)]
    for number, ways in enumerate(timelines):
        parts += panel_of(ways, TOP + number * panel, (WIDTH - LEFT - RIGHT) / length)
    return "\n".join([*parts, *axis(length, height - AXIS + 4), "</svg>\n"])


def panel_of(ways: Mapping[str, Timeline], top: float, scale: float) -> Iterator[str]:
    """The timelines of one number of ranks."""
    ranks = next(iter(ways.values())).ranks
    yield text(16, top + 14, f"{ranks:,} rank{'s' * (ranks > 1)}", "font-weight:bold")
    top += HEAD - 4
    for name, timeline in ways.items():
        yield text(LEFT - 8, top + BAR + 4, name, "text-anchor:end")
        for span in timeline.spans:
            yield bar(span, top, scale)
        said = f"{timeline.seconds * 1e3:.4g} ms, {timeline.efficiency:.0%}"
        yield text(LEFT + timeline.seconds * scale + 8, top + BAR + 4, said)
        top += 2 * BAR + GAP


def bar(span: Span, top: float, scale: float) -> str:
    is_compute = span.row == COMPUTE
    kind = SHOWN[span.name.partition(" ")[0]] if is_compute else "all-reduce"
    said = f"{kind}, {span.name}" if span.name.startswith("bucket") else kind
    times = f"{span.start * 1e3:.4g} to {span.end * 1e3:.4g} ms"
    width = max((span.end - span.start) * scale - 0.6, 0.4)  # there is a gap between one and the next
    place = f'x="{LEFT + span.start * scale:.1f}" y="{top if is_compute else top + BAR + 1:g}" width="{width:.1f}"'
    return f'<rect class="{kind}" {place} height="{BAR}"><title>{escape(said)}: {times}</title></rect>'


def axis(length: float, top: float) -> Iterator[str]:
    yield f'<line class="axis" x1="{LEFT}" y1="{top}" x2="{WIDTH - RIGHT}" y2="{top}"/>'
    step = round_step(length / 4)
    for number in range(int(length / step) + 1):
        x = LEFT + (WIDTH - LEFT - RIGHT) * number * step / length
        yield text(x, top + 18, f"{number * step * 1e3:.4g} ms", "text-anchor:middle", "quiet")


def round_step(seconds: float) -> float:
    """The largest of 1, 2 and 5 by a power of ten that is not longer.

    >>> round_step(0.145), round_step(0.0073), round_step(2.0)
    (0.1, 0.005, 2.0)
    """
    power: float = 10.0 ** math.floor(math.log10(seconds))
    return max(factor * power for factor in (1, 2, 5) if factor * power <= seconds * (1 + 1e-9))


def text(x: float, y: float, content: str, style: str = "", kind: str = "") -> str:
    attributes = "".join(f' {name}="{value}"' for name, value in (("style", style), ("class", kind)) if value)
    return f'<text x="{x:.4g}" y="{y:.4g}"{attributes}>{escape(content)}</text>'
