"""Signals at random moments of captures, compilations, calls and backward passes.

What their handlers raise reaches the user, the state of the process is as it was, and the next call is right.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Sequence
from typing import Any

import onegraph
from tests.faults.programs import Program
from tests.faults.raising import equal, left_behind
from tests.faults.state import state


class Late(Exception):
    """Raised by the handler of SIGALRM."""


def late(number: int, frame: Any) -> None:
    raise Late


def once(program: Program, after: float, interrupt: bool) -> str:
    """One signal so many seconds after the start of a compilation; what is wrong, or ''."""
    expected, before = program.expected(), state()
    onegraph.reset()
    compiled = program.compiled()
    wanted: type[BaseException] = KeyboardInterrupt if interrupt else Late
    signal.signal(signal.SIGALRM, signal.default_int_handler if interrupt else late)
    came = False
    try:
        signal.setitimer(signal.ITIMER_REAL, after)
        while True:  # calls, until it comes
            found = program.observe(compiled)
            if not equal(found, expected):
                return "another result than eager's"
            if signal.getitimer(signal.ITIMER_REAL)[0] == 0:
                time.sleep(0)
                return "the exception is lost"
    except wanted:
        came = True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
    assert came
    return left_behind(before, program, compiled, expected)


def duration(program: Program) -> float:
    """The seconds that a compilation and a few calls take."""
    onegraph.reset()
    start = time.perf_counter()
    compiled = program.compiled()
    for _ in range(5):
        program.observe(compiled)
    return time.perf_counter() - start


def run(programs: Sequence[Program], count: int, seed: int) -> int:
    chance = random.Random(seed)
    for program in programs:
        duration(program)
    spans = {program.name: duration(program) for program in programs}
    failed = 0
    for number in range(count):
        program, interrupt = programs[number % len(programs)], chance.random() < 0.5
        after = chance.uniform(1e-4, spans[program.name])
        found = once(program, after, interrupt)
        if found:
            failed += 1
            print(f"{program.name}, after {after * 1e3:.2f} ms: {found}", flush=True)
    print(f"{count} signals, {failed} of them with an accident")
    return failed
