"""How the processes of a group are, for the error of one that waits for another in vain.

Each tells in the store of the group where it runs, when it first calls `compile`; and after that only what is out of
the ordinary: that it compiles for long, has failed, or has ended. A process whose collective fails reads what the
others have told, looks whether those of its machine are still there, and notes both on the error.
"""

from __future__ import annotations

import atexit
import linecache
import logging
import os
import re
import sys
import time
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from functools import cache
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any

import torch.distributed as dist

from onegraph import _C
from onegraph.base.dataclass import dataclass
from onegraph.torchlib.private import default_store
from onegraph.torchlib.ranks import key, rank

LOGGER = logging.getLogger("onegraph")
LONG = 1.0  # seconds of a compilation, after which the others can see it
ALONE = 10.0  # seconds, after which a warning says that others wait
GRACE = 1.0  # seconds in which others that fail, too, can say so
LIMIT = 3.0  # seconds, of all that is asked: the store may hang with the process that holds it
PAUSE = 0.005, 0.1  # seconds between two looks, at first and at most: torchrun ends all ranks soon
MOST = 8  # ranks that a note describes
ENDED = "has ended"
COMPILES = "compiling"
SLOW = (
    "rank %s has been compiling %s for %.0f s. Ranks that do not compile (%s) wait for it where they communicate, as "
    "long as the time-out of the group allows"
)
#: How the errors of collectives are known: by what gloo, NCCL and sockets say.
FAILURE = re.compile(r"gloo|nccl|[Tt]im(ed|e) ?-?out|timeout|pair closure|[Cc]onnection (closed|reset)|[Bb]roken pipe")
#: How a note on an error begins that says where in the program it was.
WITHIN = "in the compiled graph of "
#: What is no code of the program.
LIBRARIES = tuple(os.path.dirname(sys.modules[name].__file__ or "") + os.sep for name in ("torch", "onegraph"))


@dataclass(frozen=True, slots=True)
class State:
    """What a process has told of itself: where it runs, `what` is to be said of it, and since when (by the clock)."""

    host: str
    machine: str  #: within which numbers of processes mean the same; "" if that is not known
    process: int
    since: float
    what: str

    def packed(self) -> str:
        return f"{self.host}\n{self.machine}\n{self.process}\n{self.since}\n{self.what}"

    @classmethod
    def unpacked(cls, text: str) -> State:
        host, machine, process, since, what = text.split("\n", 4)
        return cls(host, machine, int(process), float(since), what)

    def is_there(self) -> str:
        """What the system knows of the process: "gone", "stopped", or nothing."""
        if not self.machine or self.machine != machine():
            return ""
        try:
            with open(f"/proc/{self.process}/stat") as file:
                letter = file.read().rpartition(")")[2].split()[0]
        except OSError:
            return "gone"
        return "gone" if letter in "ZX" else "stopped" if letter in "Tt" else ""

    def is_settled(self) -> bool:
        """Whether there is no use in waiting for more."""
        return self.what.startswith("has ") or self.is_there() == "gone"

    def __str__(self) -> str:
        name, seconds = f"(process {self.process} on {self.host})", max(0.0, time.time() - self.since)
        if self.what.startswith("has "):
            return f"{name} {self.what}, {seconds:.1f} s ago"
        found, meanwhile = self.is_there(), f", while {self.what}" if self.what else ""
        if found == "gone":
            return f"{name} is gone: it was killed, has crashed, or has left the group and ended{meanwhile}"
        if found == "stopped":
            return f"{name} is stopped by a signal{meanwhile}"
        if self.what:
            return f"{name} has been {self.what} for {seconds:.0f} s"
        return f"{name} has not failed: it is elsewhere in the program, or hangs"


