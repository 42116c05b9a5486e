"""CUDA graphs: the launches of a plan are captured once for inputs of each size, and begin again by one call.

A graph reads and writes the memory that it was captured with. Inputs are copied into places of its own before each
launch, but for those that are `fixed`: parameters, and what the plan writes to. Results are copies of what it writes,
so that they stay what they are when it is launched again.

What a forward graph saves for a backward one is not copied: both have it in their memory (`GraphMemory`). Such a
forward graph is launched again only when nobody has anything of what it saved. Until then, calls with the same sizes
are captured once more, in other memory; from `IN_FLIGHT` captures on, they are launched kernel by kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from itertools import count
from sys import getrefcount
from threading import Lock, get_ident
from typing import Any

import torch

from onegraph import _C
from onegraph.base.dataclass import dataclass
from onegraph.compiler.runtime.executor import Executor
from onegraph.compiler.runtime.graph_draws import (
    DrawCall,
    Draws,
    PlacedDraws,
    RecordedDraws,
    draw,
    draws_nothing,
    is_draw,
    placed,
    takes_tensors,
)
from onegraph.compiler.target import Role
from onegraph.ir.loop import ADDRESS, EXPECTED
from onegraph.ir.plan import Alloc, ExecPlan, ExternCall, Register, Return, Slot, ViewOf
from onegraph.torchlib.aten import is_random, operator_named
from onegraph.torchlib.private import STORAGES

_CAPTURES = Lock()
MOST = 32  #: sizes of which one plan is captured: for more it runs launch by launch
IN_FLIGHT = 4  #: captures for one size, of which each has saved what a backward pass may still come for
FORWARD_REFUSED = "its forward graph is launched kernel by kernel"
NUMBERS = count()  #: of plans, which tell apart what was captured of them in one memory

Results = tuple[Any, ...]
Key = tuple[Any, ...]
Captures = dict[Key, "SizeCaptures"]


class GraphMemory:
    """A pool of memory in which a forward graph was captured, and the backward graphs that take what it saves there.

    Nothing else is captured in it: the launches of another forward graph would write to what is saved.
    """

    def __init__(self, pool: object, graph: _C.CudaGraph) -> None:
        self.pool = pool
        self.graph = graph
        self.lock = Lock()  #: held while a graph is launched here, and its results are copied
        self.captures: Captures = {}
        self.saved: list[torch.UntypedStorage] = []
        self.users = self.count()

    def save(self, results: Sequence[torch.Tensor]) -> None:
        """These are saved in each launch. Nobody has anything of them now, but the caller."""
        self.saved = storages_of(results)
        self.users = self.count()

    def is_free(self) -> bool:
        """Whether nobody has anything of what was saved: no tensor, view or storage."""
        return self.count() == self.users

    def count(self) -> list[tuple[int, int]]:
        """How many have each storage: tensors, and what has the object that stands for it in Python."""
        return [(STORAGES.users(storage._cdata), getrefcount(storage)) for storage in self.saved]


def storages_of(tensors: Sequence[torch.Tensor]) -> list[torch.UntypedStorage]:
    return [*{storage.data_ptr(): storage for storage in [tensor.untyped_storage() for tensor in tensors]}.values()]


@dataclass(frozen=True, slots=True)
class Capture:
    """The launches for inputs of one size. A result of the graph that is an input is the caller's, by position; those
    at the positions that are `saved` are given as they lie in the graph's memory."""

    graph: _C.CudaGraph
    memory: GraphMemory
    draws: Draws
    results: Results
    given: tuple[int | None, ...]
    saved: frozenset[int]


@dataclass(frozen=True, slots=True)
class SizeCaptures:
    """What is known of inputs of one size, which came once: the draws of random numbers, and the captures since."""

    draws: Sequence[DrawCall]
    captures: list[Capture]


