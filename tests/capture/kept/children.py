"""Processes that have imported what this one has, and what they say of captures on disk."""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import SUPPORTED_NODES

import onegraph.capture.kept.store  # what each child would import
import onegraph.capture.translate
import onegraph.compiler.pipeline
import onegraph.reloading  # noqa: F401
from onegraph.base import events as ev
from onegraph.compile import EVENTS
from onegraph.torchlib.object_names import name_of

torch.testing.assert_close(torch.ones(1), torch.ones(1))  # imports much, which each child would do
ON_DISK = (ev.CaptureMissed, ev.CaptureKept, ev.CaptureUnkept)


def in_child(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """What a function gives in a process of its own, which has imported what this one has.

    Raises:
        AssertionError: it has raised something there, or has ended by a signal.
    """
    return given_by(*begun(partial(function, **named), *args))


def in_children(count: int, function: Callable[..., Any], *args: Any) -> list[Any]:
    """What a function gives in so many processes that begin together."""
    ready, go = os.pipe()

    def waiting() -> Any:
        os.read(ready, 1)
        return function(*args)

    begin = [begun(waiting) for _ in range(count)]
    os.write(go, bytes(count))
    os.close(ready)
    os.close(go)
    return [given_by(*each) for each in begin]


def begun(function: Callable[..., Any], *args: Any) -> tuple[int, int]:
    """A process that runs a function: its number, and where it gives what that gives."""
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        for cls in [each for each in SUPPORTED_NODES if name_of(each) is None]:  # of other tests
            del SUPPORTED_NODES[cls]
        try:
            result = function(*args), ""
        except BaseException:
            result = None, traceback.format_exc()
        with os.fdopen(write, "wb") as out:
            pickle.dump(result, out)
        os._exit(0)
    os.close(write)
    return process, read


def given_by(process: int, read: int) -> Any:
    """Raises AssertionError where `in_child` does."""
    with os.fdopen(read, "rb") as given:
        data = given.read()
    _, status = os.waitpid(process, 0)
    assert status == 0, f"the child has ended with signal {os.WTERMSIG(status)}"
    result, raised = pickle.loads(data)
    assert not raised, raised
    return result


def listening() -> list[str]:
    """The names of what is said of captures from here on; `CaptureLoaded` where one was found."""
    said: list[str] = []

    def note(event: ev.Event) -> None:
        if isinstance(event, ev.DiskSearched) and event.stage == "capture" and event.found:
            said.append("CaptureLoaded")
        elif isinstance(event, ON_DISK):
            said.append(type(event).__name__)
            print(event, file=sys.stderr, flush=True)  # shown where the test fails

    EVENTS.subscribe(note)
    return said
