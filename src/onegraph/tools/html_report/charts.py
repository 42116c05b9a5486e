"""Lines of charts as SVG takes them."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH, HEIGHT = 1000, 100  # the units that charts are drawn in; the page stretches them


def line(points: Sequence[tuple[float, float]]) -> str:
    """The points as a polyline that fills the chart from its left, lowest corner.

    >>> line([(0.0, 0.0), (2.0, 5.0)])
    '0,100 1000,0'
    """
    right = max((x for x, _ in points), default=0.0) or 1.0
    top = max((y for _, y in points), default=0.0) or 1.0
    return " ".join(f"{WIDTH * x / right:.4g},{HEIGHT - HEIGHT * y / top:.4g}" for x, y in points)


def steps(values: Sequence[float]) -> str:
    """A polyline of values that each hold until the next.

    >>> steps([1.0, 2.0])
    '0,50 500,50 500,0 1000,0'
    """
    return line([point for x, y in enumerate(values) for point in ((float(x), y), (x + 1.0, y))])
