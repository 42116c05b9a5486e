"""What the frame hook asks: a frame of a compiled region starts and no version of its code fits. Translate it.

One `Region` describes one call of `onegraph.compile`. Its `callback` is what the C hook calls; it takes a lock per
code object, so that threads translate different functions side by side and the same one once.
"""

from __future__ import annotations

import gc
import itertools
import logging
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import field, replace
from functools import partial
from time import thread_time
from types import CodeType, FunctionType, TracebackType
from typing import TYPE_CHECKING, Any

import torch

from onegraph import _C
from onegraph.base import events as ev
from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass
from onegraph.base.errors import (
    NO_MEMORY,
    FailOnRecompileError,
    GraphBreakError,
    OnegraphError,
    RecompileLimitError,
)
from onegraph.base.events import Events, Location
from onegraph.base.keeping import Keeping
from onegraph.base.late import late_module
from onegraph.base.locks import Lock
from onegraph.base.pipeline import timed
from onegraph.base.settings import Layers
from onegraph.base.stack import with_room
from onegraph.base.work import interrupted_work
from onegraph.capture.captured import Failing, FrameStart, Skipped
from onegraph.capture.directives.foreign import foreign_stance, said
from onegraph.capture.directives.skipped_code import (
    BESIDE,
    OWN,
    PROTOCOLS,
    has_builtins,
    is_skipped,
    is_written_for_library,
)
from onegraph.capture.directives.stance import may_compile
from onegraph.capture.foreign_frames import foreign_replacement
from onegraph.capture.graph.recording import is_recording
from onegraph.capture.guards.program import GuardProgram
from onegraph.capture.guards.recompiling import explain_failure
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.resume.resumed import places, same_places
from onegraph.capture.symbolic.shape_policy import History, ShapePolicy
from onegraph.torchlib import ranks
from onegraph.torchlib.announced import compiling
from onegraph.torchlib.around import eager_state
from onegraph.torchlib.state import is_faking, saving_plainly

if TYPE_CHECKING:
    from onegraph.capture.bytecode.decode import decode
    from onegraph.capture.kept.saved import Saved
    from onegraph.capture.kept.store import frame_name, shelf_of
    from onegraph.capture.replacement import Translated
    from onegraph.capture.translate import run_as_written, translate
else:  # what captures is not imported where all calls fit what is known
    decode = late_module("onegraph.capture.bytecode.decode").decode
    run_as_written = late_module("onegraph.capture.translate").run_as_written
    translate = late_module("onegraph.capture.translate").translate
    frame_name = late_module("onegraph.capture.kept.store").frame_name
    shelf_of = late_module("onegraph.capture.kept.store").shelf_of

LOGGER = logging.getLogger("onegraph")
CAPTURE_FAILED = (
    "onegraph failed to capture %s, which runs eagerly: %s. This is a defect of onegraph: please report it. "
    'options={"raise_compiler_errors": True} raises it, with where it is from.'
)
ALONE = (
    "rank %s has compiled another version of %s, which %d of the other ranks have not begun to compile: they wait for "
    "it where they communicate. No version fitted, because %s"
)
LIMIT_REACHED = (
    "%s was compiled %d times, which is the limit (the option %s): calls that fit none of the versions "
    "run eagerly from now on. The last one does not fit, because %s. Keep what changes out of the function (pass it "
    "as a tensor, or compile the functions that it calls), or raise the limit; ONEGRAPH_LOGS=recompiles shows "
    "each version."
)
NOT_IN_FILE = "%s has nothing for this call of %s, which is compiled now: %s"

#: A compiled graph: called with the flat inputs, returns the flat outputs.
CompiledGraph = Callable[..., tuple[Any, ...]]
CompileGraph = Callable[[torch.fx.GraphModule, list[Any], Context], CompiledGraph]


@dataclass(frozen=True, slots=True)
class Version:
    """One compiled version of a code object, and what it was made with: equal functions share it.

    `lent`: it was made for another function.
    """

    made: Translated
    entry: Any
    config: Config
    said: tuple[int, int]
    global_names: dict[str, Any]
    lent: bool = False

    @property
    def guards(self) -> GuardProgram:
        return self.made.guards


@dataclass(slots=True)
class Versions:
    """The versions of one code object (see `places`) in one region, newest last, and what is known of its sizes."""

    lock: Lock = field(default_factory=Lock)
    compiled: list[Version] = field(default_factory=list)
    history: History = field(default_factory=History)
    exhausted: bool = False
    skipped: int = 0
    closed: bool = False
    number: int | None = None  #: of its first compilation, among those of other code
    eager: tuple[str, Skipped] | None = None  #: the frame that ran as it was written, and why
    retired: list[Version] = field(default_factory=list)  #: forgotten in a call: what they end with is no part of it


