"""A call in eager mode, against which others are held."""

from __future__ import annotations

import functools

from onegraph.base.dataclass import dataclass
from onegraph.capture.directives.stance import set_stance
from onegraph.tools.verification.call import Call, Function, Outcome
from onegraph.tools.verification.compare import Difference, Judge, differences


@dataclass(frozen=True, slots=True)
class Trial:
    """A call, its outcome in eager mode, and who judges where others differ from that."""

    call: Call
    eager: Outcome
    judge: Judge

    @classmethod
    def of(cls, call: Call) -> Trial:
        """Run the call in eager mode."""
        with set_stance("force_eager"):
            eager = call.run(call.target)
        return cls(call, eager, Judge(functools.cache(call.run_in_float64)))

    def differences(self, function: Function) -> tuple[Difference, ...]:
        """What this function does otherwise, from the same state."""
        return self.differences_of(self.call.run(function))

    def differences_of(self, outcome: Outcome) -> tuple[Difference, ...]:
        return differences(self.eager, outcome, self.judge)
