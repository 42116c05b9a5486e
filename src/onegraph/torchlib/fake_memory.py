"""What a fake mode remembers, and lets go of when its trace is over.

Histories and symbolic sizes hold fakes in C++, where the garbage collector does not see them: a mode that its fakes
lead to must not hold them in turn, or all of the graph lives for good.
"""

from __future__ import annotations

from onegraph.torchlib.fake import FakeMode


def forget_fakes(mode: FakeMode) -> None:
    """Let go of all fakes that the mode has made; they live as long as somebody else holds them."""
    for kept in (mode._fakes, mode._storages, mode._symbolic_storages, mode._constants, mode._known):
        kept.clear()
    mode.sizes.forget()
