"""Structured traces in the form that torch writes for `TORCH_TRACE`, and `tlparse` reads.

V1129 14:03:54.123456 4711 onegraph/tools/trace_file.py:1] {"artifact": {...}, "frame_id": 0, "has_payload": "..."}
        the first line of the payload
        the second

A record is a line with a header as glog writes it and JSON; `has_payload` is the MD5 of the lines that follow, each
behind a tab. Names of files are written once, as records `str` that number them. (Source: torch/_logging/_internal.py.)
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from onegraph.base.config import rank
from onegraph.base.events import Location

Json = Mapping[str, "Json"] | Sequence["Json"] | str | int | float | bool | None
_PREFIX = "dedicated_log_torch_trace_"
_WRITER = "onegraph/tools/trace_file.py:1"


class TraceFile:
    """A new file in a folder, which is made if there is none.

    Raises:
        OSError: if it cannot be made, or written to later.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._rank = rank()
        number = "" if self._rank is None else f"rank_{self._rank}_"
        handle, name = tempfile.mkstemp(".log", _PREFIX + number, folder)
        os.close(handle)
        self.path = Path(name)
        self._numbers: dict[str, int] = {}

    def record(self, name: str, facts: Json, about: Mapping[str, Json], payload: str | None = None) -> None:
        """Write a record.

        Args:
            name: what it is, by the names of torch.
            facts: what it says, without long texts.
            about: which compilation it belongs to; empty for none.
            payload: a long text.
        """
        whole: dict[str, Json] = {name: facts, **about}
        if about and self._rank is not None:
            whole["rank"] = self._rank
        if payload is not None:
            whole["has_payload"] = hashlib.md5(payload.encode(errors="replace"), usedforsecurity=False).hexdigest()
        lines = [f"{_header()} {json.dumps(whole)}", *(f"\t{line}" for line in (payload or "").split("\n") if payload)]
        with open(self.path, "a", encoding="utf-8", errors="replace") as file:
            file.write("\n".join(lines) + "\n")

    def stack(self, locations: Sequence[Location]) -> list[Json]:
        """A stack as records have it, the outermost frame first."""
        return [
            {"line": at.line, "name": at.function, "filename": self._number(at.filename), "loc": at.source_line()}
            for at in locations
        ]

    def _number(self, text: str) -> int:
        if text not in self._numbers:
            number = self._numbers[text] = len(self._numbers)
            self.record("str", [text, number], {})
        return self._numbers[text]


def _header() -> str:
    now = time.time()
    micros = int(now % 1 * 1_000_000)
    return f"V{time.strftime('%m%d %H:%M:%S', time.localtime(now))}.{micros:06d} {os.getpid()} {_WRITER}]"
