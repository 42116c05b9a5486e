"""The first call of a plan that was read: only it tells the sizes, so the plan is checked once more, with all of them.

A plan that asks for what its inputs and constants cannot explain is refused before anything has happened, and one whose
first run fails is not used again, whoever is to blame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from onegraph.base.dataclass import dataclass
from onegraph.base.errors import EntryRefused
from onegraph.compiler.plan_bounds import UNKNOWN, Known, PlanChecker, dtype_text, of_constants
from onegraph.ir.plan import ExecPlan
from onegraph.torchlib.private import DisableTorchFunction


@dataclass(frozen=True, slots=True)
class Trial:
    """What the launcher asks before the first call, and tells if that fails (csrc/plan_run.c). `refused` is told why
    the plan is not to be used again. Kernels run on this `device`."""

    plan: ExecPlan
    constants: Mapping[str, torch.Tensor]
    refused: Callable[[str], object]
    device: str = "cpu"

    def begin(self, inputs: Sequence[Any]) -> None:
        """Raises EntryRefused unless the plan fits these inputs."""
        with DisableTorchFunction():
            known = [known_input(value) for value in inputs]
        try:
            PlanChecker(self.plan, of_constants(self.constants), device=self.device).run(known)
        except ValueError as why:
            self.refused(f"{why}")
            raise EntryRefused(f"{why}") from None

    def failed(self) -> None:
        self.refused("its first run has failed")


def known_input(value: Any) -> Known | int:
    """What there is to know of an input, with all the memory behind its begin."""
    if isinstance(value, int):
        return int(value)
    if not isinstance(value, torch.Tensor):
        return UNKNOWN
    dtype = dtype_text(value)
    try:
        behind = int(value.untyped_storage().nbytes() - value.storage_offset() * value.itemsize)
    except (RuntimeError, NotImplementedError):  # it has no memory of its own
        return Known(dtype)
    return Known(dtype, tuple(value.shape), behind)
