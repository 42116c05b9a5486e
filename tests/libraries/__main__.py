"""`python -m tests.libraries`: libraries with onegraph, beside eager. What is not installed is named.

The first table has those that call torch.compile themselves, with onegraph installed: whether the results are eager's,
and how many graphs onegraph has made. The second has steps that `onegraph.compile` is put around: the places where
graphs break, by kind, and how much CPU time a call takes. Names behind the command choose libraries.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

import onegraph
from onegraph.base import events as ev
from onegraph.base.text import columns
from onegraph.compile import EVENTS
from onegraph.tools.record import recording
from tests.libraries.programs import USES, Use
from tests.libraries.steps import PROGRAMS, Program

#: Calls that are compared and make the compiled code ready, and calls that are timed.
WARM, TIMED = 4, 15


def difference(found: Any, expected: Any) -> str:
    """How results differ from eager's, in a line; empty if they do not."""
    try:
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    except AssertionError as error:
        return f"differs: {str(error).splitlines()[0]}"
    return ""


def outcome(each: Use) -> tuple[str, str]:
    """What became of one program, and the counts of it."""
    expected = each.run(False)
    onegraph.counters.clear()
    with onegraph.install():
        found = each.run(True)
    graphs, breaks = onegraph.counters["stats"]["unique_graphs"], onegraph.counters["graph_break"].total()
    return difference(found, expected) or ("equal" if graphs else "not compiled"), f"{graphs} graphs, {breaks} breaks"


def drawing(step: Callable[[], Any], seed: int) -> Callable[[], Any]:
    torch.manual_seed(seed)
    return step


def cost(step: Callable[[], Any]) -> float:
    """The CPU time of a call in milliseconds."""
    begin = time.process_time()
    step()
    return (time.process_time() - begin) * 1e3


def measured(each: Program) -> tuple[str, str, str, str]:
    """What became of one step: its result, graphs, places of breaks by kind, and CPU time."""
    onegraph.reset()
    torch.manual_seed(0)
    eager = each.make()
    expected = [drawing(eager, seed)() for seed in range(WARM)]
    torch.manual_seed(0)
    step = onegraph.compile(each.make())
    onegraph.counters.clear()
    with recording(EVENTS, (ev.GraphBroken,)) as events:
        found = [drawing(step, seed)() for seed in range(WARM)]
    places = {(item.event.code, item.event.user_stack[-1:]) for item in events}
    kinds = Counter(code for code, _ in places).most_common()
    graphs = onegraph.counters["stats"]["unique_graphs"]
    pairs = [(cost(eager), cost(step)) for _ in range(TIMED)]
    plain, compiled = (median(times) for times in zip(*pairs, strict=True))
    breaks = ", ".join(f"{count} {code}" for code, count in kinds)
    times = f"{compiled:.2f} ms, eager {plain:.2f} ({plain / compiled:.2f}x)"
    return difference(found, expected) or "equal", f"{graphs} graphs", breaks or "no breaks", times


def table(what: list[Any], asked: list[str], rows_of: Callable[[Any], tuple[str, ...]]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for each in what:
        if asked and each.library not in asked:
            continue
        if importlib.util.find_spec(each.library) is None:
            rows.append((each.library, each.what, "not installed"))
            continue
        seen = rows_of(each)
        version = getattr(sys.modules[each.library], "__version__", "")
        rows.append((f"{each.library} {version}", each.what, *seen))
        print(*rows[-1], sep="; ", file=sys.stderr)
    width = max(map(len, rows), default=0)
    return [(*row, *("",) * (width - len(row))) for row in rows]


def main(asked: list[str]) -> int:
    torch.set_num_threads(1)
    logging.getLogger("lightning").setLevel(logging.ERROR)
    tables = [table(USES, asked, outcome), table(PROGRAMS, asked, measured)]
    for rows in tables:
        if rows:
            print(columns(rows), end="\n\n")
    return sum(row[2] not in ("equal", "not installed") for rows in tables for row in rows)


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
