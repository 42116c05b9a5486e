"""Random state is state: what seeds, saves or sets it breaks the graph, and so does a draw from a torch.Generator.

Draws from torch's default generators are nodes of the graph, in the order of the program. A generator from outside is
known by its type alone (`heap.admission`); what it holds is no part of any guard. Python's and numpy's random numbers
are named in `breaks.hints`.
"""

from __future__ import annotations

from types import FunctionType, MethodDescriptorType

import torch

from onegraph.capture import breaks as b
from onegraph.capture.calls.registry import RANDOM_STATE, breaks

for _module in (torch.random, torch.cuda, torch.xpu, torch.mps, torch.mtia):
    _named = (value for name, value in vars(_module).items() if RANDOM_STATE.fullmatch(name))
    breaks(b.RANDOM_STATE, *(value for value in _named if isinstance(value, FunctionType)))
breaks(b.RANDOM_STATE, *(value for value in vars(torch.Generator).values() if isinstance(value, MethodDescriptorType)))
