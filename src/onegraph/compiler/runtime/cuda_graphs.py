"""CUDA graphs: the launches of a plan are captured once for inputs of each size, and begin again by one call.

A graph reads and writes the memory that it was captured with. Inputs are copied into places of its own before each
launch, but for those that are `fixed`: parameters, and what the plan writes to. Results are copies of what it writes,
so that they stay what they are when it is launched again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from threading import Lock, get_ident
from typing import Any

import torch

from onegraph import _C
from onegraph.base.dataclass import dataclass
from onegraph.compiler.runtime.executor import Executor
from onegraph.ir.loop import EXPECTED, PHILOX_STATE
from onegraph.ir.plan import Alloc, ExecPlan, ExternCall, Register, Return, Slot, ViewOf
from onegraph.torchlib.aten import is_random, operator_named

_CAPTURES = Lock()
MOST = 32  #: captures of one plan: for more sizes it runs launch by launch


@dataclass(frozen=True, slots=True)
class Capture:
    """The launches for inputs of one size. A result of the graph that is an input is the caller's, by position."""

    graph: _C.CudaGraph
    results: tuple[Any, ...]
    given: tuple[int | None, ...]


class GraphedPlan:
    """Called with the inputs of a plan, gives its results, by a CUDA graph from the second call with the same sizes on.

    `run` launches the `plan` on this `device`. The inputs at the positions that are `fixed` are used where they lie:
    for other memory another graph is captured. `aside` makes the surroundings of a capture: a stream that is not the
    default one is current in it, and what is allocated there is nobody else's. `why_not` says why there are no graphs,
    which `tell` is told once.
    """

    def __init__(
        self,
        run: _C.Plan | Executor,
        plan: ExecPlan,
        fixed: Collection[int],
        aside: Callable[[], AbstractContextManager[object]],
        driver: str,
        device: str = "cuda",
        tell: Callable[[str], object] = lambda why: None,
    ) -> None:
        self.run = run
        self.plan = plan
        self.fixed = frozenset(fixed)
        self.aside = aside
        self.driver = driver
        self.device = torch.device(device)
        self.tell = tell
        self.why_not: str | None = None
        #: By the sizes of inputs; None: these came once, and are captured when they come again.
        self.captures: dict[tuple[Any, ...], Capture | None] = {}
        if (why := unsuitable(plan, self.device)) is not None:
            self.refuse(why)

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        if self.why_not is not None or _C.captures_cuda(self.driver, self.device.index or 0):
            return self.run(*inputs)  # where the program captures, it is a part of that
        key = (get_ident(), *map(self.layout, range(len(inputs)), inputs))  # no places are shared by threads
        capture = self.captures.get(key)
        if capture is None:
            if key not in self.captures:
                return self.first(key, inputs)
            capture = self.captured(key, inputs)
            if capture is None:
                return self.run(*inputs)
        capture.graph.replay(*inputs)
        return copies(capture, inputs)

    def consume(self, inputs: list[Any]) -> tuple[Any, ...]:
        results = self(*inputs)
        inputs.clear()
        return results

    def refuse(self, why: str) -> None:
        self.why_not = why
        self.tell(why)

    def layout(self, position: int, value: Any) -> Any:
        """What a capture depends on."""
        if not isinstance(value, torch.Tensor):
            return value
        place = value.data_ptr() if position in self.fixed else 0
        return tuple(value.shape), value.stride() if value.layout is torch.strided else None, place

    def first(self, key: tuple[Any, ...], inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run as without graphs: libraries make what they need, and what is wrong is seen."""
        tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
        if any(tensor.device.type != self.device.type for tensor in tensors):
            self.refuse("an input lies on another device")
        elif any(tensor.layout is not torch.strided for tensor in tensors):
            self.refuse("an input is sparse")
        elif len(self.captures) >= MOST:
            self.refuse(f"its inputs have more than {MOST} sizes")
        results = self.run(*inputs)
        if self.why_not is not None:
            return results
        known = {tensor.untyped_storage().data_ptr() for tensor in tensors}
        for result in results:
            is_part = isinstance(result, torch.Tensor) and result.untyped_storage().data_ptr() in known
            if is_part and result.numel() and not any(result is tensor for tensor in tensors):
                self.refuse("a result is a part of an input")
        self.captures[key] = None
        return results

    def captured(self, key: tuple[Any, ...], inputs: Sequence[Any]) -> Capture | None:
        """Capture the launches; None where that is not possible, and never will be."""
        static = [self.static(position, value) for position, value in enumerate(inputs)]
        places = tuple(
            (tensor.data_ptr(), span(tensor)) if tensor is not value else (0, 0)
            for tensor, value in zip(static, inputs, strict=True)
        )
        graph = _C.CudaGraph(places, self.driver, self.device.index or 0)
        try:
            with self.aside() as surroundings:
                results = graph.capture(lambda: self.run(*static), (self.run, static, surroundings))
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            self.refuse(f"it cannot be captured: {error}")
            self.captures.clear()
            return None
        given = tuple(next((n for n, value in enumerate(static) if value is result), None) for result in results)
        capture = self.captures[key] = Capture(graph, results, given)
        return capture

    def static(self, position: int, value: Any) -> Any:
        """What stands for an input in a capture: memory that it is copied to."""
        if not isinstance(value, torch.Tensor) or position in self.fixed:
            return value
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)


@contextmanager
def aside(device: torch.device) -> Iterator[object]:
    """Surroundings of a capture: a stream of its own, which takes memory that nobody else is given, as long as what is
    made here lives. One capture at a time: they share the stream, and what libraries keep for it."""
    pool = torch.cuda.MemPool()
    with _CAPTURES, torch.cuda.stream(stream_of(device)), torch.cuda.use_mem_pool(pool, device):
        yield pool


@cache
def stream_of(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


def unsuitable_call(operator: str) -> str | None:
    """Why a call is not captured; None where all of its work is on the current stream, as of torch's operators, and of
    those of libraries that have not the tag which torch's compiler asks for, too."""
    if operator == EXPECTED:
        return None
    if operator == PHILOX_STATE:
        return f"{operator} draws random numbers"
    if operator.startswith(("onegraph.", "recipe.")):
        return f"{operator} runs in Python"
    found = operator_named(operator)
    if torch.Tag.cudagraph_unsafe in found.tags:
        return f"{operator} is not to be captured, as its tag says"
    if operator.startswith("aten.") and is_random(found):
        return f"{operator} draws random numbers"  # a graph would not know of the generator's state
    return None


def span(tensor: torch.Tensor) -> int:
    """The bytes from the first element to behind the last one."""
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (1 + last) * tensor.itemsize


def copies(capture: Capture, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The results as the caller's own; those that share memory share the memory of their copies."""
    storages: dict[int, torch.UntypedStorage] = {}
    found: dict[int, Any] = {}
    for result, position in zip(capture.results, capture.given, strict=True):
        if position is not None:
            found[id(result)] = inputs[position]
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
            if any(isinstance(target, Register) for target in step.outputs):
                return f"{step.operator} gives a number that is in the device's memory"
            if step.communicates:
                return f"{step.operator} communicates"
            if (why := unsuitable_call(step.operator)) is not None:
                return why
        if isinstance(step, ViewOf) and step.base in constants:
            constants.add(step.target)
        if isinstance(step, Return) and any(isinstance(v, Slot) and v.number in constants for v in step.values):
            return "a result is a constant"
    return None
