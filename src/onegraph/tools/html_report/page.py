"""The data of a report as one HTML page, which needs nothing beside itself."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import torch

from onegraph.base.text import plural
from onegraph.tools.html_report.data import Report
from onegraph.tools.html_report.findings import findings
from onegraph.tools.report import byte_count, duration

DEAREST = 3  # findings at the top
UNFOLDED = 10  # graph breaks that are open at first
STAGES = 12  # that are shown at once; the rest is folded
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
    environment.filters |= {"bytes": byte_count, "about": duration, "seconds": seconds}
    environment.globals |= {"plural": plural}
    found = findings(report)
    return environment.get_template("page.html.jinja").render(
        report=report,
        dearest=found[:DEAREST],
        others=len(found[DEAREST:]),
        versions=versions(),
        stages=STAGES,
        unfolded=UNFOLDED,
    )


def versions() -> str:
    own = sys.modules["onegraph"].__version__
    return f"onegraph {own}, torch {torch.__version__}, Python {platform.python_version()}"


def seconds(value: float) -> str:
    """With as many digits as tell something.

    >>> seconds(12.345), seconds(0.0123), seconds(0.0)
    ('12.3 s', '0.012 s', '0 s')
    """
    return "0 s" if not value else f"{value:.1f} s" if value >= 10 else f"{value:.3f} s"
