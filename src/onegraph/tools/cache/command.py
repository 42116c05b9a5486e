"""`onegraph cache`: what is in the cache on disk, and its removal."""

from __future__ import annotations

import argparse
import json
import re
import textwrap
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from onegraph import ahead_of_time
from onegraph.base.bundle import Bundle, texts_of, unpacked
from onegraph.base.dataclass import dataclass
from onegraph.base.disk_cache import KINDS, LIMIT, MAGIC, DiskCache, content_of
from onegraph.base.errors import InvalidArgument, OnegraphError
from onegraph.base.text import columns
from onegraph.compiler.made_with import check_facts, facts
from onegraph.tools.cache import artifacts
from onegraph.tools.cache.entries import Entry, cache_folder, configured, entries_in, removed, sweep
from onegraph.tools.cache.kinds import text_of

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
WORTH_NAMING = 4  # characters of the name of an entry


def add_cache_command(commands: Any) -> None:
    """Add `cache` to the commands of onegraph."""
    cache = commands.add_parser("cache", help="what is kept on disk: show it, prune it, clear it")
    steps = cache.add_subparsers(required=True, metavar="show|prune|clear")
    look = steps.add_parser("show", help="where the cache is and what is in it, or what one entry holds")
    look.add_argument("entry", nargs="?", help="the name of an entry, its beginning, or a file")
    look.add_argument("--json", action="store_true", help="the same as JSON")
    look.set_defaults(run=show)
    less = steps.add_parser("prune", help="remove old entries, and what was never finished")
    less.add_argument("--max-size", type=_size, metavar="SIZE", help="leave so much, the most recently used: 100MB")
    less.add_argument("--older-than", type=_age, metavar="AGE", help="remove what was not used for so long: 30d, 12h")
    less.set_defaults(run=prune)
    none = steps.add_parser("clear", help="remove all entries")
    none.add_argument("--kind", choices=KINDS, help="only those of this kind")
    none.set_defaults(run=clear)


def show(args: argparse.Namespace) -> str:
    """The cache, or one entry."""
    if args.entry is not None:
        found = _looked_up(args.entry)
        return json.dumps(found.about | {"holds": found.text}, indent=1) if args.json else f"{found}"
    folder = cache_folder()
    entries = entries_in(folder)
    return json.dumps(_summary(folder, entries), indent=1) if args.json else _table(folder, entries)


def prune(args: argparse.Namespace) -> str:
    """Remove what is old or too much; without a limit, what the cache itself would remove."""
    folder = cache_folder()
    entries = entries_in(folder)  # the most recently used first
    until = time.time() - args.older_than if args.older_than is not None else 0
    if args.max_size is not None or args.older_than is not None:
        excess = _behind(entries, args.max_size)
    else:
        excess = {each for kind in KINDS for each in _behind([e for e in entries if e.kind == kind], LIMIT)}
    gone = _removed(folder, [entry for entry in entries if entry.used < until or entry in excess])
    _swept(folder, KINDS)
    left = entries_in(folder)
    return f"{_told(gone)}; {_entries(left)} left, {_bytes(_total(left))}"


def clear(args: argparse.Namespace) -> str:
    """Remove everything, or one kind."""
    folder = cache_folder()
    kinds = KINDS if args.kind is None else (args.kind,)
    gone = _removed(folder, entries_in(folder, kinds))
    _swept(folder, kinds, 0)
    return f"{_told(gone)} from {folder}"


# ---- what is there ---------------------------------------------------------------------------------------------------


def _table(folder: Path, entries: Sequence[Entry]) -> str:
    rows: list[tuple[object, ...]] = [("kind", "entries", "size", "oldest", "newest")]
    for kind, of_kind in _by_kind(entries):
        rows.append((kind, len(of_kind), _bytes(_total(of_kind)), _when(of_kind[-1].used), _when(of_kind[0].used)))
    rows.append(("all", len(entries), _bytes(_total(entries)), "", ""))
    off = "" if configured().cache else "; switched off here (ONEGRAPH_CACHE=0)"
    lines = [line.rstrip() for line in columns(rows).splitlines()]
    return "\n".join([f"The cache is in {folder}{off}", *lines])


def _summary(folder: Path, entries: Sequence[Entry]) -> dict[str, Any]:
    kinds = {
        kind: {
            "entries": len(found),
            "bytes": _total(found),
            "least_recently_used": found[-1].used,
            "most_recently_used": found[0].used,
            "names": [entry.key for entry in found],
        }
        for kind, found in _by_kind(entries)
    }
    return {"folder": str(folder), "on": configured().cache, "limit_of_each_kind": LIMIT, "kinds": kinds}


