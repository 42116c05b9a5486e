"""Which compilation an event is about: the pieces that a process has compiled, each one version of one frame."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from onegraph.base.config import Config
from onegraph.base.dataclass import dataclass
from onegraph.base.events import Event, FrameStarted, Location, Recompiled


@dataclass(frozen=True, slots=True)
class Piece:
    """One compilation of a frame that is written to a folder. It begins at `line` of its function.

    `number` is that of the frame among those of the folder. `attempt` counts the compilations of the same version: the
    ones before it came to nothing. `before` are the events that led to it.
    """

    folder: Path
    frame: Location
    number: int
    version: int
    attempt: int
    line: int
    config: Config
    before: tuple[Event, ...] = ()

    @property
    def begins(self) -> Location:
        """Where it begins: within the function, where it goes on behind a graph break."""
        return Location(self.frame.filename, self.line, self.frame.function)

    @property
    def name(self) -> str:
        """Of its own folder: `002_0_forward` is the first version of frame 2."""
        function = "".join(letter if letter.isalnum() or letter in "_." else "_" for letter in self.frame.function)
        attempt = f"_attempt_{self.attempt}" if self.attempt else ""
        return f"{self.number:03}_{self.version}_{function.strip('_') or 'frame'}{attempt}"


class Pieces:
    """Finds the piece of each event.

    A thread works on one frame at a time. What comes later, when a backward pass runs, belongs to the newest piece of
    the frame.

    Args:
        folder: to which folder what has this configuration is written; None for what is not.
    """

    def __init__(self, folder: Callable[[Config], Path | None]) -> None:
        self._folder = folder
        self._open: dict[int, Piece] = {}
        self._newest: dict[Location, Piece] = {}
        self._before: dict[tuple[int, Location], list[Event]] = {}
        self._numbers: dict[Path, dict[int, int]] = {}
        self._attempts: dict[tuple[Path, int, int], int] = {}

    def of(self, event: Event) -> Piece | None:
        """The piece, which begins with its `FrameStarted`; None where nothing is written."""
        thread = threading.get_ident()
        match event:
            case FrameStarted(frame=Location() as frame, config=Config() as config):
                self._open.pop(thread, None)
                self._newest.pop(frame, None)
                before = tuple(self._before.pop((thread, frame), ()))
                folder = self._folder(config)
                if folder is not None:
                    piece = self._piece(folder, frame, event, config, before)
                    self._open[thread] = self._newest[frame] = piece
            case Recompiled(frame=Location() as frame):
                self._before.setdefault((thread, frame), []).append(event)
                return None
        if event.frame is None:
            return None
        found = self._open.get(thread)
        return found if found is not None and found.frame == event.frame else self._newest.get(event.frame)

    def _piece(
        self, folder: Path, frame: Location, event: FrameStarted, config: Config, before: tuple[Event, ...]
    ) -> Piece:
        numbers = self._numbers.setdefault(folder, {})
        number = numbers.setdefault(event.number, len(numbers))
        key = folder, number, event.compile_index
        attempt = self._attempts[key] = self._attempts.get(key, -1) + 1
        return Piece(folder, frame, number, event.compile_index, attempt, event.line, config, before)
