"""Forks while another thread compiles: the child compiles, computes what eager does, and its collector is on."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import onegraph
from tests.faults.programs import Program
from tests.faults.raising import equal

PATIENCE = 60  # seconds, after which a child hangs
RIGHT, WRONG, NO_COLLECTOR = 0, 1, 2


def child(program: Program) -> int:
    if not gc.isenabled():
        return NO_COLLECTOR
    compiled = program.compiled()
    try:
        expected = program.expected()
    except RuntimeError:  # a torch built for CUDA refuses backward passes in a child of a process that has made one
        return RIGHT if refuses(compiled, program) else WRONG
    return RIGHT if equal(program.observe(compiled), expected) else WRONG


def refuses(compiled: Callable[..., Any], program: Program) -> bool:
    try:
        program.observe(compiled)
    except RuntimeError:
        return True
    return False


def ended(process: int) -> int | None:
    """The exit code of a child; None if it hangs, and is ended."""
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(process, 9)
    os.waitpid(process, 0)
    return None


def run(programs: Sequence[Program], count: int) -> int:
    stop = threading.Event()

    def compile_always() -> None:
        while not stop.is_set():
            for program in programs:
                onegraph.reset()
                program.observe(program.compiled())

    for program in programs:
        program.observe(program.compiled())
    thread = threading.Thread(target=compile_always)
    thread.start()
    failed = 0
    try:
        for number in range(count):
            time.sleep(0.001 * (number * 7 % 50))
            process = os.fork()
            if not process:
                try:
                    os._exit(child(programs[number % len(programs)]))
                finally:
                    os._exit(100)
            code = ended(process)
            if code != RIGHT:
                failed += 1
                print(f"child {number} ({programs[number % len(programs)].name}): {code}", flush=True)
    finally:
        stop.set()
        thread.join()
    print(f"{count} forks, {failed} of them with an accident")
    return failed
