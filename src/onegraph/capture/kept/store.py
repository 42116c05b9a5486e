"""The captures on disk: of each frame a few, by what the frame's code, the settings and the versions of all parts say.

Entries of one frame differ in what they assume. A call takes the first that holds for it; what was captured anew goes
into a place that is free, or has an entry that did not hold.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from functools import cache, partial
from hashlib import blake2b
from types import CellType
from typing import Any

import numpy
import torch

from onegraph.base import events as ev
from onegraph.base.codec import Unkept
from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass
from onegraph.base.disk_cache import DiskCache, cache_of, key_of
from onegraph.base.keeping import Keeping, Reload
from onegraph.capture.captured import Capture, FrameStart
from onegraph.capture.directives.function_marks import SAID
from onegraph.capture.kept.contents import code_digest
from onegraph.capture.kept.entries import Loaded, capture_of, entry_of, with_made
from onegraph.capture.kept.rows import Stale
from onegraph.capture.pyobject.contents import cell_value
from onegraph.capture.replacement import Translated, replacement
from onegraph.capture.symbolic.shape_policy import History

SLOTS = 8
#: Settings that change nothing of what is compiled.
ASIDE = frozenset({"logs", "cache_dir", "debug_dir", "debug_files", "trace_dir", "accumulated_recompile_limit"})
#: Where torch has the functions that programs run.
_TORCH = ". nn nn/modules nn/utils optim utils autograd amp func fft linalg distributions _refs _refs/nn _decomp _prims"


@dataclass(slots=True)
class Shelf:
    """The entries of one frame. `forget` makes this process forget what it has from here."""

    disk: DiskCache
    key: str
    reload: Reload
    forget: Callable[[], object]
    free: list[int] = field(default_factory=list)
    stale: list[int] = field(default_factory=list)

    def found(self, start: FrameStart, history: History, cx: Context) -> Translated | None:
        """The replacement by a capture on disk that holds for a call."""
        for loaded, around in self._loaded(start, history, cx):
            try:
                made = replacement(loaded.capture, around, start, cx)
                if made.guards.native.check(start.function, start.values):
                    history.relearn(loaded.learnt)
                    for event in (ev.DiskSearched(cx.frame, "capture", found=True), *loaded.events):
                        cx.emit(event)
                    return made
            except Exception as why:  # nobody has written such an entry: the frame is captured
                cx.emit(ev.CaptureMissed(cx.frame, f"{type(why).__name__}: {why}"))
        cx.emit(ev.DiskSearched(cx.frame, "capture", found=False))
        return None

    def _loaded(self, start: FrameStart, history: History, cx: Context) -> list[tuple[Loaded, Any]]:
        """The captures that may hold for a call, with what runs their graphs, if they have some."""
        found = []
        self.free.clear()
        self.stale.clear()
        for slot in range(SLOTS):
            data = self.disk.load(self._name(slot))
            if data is None:
                self.free.append(slot)
                continue
            try:
                entry = capture_of(data, start, history, cx)
                found.append((entry, self._around(entry, slot, cx)))
            except Stale as why:
                cx.emit(ev.CaptureMissed(cx.frame, f"{why}"))
                self.stale.append(slot)
            except Exception as why:  # nobody has written such an entry: it is the first to be replaced
                cx.emit(ev.CaptureMissed(cx.frame, f"{type(why).__name__}: {why}"))
                self.free.insert(0, slot)
        return found

    def _around(self, entry: Loaded, slot: int, cx: Context) -> Any:
        if entry.made is None or entry.fallback is None:
            return None
        compiled = self.reload(entry.made, cx, partial(self._outgrown, slot))
        if compiled is None:
            raise Stale("the code of its kernels is gone")
        return entry.fallback.around(compiled)

    def store(self, captured: Capture, start: FrameStart, history: History, cx: Context) -> None:
        """Keep a capture, and what the backend has made of its graph."""
        slots, made = self.free or self.stale, None if cx.made is None else cx.made.whole
        if not slots or (captured.graph is not None and made is None):
            reason = "all places are taken" if not slots else "the backend does not say what it has compiled"
            cx.emit(ev.CaptureUnkept(cx.frame, reason))
            return
        try:
            data = entry_of(captured, start, history, None if captured.graph is None else made)
        except (Unkept, RecursionError) as why:
            cx.emit(ev.CaptureUnkept(cx.frame, f"{why}"))
            return
        self.disk.store(self._name(slots[0]), data)
        if cx.made is not None:
            cx.made.renew = partial(self._renew, slots[0])
        cx.emit(ev.CaptureKept(cx.frame, len(data)))

    def _renew(self, slot: int, made: bytes) -> None:
        """The backend has compiled more for the graph of an entry."""
        data = self.disk.load(self._name(slot))
        if data is not None:
            self.disk.store(self._name(slot), with_made(data, made))

    def _outgrown(self, slot: int) -> None:
        """An entry lacks what this process needs: the frame is captured anew, and kept in its place."""
        self.disk.store(self._name(slot), b"")
        self.forget()

    def _name(self, slot: int) -> str:
        return key_of(self.key, str(slot))


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
    sees_all = config.verify or config.sanitize or config.debug or config.measure
    sees_all = sees_all or config.verify_correctness or config.check_unchanged or bool(config.repro_after)
    chooses = config.guard_filter_fn or config.reorderable_logging_functions or config.ignore_logging_functions
    if keeping is None or not config.cache_captures or sees_all or chooses or config.trace_dir is not None:
        return None
    if not set(config.logs) <= {"cache"}:
        return None
    disk = cache_of(config, "captures")
    if disk is None:
        return None
    module = str(start.function.__globals__.get("__name__"))
    parts = (
        versions(), keeping.identity(config), settings_text(config), f"{fullgraph} {dynamic} {SAID.texts()}",
        f"{module}.{start.function.__qualname__} {code_digest(start.code)} {[*map(kind_of, start.values)]}",
    )  # fmt: skip
    return Shelf(disk, blake2b("\0".join(parts).encode(), digest_size=16).hexdigest(), keeping.reload, forget)


def kind_of(value: Any) -> str:
    """The class of what a frame begins with; of a cell, that of its contents."""
    if type(value) is CellType:
        value = cell_value(value)
    return f"{type(value).__module__}.{type(value).__qualname__}"


def settings_text(config: Config) -> str:
    """The settings that a capture, or what is compiled of it, may depend on."""
    items = ((each.name, getattr(config, each.name)) for each in dataclasses.fields(config))
    return f"{[(name, str(value)) for name, value in items if name not in ASIDE]}"


@cache
def versions() -> str:
    """What a capture depends on besides the program: this package, Python and torch. (Names of entries say more of
    this package, see `base.disk_cache`.)"""
    home = os.path.dirname(sys.modules["onegraph"].__file__ or "")
    own = stamp(home, (path for layer in (".", "capture", "autograd") for path in folders(home, layer)))
    of_torch = stamp(os.path.dirname(torch.__file__), _TORCH.split())
    return f"{own} {sys.version} {sys.flags} {torch.__version__} {of_torch} {numpy.__version__}"


def folders(home: str, layer: str) -> Iterator[str]:
    """The folder of a layer, and those in it."""
    if layer == ".":
        yield layer
        return
    for folder, _, _ in sorted(os.walk(os.path.join(home, layer))):
        yield os.path.relpath(folder, home)


def stamp(home: str, names: Iterable[str]) -> str:
    """The sources in these folders, by their sizes and times."""
    digest = blake2b(digest_size=16)
    for name in names:
        path = os.path.join(home, name)
        if os.path.isdir(path) and not path.endswith("__pycache__"):
            with os.scandir(path) as entries:
                found = sorted((e.name, e.stat().st_size, e.stat().st_mtime_ns) for e in entries if is_source(e))
            digest.update(f"{name} {found}".encode())
    return digest.hexdigest()


def is_source(entry: os.DirEntry[str]) -> bool:
    return entry.name.endswith((".py", ".so"))
