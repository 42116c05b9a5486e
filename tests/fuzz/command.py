"""What the fuzzers of drawn programs have in common: the command line, and what it says at the end."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable

from onegraph.base import events as ev
from onegraph.compile import EVENTS


def run(name: str, about: str | None, check: Callable[[int], str], draw: Callable[[int], str]) -> bool:
    """Check as many programs as the command line says, by their numbers; whether any of them differs.

    Args:
        name: of the module, as `python -m` has it.
        about: its docstring, whose first line is shown as help.
        check: says how a program differs when it is compiled; empty if it does not.
        draw: the text of a program, which is shown then.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=(about or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=300, help="programs")
    parser.add_argument("--seed", type=int, default=0, help="the first program's number")
    options = parser.parse_args()
    seen: Counter[str] = Counter()
    breaks: Counter[str] = Counter()

    def note(event: ev.Event) -> None:
        match event:
            case ev.GraphCaptured():
                seen["graphs"] += 1
            case ev.KernelsCompiled():
                seen["kernels made"] += 1
            case ev.GraphBroken():
                breaks[f"{event.code}: {event.reason}"] += 1

    EVENTS.subscribe(note)
    for number in range(options.seed, options.seed + options.count):
        if found := check(number):
            seen["different"] += 1
            print(f"{number}: {found}\n{draw(number)}", flush=True)
    print(f"{options.count} programs, {dict(seen)}, {seen['different']} differ; breaks: {dict(breaks)}")
    return seen["different"] > 0
