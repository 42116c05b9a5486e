"""The structured trace of what is compiled: `TORCH_TRACE=folder`, read by `tlparse`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType

from onegraph.base import events as ev
from onegraph.base.events import Event, Location
from onegraph.base.locks import Lock
from onegraph.capture.directives.skipped_code import OWN
from onegraph.tools.debugging.pieces import Piece, Pieces
from onegraph.tools.debugging.trace_file import Json, TraceFile
from onegraph.tools.debugging.trace_metrics import Metrics
from onegraph.tools.debugging.trace_records import records


class Trace:
    """Writes the pieces whose configuration names a folder. Each process has a file of its own, a forked child too."""

    def __init__(self) -> None:
        self._pieces = Pieces(lambda config: config.trace_dir)
        self._lock = Lock()
        self._files: dict[tuple[int, Path], TraceFile] = {}
        self._metrics: dict[tuple[Path, str], Metrics] = {}

    def note(self, event: Event) -> None:
        """Subscriber."""
        with self._lock:
            piece = self._pieces.of(event)
            if piece is not None:
                self._write(self._file(piece.folder), event, piece)

    def _write(self, file: TraceFile, event: Event, piece: Piece) -> None:
        about, key = _about(piece), (piece.folder, piece.name)
        if isinstance(event, ev.FrameStarted):
            self._metrics[key] = Metrics(piece)
            file.record("dynamo_start", {"stack": file.stack([*_callers(), piece.begins])}, about)
            for cause in piece.before:
                _write_records(file, cause, about)
        _write_records(file, event, about)
        metrics = self._metrics.get(key)
        if metrics is not None:
            metrics.note(event)
        if metrics is not None and isinstance(event, ev.FrameEnded):
            file.record("compilation_metrics", metrics.facts(event.seconds), about)
            del self._metrics[key]

    def _file(self, folder: Path) -> TraceFile:
        key = os.getpid(), folder
        if key not in self._files:
            self._files[key] = TraceFile(folder)
        return self._files[key]


def _write_records(file: TraceFile, event: Event, about: dict[str, Json]) -> None:
    for record in records(event):
        file.record(record.name, record.facts, about, record.payload)


def _about(piece: Piece) -> dict[str, Json]:
    return {"frame_id": piece.number, "frame_compile_id": piece.version, "attempt": piece.attempt}


def _callers() -> list[Location]:
    """The frames of the program that have called what is being compiled, the outermost first."""
    found: list[Location] = []
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith((OWN, "<onegraph")):
            found.append(Location(code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return found[::-1]