class GraphedPlan:
    """Called with the inputs of a plan, gives its results, by a CUDA graph from the second call with the same sizes on.

    `run` launches the `plan` on this `device`. `role` says what it is to its program. `aside(pool)` makes the
    surroundings of a capture, and gives the pool, which it makes for None: a stream that is not the default one is
    current in it, and what is allocated there is nobody else's. `why_not` says why there are no graphs, which `tell` is
    told once.
    """

    def __init__(
        self,
        run: _C.Plan | Executor,
        plan: ExecPlan,
        role: Role,
        aside: Callable[[Any], AbstractContextManager[object]],
        driver: str,
        device: str = "cuda",
        tell: Callable[[str], object] = lambda why: None,
    ) -> None:
        self.run = run
        self.plan = plan
        self.role = role
        self.aside = aside
        self.driver = driver
        self.device = torch.device(device)
        self.tell = tell
        self.told: set[str] = set()
        self.why_not: str | None = None
        self.number = next(NUMBERS)
        self.draws = any(isinstance(step, ExternCall) and is_draw(step.operator) for step in plan.steps)
        self.captures: Captures = {}
        if (why := role.why_not or unsuitable(plan, self.device)) is not None:
            self.refuse(why)
        elif role.saved and not STORAGES.is_there:
            self.refuse("this torch does not say who has memory")
        elif role.taken and role.shared.is_refused:
            self.refuse(FORWARD_REFUSED)

    def __call__(self, *inputs: Any) -> Results:
        found = self.replayed(inputs)
        return self.run(*inputs) if found is None else found

    def consume(self, inputs: list[Any]) -> Results:
        """As a call with the inputs of a list, which are taken out of it."""
        found = self.replayed(inputs)
        if found is None:
            return self.run.consume(inputs)
        inputs.clear()
        return found

    def replayed(self, inputs: Sequence[Any]) -> Results | None:
        """The results; None, and nothing is done, where it is to be launched kernel by kernel."""
        if self.why_not is not None or _C.captures_cuda(self.driver, self.device.index or 0):
            return None  # where the program captures, it is a part of that
        memory = self.memory_of(inputs)
        if memory is None and self.role.taken:
            if self.role.shared.is_refused:
                self.refuse(FORWARD_REFUSED)
            return None
        known = self.captures if memory is None else memory.captures
        layouts = map(self.layout, range(len(inputs)), inputs)
        key = (self.number, get_ident(), *layouts)  # no places are shared by threads
        if key not in known:
            return self.first(key, known, inputs)
        captures = known[key].captures
        for capture in captures:
            if (found := launched(capture, memory, inputs)) is not None:
                return found
        if not captures or (self.role.saved and len(captures) < IN_FLIGHT):
            return self.captured(known[key], memory, inputs)
        if self.role.saved:
            self.say(f"what {IN_FLIGHT} calls have saved for their backward passes is still there")
        return None

    def memory_of(self, inputs: Sequence[Any]) -> GraphMemory | None:
        """Where the forward graph has saved what this one takes; None if that was launched kernel by kernel."""
        memories = self.role.shared.memories
        taken = [inputs[position] for position in self.role.taken] if memories else []
        found = (memories.get(value.data_ptr()) for value in taken if isinstance(value, torch.Tensor))
        return next(filter(None, found), None)

    def refuse(self, why: str) -> None:
        self.why_not = why
        self.captures.clear()
        if self.role.saved:
            self.role.shared.memories.clear()
            self.role.shared.is_refused = True
        self.say(why)

    def say(self, why: str) -> None:
        if why not in self.told:
            self.told.add(why)
            self.tell(why)

    def layout(self, position: int, value: Any) -> Any:
        """What a capture depends on."""
        if not isinstance(value, torch.Tensor):
            return value
        place = value.data_ptr() if self.is_in_place(position, value) else 0
        return tuple(value.shape), value.stride() if value.layout is torch.strided else None, place

    def is_in_place(self, position: int, value: torch.Tensor) -> bool:
        """Whether a graph uses this input where it lies: for other memory another graph is captured."""
        if position in self.role.fixed:
            return True
        return position in self.role.taken and value.data_ptr() in self.role.shared.memories

    def first(self, key: tuple[Any, ...], known: Captures, inputs: Sequence[Any]) -> Results:
        """Run as without graphs: libraries make what they need, and what is wrong is seen."""
        tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
        if any(tensor.device.type != self.device.type for tensor in tensors):
            self.refuse("an input lies on another device")
        elif any(tensor.layout is not torch.strided for tensor in tensors):
            self.refuse("an input is sparse")
        elif len(known) >= MOST:
            self.refuse(f"its inputs have more than {MOST} sizes")
        recorded = RecordedDraws() if self.draws else nullcontext()
        with recorded:
            results = self.run(*inputs)
        if self.why_not is not None:
            return results
        places = {tensor.untyped_storage().data_ptr() for tensor in tensors}
        for result in results:
            is_part = isinstance(result, torch.Tensor) and result.untyped_storage().data_ptr() in places
            if is_part and result.numel() and not any(result is tensor for tensor in tensors):
                self.refuse("a result is a part of an input")
        draws = recorded.draws if isinstance(recorded, RecordedDraws) else []
        if any(each.device.type != self.device.type for each in draws):
            self.refuse("it draws random numbers on another device")
        if self.why_not is None:
            known[key] = SizeCaptures(draws, [])
        return results

    def captured(self, size: SizeCaptures, memory: GraphMemory | None, inputs: Sequence[Any]) -> Results | None:
        """Capture the launches, and make them; None where that is not possible, and never will be."""
        static = [self.static(position, value) for position, value in enumerate(inputs)]
        places = tuple(
            (tensor.data_ptr(), span(tensor)) if tensor is not value else (0, 0)
            for tensor, value in zip(static, inputs, strict=True)
        )
        draws = placed(size.draws)
        where = self.driver, self.device.index or 0
        graph = _C.CudaGraph(places, *where, None if memory is None else memory.graph)
        try:
            with self.aside(None if memory is None else memory.pool) as pool:
                keep = self.run, [one for one, value in zip(static, inputs, strict=True) if one is not value], pool
                with PlacedDraws(draws) if draws else nullcontext():
                    results = graph.capture(lambda: self.run(*static), keep)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            self.refuse(f"it cannot be captured: {error}")
            return None
        given = tuple(next((n for n, value in enumerate(static) if value is result), None) for result in results)
        saved = saved_alone(results, given, self.role.saved)
        own = memory
        if own is None:
            own = GraphMemory(pool, graph)
            own.save([results[position] for position in saved])
            self.role.shared.memories.update((results[position].data_ptr(), own) for position in saved)
        size.captures.append(Capture(graph, own, draws, results, given, saved))
        return launched(size.captures[-1], memory, inputs)

    def static(self, position: int, value: Any) -> Any:
        """What stands for an input in a capture: memory that it is copied to."""
        if not isinstance(value, torch.Tensor) or self.is_in_place(position, value):
            return value
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)


