"""The catalogue of graph breaks. One file holds one theme; a new kind of break is one constant in one of them.

    decisions    the contents of a tensor decide what Python does next
    memory       a tensor is used as memory, or is not a plain tensor
    operators    an operator or a native function cannot be run while tracing
    gradients    gradients are asked for, or changed, inside of the function
    outside      the world outside: files, processes, clocks, randomness
    state        the state of the process
    objects      objects that cannot be used, changed or made again
    hatches      functions that the program has marked
    python       parts of Python, and breaks that the program asks for

A summary is a format string over the facts given where the break is raised. Each hint is applied to a program by a test
(tests/capture/breaks), which also gives the examples of the entry's page in docs/graph_breaks.
"""

from onegraph.capture.breaks.decisions import *  # noqa: F403
from onegraph.capture.breaks.gradients import *  # noqa: F403
from onegraph.capture.breaks.hatches import *  # noqa: F403
from onegraph.capture.breaks.memory import *  # noqa: F403
from onegraph.capture.breaks.objects import *  # noqa: F403
from onegraph.capture.breaks.operators import *  # noqa: F403
from onegraph.capture.breaks.outside import *  # noqa: F403
from onegraph.capture.breaks.python import *  # noqa: F403
from onegraph.capture.breaks.reason import CATALOGUE, GraphBreak, Reason
from onegraph.capture.breaks.state import *  # noqa: F403

__all__ = ["CATALOGUE", "GraphBreak", "Reason"]  # and every constant of the themes
