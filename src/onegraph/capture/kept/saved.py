"""The captures of a file, for the function or module that is loaded with it: see `onegraph.load`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from onegraph.base import events as ev
from onegraph.base.context import Context, Store
from onegraph.base.dataclass import dataclass
from onegraph.base.keeping import Kept, Reload, digest_of
from onegraph.capture.captured import FrameStart, Skipped
from onegraph.capture.kept.rows import Stale
from onegraph.capture.kept.store import DAMAGED, frame_name, read_entry, settings_of, shows_all
from onegraph.capture.replacement import Translated
from onegraph.capture.symbolic.shape_policy import History


@dataclass(slots=True)
class Saved:
    """`captures` has the names of the entries of each frame (see `frame_name`), `eager` the frames that run as they are
    written; in `entries` they are, with the code of their kernels, and `settings` says what they were made with."""

    path: str
    captures: Mapping[str, list[str]]
    eager: Mapping[str, Skipped]
    entries: Store
    settings: Mapping[str, str]
    reload: Reload

    def found(
        self,
        start: FrameStart,
        history: History,
        cx: Context,
        fullgraph: bool,
        dynamic: bool | None,
        forget: Callable[[], object],
    ) -> Translated | Skipped | str:
        """What the file has for a call of a frame, or why it has nothing."""
        if shows_all(cx.config):
            return "all stages are to be seen (verify, debug or the like)"
        for name, now in settings_of(cx.config).items():
            if self.settings.get(name) != now:
                return f"the option {name} was {self.settings.get(name)}, is {now}"
        frame = frame_name(start, fullgraph, dynamic)
        names = self.captures.get(frame, [])
        why = ""
        for name in list(names):
            data = self.entries.load(name) or b""

            def outgrown(name: str = name) -> None:
                if name in names:  # else another graph of it was refused before
                    names.remove(name)
                forget()

            try:
                there = replace(cx, code=self.entries)
                made = read_entry(data, (frame,), self.reload, outgrown, start, history, there)
            except Exception as error:  # nobody has written such an entry, but one that is stale
                if cx.config.raise_compiler_errors and not isinstance(error, (Stale, *DAMAGED)):
                    raise
                why = f"{error}"
                cx.emit(ev.CaptureMissed(cx.frame, why))
                continue
            cx.emit(ev.DiskSearched(cx.frame, "capture", found=True))
            return replace(made, kept=Kept(frame, self.entries, name, digest_of(data)))
        cx.emit(ev.DiskSearched(cx.frame, "capture", found=False))
        skipped = self.eager.get(frame)
        if skipped is not None and not names:
            return skipped
        return why or "it was not called so when the file was saved"