def launched(capture: Capture, memory: GraphMemory | None, inputs: Sequence[Any]) -> Results | None:
    """The results of a capture; None if what it saves is still wanted, or this thread is about to copy its results.

    A backward graph in the `memory` of its forward graph takes what is saved there, and saves nothing."""
    if not capture.memory.lock.acquire(blocking=False):
        return None
    try:
        if capture.memory is not memory and not capture.memory.is_free():
            return None
        draw(capture.draws)
        capture.graph.replay(*inputs)
        return results_of(capture, inputs)
    finally:
        capture.memory.lock.release()


def saved_alone(results: Results, given: Sequence[int | None], saved: frozenset[int]) -> frozenset[int]:
    """Those of the results that are saved and share no memory with what the caller has, or gets a copy of."""
    tensors = {n: result for n, result in enumerate(results) if isinstance(result, torch.Tensor) and result.numel()}
    places = {n: tensor.untyped_storage().data_ptr() for n, tensor in tensors.items()}
    others = {place for n, place in places.items() if n not in saved or given[n] is not None}
    return frozenset(n for n, place in places.items() if place not in others)


@contextmanager
def aside(device: torch.device, pool: Any = None) -> Iterator[object]:
    """Surroundings of a capture: a stream of its own, which takes memory of this pool, or of a new one. Nobody else is
    given any of it. One capture at a time: they share the stream, and what libraries keep for it."""
    pool = torch.cuda.MemPool() if pool is None else pool
    with _CAPTURES, torch.cuda.stream(stream_of(device)), torch.cuda.use_mem_pool(pool, device):
        yield pool