_NUMBERS = itertools.count()
#: All that are alive.
REGIONS: weakref.WeakSet[Region] = weakref.WeakSet()


class Region:
    """The capture state of one compiled function or module."""

    def __init__(
        self,
        compile_graph: CompileGraph,
        layers: Layers,
        events: Events,
        fullgraph: bool,
        dynamic: bool | None,
        keeping: Keeping | None = None,
    ) -> None:
        self.compile_graph = compile_graph
        self.keeping = keeping
        self.saved: Saved | None = None
        self._layers = layers
        self._events = events
        self.fullgraph = fullgraph
        self.dynamic = dynamic
        self.context = _C.Context(self.callback)
        # By identity: equal code objects of different functions have different constants and cells.
        self._versions: dict[tuple[int, ...], tuple[tuple[CodeType, ...], Versions]] = {}
        self._lock = Lock()
        REGIONS.add(self)

    @property
    def cx(self) -> Context:
        """With the configuration as it is now."""
        return Context(self._layers.now(), self._events)

    def callback(self, function: FunctionType, code: CodeType, values: tuple[Any, ...]) -> Any:
        """An entry to run (and keep), `_C.SKIP` to leave this code alone from now on, or None for this call only.

        `_C.EAGERLY` runs this call, and all that it calls, as it is written.
        """
        try:
            answer = self._answer(function, code, values)
        except Exception as error:
            if isinstance(error, OnegraphError) or self.fullgraph or self.cx.config.raise_compiler_errors:
                raise
            tell_failed(code.co_qualname, error)
            return None
        if isinstance(answer, Failing):
            self._fail(answer, FrameStart(function, code, values))
        return answer

    def _answer(self, function: FunctionType, code: CodeType, values: tuple[Any, ...]) -> Any:
        """The same, or Failing: what the program raises is its own, and is raised elsewhere."""
        if is_skipped(code) is not None:
            if code in BESIDE:
                return _C.EAGERLY
            replaced = foreign_replacement(code)
            return _C.SKIP if replaced is None else _C.Entry(replaced, None, self.context)
        if code.co_name in PROTOCOLS:
            return _C.EAGERLY
        if is_written_for_library(function, code):
            return _C.SKIP
        if is_recording() or is_faking() or not has_builtins():  # a part of another trace, which records what it does
            return None
        around = eager_state()
        if around is not None:
            frame = Location.of_code(code)
            self.cx.emit(ev.FrameSkipped(frame, f"{around.name}: {around.why}"))
            return _C.EAGERLY
        if self.cx.config.disable:
            return _C.EAGERLY
        at = places(code, values)
        with self._lock:
            _, versions = self._versions.setdefault(tuple(map(id, at)), (at, Versions()))
        with versions.lock:
            if versions.closed and _C.exchange_setting("error_on_graph_break") is not True:
                self._tell_eager(code)
                return None
            for version in versions.compiled:
                if version.guards.native.check(function, values):
                    return version.entry
            self._forget_dead(code, versions)
            versions.retired.clear()
            lent = self._borrowed(function, at, values, versions)
            if lent is not None:
                return lent.entry
            start = FrameStart(function, code, values)
            filed = "" if self.saved is None else self._filed(self.saved, start, versions)
            if not isinstance(filed, str):
                return self._settled(filed, start, versions)
            if not may_compile(foreign_stance(), partial(missing, start, versions, filed)):
                return None
            if self.saved is not None:
                LOGGER.warning(NOT_IN_FILE, self.saved.path, Location.of_code(code), filed)
            return self._translate(start, versions)

    def _forget(self, code: CodeType, versions: Versions) -> None:
        """Forget the versions of a code object."""
        versions.retired += versions.compiled
        versions.compiled = []
        self.context.clear(code)

    def _forget_dead(self, code: CodeType, versions: Versions) -> None:
        """Forget the versions for classes and functions that have died."""
        living = [version for version in versions.compiled if not version.guards.is_dead()]
        if len(living) < len(versions.compiled):
            versions.compiled, versions.exhausted = living, False
            self.context.clear(code)  # those that live are found again when they are needed

    def _filed(self, saved: Saved, start: FrameStart, versions: Versions) -> Translated | Skipped | str:
        """What the file that was loaded has for a call, or why it has nothing."""
        cx, forget = self.cx.for_frame(Location.of_code(start.code)), partial(self._forget, start.code, versions)
        flushing = _C.flush_denormals(False)
        try:
            with timed(cx, "translate"), saving_plainly(), compiling(cx.frame):
                return with_room(saved.found, start, versions.history, cx, self.fullgraph, self.dynamic, forget)
        finally:
            _C.flush_denormals(flushing)

    def _translate(self, start: FrameStart, versions: Versions) -> Any:
        function, code, values = start.function, start.code, start.values
        frame = Location.of_code(code)
        cx = self.cx.for_frame(frame)
        total, most = versions_of(places(code, values)), cx.config.accumulated_recompile_limit
        if total >= most and not versions.exhausted:
            gc.collect()  # regions that the program has dropped are in cycles
            total = versions_of(places(code, values))
        is_another = versions.compiled or total >= most
        reason = self._reason_to_recompile(function, values, versions, total, cx) if is_another else ""
        if reason is None:
            self._tell_eager(code)
            return None
        again = f"{frame} {len(versions.compiled)}" if reason else ""
        if again:
            ranks.begin(again)
        versions.number = next(_NUMBERS) if versions.number is None else versions.number
        line = next((line for *_, line in code.co_lines() if line), code.co_firstlineno)
        cx.emit(ev.FrameStarted(frame, len(versions.compiled), versions.number, line, cx.config))
        cx.emit(ev.BytecodeDecoded(frame, lambda: str(decode(code))))
        began, failure = thread_time(), ""
        try:
            with compiling(frame):
                result = self._translated(start, cx, versions)
            if isinstance(result, Skipped):
                cx.emit(ev.FrameSkipped(frame, result.reason))
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
            raise
        finally:
            cx.emit(ev.FrameEnded(frame, thread_time() - began, failure))
        if again and (others := ranks.without(again)):
            LOGGER.warning(ALONE, ranks.rank(), frame, others, reason)
        return self._settled(result, start, versions)

    def _settled(self, result: Translated | Skipped | Failing, start: FrameStart, versions: Versions) -> Any:
        """What the hook is told of what became of a frame."""
        code, cx = start.code, self.cx
        if isinstance(result, Skipped):
            versions.skipped += 1
            if self.keeping is not None:
                versions.eager = frame_name(start, self.fullgraph, self.dynamic), result
            versions.closed = versions.skipped > result.again
            if result.whole:
                return _C.EAGERLY
            for_good = versions.closed and not cx.config.measure and len(places(code, start.values)) == 1
            return _C.SKIP if for_good else None
        if isinstance(result, Failing):
            return result
        version = Version(result, self._entry(result), cx.config, said(), start.function.__globals__)
        versions.compiled.append(version)
        return version.entry

    def _tell_eager(self, code: CodeType) -> None:
        cx = self.cx
        if cx.config.measure:
            cx.emit(ev.RanEagerly(Location.of_code(code)))

    def _entry(self, made: Translated) -> Any:
        return _C.Entry(made.code, made.guards.native, self.context, made.levels, made.opened)

    def _borrowed(
        self, function: FunctionType, at: tuple[CodeType, ...], values: tuple[Any, ...], versions: Versions
    ) -> Version | None:
        """A version of an equal function in another region, made with the same settings, that fits this call."""
        config = self.cx.config
        if not config.share_versions or config.guard_filter_fn is not None:  # which chooses what is compared
            return None
        made_with = config, said(), id(function.__globals__)
        for others in self._of_equal_code(at):
            for other in list(others.compiled):
                is_like = (other.config, other.said, id(other.global_names)) == made_with
                if is_like and other.guards.native.check(function, values):
                    version = replace(other, entry=self._entry(other.made), lent=True)
                    versions.compiled.append(version)
                    versions.history.learn(others.history)
                    self.cx.emit(ev.VersionShared(Location.of_code(at[0])))
                    return version
        return None

    def _of_equal_code(self, at: tuple[CodeType, ...]) -> Iterator[Versions]:
        """What other regions with this backend have of equal code."""
        mine = self.compile_graph, self.fullgraph, self.dynamic
        for region in list(REGIONS):
            if region is not self and (region.compile_graph, region.fullgraph, region.dynamic) == mine:
                yield from (found for known, found in list(region._versions.values()) if same_places(known, at))

    def _translated(self, start: FrameStart, cx: Context, versions: Versions) -> Translated | Skipped | Failing:
        """What onegraph cannot translate runs eagerly; with `suppress_errors` also what a backend fails on.

        Graph breaks that are errors are still errors, and under `fullgraph` everything is.
        """
        policy = shape_policy(versions.history, self.dynamic, cx.config)
        flushing = _C.flush_denormals(False)  # the program's constants are what they are
        try:
            with timed(cx, "translate"), saving_plainly():
                forget = partial(self._forget, start.code, versions)
                shelf = shelf_of(start, self.keeping, cx, self.fullgraph, self.dynamic, forget)
                found = None if shelf is None else with_room(shelf.found, start, versions.history, cx)
                if found is not None:
                    return found
                with nullcontext(False) if shelf is None else shelf.turn() as waited:
                    found = with_room(shelf.found, start, versions.history, cx) if shelf and waited else None
                    if found is not None:
                        return found
                    return with_room(translate, start, self.compile_graph, cx, self.fullgraph, policy, shelf)
        except GraphBreakError as error:
            error.__traceback__ = None  # where the tracer was is nothing to the user
            raise
        except Exception as error:
            if self.fullgraph:
                raise
            reason = f"{type(error).__name__}: {error}"
            if not cx.config.suppress_errors and not isinstance(error, RecursionError):
                if isinstance(error, OnegraphError) or cx.config.raise_compiler_errors:
                    raise
                tell_failed(cx.frame, error)
            return Skipped(reason)
        finally:
            _C.flush_denormals(flushing)

    def _fail(self, result: Failing, start: FrameStart) -> None:
        """Raise what the program raises as it was written; its traceback shows the program."""
        try:
            with interrupted_work():
                run_as_written(start)
        except BaseException as error:
            error.__traceback__ = of_user(error.__traceback__)
            raise
        self.cx.emit(result.broken)
        raise GraphBreakError(result.broken)

    def _reason_to_recompile(
        self, function: FunctionType, values: tuple[Any, ...], versions: Versions, total: int, cx: Context
    ) -> str | None:
        """Report why no version fits; None when a limit is reached: of these, or of `total` in all regions."""
        if versions.compiled:
            reason, cause = explain_failure((version.guards for version in versions.compiled), function, values)
        else:
            reason, cause = "it is another compiled function", None
        option, limit, made = "recompile_limit", cx.config.recompile_limit, len(versions.compiled)
        if total >= cx.config.accumulated_recompile_limit:
            option, limit, made = "accumulated_recompile_limit", cx.config.accumulated_recompile_limit, total
        if cx.config.error_on_recompile and versions.compiled:
            raise FailOnRecompileError(f"'error_on_recompile' is set, and {cx.frame} needs another version: {reason}")
        if made >= limit:
            if self.fullgraph or cx.config.fail_on_recompile_limit_hit:
                raise RecompileLimitError(
                    f"{cx.frame} was compiled {limit} times, which is the limit; once more is needed, because {reason}"
                )
            if not versions.exhausted:
                versions.exhausted = True
                cx.emit(ev.RecompileLimitReached(cx.frame, limit, reason))
                LOGGER.warning(LIMIT_REACHED, cx.frame, limit, option, reason)
            return None
        cx.emit(ev.Recompiled(cx.frame, reason, cause, len(versions.compiled)))
        return reason

    def compiled(self) -> Iterator[tuple[Location, Version]]:
        """What was compiled here, frame by frame."""
        for at, versions in list(self._versions.values()):
            yield from ((Location.of_code(at[0]), version) for version in versions.compiled)

    def eager(self) -> dict[str, Skipped]:
        """The frames that run as they are written, by their names for any process."""
        return dict(each.eager for _, each in list(self._versions.values()) if each.eager is not None)

    def count(self, at: tuple[CodeType, ...]) -> int:
        """How many versions of a code object were made here."""
        found = self._versions.get(tuple(map(id, at)))
        return 0 if found is None else sum(not version.lent for version in found[1].compiled)

    def reset(self) -> None:
        """Forget all versions."""
        with self._lock:
            forgotten, self._versions = self._versions, {}
        self.context.clear()
        forgotten.clear()  # with no lock held: kernels die here, and those who wait for that are called


