"""`python -m tests.faults`: every function of every stage raises; `--signals N`, `--forks N`: at random moments."""

from __future__ import annotations

import argparse
import logging
import random
import sys

import torch

from tests.faults import forks, memory, raising, signals
from tests.faults.programs import PROGRAMS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    names = [program.name for program in PROGRAMS]
    parser.add_argument("--program", choices=names, action="append", help="only this one; may be given again")
    parser.add_argument("--error", choices=[error.__name__ for error in raising.ERRORS], action="append")
    parser.add_argument("--everywhere", action="store_true", help="in each program that comes to a function")
    parser.add_argument("--signals", type=int, metavar="N", help="signals at N random moments instead")
    parser.add_argument("--forks", type=int, metavar="N", help="N forks while another thread compiles instead")
    parser.add_argument("--memory", type=int, metavar="N", help="N children of each program with little memory")
    parser.add_argument("--sample", type=int, metavar="N", default=0, help="N functions of each program, by chance")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    logging.getLogger("onegraph").setLevel(logging.ERROR)  # that something failed is what is tested here
    torch.set_num_threads(1)
    programs = [program for program in PROGRAMS if not given.program or program.name in given.program]
    if given.signals is not None:
        return signals.run(programs, given.signals, given.seed)
    if given.memory is not None:
        return memory.run(programs, given.memory)
    if given.forks is not None:
        return forks.run(programs, given.forks)
    errors = [error for error in raising.ERRORS if not given.error or error.__name__ in given.error]
    return raising.run(programs, errors, given.everywhere, random.Random(given.seed), given.sample)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