def _by_kind(entries: Sequence[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    for kind in KINDS:
        if found := [entry for entry in entries if entry.kind == kind]:
            yield kind, found


@dataclass(frozen=True, slots=True)
class Found:
    """What one entry, or one file, holds."""

    title: str
    about: dict[str, Any]
    text: str

    def __str__(self) -> str:
        return f"{self.title}\n{self.text}"


def _looked_up(name: str) -> Found:
    path = Path(name)
    if path.is_file():
        return _in_file(path)
    folder = cache_folder()
    if len(name) < WORTH_NAMING:
        raise InvalidArgument(f"there is no file {name}, and names of entries are given with 4 characters at least")
    near = [entry for entry in entries_in(folder) if entry.key.startswith(name)]
    if not near:
        raise InvalidArgument(f"there is no file {name}, and no entry of that name in {folder}")
    if len(near) > 1:
        raise InvalidArgument(f"there are {len(near)} entries {name}...: {', '.join(entry.key for entry in near)}")
    (entry,) = near
    content = DiskCache(folder / entry.kind).load(entry.key)
    if content is None:
        raise OnegraphError(f"{entry.key}, of {entry.kind}, is damaged or not trusted: it is not used")
    return _described(entry.kind, entry.key, content)


def _in_file(path: Path) -> Found:
    """A file: an entry, wherever it stands, artifacts, or a program."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise OnegraphError(f"{path} cannot be read: {error.strerror}") from None
    if data.startswith(MAGIC):
        content = content_of(path.name, data)
        if content is None:
            raise OnegraphError(f"{path} is damaged, or has another name than it was stored by: it is not used")
        return _described(path.absolute().parent.name, path.name, content)
    try:
        if data.startswith(ahead_of_time.NAME):
            return _of_program(path, unpacked(ahead_of_time.MAGIC, data))
        return _of_bundle(path, unpacked(artifacts.MAGIC, data))
    except ValueError as why:
        raise OnegraphError(f"{path} is no entry of a cache, no artifacts and no program: {why}") from None


def _of_bundle(path: Path, bundle: Bundle) -> Found:
    try:
        made_with = texts_of(bundle.about, "made with")
        check_facts(made_with, facts())
        use = "can be loaded here"
    except ValueError as why:
        use = f"cannot be loaded here: {why}"
    text = "\n".join([columns([*made_with.items()]), columns(_listed(bundle))])
    about = {"file": str(path), "made_with": made_with, "use": use}
    return Found(f"{path}: cache artifacts, {artifacts.info_of(bundle.artifacts)}; {use}", about, text)


def _of_program(path: Path, bundle: Bundle) -> Found:
    """What `onegraph.save` has written."""
    made_with, needs = texts_of(bundle.about, "made with"), ahead_of_time.needs_in(bundle)
    try:
        check_facts(made_with, ahead_of_time.made_here(configured()))
        lacking = needs.missing()
    except ValueError as why:
        lacking = f"{why}"
    use = f"cannot be loaded here: {lacking}" if lacking else "can be loaded here, with the same program"
    name = bundle.about["program"]["name"]
    machine = [
        ("system", f"{needs.system} on {needs.architecture}"),
        ("processor", f"{needs.processor} or one with"),
    ]
    sizes = {each.key: len(each.content) for each in bundle.artifacts}
    lines = []
    for _, key, where, *inputs in bundle.about["captures"]:
        lines += [f"{where}: {_bytes(sizes[key])}", *(f"  {each}" for each in inputs)]
    lines += [f"{reason}: runs as it is written" for _, reason, *_ in bundle.about["eager"]]
    features = textwrap.fill(" ".join(needs.features), 100, initial_indent="  ", subsequent_indent="  ")
    kinds = f"{artifacts.info_of(bundle.artifacts)}"
    text = "\n".join([columns([*made_with.items(), *machine]), features, *lines])
    about = {"file": str(path), "made_with": made_with, "program": name, "use": use}
    return Found(f"{path}: {name}, compiled ({kinds}); {use}", about, text)


def _listed(bundle: Bundle) -> list[tuple[object, ...]]:
    return [(each.kind, each.key, _bytes(len(each.content))) for each in bundle.artifacts]


def _described(kind: str, key: str, content: bytes) -> Found:
    try:
        text = text_of(kind, content)
    except ValueError as why:
        raise OnegraphError(f"{key}, of {kind}, cannot be read, and is not used: {why}") from None
    about = {"kind": kind, "name": key, "bytes": len(content)}
    return Found(f"{key}, of {kind}, {_bytes(len(content))}", about, text)


# ---- what is removed -------------------------------------------------------------------------------------------------


def _behind(entries: Sequence[Entry], most: int | None) -> set[Entry]:
    """What does not fit into so many bytes beside what was used after it."""
    total, excess = 0, set()
    for entry in entries:
        if most is not None and total + entry.size > most:
            excess.add(entry)
        else:
            total += entry.size
    return excess


def _removed(folder: Path, entries: Sequence[Entry]) -> list[Entry]:
    try:
        return removed(folder, entries)
    except OSError as error:
        raise OnegraphError(f"the cache in {folder} cannot be written: {error.strerror}") from None


def _swept(folder: Path, kinds: Sequence[str], *age: float) -> None:
    try:
        sweep(folder, kinds, *age)
    except OSError as error:
        raise OnegraphError(f"the cache in {folder} cannot be written: {error.strerror}") from None


def _told(gone: Sequence[Entry]) -> str:
    kinds = ", ".join(f"{kind}: {len(found)}" for kind, found in _by_kind(gone))
    return f"removed {_entries(gone)}, {_bytes(_total(gone))}" + (f" ({kinds})" if kinds else "")


def _entries(entries: Sequence[Entry]) -> str:
    return f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'}"


def _total(entries: Sequence[Entry]) -> int:
    return sum(entry.size for entry in entries)


# ---- numbers ---------------------------------------------------------------------------------------------------------


def _bytes(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip(), re.I)
    if match is None or match[2].upper() not in UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: expected 100MB, 1.5GB, 500 or the like")
    return int(float(match[1]) * UNITS[match[2].upper()])


def _age(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no age: expected 30d, 12h, 90m or the like")
    return float(match[1]) * SECONDS[match[2]]
