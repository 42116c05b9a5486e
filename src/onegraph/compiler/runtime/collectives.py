"""Which collective of a plan it is that fails: the launcher's errors do not say in which step they were."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from onegraph.base.late import late_module
from onegraph.ir.plan import ExecPlan, ExternCall, Slot

if TYPE_CHECKING:
    from onegraph.torchlib.rank_states import numbered
else:
    numbered = late_module("onegraph.torchlib.rank_states").numbered

WAIT = "_c10d_functional.wait_tensor.default"


def issues(step: object) -> bool:
    """Whether the step begins a collective."""
    return isinstance(step, ExternCall) and step.communicates and step.operator != WAIT


class Collectives:
    """The collectives of a plan by number. Its steps are looked at in their order: slots are used again."""

    def __init__(self, plan: ExecPlan) -> None:
        self.several = sum(map(issues, plan.steps)) > 1  # of a single one there is no doubt
        self.numbers = count()
        self.of_slots: dict[int, int] = {}

    def known(self, step: ExternCall, operator: Callable[..., Any]) -> Callable[..., Any]:
        """The operator of a step, of whose errors the number is known if it communicates."""
        if not self.several:
            return operator
        if issues(step):
            number = next(self.numbers)
            self.of_slots |= {target.number: number for target in step.outputs if isinstance(target, Slot)}
            return numbered(operator, number)
        waited = step.args[0] if step.operator == WAIT else None
        if isinstance(waited, Slot) and waited.number in self.of_slots:
            return numbered(operator, self.of_slots[waited.number])
        return operator
