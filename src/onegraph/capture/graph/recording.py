"""Whether a trace records what is called now: asked where nothing has been traced yet, too."""

from __future__ import annotations

from torch.overrides import TorchFunctionMode

from onegraph.torchlib.state import function_modes


class Recording(TorchFunctionMode):
    """What the recorder of a trace is."""


def is_recording() -> bool:
    """Whether torch functions that are called now are recorded."""
    return any(isinstance(mode, Recording) for mode in function_modes())
