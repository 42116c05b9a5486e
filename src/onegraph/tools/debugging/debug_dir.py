"""The debug directory: for each compiled piece a folder of what every stage has made (the option `debug`)."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

from onegraph.base.config import Config, rank
from onegraph.base.events import Event
from onegraph.base.locks import Lock
from onegraph.base.text import columns
from onegraph.tools.debugging.debug_files import FILES
from onegraph.tools.debugging.pieces import Piece, Pieces
from onegraph.tools.logs import describe, details
from onegraph.tools.times import Times

_INDEX = """What onegraph made in this run of: %s

Each folder is one compiled version of a function, or of the part of one behind a graph break. Its name has the number
of the frame, that of the version, and the name of the function. The second file of a kind has a 2 in its name.

%s

folder, where it begins, the line there:
"""
FOLDER = "onegraph_debug"
_LOG = "log.txt", "what happened, in order: graph breaks, why there is another version, what each stage made"
_TIMES = "times.txt", "seconds of the processor that each stage took; a stage contains its steps"


class Run:
    """The folder of one process."""

    def __init__(self, root: Path) -> None:
        self.folder = folder_of_process(Path(os.path.abspath(root)), os.getpid())
        self._begun: set[str] = set()
        self._written: Counter[str] = Counter()
        self._times: defaultdict[str, Times] = defaultdict(Times)

    def write(self, piece: Piece, event: Event) -> None:
        """What the files of a piece say of an event, as far as they are chosen."""
        if piece.name not in self._begun:
            self._begun.add(piece.name)
            self._begin(piece)
        if event.channel not in ("passes", "time"):
            self._log(piece, event)
        chosen = piece.config.debug_files
        if "all" in chosen or event.channel in chosen:
            self._write_files(piece, event)
        if "all" in chosen or "time" in chosen:
            times = self._times[piece.name]
            times.note(event)
            if event.channel == "time":
                (self.folder / piece.name / _TIMES[0]).write_text(f"{times}\n")

    def _begin(self, piece: Piece) -> None:
        """Make the folder of a piece, and name it in the index, which begins with the first."""
        if not self.folder.exists():
            self.folder.mkdir(parents=True)
            files = [(file.name.replace("{part}", "*"), file.about) for file in FILES]
            self._append("index.txt", _INDEX % (" ".join(sys.orig_argv), columns([*files, _LOG, _TIMES])))
        (self.folder / piece.name).mkdir(exist_ok=True)
        self._append("index.txt", columns([(piece.name, piece.begins, piece.begins.source_line())]))
        for event in piece.before:
            self._log(piece, event)

    def _write_files(self, piece: Piece, event: Event) -> None:
        for file in FILES:
            if type(event) is file.kind and (text := file.text(event)):
                name = f"{piece.name}/{file.name.format(part=getattr(event, 'part', ''))}"
                self._written[name] += 1
                if self._written[name] > 1 and not file.collects:
                    stem, dot, suffix = name.rpartition(".")
                    name = f"{stem}_{self._written[name]}{dot}{suffix}"
                self._append(name, text)

    def _log(self, piece: Piece, event: Event) -> None:
        lines = [describe(event), *(f"  {line}" for line in details(event))]
        self._append(f"{piece.name}/{_LOG[0]}", "\n".join(lines))

    def _append(self, name: str, text: str) -> None:
        with open(self.folder / name, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text if text.endswith("\n") else f"{text}\n")


@cache
def folder_of_process(root: Path, process: int) -> Path:
    """The folder of a process: it is named by when it first writes there."""
    number, name = rank(), f"run_{time.strftime('%Y_%m_%d_%H_%M_%S')}_{process}"
    return root / (name if number is None else f"{name}_rank_{number}")


class DebugDir:
    """Writes the pieces whose configuration says so. Each process has a folder of its own, a forked child too."""

    def __init__(self) -> None:
        self._pieces = Pieces(folder_of)
        self._lock = Lock()
        self._runs: dict[tuple[int, Path], Run] = {}

    def note(self, event: Event) -> None:
        """Subscriber."""
        with self._lock:
            piece = self._pieces.of(event)
            if piece is None:
                return
            key = os.getpid(), piece.folder
            if key not in self._runs:
                self._runs[key] = Run(piece.folder)
            self._runs[key].write(piece, event)


def folder_of(config: Config) -> Path | None:
    """Where the folders of processes are; None for what has no debug directory."""
    return (config.debug_dir or Path(FOLDER)) if config.debug else None