@cache
def stream_of(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


def unsuitable_call(operator: str, call: ExternCall | None = None) -> str | None:
    """Why a call is not captured; None where all of its work is on the current stream, as of torch's operators, and of
    those of libraries that have not the tag which torch's compiler asks for, too. Without the call, as far as its
    operator tells."""
    if operator == EXPECTED or is_draw(operator):
        return None
    if operator == ADDRESS:
        return "what its dropout keeps depends on where an input lies"
    if operator.startswith(("onegraph.", "recipe.")):
        return f"{operator} runs in Python"
    found = operator_named(operator)
    if torch.Tag.cudagraph_unsafe in found.tags:
        return f"{operator} is not to be captured, as its tag says"
    if is_random(found) and takes_tensors(found) and not draws_nothing(found, call):
        # a graph would not know of the generator's state
        return f"{operator} takes a tensor, and draws random numbers"
    return None


def unsuitable_parts(calls: Iterable[tuple[str, Sequence[str]]]) -> Iterator[tuple[str, str]]:
    """The parts of a program, forward first, that are not captured for what they call, and why."""
    is_refused = False
    for part, operators in calls:
        found = [why for why in map(unsuitable_call, operators) if why is not None]
        is_refused = is_refused or (part == "forward" and bool(found))
        for why in [FORWARD_REFUSED] if part == "backward" and is_refused else found:
            yield part, why


def span(tensor: torch.Tensor) -> int:
    """The bytes from the first element to behind the last one."""
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (1 + last) * tensor.itemsize


def results_of(capture: Capture, inputs: Sequence[Any]) -> Results:
    """The results as the caller's own; those that share memory share the memory of their copies. What is saved is given
    as new tensors in the same memory, so that it is known when they are gone."""
    storages: dict[int, torch.UntypedStorage] = {}
    found: dict[int, Any] = {}
    for n, (result, position) in enumerate(zip(capture.results, capture.given, strict=True)):
        if position is not None:
            found[id(result)] = inputs[position]
        elif n in capture.saved:
            found[id(result)] = result.detach()
        elif not isinstance(result, torch.Tensor):
            found[id(result)] = result
        elif id(result) not in found:
            storage = result.untyped_storage()
            own = storages.get(storage.data_ptr())
            if own is None:
                own = storages[storage.data_ptr()] = storage.clone()
            place = result.storage_offset(), result.shape, result.stride()
            found[id(result)] = torch.empty(0, dtype=result.dtype, device=result.device).set_(own, *place)
    return tuple(found[id(result)] for result in capture.results)


def unsuitable(plan: ExecPlan, device: torch.device) -> str | None:
    """Why the launches of a plan cannot be captured; None: as far as it is seen, they can."""
    constants = {slot for slot, _ in plan.constants}
    for step in plan.steps:
        if isinstance(step, Alloc) and torch.device(step.device).type != device.type:
            return f"it makes tensors on {step.device}"
        if isinstance(step, ExternCall):
            if step.device:
                return f"{step.operator} makes or takes tensors on {step.device}"
            if step.operator != ADDRESS and any(isinstance(target, Register) for target in step.outputs):
                return f"{step.operator} gives a number that is in the device's memory"
            if step.communicates:
                return f"{step.operator} communicates"
            if (why := unsuitable_call(step.operator, step)) is not None:
                return why
        if isinstance(step, ViewOf) and step.base in constants:
            constants.add(step.target)
        if isinstance(step, Return) and any(isinstance(v, Slot) and v.number in constants for v in step.values):
            return "a result is a constant"
    return None
