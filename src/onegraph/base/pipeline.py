"""A pipeline is one visible list of passes; each says why it stands where it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import thread_time
from typing import Generic, TypeVar

from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass
from onegraph.base.events import PassRun, StageTimed

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Pass(Generic[P]):
    """`run(program, cx) -> program`. `reason` says why this pass exists and why it stands here.

    One that is `needed` cannot be switched off by the option `skipped_passes`.
    """

    name: str
    run: Callable[[P, Context], P]
    reason: str
    needed: bool = False


@contextmanager
def timed(cx: Context, stage: str) -> Iterator[None]:
    """Tell how long the stage takes: processor time of this thread, which other programs hardly change."""
    start = thread_time()
    try:
        yield
    finally:
        cx.emit(StageTimed(cx.frame, stage, thread_time() - start))


def run_passes(
    program: P,
    passes: Sequence[Pass[P]],
    cx: Context,
    check: Callable[[P], object] | None = None,
    dump: Callable[[P], str] | None = None,
    stage: str = "",
) -> P:
    """Run the passes in order, but for those that `config.skipped_passes` names.

    With `config.verify`, `check` is run before the first pass and after each one. An error is annotated with the pass
    that raised it (or after which the check failed), so that a crash names its pass.
    """
    verify = check if cx.config.verify else None
    if verify is not None:
        verify(program)
    for step in passes:
        if step.name in cx.config.skipped_passes and not step.needed:
            continue
        start = thread_time()
        try:
            program = step.run(program, cx)
            if verify is not None:
                verify(program)
        except Exception as error:
            error.add_note(f"in pass '{step.name}'" + (f" of the stage '{stage}'" if stage else ""))
            raise
        if cx.events:
            text = partial(dump, program) if dump is not None else ""
            cx.emit(PassRun(cx.frame, stage, step.name, thread_time() - start, text))
    return program
