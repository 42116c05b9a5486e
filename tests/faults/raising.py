"""Each function of each stage raises, one at a time: where it is called first in a compilation and its calls.

An error must not be seen: what fails to be compiled runs as it is written. An interrupt must reach the user. Behind
either, the state of the process is as it was, and the next call is right.
"""

from __future__ import annotations

import functools
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

import torch

import onegraph
from tests.faults.programs import Program, warm
from tests.faults.state import changed, state

PATIENCE = 60  # seconds, after which a child hangs
ERRORS = (RuntimeError, MemoryError, RecursionError, KeyboardInterrupt)


#: What these raise reaches the user: nobody of ours stands above them, or there is no way back any more.
LAST = {
    "onegraph.capture.hook.Region.callback": "C calls it",
    "onegraph.autograd.function.CompiledGraph.backward": "autograd calls it",
    "onegraph.autograd.function.Stage.backward": "autograd calls it",
    "onegraph.autograd.freed.Spent.backward": "autograd calls it",
    "onegraph.autograd.function.differentiate": "autograd calls it, as good as",
    "onegraph.autograd.function.note_hooks": "what registers a hook of a result calls it",
    "onegraph.autograd.native.NativeNode.backward": "autograd calls it",
    "onegraph.autograd.native.later": "autograd calls it",
    "onegraph.autograd.native.take_over": "autograd calls it, as good as",
    "onegraph.autograd.native.noted": "what registers a hook of a result calls it",
    "onegraph.autograd.second_run.Hooked.called": "autograd calls it",
    "onegraph.torchlib.module_hooks.on_inputs": "autograd calls it",
    "onegraph.torchlib.module_hooks.on_output": "autograd calls it",
    "onegraph.torchlib.hooked.register_as": "it stands behind the graph, where a hook is registered",
    "onegraph.autograd.function.release": "what a pass takes is being let go of",
    "onegraph.autograd.runtime.gradient": "what a pass takes has been let go of",
    "onegraph.autograd.runtime.write_unrecorded": "inputs have been written to",
    "onegraph.autograd.runtime.unrecorded_output": "inputs have been written to",
    "onegraph.autograd.runtime.resolve": "inputs have been written to",
    "onegraph.torchlib.recorder.AtenRecorder.__torch_dispatch__": "C++ that may not throw asks it for sizes",
    "onegraph.torchlib.state.surely": "it puts the state back when all else has failed",
    "onegraph.capture.directives.hatches.graph_break": "the program calls it",
}


def functions() -> list[FunctionType]:
    """All functions of onegraph, but not those that functions make."""
    found: dict[int, FunctionType] = {}
    for name, module in sorted(sys.modules.items()):
        if name.startswith("onegraph.") and hasattr(module, "__file__"):
            for value in list(vars(module).values()):
                members = vars(value).values() if isinstance(value, type) else [value]
                for member in members:
                    for function in parts(member):
                        if (function.__module__ or "").startswith("onegraph."):
                            found[id(function)] = function
    return list(found.values())


def parts(member: Any) -> Iterator[FunctionType]:
    """The functions that a module's or a class's member is made of."""
    match member:
        case FunctionType():
            yield member
        case staticmethod() | classmethod():
            yield from parts(member.__func__)
            return
        case property():
            for part in (member.fget, member.fset):
                yield from parts(part)
        case functools.cached_property():
            yield from parts(member.func)
    if hasattr(type(member), "__get__") or isinstance(member, functools._lru_cache_wrapper):
        wrapped = getattr(member, "__dict__", {}).get("__wrapped__")
        if wrapped is not None:
            yield from parts(wrapped)


def template(*args: Any, **kwargs: Any) -> Any:
    act: Any = 987_654_321  # in the place of this constant
    return act(*args, **kwargs)


def stand_in(act: Callable[..., Any], code: CodeType) -> CodeType:
    """Code that calls `act` with its arguments, in the place of `code`."""
    made = template.__code__
    consts = tuple(act if value == 987_654_321 else value for value in made.co_consts)
    return made.replace(co_consts=consts, co_freevars=code.co_freevars, co_filename=code.co_filename)


