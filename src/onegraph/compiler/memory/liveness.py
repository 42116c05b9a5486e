"""How long each piece of memory is needed. A view is the memory of its base."""

from __future__ import annotations

from collections.abc import Mapping

from onegraph.base.dataclass import dataclass
from onegraph.ir.loop import Program, View, reads, writes


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """`root` is the buffer whose memory each buffer is; `last` the last step that uses each, itself or through views.

    Buffers in `foreign` belong to the caller or outlive the call; those in `leaving` are results of the call. Buffers
    `elsewhere` lie on other devices than that of the kernels.
    """

    root: Mapping[str, str]
    last: Mapping[str, int]
    foreign: frozenset[str]
    leaving: frozenset[str]
    elsewhere: frozenset[str]

    def ends_at(self, buffer: str, step: int) -> bool:
        """Whether the memory of the buffer is free for other use after this step."""
        root = self.root[buffer]
        return self.last.get(root) == step and root not in self.foreign and root not in self.leaving


def lifetimes(program: Program) -> Lifetimes:
    root = {buffer.name: buffer.name for buffer in program.buffers}
    last: dict[str, int] = {}
    for number, step in enumerate(program.steps):
        if isinstance(step, View):
            root[step.name] = root[step.base]
        for name in (*reads(step), *writes(step)):
            last[name] = last[root[name]] = number
    foreign = {item for item in program.inputs if isinstance(item, str)}
    foreign |= {buffer.name for buffer in program.buffers if buffer.constant}
    leaving = {root[item] for item in program.outputs if isinstance(item, str)}
    elsewhere = frozenset(buffer.name for buffer in program.buffers if buffer.device)
    return Lifetimes(root, last, frozenset(foreign), frozenset(leaving), elsewhere)