@cache
def machine() -> str:
    """What is the same for processes that see each other by their numbers."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


# ---- what this process tells ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Told:
    """What this process has told: in which group, what last, and since when its errors are listened to."""

    group: Any = None
    last: str = ""
    listening: int = 0


TOLD = Told()


def tell(what: str, since: float | None = None) -> None:
    """Let the others of the group know how this process is."""
    number = rank()
    if number is not None:
        TOLD.last = what
        state = State(os.uname().nodename, machine(), os.getpid(), since or time.time(), what)
        with suppress(RuntimeError, ValueError):  # the store is gone with the process that held it
            default_store().set(key(f"rank/{number}"), state.packed())


def be_known() -> None:
    """Tell the group where this process runs, once."""
    group: Any = dist.group.WORLD
    if TOLD.group is None or TOLD.group() is not group:
        TOLD.group = weakref.ref(group)
        tell("")
    if TOLD.listening != os.getpid():
        TOLD.listening = os.getpid()
        listen()


def listen() -> None:
    """Be told of errors that leave compiled code, or end the program, and of its end."""
    before, process = sys.excepthook, os.getpid()

    def uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        try:
            if os.getpid() == process and not explain(error):
                tell(f"has raised {type(error).__name__}{said(error)}, {place_of(error)}")
        finally:
            before(kind, error, trace)

    def end() -> None:
        if os.getpid() == process and not TOLD.last.startswith("has "):
            tell(ENDED)

    sys.excepthook = uncaught
    atexit.register(end)
    _C.on_failure(explain)


def said(error: BaseException) -> str:
    first = str(error).strip().partition("\n")[0]
    return f": {first[:200]}" if first else ""


@dataclass(slots=True)
class Compilation:
    """One that may take long. `ended` is set with the lock held, so that nothing is told of it later."""

    frame: object
    began: float = field(default_factory=time.time)
    ended: Event = field(default_factory=Event)
    lock: Lock = field(default_factory=Lock)
    told: bool = False

    def watch(self) -> None:
        """In a thread of its own."""
        if self.ended.wait(LONG):
            return
        with self.lock:
            if self.ended.is_set():
                return
            self.told = True
            tell(f"{COMPILES} {self.frame}", self.began)
        if not self.ended.wait(ALONE - LONG):
            with suppress(RuntimeError, ValueError):
                self.warn()

    def warn(self) -> None:
        number, store = rank(), default_store()
        states = {other: read(store, other) for other in range(dist.get_world_size()) if other != number}
        waiting = [f"{n}" for n, state in states.items() if state is not None and not state.what.startswith(COMPILES)]
        if waiting:
            LOGGER.warning(SLOW, number, self.frame, time.time() - self.began, ", ".join(waiting))

    def end(self) -> None:
        got = self.lock.acquire(timeout=LIMIT)
        self.ended.set()
        if self.told:
            tell("")
        if got:
            self.lock.release()


@contextmanager
def announced(frame: object) -> Iterator[None]:
    """Within it this process compiles the frame."""
    be_known()
    compilation = Compilation(frame)
    with suppress(RuntimeError):  # the interpreter ends, and has no more threads
        Thread(target=compilation.watch, daemon=True, name="onegraph compilation").start()
    try:
        yield
    finally:
        compilation.end()


# ---- the error of a collective --------------------------------------------------------------------------------------


def is_failure(error: BaseException) -> bool:
    """Whether an error says that processes could not communicate."""
    return dist.is_available() and (
        isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and bool(FAILURE.search(str(error))))
    )


def numbered(call: Callable[..., Any], number: int) -> Callable[..., Any]:
    """The operator, which says of its errors the how manieth collective of a graph it was."""

    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except Exception as error:
            error.collective = number  # type: ignore[attr-defined]
            raise

    return run


def note_place(error: BaseException, frame: object, places: Sequence[tuple[str, int, str, str]]) -> None:
    """Note on an error of a compiled graph where in the program it was: in one of these places, if it communicates."""
    number = getattr(error, "collective", None)
    if number is not None and number < len(places):
        places = [places[number]]
    texts = dict.fromkeys(text_of(*place) for place in places) if is_failure(error) else ()
    error.add_note(f"{WITHIN}{frame}" + (f", {' or '.join(texts)}" if texts else ""))


def text_of(filename: str, line: int, function: str, text: str) -> str:
    """A line in words. Captures on disk know it by its text, where the file has changed since."""
    if linecache.getline(filename, line).strip() == text:
        return f"at {filename}:{line} in {function}"
    return f"at `{text}` in {function}"


def place_of(error: BaseException) -> str:
    """Where in the program an error was raised."""
    for note in getattr(error, "__notes__", ()):
        if note.startswith(WITHIN):
            return str(note)
    raised = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    called = [(frame.f_code, line) for frame, line in traceback.walk_stack(sys._getframe())]
    for code, line in (*reversed(raised), *called):  # from the inside to the outside
        if not code.co_filename.startswith((*LIBRARIES, "<")):
            return f"at {code.co_filename}:{line} in {code.co_name}"
    return "outside of the program"


def explain(error: BaseException) -> bool:
    """Whether it is the error of a collective: it is noted on it which rank this is, where it was, and how the others
    are. That takes a few seconds at most."""
    number = rank()
    if number is None or not is_failure(error):
        return False
    if any(map(is_explanation, getattr(error, "__notes__", ()))):
        return True
    place, size = place_of(error), dist.get_world_size()
    lines = others(number, size, f"has failed to communicate, too, {place}")
    here = "" if place.startswith(WITHIN) else f", {place}"  # there is a note of that
    error.add_note("\n  ".join([f"this is rank {number} of {size}{here}. Of the others:", *lines]))
    return True


def is_explanation(note: object) -> bool:
    return isinstance(note, str) and note.startswith("this is rank ")


def others(number: int, size: int, what: str) -> list[str]:
    """How the other ranks are, in words; they are told `what` is to be said of this one."""
    found: dict[int, str] = {}
    waiting = [other for other in range(size) if other != number]
    asking = Thread(target=ask, args=(waiting, found, what), daemon=True, name="onegraph ranks")
    with suppress(RuntimeError):  # the interpreter ends, and has no more threads
        asking.start()
    if asking.is_alive():
        asking.join(LIMIT)
    lines = [found[other] for other in sorted(found)]
    if len(lines) > MOST:
        lines[MOST:] = [f"and {len(lines) - MOST} more"]
    if asking.is_alive():
        lines.append("the store of the group does not answer: rank 0 holds it, where torchrun does not")
    return lines


def ask(waiting: list[int], found: dict[int, str], what: str) -> None:
    """In a thread of its own: the store may hang."""
    until = time.monotonic() + GRACE
    try:
        tell(what)
        store, pause = default_store(), PAUSE[0]
        while True:
            states = {other: read(store, other) for other in waiting}
            is_last = time.monotonic() >= until
            for other, state in states.items():
                if is_last or (state is not None and state.is_settled()):
                    waiting.remove(other)
                    found[other] = f"rank {other} {state or 'has told nothing: it has not come to `onegraph.compile`'}"
            if not waiting:
                return
            time.sleep(pause)
            pause = min(2 * pause, PAUSE[1])
    except (RuntimeError, ValueError, OSError) as error:
        found[-1] = f"the store of the group is gone, which rank 0 holds where torchrun does not ({said(error)[2:]})"


def read(store: Any, number: int) -> State | None:
    """What a rank has told last."""
    name = key(f"rank/{number}")
    return State.unpacked(store.get(name).decode()) if store.check([name]) else None