class Instead:
    """Something happens at the first call of a function, which is itself again then."""

    def __init__(self, function: FunctionType, act: Callable[[], None]) -> None:
        self.function, self.act, self.code = function, act, function.__code__
        function.__code__ = stand_in(self, self.code)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.restore()
        self.act()
        return self.function(*args, **kwargs)

    def restore(self) -> None:
        self.function.__code__ = self.code


def name_of(function: FunctionType) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def reached(program: Program) -> str:
    """The names of the functions that a compilation of the program and its calls come to, in order, as lines."""
    found: list[FunctionType] = []
    onegraph.reset()
    compiled = program.compiled()
    instead = [Instead(function, functools.partial(found.append, function)) for function in functions()]
    try:
        program.observe(compiled)
    finally:
        for each in instead:
            each.restore()
    return "\n".join(map(name_of, found))


def raising(error: type[BaseException]) -> Callable[[], None]:
    def act() -> None:
        raise error("by the test")

    return act


def equal(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> bool:
    return len(found) == len(expected) and all(
        torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(found, expected, strict=True)
    )


def problem(program: Program, function: FunctionType, error: type[BaseException]) -> str:
    """What is wrong when this function raises this error; empty if nothing is."""
    expected, before = program.expected(), state()
    onegraph.reset()
    compiled = program.compiled()
    instead = Instead(function, raising(error))
    try:
        found = program.observe(compiled)
    except BaseException as raised:
        if not isinstance(raised, error) or issubclass(error, Exception):
            return f"{type(raised).__name__} reaches the user: {raised}"
    else:
        was_called = function.__code__ is instead.code
        if was_called and not issubclass(error, Exception):
            return "the interrupt is lost"
        if not equal(found, expected):
            return "another result than eager's"
    finally:
        instead.restore()
    return left_behind(before, program, compiled, expected)


def left_behind(before: dict[str, Any], program: Program, compiled: Any, expected: Sequence[torch.Tensor]) -> str:
    """What is wrong in the process behind an accident, whose state was `before` it; empty if nothing is."""
    if changes := changed(before):
        return f"it changes {'; '.join(changes)}"
    for again in (compiled, program.compiled()):
        if not equal(program.observe(again), expected):
            return "the next call is wrong"
    return ""


def apart(question: Callable[[], str]) -> str:
    """The answer of a forked child: one that has lost its way, or its life, takes nobody along."""
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        signal.alarm(PATIENCE)
        # A child makes torch's pool of threads anew, which autograd's threads must not do side by side.
        torch.set_num_threads(torch.get_num_threads())
        try:
            answered = question()
        except BaseException as raised:
            answered = f"the check itself raises {type(raised).__name__}: {raised}"
        try:
            with os.fdopen(writer, "wb") as out:
                out.write(answered.encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        found = answer.read().decode()
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return f"the process ends with {code}" if code else found


def run(
    programs: Sequence[Program],
    errors: Sequence[type[BaseException]],
    everywhere: bool,
    chance: random.Random,
    some: int,
) -> int:
    """Try all; how many went wrong.

    Args:
        everywhere: in each program that comes to a function, not in the first alone.
        chance, some: try so many of each program's functions, drawn by chance; 0 for all.
    """
    tried, failed = 0, 0
    seen = set(LAST)
    warm()
    known = {name_of(function): function for function in functions()}
    for program in programs:
        come_to = apart(functools.partial(reached, program)).splitlines()
        wanted = [known[name] for name in come_to if name not in (LAST if everywhere else seen)]
        seen.update(come_to)
        wanted = chance.sample(wanted, min(some, len(wanted))) if some else wanted
        for error in errors:
            for function in wanted:
                tried += 1
                found = apart(functools.partial(problem, program, function, error))
                if found:
                    failed += 1
                    print(f"{program.name}: {error.__name__} in {name_of(function)}: {found}", flush=True)
        print(f"{program.name}: {len(come_to)} functions reached, {len(wanted)} made to raise", flush=True)
    print(f"{tried} accidents, {failed} of them not mended")
    return failed
