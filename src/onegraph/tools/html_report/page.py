"""The data of a report as one HTML page, which needs nothing beside itself."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import torch

from onegraph.base.text import plural
from onegraph.tools.html_report.charts import line, steps
from onegraph.tools.html_report.data import Report
from onegraph.tools.html_report.findings import findings
from onegraph.tools.html_report.measured import MOST_KERNELS
from onegraph.tools.report import byte_count, duration

DEAREST = 3  # findings at the top
UNFOLDED = 10  # graph breaks that are open at first
STAGES = 12  # that are shown at once; the rest is folded
KERNELS = 12  # as well
_FOLDER = Path(__file__).parent


def page(report: Report) -> str:
    """The page as text. Everything that comes from the program is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {"bytes": byte_count, "about": duration, "seconds": seconds, "count": large_count}
    environment.filters |= {"each": each, "line": line, "steps": steps}
    environment.globals |= {"plural": plural}
    found = findings(report)
    return environment.get_template("page.html.jinja").render(
        report=report,
        dearest=found[:DEAREST],
        others=len(found[DEAREST:]),
        versions=versions(),
        stages=STAGES,
        kernels=KERNELS,
        most_kernels=MOST_KERNELS,
        unfolded=UNFOLDED,
    )


def large_count(number: float) -> str:
    """With three digits.

    >>> large_count(12), large_count(1234567), large_count(9.87e9)
    ('12', '1.23 M', '9.87 G')
    """
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.3g}"


def each(nanoseconds: float) -> str:
    """How long one of several took.

    >>> each(850), each(12_345), each(2.5e6)
    ('0.85 us', '12.3 us', '2.5 ms')
    """
    return f"{nanoseconds / 1e6:.3g} ms" if nanoseconds >= 1e6 else f"{nanoseconds / 1e3:.3g} us"


def versions() -> str:
    own = sys.modules["onegraph"].__version__
    return f"onegraph {own}, torch {torch.__version__}, Python {platform.python_version()}"


def seconds(value: float) -> str:
    """With as many digits as tell something.

    >>> seconds(12.345), seconds(0.0123), seconds(0.000456), seconds(0.0)
    ('12.3 s', '0.012 s', '0.46 ms', '0 s')
    """
    if value >= 10 or not value:
        return f"{value:.1f} s" if value else "0 s"
    return f"{value:.3f} s" if value >= 0.01 else f"{value * 1e3:.2g} ms"
