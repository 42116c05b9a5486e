"""Loops that go round many times: the graph ends behind the first turn, and each turn after it runs the same graphs.

Tracing unrolls loops. That makes the fastest graphs, whose compilation takes in proportion to the number of turns; from
some number on, it takes longer than the program will ever run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onegraph.base.dataclass import dataclass
from onegraph.capture.bytecode.frame import Frame

#: The iterators over containers: their items may be layers, of which each would have a graph of its own, or weights.
OF_CONTAINERS = frozenset(map(type, map(iter, ([], (), {}, {}.values(), {}.items()))))

#: The iterators over others, which they name to whoever copies them.
OF_ITERATORS = (enumerate, zip, map, filter)

#: Turns that no program makes over its layers.
TURNS = 200


@dataclass(slots=True)
class Loop:
    """A loop of one frame: the step at which Python ends its first turn, the operations until then, its turns."""

    step: int
    operations: int
    turns: int = 0


class LongLoops:
    """The loops of one trace, by the number of their frame and the place of their first instruction.

    `limit` is the number of operations that a loop may add to a graph.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._loops: dict[tuple[int, int], Loop] = {}

    def end_of_first_turn(self, frame: Frame, head: int, step: int, operations: int) -> int | None:
        """Note that the frame jumps back to `head`; the step that ended its first turn, if the loop has become long.

        That is an instruction for Python: the one that draws the next item, or else the jump if it asks a condition.
        On Python 3.12 and 3.13 that one skips the jump back, and the turn ends in front of the next one; on 3.14 it
        jumps back to the condition, and the turn ends at the jump of that. Loops that end elsewhere are unrolled.

        Args:
            step: the number of instructions that the frame has done, the jump among them.
            operations: the number of operations in the graph.
        """
        instrs = frame.bytecode.instrs
        if instrs[head].op != "FOR_ITER":
            if instrs[frame.ip].op != "JUMP":
                step -= 1
            elif not instrs[frame.ip - 1].op.startswith("POP_JUMP_IF"):
                condition = steps_of_condition(frame, head)
                if condition is None:
                    return None
                step += condition
        loop = self._loops.setdefault((frame.serial, head), Loop(step, operations))
        loop.turns += 1
        return loop.step if loop.turns > TURNS and operations - loop.operations > self._limit else None


def steps_of_condition(frame: Frame, head: int) -> int | None:
    """The steps from the head of a loop to the jump that leaves it, if there is none in between."""
    for index, instr in enumerate(frame.bytecode.instrs[head : frame.ip]):
        if instr.target is not None:
            leaves = instr.op.startswith("POP_JUMP_IF") and instr.target > frame.ip
            return index if leaves else None
    return None


def goes_over_container(type_of: Callable[[Any], type], iterator: Any) -> bool:
    """Whether an iterator gives items of a container, alone or beside others. `type_of` is `type` of the program."""
    found = type_of(iterator)
    if found in OF_ITERATORS and found is type(iterator):
        return any(goes_over_container(type_of, part) for part in iterator.__reduce__()[1])
    return found in OF_CONTAINERS
