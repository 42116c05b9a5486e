"""What the sanitizer says: which kernel of which operator uses memory that it was not given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from onegraph.base.dataclass import dataclass
from onegraph.base.errors import InvalidAccess
from onegraph.compiler.memory.reuse import FRESH_RESULTS
from onegraph.ir.plan import ExecPlan, ExternCall, KernelInfo, Launch, PlanArgument, Return, Slot, ViewOf


@dataclass(frozen=True, slots=True)
class Watch:
    """Is told of the wrong accesses of one launch."""

    launch: Launch
    kernel: KernelInfo

    def __repr__(self) -> str:
        return self.launch.origin or self.kernel.name

    def too_small(self, operand: int, span: int, offset: int, room: int) -> NoReturn:
        """An operand has less memory than its elements span."""
        buffer = self.launch.watched[operand].buffer
        raise InvalidAccess(f"{self}: {buffer} spans {span} bytes, from byte {offset} on, of memory of {room} bytes")

    def outside(self, access: int, index: int, spans: Sequence[int]) -> NoReturn:
        """A kernel would have read or written an element that is not there."""
        operand, what = self.kernel.accesses[access]
        if operand < 0:
            raise InvalidAccess(f"{self}: {what} is the element {index}, which is not there")
        watched = self.launch.watched[operand]
        count = spans[operand] // watched.itemsize
        raise InvalidAccess(f"{self}: {what} of {watched.buffer} is the element {index} of {count}")


def fence_written(culprit: object, size: int) -> NoReturn:
    """Somebody wrote next to memory of this size."""
    raise InvalidAccess(f"{culprit!r} has written outside of memory of {size} bytes")


def private_slots(plan: ExecPlan) -> frozenset[int]:
    """The slots whose tensors nobody else sees, so that their storages may be larger than they ask for."""
    shared: set[int] = set()

    def share(value: PlanArgument) -> None:
        match value:
            case Slot(number):
                shared.add(number)
            case tuple():
                for item in value:
                    share(item)

    for step in plan.steps:
        match step:
            case ViewOf(target, base):
                shared |= {target, base}
            case ExternCall(operator):
                out = dict(step.kwargs).get("out")
                if operator not in FRESH_RESULTS and out is None:
                    share((*step.args, *(value for _, value in step.kwargs)))
            case Return(values):
                share(values)
    return frozenset(range(plan.slots)) - shared
