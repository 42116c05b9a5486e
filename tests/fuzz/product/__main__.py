"""The long run: `python -m tests.fuzz.product --count 10000 --seed 0 --jobs 2` draws so many cells of the product.

A cell is a kind of key, in a container, somewhere, that a program asks something of, and a change between its calls; its
program runs in twin worlds. `--cell NAME` shows the program of one cell, and how it differs. The exit status is 1 if
there were differences, or cells in which nothing changes and that are compiled again.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import multiprocessing.connection
import os
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track

from tests.fuzz.product.cells import Cell, drawn, named
from tests.fuzz.product.running import Verdict, judge, way_of

#: Cells that one process runs.
CHUNK = 50


def run_chunk(cells: list[tuple[int, Cell]], pipe: Any) -> None:
    warnings.simplefilter("ignore")
    gc.freeze()
    torch.set_num_threads(1)
    sys.stdout = open(os.devnull, "w")
    for number, cell in cells:
        pipe.send((number, judge(cell, way_of(number))))


def run(cells: list[Cell], jobs: int) -> Any:
    """The numbers of the cells with what became of them. A process that dies loses one cell."""
    numbered = list(enumerate(cells))
    chunks = [numbered[at : at + CHUNK] for at in range(0, len(numbered), CHUNK)]
    working: dict[Any, tuple[Any, list[tuple[int, Cell]]]] = {}
    context = multiprocessing.get_context("fork")
    while chunks or working:
        while chunks and len(working) < jobs:
            mine, theirs = multiprocessing.Pipe(duplex=False)
            chunk = chunks.pop(0)
            process = context.Process(target=run_chunk, args=(chunk, theirs), daemon=True)
            process.start()
            theirs.close()
            working[mine] = (process, chunk)
        for pipe in multiprocessing.connection.wait(list(working)):
            process, left = working[pipe]
            try:
                yield pipe.recv()
                left.pop(0)
            except EOFError:
                process.join()
                del working[pipe]
                if left:
                    yield left[0][0], Verdict("differs", "the process died", "the process died")
                    chunks.insert(0, left[1:])


def show(cell: Cell) -> int:
    verdict = judge(cell, way_of(0))
    print(f"{cell.program()}\n# {verdict.kind}: {verdict.text}")
    return verdict.kind in ("differs", "again")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.product", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1000, help="how many cells")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz/product"), help="where programs that differ go")
    parser.add_argument("--cell", help="the name of a cell to show")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.cell:
        return show(named(options.cell))
    options.out.mkdir(parents=True, exist_ok=True)
    console, began = Console(), time.monotonic()
    cells = drawn(options.count, options.seed)
    kinds: Counter[str] = Counter()
    causes: dict[tuple[str, str], list[Cell]] = {}
    results = run(cells, options.jobs)
    for number, verdict in track(results, "cells", total=len(cells), console=console, disable=not console.is_terminal):
        cell = cells[number]
        kinds.update([verdict.kind, *(["skipped"] if verdict.skipped else [])])
        if verdict.kind in ("differs", "again"):
            causes.setdefault((f"{verdict.kind}: {cell.family.name}", verdict.cause), []).append(cell)
            (options.out / f"cell_{options.seed}_{number}.py").write_text(
                f"# {cell}\n# {verdict.kind}\n{cell.program()}\n"
            )
            print(f"{verdict.kind}\t{cell}\t{verdict.cause}", flush=True)
    seconds = time.monotonic() - began
    console.print(f"{len(cells)} cells in {seconds:.0f} s ({len(cells) / seconds:.1f} a second): {dict(kinds)}")
    for (where, cause), found in sorted(causes.items(), key=lambda each: -len(each[1])):
        console.print(f"{len(found):5}  {where}  {cause}\n       {found[0]}", markup=False, highlight=False)
    return int(bool(causes))


if __name__ == "__main__":
    sys.exit(main())
