"""`python -m tests.libraries`: libraries that call torch.compile themselves, with onegraph installed.

For each: whether the results are eager's, and how many graphs onegraph has made. What is not installed is named.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import sys

import torch

import onegraph
from onegraph.base.text import columns
from tests.libraries.programs import USES, Use


def outcome(each: Use) -> tuple[str, str]:
    """What became of one program, and the counts of it."""
    expected = each.run(False)
    onegraph.counters.clear()
    with onegraph.install():
        found = each.run(True)
    try:
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    except AssertionError as error:
        return f"differs: {str(error).splitlines()[0]}", ""
    graphs, breaks = onegraph.counters["stats"]["unique_graphs"], onegraph.counters["graph_break"].total()
    return ("equal" if graphs else "not compiled"), f"{graphs} graphs, {breaks} breaks"


def main() -> int:
    logging.getLogger("lightning").setLevel(logging.ERROR)
    rows = [("library", "what", "result", "onegraph")]
    for each in USES:
        if importlib.util.find_spec(each.library) is None:
            rows.append((each.library, each.what, "not installed", ""))
            continue
        rows.append((f"{each.library} {importlib.metadata.version(each.library)}", each.what, *outcome(each)))
    print(columns(rows))
    return sum(row[2] not in ("result", "equal", "not installed") for row in rows)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
