"""The captures on disk: of each frame a few, by what the frame's code, the settings and the versions of all parts say.

Entries of one frame differ in what they assume. A call takes the first that holds for it; what was captured anew goes
into a place that is free, or has an entry that did not hold.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import field, replace
from functools import partial
from types import CellType
from typing import Any

from onegraph.base import events as ev
from onegraph.base.codec import Unkept
from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass
from onegraph.base.disk_cache import DiskCache, cache_of, key_of
from onegraph.base.garbage_collector import COLLECTOR
from onegraph.base.keeping import Keeping, Kept, Reload, digest_of
from onegraph.capture.captured import Capture, FrameStart
from onegraph.capture.directives.function_marks import SAID
from onegraph.capture.kept.contents import code_digest
from onegraph.capture.kept.entries import capture_of, entry_of, with_made
from onegraph.capture.kept.installed import versions
from onegraph.capture.kept.rows import Stale
from onegraph.capture.pyobject.contents import cell_value
from onegraph.capture.replacement import Translated, replacement
from onegraph.capture.symbolic.shape_policy import History
from onegraph.torchlib.data_parallel import active_buckets

SLOTS = 8  # at least; as many as a frame may have versions
#: Settings that change nothing of what is compiled.
ASIDE = frozenset({
    "logs", "cache_dir", "debug_dir", "debug_files", "trace_dir", "cache", "cache_plans", "cache_captures", "progress",
    "perf_map", "recompile_limit", "accumulated_recompile_limit", "fail_on_recompile_limit_hit", "error_on_recompile",
    "share_versions", "disable", "backend", "cuda_driver",
})  # fmt: skip
#: What reading an entry raises that nobody has written so. Anything else is a defect of ours.
DAMAGED = (
    ValueError, LookupError, TypeError, AttributeError, ArithmeticError, SyntaxError, RecursionError, MemoryError,
    OSError, zlib.error,
)  # fmt: skip


class Unfit(Stale):
    """A guard of the capture does not hold for the call: the message says which."""


@dataclass(slots=True)
class Shelf:
    """The entries of one frame. `frame` says of which one, in any process; `forget` makes this process forget what it
    has from here."""

    disk: DiskCache
    key: str
    frame: str
    reload: Reload
    forget: Callable[[], object]
    slots: int
    free: list[int] = field(default_factory=list)
    stale: list[int] = field(default_factory=list)

    @COLLECTOR.resting()
    def found(self, start: FrameStart, history: History, cx: Context) -> Translated | None:
        """The replacement by a capture on disk that holds for a call."""
        self.free.clear()
        self.stale.clear()
        made = None
        for slot in range(self.slots):
            place = self._place(slot)
            data = self.disk.load(place.name)
            if not data:  # an empty one was given up, see `_outgrown`
                self.free.append(slot)
                continue
            try:
                of = self.frame, self.key
                found = read_entry(data, of, self.reload, partial(self._outgrown, place), start, history, cx)
                made = replace(found, kept=replace(place, digest=digest_of(data)))
                break
            except Unfit:
                pass
            except Stale as why:
                cx.emit(ev.CaptureMissed(cx.frame, f"{why}"))
                self.stale.append(slot)
            except Exception as why:  # nobody has written such an entry: it is the first to be replaced
                if cx.config.raise_compiler_errors and not isinstance(why, DAMAGED):
                    raise
                cx.emit(ev.CaptureMissed(cx.frame, f"{type(why).__name__}: {why}"))
                self.free.insert(0, slot)
        cx.emit(ev.DiskSearched(cx.frame, "capture", found=made is not None))
        return made

    def turn(self) -> AbstractContextManager[bool]:
        """Let one process at a time capture the frame. Gives whether another one has done so meanwhile."""
        return self.disk.turn(self.key)

    def store(self, captured: Capture, start: FrameStart, history: History, cx: Context) -> Kept | str:
        """Keep a capture, and what the backend has made of its graph: where that is, or why it was not done."""
        slots, made = self.free or self.stale, cx.made
        if not slots:
            return _unkept("all places are taken", cx)
        if captured.graph is not None and (made is None or made.whole is None):
            return _unkept("" if made is None else made.why, cx)
        try:
            compiled = None if captured.graph is None or made is None else made.whole
            data = entry_of(captured, (self.frame, self.key), start, history, compiled)
        except (Unkept, RecursionError) as why:
            return _unkept(f"{why}", cx)
        except Exception as why:  # a defect of ours costs the entry
            if cx.config.raise_compiler_errors:
                raise
            return _unkept(f"{type(why).__name__}: {why}", cx)
        place = self._place(slots[0])
        if not place.store(data):
            return _unkept("it cannot be written", cx)
        if made is not None:
            made.renew = partial(_renew, place)
        cx.emit(ev.CaptureKept(cx.frame, len(data)))
        return place

    def _outgrown(self, place: Kept) -> None:
        """An entry lacks what this process needs: the frame is captured anew, and kept in its place."""
        place.store(b"")
        self.forget()

    def _place(self, slot: int) -> Kept:
        return Kept(self.frame, self.disk, key_of(self.key, str(slot)))


def read_entry(
    data: bytes,
    of: tuple[str, ...],
    reload: Reload,
    outgrown: Callable[[], object],
    start: FrameStart,
    history: History,
    cx: Context,
) -> Translated:
    """The replacement by the capture of an entry, which is `of` a frame, and of settings.

    Raises:
        Unfit: it is of other calls.
        Stale: it does not hold for this call, or for this program.
        Exception: nobody has written such an entry.
    """
    loaded = capture_of(data, of, start, history, cx)
    around = None
    if loaded.made is not None and loaded.fallback is not None:
        compiled = reload(loaded.made, cx, loaded.fallback.outputs, outgrown)
        if compiled is None:
            raise Stale("the code of its kernels is gone")
        around = loaded.fallback.around(compiled)
    made = replacement(loaded.capture, around, start, cx)
    if not made.guards.native.check(start.function, start.values):
        raise Unfit(f"{made.guards.failing(start.function, start.values) or 'the state of the process is another'}")
    history.relearn(loaded.learnt)
    for event in loaded.events:
        cx.emit(event)
    return made


def _renew(place: Kept, made: bytes) -> None:
    """The backend has compiled more for the graph of an entry."""
    data = place.load()
    with suppress(Unkept, *DAMAGED):  # too large, or another entry that somebody has damaged
        if data is not None:
            place.store(with_made(data, made))


def _unkept(reason: str, cx: Context) -> str:
    cx.emit(ev.CaptureUnkept(cx.frame, reason))
    return reason


def shelf_of(
    start: FrameStart,
    keeping: Keeping | None,
    cx: Context,
    fullgraph: bool,
    dynamic: bool | None,
    forget: Callable[[], object],
) -> Shelf | None:
    """Where the captures of a frame are kept; None where they are not to be, or all stages are to be seen."""
    config = cx.config
    if keeping is None or not config.cache_captures or shows_all(config):
        return None
    disk, installed = cache_of(config, "captures"), versions(config)
    if disk is None or installed is None:
        return None
    frame = frame_name(start, fullgraph, dynamic)
    told = (installed, keeping.identity(config), f"{settings_of(config)}", f"{active_buckets()}", frame)
    key = digest_of("\0".join(told).encode()).hex()
    return Shelf(disk, key, frame, keeping.reload, forget, max(SLOTS, config.recompile_limit))


def shows_all(config: Config) -> bool:
    """Whether each frame is to be captured, so that its stages are seen, or what is kept would not say how it was."""
    sees_all = config.verify or config.sanitize or config.debug or config.measure or config.trace_dir is not None
    sees_all = sees_all or config.verify_correctness or config.check_unchanged or bool(config.repro_after)
    chooses = config.guard_filter_fn or config.reorderable_logging_functions or config.ignore_logging_functions
    return bool(sees_all or chooses or not set(config.logs) <= {"cache"})


def frame_name(start: FrameStart, fullgraph: bool, dynamic: bool | None) -> str:
    """What frame a call begins with, in any process: where its captures are looked for."""
    module = str(start.function.__globals__.get("__name__"))
    of = f"{module}.{start.function.__qualname__} {code_digest(start.code)} {[*map(kind_of, start.values)]}"
    return digest_of(f"{fullgraph} {dynamic} {SAID.texts()} {of}".encode()).hex()


def kind_of(value: Any) -> str:
    """The class of what a frame begins with; of a cell, that of its contents."""
    if type(value) is CellType:
        value = cell_value(value)
    return f"{type(value).__module__}.{type(value).__qualname__}"


def settings_of(config: Config) -> dict[str, str]:
    """The settings that a capture, or what is compiled of it, may depend on."""
    names = (each.name for each in dataclasses.fields(config))
    return {name: str(getattr(config, name)) for name in names if name not in ASIDE}
