"""Small programs of graphs that fail while a program runs (the options `repro_after`, `repro_level`).

The names and levels are torch's: 1 writes the whole graph that fails, 2 a small one, 3 every whole graph before it
runs, which is left where the process ends, and 4 a small one also where a result differs.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule

from onegraph.backend_registry import said
from onegraph.base.config import Config
from onegraph.base.events import GraphExamined
from onegraph.capture.examined import ALWAYS
from onegraph.tools.debugging.debug_dir import FOLDER, folder_of_process
from onegraph.tools.shrink import Case, without_numbers
from onegraph.tools.verification.failing import WHOLE, failure_of
from onegraph.tools.verification.graphs import GraphCall
from onegraph.tools.verification.narrow import narrowed
from onegraph.tools.verification.replay import Replay

LOGGER = logging.getLogger("onegraph")
WRITTEN = "a graph of %s %s: a program that does so, too, is in %s"
LOST = "a graph of %s %s: no program of it can be written, as it holds, or its backend is, what has no name"
EVERY = "the graph of %s, as it is before it is compiled, is in %s"
TESTS = 300  # of smaller graphs
#: Options that say nothing of what a graph becomes.
OTHERS = frozenset({"logs", "debug", "trace_dir", "backend", "verify", "disable", "check_unchanged", *WHOLE})
OTHERS |= {field.name for field in dataclasses.fields(Config) if field.name.startswith(("repro_", "debug_", "cache"))}


class Repro:
    """Writes programs. The same graph is tried once for each kind of failure."""

    def __init__(self) -> None:
        self._tried: set[tuple[int, str]] = set()
        self._modules: list[GraphModule] = []  # those that were tried live on, as they are known by identity

    def note(self, event: GraphExamined) -> None:
        """What it does is done in a thread, away from what is traced in this one."""
        key = id(event.module), event.error.partition(":")[0]
        if key in self._tried:
            return
        self._tried.add(key)
        self._modules.append(event.module)
        raised: list[Exception] = []

        def work() -> None:
            try:
                examine(event)
            except Exception as error:
                raised.append(error)

        thread = threading.Thread(target=work, name="onegraph repro")
        thread.start()
        thread.join()
        if raised:
            raise raised[0]


REPRO = Repro()


def examine(event: GraphExamined) -> None:
    """Write the program of one graph, if it fails alone or every one is written."""
    config: Config = event.config
    given = inputs_of(event.module) if event.inputs is None else event.inputs
    case = without_numbers(Case(event.module, given))
    gradients = event.gradients and event.after == "dynamo" and not config.repro_forward_only
    dynamic = True if any(type(each) is int for each in case.inputs) else None
    keywords = {"backend": said(event.compile_graph), "options": options_of(config), "dynamic": dynamic}
    file = free_file(config)
    if config.repro_level == ALWAYS and not event.error:
        written = Replay(file, keywords, case.module, case.inputs, gradients, "may fail").write()
        LOGGER.warning(EVERY, event.frame, written or "no program, as it holds what has no name")
        return
    failure = failure_of(case, gradients, keywords)
    if not failure:
        return
    if config.repro_level == 1:
        tell(event, failure.text, Replay(file, keywords, case.module, case.inputs, gradients, failure.text).write())
        return
    call = GraphCall(1, case.module, case.inputs, event.frame, gradients)
    tell(event, failure.text, narrowed(call, failure, 1, keywords, TESTS).replay(file, keywords))


def tell(event: GraphExamined, failure: str, written: Path | None) -> None:
    if written is None:
        LOGGER.warning(LOST, event.frame, failure)
    else:
        LOGGER.warning(WRITTEN, event.frame, failure, written)


def free_file(config: Config) -> Path:
    """A name for the next program: `minifier/repro.py` in the folder of the process."""
    root = Path(os.path.abspath(config.debug_dir or FOLDER))
    folder = folder_of_process(root, os.getpid()) / "minifier"
    number, file = 1, folder / "repro.py"
    while file.exists():
        number += 1
        file = folder / f"repro_{number}.py"
    return file


def options_of(config: Config) -> dict[str, Any]:
    """What differs from the defaults, and can be written in a program."""
    default = Config()
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(Config)}
    return {
        name: value
        for name, value in values.items()
        if name not in OTHERS and value != getattr(default, name) and is_literal(value)
    }


def is_literal(value: object) -> bool:
    return isinstance(value, str | int | float) or isinstance(value, tuple) and all(map(is_literal, value))


def inputs_of(module: GraphModule) -> tuple[Any, ...]:
    """Values for the inputs of a graph of which nothing but their sizes is known. Integers are 0 or 1."""
    generator = torch.Generator().manual_seed(0)
    return tuple(input_of(node.meta["val"], generator) for node in module.graph.nodes if node.op == "placeholder")


def input_of(value: Any, generator: torch.Generator) -> Any:
    if not isinstance(value, torch.Tensor):
        return number_of(value)
    sizes, strides = list(map(number_of, value.shape)), list(map(number_of, value.stride()))
    count = 1 + sum((size - 1) * step for size, step in zip(sizes, strides, strict=True)) if 0 not in sizes else 0
    if value.dtype.is_floating_point or value.dtype.is_complex:
        memory = torch.randn(count, generator=generator)
    else:
        memory = torch.randint(0, 2, (count,), generator=generator)
    return memory.to(value.dtype).as_strided(sizes, strides)


def number_of(value: Any) -> Any:
    return value.node.hint if isinstance(value, torch.SymInt) else value
