"""Compilations in children that have little memory left: each gives eager's result, or a MemoryError."""

from __future__ import annotations

import os
import resource
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import onegraph
from tests.faults.programs import Program, warm
from tests.faults.raising import equal

MOST = 96 << 20  # bytes that a child may take
PAGE = os.sysconf("SC_PAGE_SIZE")


def child(program: Program, left: int) -> str:
    """In a process that may take so many bytes more."""
    expected = program.expected()
    onegraph.reset()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * PAGE
    resource.setrlimit(resource.RLIMIT_AS, (used + left, used + left))
    try:
        found = program.observe(program.compiled())
        return "right" if equal(found, expected) else "wrong"
    except MemoryError:
        return "MemoryError"
    except RuntimeError as error:  # torch has none
        return "torch: no memory" if "can't allocate memory" in str(error) else f"{error}"


def run(programs: Sequence[Program], count: int) -> int:
    """Try so many children for each program; how many had an accident."""
    failed = 0
    warm()
    for program in programs:
        outcomes = children(program, count)
        failed += sum(outcomes.values()) - sum(outcomes[name] for name in ("right", "MemoryError", "torch: no memory"))
        print(f"{program.name}: {dict(outcomes)}", flush=True)
    print(f"{len(programs) * count} children with little memory, {failed} of them with an accident")
    return failed


def children(program: Program, count: int) -> Counter[str]:
    """What became of each."""
    outcomes: Counter[str] = Counter()
    for number in range(count):
        reader, writer = os.pipe()
        process = os.fork()
        if not process:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
            os.write(writer, child(program, number * MOST // count).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as answer:
            found = answer.read().decode()
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        outcomes[found if code == 0 else f"the process ends with {code}"] += 1
    return outcomes