def versions_of(at: tuple[CodeType, ...]) -> int:
    """How many versions of a code object there are in all regions."""
    return sum(region.count(at) for region in list(REGIONS))


def shape_policy(history: History, dynamic: bool | None, config: Config) -> ShapePolicy:
    """What `compile` was told goes before the settings."""
    if dynamic is None and not config.assume_static_by_default:
        dynamic = True
    if dynamic is None and not config.automatic_dynamic_shapes:
        dynamic = False
    constant = (int,) * config.specialize_int + (float,) * config.specialize_float
    return history.policy(dynamic, constant)


def tell_failed(frame: object, error: Exception) -> None:
    """A defect of ours costs speed."""
    LOGGER.warning(
        NO_MEMORY if isinstance(error, MemoryError) else CAPTURE_FAILED, frame, f"{type(error).__name__}: {error}"
    )


def of_user(entry: TracebackType | None) -> TracebackType | None:
    """A traceback without its first entries, which are those of this package."""
    while entry is not None and entry.tb_frame.f_code.co_filename.startswith(OWN):
        entry = entry.tb_next
    return entry


def missing(start: FrameStart, versions: Versions, filed: str) -> str:
    """Why no compiled version fits, for an error; `filed` says why there is none in the file that was loaded."""
    frame = Location.of_code(start.code)
    if filed and not versions.compiled:
        return f"nothing that was saved fits the call of {frame}: {filed}"
    if not versions.compiled:
        return f"{frame} was not compiled yet"
    reason, cause = explain_failure((version.guards for version in versions.compiled), start.function, start.values)
    return f"no compiled version of {frame} fits the call: {reason}" + (f", which {cause} needs" if cause else "")
